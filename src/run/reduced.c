/* See reduced.h. |b><a| of several sites is the product of |b_k><a_k| in their order, with a sign where an
   odd one passes an odd state.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/reduced.h"

#include <math.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "model/qn.h"
#include "phase.h"

static const double MOST_NUMBERS = 1e8;

static const kl_site_type *type_at(const kl_terms *sites, const kl_lattice *lat, int site)
{
    return sites->type[lat->position[site]];
}

static int is_odd(const kl_model *m, const int *charge)
{
    int sum = 0;
    for (int c = 0; c < m->ncharge; c++) sum += m->charge[c].odd * charge[c];
    return sum & 1;
}

/* |row><col| on one site type, nothing on others. */
static kl_status make_unit(const kl_model *m, const kl_site_type *type, int row, int col, kl_siteop **out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    (*out)->model = m;
    (*out)->text = kl_strdup("|b><a|");
    if ((*out)->text == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for a density matrix"));
    KL_TRY(kl_alloc(&(*out)->mat, m->ntype, KL_MEM_MISC, err));
    double **const mat = &(*out)->mat[type - m->type];
    KL_TRY(kl_alloc(mat, (int64_t)type->dim * type->dim, KL_MEM_MISC, err));
    (*mat)[row + col * type->dim] = 1;
out:
    if (st != KL_OK) kl_siteop_destroy(out);
    return st;
}

/* What |row><col| adds to the charges. */
static kl_qn shift_of(const kl_model *m, const kl_site_type *type, int row, int col)
{
    return kl_qn_sub(m, kl_qn_of(m, type->state_charge[row]), kl_qn_of(m, type->state_charge[col]));
}

double kl_reduced_states(const kl_terms *sites, const kl_lattice *lat, int n, const int *site)
{
    double states = 1;
    for (int k = 0; k < n; k++) states *= type_at(sites, lat, site[k])->dim;
    return states;
}

/* ---------------------------------------------------------------- a few sites */

enum { MOST_SITES = 6 }; /* 2^6 states */

typedef struct few {
    const kl_model *m;
    int n;
    const kl_site_type *type[MOST_SITES];
} few;

static void states_of(const few *f, int index, int *state)
{
    for (int k = f->n - 1; k >= 0; k--) {
        state[k] = index % f->type[k]->dim;
        index /= f->type[k]->dim;
    }
}

/* The sign of |b><a| against the product of its factors. */
static double sign_of(const few *f, const int *b, const int *a)
{
    int odd = 0, before = 0; /* states to the left of a factor that is odd */
    for (int k = 0; k < f->n; k++) {
        const int here = is_odd(f->m, f->type[k]->state_charge[a[k]]);
        if (here != is_odd(f->m, f->type[k]->state_charge[b[k]])) odd ^= before;
        before ^= here;
    }
    return odd ? -1 : 1;
}

static kl_status element(const few *f, const int *site, const int *b, const int *a,
                         const kl_reduced_source *source, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_siteop *op[MOST_SITES] = {NULL};
    for (int k = 0; k < f->n; k++) KL_TRY(make_unit(f->m, f->type[k], b[k], a[k], &op[k], err));
    KL_TRY(source->product(source->self, f->n, site, (const kl_siteop *const *)op, value, err));
    *value *= sign_of(f, b, a);
out:
    for (int k = 0; k < f->n; k++) kl_siteop_destroy(&op[k]);
    return st;
}

/* 1: |b><a| leaves every charge as it is. */
static int conserves(const few *f, const int *b, const int *a)
{
    kl_qn sum = kl_qn_zero();
    for (int k = 0; k < f->n; k++) sum = kl_qn_add(f->m, sum, shift_of(f->m, f->type[k], b[k], a[k]));
    return kl_qn_cmp(sum, kl_qn_zero()) == 0;
}

/* ---- all at once ---- */

/* Sites as they are, whose operators are the identity and all |b><a|, at 1 + b * dim + a. */
typedef struct units {
    kl_model model;
    kl_site_type *type; /* [ntype] */
    const kl_site_type **at; /* [nsite] by position */
} units;

static void clear_units(units *u)
{
    for (int t = 0; u->type != NULL && t < u->model.ntype; t++) {
        kl_site_op *const op = (kl_site_op *)u->type[t].op;
        for (int k = 0; op != NULL && k < u->type[t].nop; k++) kl_free((kl_elem **)&op[k].elem);
        kl_free((kl_site_op **)&u->type[t].op);
    }
    kl_free(&u->type);
    kl_free(&u->at);
}

static kl_status fill_type(const kl_model *m, kl_site_type *type, kl_err *err)
{
    kl_status st = KL_OK;
    const int d = type->dim;
    kl_site_op *op = NULL;
    type->nop = 0;
    type->op = NULL;
    KL_TRY(kl_alloc(&op, 1 + d * d, KL_MEM_MISC, err));
    type->op = op;
    type->nop = 1 + d * d;
    for (int b = 0; b < d; b++)
        for (int a = 0; a < d; a++) {
            kl_site_op *const o = &op[1 + b * d + a];
            kl_elem *elem = NULL;
            KL_TRY(kl_alloc(&elem, 1, KL_MEM_MISC, err));
            *elem = (kl_elem){b, a, 1};
            *o = (kl_site_op){.odd = is_odd(m, type->state_charge[a]) != is_odd(m, type->state_charge[b]),
                              .nelem = 1,
                              .elem = elem};
            const kl_qn shift = shift_of(m, type, b, a);
            for (int c = 0; c < m->ncharge; c++) o->shift[c] = shift.v[c];
        }
out:
    return st;
}

static kl_status make_units(const kl_terms *sites, units *u, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = sites->model;
    u->model = *m;
    KL_TRY(kl_alloc(&u->type, m->ntype, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&u->at, sites->nsite, KL_MEM_MISC, err));
    for (int t = 0; t < m->ntype; t++) u->type[t] = (kl_site_type){.dim = 0};
    u->model.type = u->type;
    for (int t = 0; t < m->ntype; t++) {
        u->type[t] = m->type[t];
        KL_TRY(fill_type(m, &u->type[t], err));
    }
    for (int p = 0; p < sites->nsite; p++) u->at[p] = &u->type[sites->type[p] - m->type];
out:
    return st;
}

/* Appends |b><a| in the order of the positions; its sign. */
static double push_string(const few *f, const kl_lattice *lat, const int *site, const int *b, const int *a,
                          kl_terms *t)
{
    int key[MOST_SITES], odd[MOST_SITES], perm[MOST_SITES];
    t->term[t->nterm++] = (kl_term){.coef = 1, .nop = f->n, .first = t->nop};
    for (int k = 0; k < f->n; k++) {
        key[k] = lat->position[site[k]];
        odd[k] = is_odd(f->m, f->type[k]->state_charge[a[k]]) != is_odd(f->m, f->type[k]->state_charge[b[k]]);
    }
    const double sign = kl_phase_sort(f->n, key, odd, perm);
    for (int k = 0; k < f->n; k++) {
        const int from = perm[k];
        t->op[t->nop++] = (kl_op_at){key[k], 1 + b[from] * f->type[from]->dim + a[from], 0};
    }
    return sign * sign_of(f, b, a);
}

static kl_status density_at_once(const few *f, const kl_terms *sites, const kl_lattice *lat, const int *site,
                                 const kl_reduced_source *source, double *rho, kl_err *err)
{
    kl_status st = KL_OK;
    const int states = (int)kl_reduced_states(sites, lat, f->n, site);
    const int64_t most = (int64_t)states * (states + 1) / 2;
    int a[MOST_SITES], b[MOST_SITES], *at = NULL;
    double *value = NULL, *sign = NULL;
    units u = {.type = NULL};
    kl_terms t = {.nsite = sites->nsite};
    KL_TRY(make_units(sites, &u, err));
    t.model = &u.model;
    t.type = u.at;
    KL_TRY(kl_alloc(&t.term, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.op, most * f->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sign, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&value, most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, most, KL_MEM_WORK, err));
    for (int i = 0; i < states; i++)
        for (int j = 0; j <= i; j++) {
            states_of(f, i, a);
            states_of(f, j, b);
            if (!conserves(f, b, a)) continue;
            at[t.nterm] = i * states + j;
            const int64_t k = t.nterm;
            sign[k] = push_string(f, lat, site, b, a, &t);
        }
    KL_TRY(source->strings(source->self, &t, value, err));
    for (int64_t k = 0; k < t.nterm; k++) {
        const int i = at[k] / states, j = at[k] % states;
        rho[i * states + j] = rho[j * states + i] = sign[k] * value[k];
    }
out:
    clear_units(&u);
    kl_free(&t.term);
    kl_free(&t.op);
    kl_free(&sign);
    kl_free(&value);
    kl_free(&at);
    return st;
}

kl_status kl_reduced_density(const kl_terms *sites, const kl_lattice *lat, int n, const int *site,
                             const kl_reduced_source *source, double *rho, kl_err *err)
{
    kl_status st = KL_OK;
    few f = {.m = sites->model, .n = n};
    int a[MOST_SITES], b[MOST_SITES];
    const int states = (int)kl_reduced_states(sites, lat, n, site);
    for (int k = 0; k < n; k++) f.type[k] = type_at(sites, lat, site[k]);
    memset(rho, 0, sizeof *rho * (size_t)states * (size_t)states);
    if (source->strings != NULL) return density_at_once(&f, sites, lat, site, source, rho, err);
    for (int i = 0; i < states; i++)
        for (int j = 0; j <= i; j++) {
            states_of(&f, i, a);
            states_of(&f, j, b);
            if (!conserves(&f, b, a)) continue;
            KL_TRY(element(&f, site, b, a, source, &rho[i * states + j], err));
            rho[j * states + i] = rho[i * states + j];
        }
out:
    return st;
}

/* ---------------------------------------------------------------- all pairs */

/* <|b><a| at i, |d><c| at j> for all pairs of sites of these types. */
typedef struct combination {
    int type[2], a, b, c, d;
    double *value; /* [nsite][nsite] */
} combination;

typedef struct combinations {
    int64_t n, room;
    combination *one;
} combinations;

static kl_status list_combinations(const kl_model *m, combinations *all, kl_err *err)
{
    kl_status st = KL_OK;
    for (int s = 0; s < m->ntype; s++)
        for (int t = 0; t < m->ntype; t++) {
            const kl_site_type *const x = &m->type[s], *const y = &m->type[t];
            for (int64_t k = 0; k < (int64_t)x->dim * x->dim * y->dim * y->dim; k++) {
                const int d = (int)(k % y->dim), c = (int)(k / y->dim % y->dim),
                          b = (int)(k / y->dim / y->dim % x->dim), a = (int)(k / y->dim / y->dim / x->dim);
                const kl_qn sum = kl_qn_add(m, shift_of(m, x, b, a), shift_of(m, y, d, c));
                if (kl_qn_cmp(sum, kl_qn_zero()) != 0) continue;
                if (all->n == all->room) {
                    all->room = 2 * all->room + 64;
                    KL_TRY(kl_realloc(&all->one, all->room, KL_MEM_MISC, err));
                }
                all->one[all->n++] = (combination){.type = {s, t}, .a = a, .b = b, .c = c, .d = d};
            }
        }
out:
    return st;
}

static double entropy_of(int n, double *rho, double *w, kl_err *err, kl_status *st)
{
    double s = 0;
    *st = kl_dense_eig(n, rho, n, w, err);
    for (int k = 0; *st == KL_OK && k < n; k++)
        if (w[k] > 0) s -= w[k] * log(w[k]);
    return s;
}

/* Entropy of the sites i < j, or of i alone (j = i). */
static kl_status entropy_at(const kl_terms *sites, const kl_lattice *lat, const combinations *all, int i,
                            int j, double *rho, double *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = sites->model;
    const kl_site_type *const x = type_at(sites, lat, i), *const y = type_at(sites, lat, j);
    const int dim = i == j ? x->dim : x->dim * y->dim;
    memset(rho, 0, sizeof *rho * (size_t)dim * (size_t)dim);
    for (int64_t k = 0; k < all->n; k++) {
        const combination *const o = &all->one[k];
        if (o->type[0] != x - m->type || o->type[1] != y - m->type) continue;
        const double v = o->value[(int64_t)i * lat->nsite + j];
        if (i == j) { /* |b><a| |a><a| */
            if (o->c == o->a && o->d == o->a) rho[o->b + o->a * dim] = v;
            continue;
        }
        const int passes = is_odd(m, x->state_charge[o->a]) &&
                           is_odd(m, y->state_charge[o->c]) != is_odd(m, y->state_charge[o->d]);
        rho[o->b * y->dim + o->d + (int64_t)(o->a * y->dim + o->c) * dim] = passes ? -v : v;
    }
    *s = entropy_of(dim, rho, rho + (int64_t)dim * dim, err, &st);
    return st;
}

kl_status kl_reduced_mutual(const kl_terms *sites, const kl_lattice *lat, const kl_reduced_source *source,
                            double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = sites->model;
    const int64_t n = lat->nsite;
    combinations all = {0};
    kl_siteop *one = NULL, *two = NULL;
    double *rho = NULL;
    int most = 0;
    for (int t = 0; t < m->ntype; t++) most = m->type[t].dim > most ? m->type[t].dim : most;
    KL_TRY(list_combinations(m, &all, err));
    const double pairs = (double)most * most, numbers = (double)(all.n * n * n) + pairs * pairs;
    if (numbers > MOST_NUMBERS)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "mutual: %lld products of all pairs of %lld sites are more than a hundred million numbers",
            (long long)all.n, (long long)n));
    KL_TRY(kl_alloc(&rho, (int64_t)(pairs * (pairs + 1)), KL_MEM_WORK, err));
    for (int64_t k = 0; k < all.n; k++) {
        combination *const o = &all.one[k];
        o->value = NULL;
        KL_TRY(make_unit(m, &m->type[o->type[0]], o->b, o->a, &one, err));
        KL_TRY(make_unit(m, &m->type[o->type[1]], o->d, o->c, &two, err));
        KL_TRY(kl_alloc(&o->value, n * n, KL_MEM_WORK, err));
        KL_TRY(source->pairs(source->self, one, two, o->value, err));
        kl_siteop_destroy(&one);
        kl_siteop_destroy(&two);
    }
    for (int i = 0; i < n; i++) KL_TRY(entropy_at(sites, lat, &all, i, i, rho, &value[i * (n + 1)], err));
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            double s;
            KL_TRY(entropy_at(sites, lat, &all, i, j, rho, &s, err));
            value[i * n + j] = value[j * n + i] = value[i * (n + 1)] + value[j * (n + 1)] - s;
        }
out:
    kl_siteop_destroy(&one);
    kl_siteop_destroy(&two);
    for (int64_t k = 0; all.one != NULL && k < all.n; k++) kl_free(&all.one[k].value);
    kl_free(&all.one);
    kl_free(&rho);
    return st;
}
