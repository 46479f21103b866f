/* Measurements on states of exact diagonalization. What the model's tables have is compiled like a
   Hamiltonian and applied to the state; strings, products and other operators act on the halves of the
   lattice.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edmeasure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dense.h"
#include "dmrg/measure.h"
#include "ed/edproduct.h"
#include "base/mem.h"
#include "run/reduced.h"
#include "run/edresult.h"
#include "run/request.h"
#include "run/requestread.h"
#include "run/sitepart.h"

typedef struct request {
    kl_request asked;
    /* [ntype]: A, B, and A B on one site; all NULL where the tables have not what is needed, or it is no
       pair */
    kl_sitepart *of[3];
} request;

static void forget_parts(const kl_model *m, request *q)
{
    for (int k = 0; k < 3; k++) {
        for (int t = 0; q->of[k] && t < m->ntype; t++) kl_sitepart_clear(&q->of[k][t]);
        kl_free(&q->of[k]);
    }
}

static void request_clear(const kl_model *m, request *q)
{
    forget_parts(m, q);
    kl_request_clear(&q->asked);
}

/* behind, if not NULL, stands behind it on the same site. */
static kl_status read_operator(const kl_task *t, const kl_siteop *op, const kl_siteop *behind,
                               kl_sitepart **out, int *found, kl_err *err)
{
    kl_status st = KL_OK;
    double *product = NULL;
    KL_TRY(kl_alloc(out, t->model->ntype, KL_MEM_MISC, err));
    for (int k = 0; k < t->model->ntype && *found; k++) {
        const kl_site_type *const type = &t->model->type[k];
        if (!op->mat[k] || (behind && !behind->mat[k])) continue;
        KL_TRY(kl_alloc(&product, type->dim * type->dim, KL_MEM_WORK, err));
        for (int row = 0; row < type->dim; row++)
            for (int col = 0; col < type->dim; col++)
                for (int mid = 0; mid < type->dim; mid++)
                    product[row + col * type->dim] +=
                        op->mat[k][row + mid * type->dim] *
                        (behind ? behind->mat[k][mid + col * type->dim] : mid == col);
        KL_TRY(kl_sitepart_find(type, product, &(*out)[k], found, err));
        kl_free(&product);
    }
out:
    kl_free(&product);
    return st;
}

/* Parts of what the tables can take. */
static kl_status read_parts(const kl_task *t, request *q, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_request *const r = &q->asked;
    int found = r->kind == KL_REQUEST_LOCAL || r->kind == KL_REQUEST_CORR ||
                r->kind == KL_REQUEST_CONNECTED || r->kind == KL_REQUEST_STRUCTURE;
    if (!found) return KL_OK;
    KL_TRY(read_operator(t, r->op[0], NULL, &q->of[0], &found, err));
    if (r->nop == 2) KL_TRY(read_operator(t, r->op[1], NULL, &q->of[1], &found, err));
    if (r->nop == 2) KL_TRY(read_operator(t, r->op[0], r->op[1], &q->of[2], &found, err));
    if (!found) forget_parts(t->model, q);
out:
    return st;
}

static kl_status read_request(const kl_task *t, const char *text, request *q, kl_err *err)
{
    kl_status st = KL_OK;
    *q = (request){.asked = {.kind = KL_REQUEST_LOCAL}};
    KL_TRY(kl_request_read(text, t->model, t->lat, &q->asked, err));
    if (q->asked.kind == KL_REQUEST_OVERLAP || q->asked.kind == KL_REQUEST_SPECTRUM)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "--measure '%.200s': `ed' keeps no state and no spectrum of cuts; `dmrg' measures this", text));
    KL_TRY(read_parts(t, q, err));
out:
    if (st != KL_OK) request_clear(t->model, q);
    return st;
}

kl_status kl_edmeasure_check(const kl_task *t, int n, char *const *text, kl_err *err)
{
    request q;
    for (int i = 0; i < n; i++) {
        const kl_status st = read_request(t, text[i], &q, err);
        if (st != KL_OK) return st;
        request_clear(t->model, &q);
    }
    return KL_OK;
}

/* By how much A, or A B, changes the charges. */
static kl_qn shift_of(const kl_model *m, const kl_site_op *a, const kl_site_op *b)
{
    const kl_qn shift = kl_qn_of(m, a->shift);
    return b ? kl_qn_add(m, shift, kl_qn_of(m, b->shift)) : shift;
}

/* A state, on the executor and, where something needs it so, across the cut that halves the lattice. */
typedef struct scene {
    const kl_task *t;
    const kl_ed *ed;
    kl_dptr x;
    kl_ed_cut *cut;
} scene;

static kl_status cut_state(scene *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->t->ex;
    double *whole = NULL;
    if (s->cut) return KL_OK;
    KL_TRY(kl_alloc(&whole, kl_linop_all(&s->ed->op), KL_MEM_VECTOR, err));
    KL_TRY(kl_ranks_download(ex, s->ed->begin, s->ed->op.n, s->x, whole, err));
    KL_TRY(kl_ed_cut_create(s->t->terms, s->ed->space, whole, ex->nthread, &s->cut, err));
out:
    kl_free(&whole);
    return st;
}

/* <op[0] at site[0] op[1] ...>, by lattice sites, with `between`, where it is not NULL, on all sites between
   the first and the last by number that the list does not name. */
static kl_status product(scene *s, int n, const int *site, kl_siteop *const *op, const kl_siteop *between,
                         double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_task *const t = s->t;
    const int nsite = t->lat->nsite;
    kl_ed_factor *f = NULL;
    int count = 0, low = nsite, high = -1;
    *value = 0;
    KL_TRY(kl_alloc(&f, n + nsite, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) {
        low = site[i] < low ? site[i] : low;
        high = site[i] > high ? site[i] : high;
    }
    for (int i = 0; i < n + (between ? nsite : 0); i++) {
        const int here = i < n ? site[i] : i - n;
        int named = 0;
        for (int k = 0; k < n && i >= n; k++) named |= site[k] == here;
        if (i >= n && (named || here < low || here > high)) continue;
        const int pos = t->lat->position[here];
        f[count].pos = pos;
        f[count].a = (i < n ? op[i] : between)->mat[t->terms->type[pos] - t->model->type];
        if (!f[count++].a) goto out; /* a site without that operator */
    }
    KL_TRY(cut_state(s, err));
    KL_TRY(kl_ed_product(s->cut, count, f, t->ex->nthread, value, err));
out:
    kl_free(&f);
    return st;
}

static const kl_sitepart *part_at(const kl_task *t, const kl_sitepart *of, int pos)
{
    return &of[t->terms->type[pos] - t->model->type];
}

/* <x| A_i B_j |x> by DMRG positions; b NULL: A_i alone. 0 where a site's type has no such operator. States
   are real, so that half of a string and its adjoint has the string's value. */
static kl_status pair_value(const kl_task *t, const kl_ed *ed, kl_dptr x, int i, const kl_sitepart *a, int j,
                            const kl_sitepart *b, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms e = {.model = t->terms->model, .nsite = t->terms->nsite, .type = t->terms->type};
    const kl_sitepart *const pa = part_at(t, a, i), *const pb = b ? part_at(t, b, j) : NULL;
    double *parts = NULL;
    for (int k = 0; k < pa->n; k++)
        for (int l = 0; l < (pb ? pb->n : 1); l++) {
            if (kl_qn_cmp(shift_of(t->model, &t->terms->type[i]->op[pa->op[k]],
                                   pb ? &t->terms->type[j]->op[pb->op[l]] : NULL),
                          kl_qn_zero()) != 0)
                continue;
            const kl_op_at op[2] = {{i, pa->op[k], 0}, {j, pb ? pb->op[l] : KL_OP_IDENTITY, 0}};
            KL_TRY(kl_terms_add(&e, 0.5 * pa->coef[k] * (pb ? pb->coef[l] : 1.0), pb ? 2 : 1, op, 1, err));
        }
    KL_TRY(kl_terms_merge(&e, err));
    KL_TRY(kl_alloc(&parts, e.nterm, KL_MEM_MISC, err));
    KL_TRY(kl_ed_expect(ed, &e, x, parts, err));
    *value = e.constant;
    for (int64_t k = 0; k < e.nterm; k++) *value += parts[k];
out:
    kl_free(&parts);
    kl_terms_clear(&e);
    return st;
}

/* Which sites stand before the cut of `entropy', by lattice site. */
static kl_status entropy_note(const kl_task *t, const kl_ed *ed, char *note, size_t size, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bipartition *cut = NULL;
    size_t used = 0;
    KL_TRY(kl_bipartition_create(t->terms, ed->space->target, KL_BIPARTITION_SITES, &cut, err));
    used = (size_t)snprintf(note, size,
                            "von Neumann entropy, natural logarithm, of %d of %d sites:", cut->left.npos,
                            t->lat->nsite);
    for (int i = 0; i < t->lat->nsite && used + 12 < size; i++)
        if (t->lat->position[i] < cut->left.npos)
            used += (size_t)snprintf(note + used, size - used, used + 24 < size ? " %d" : " ...", i);
out:
    kl_bipartition_destroy(&cut);
    return st;
}

/* Von Neumann entropy of the sites before the cut that halves the lattice best, in natural units. */
static kl_status entropy(scene *sc, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    double *copy = NULL, *s = NULL, norm2 = 0.0;
    KL_TRY(cut_state(sc, err));
    const kl_ed_cut *const c = sc->cut;
    *value = 0.0;
    for (int b = 0; b < c->h->nblock; b++) {
        const int64_t size = c->off[b + 1] - c->off[b], nr = c->column[b + 1] - c->column[b], nl = size / nr,
                      k = nl < nr ? nl : nr;
        KL_TRY(kl_alloc(&copy, size, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&s, k, KL_MEM_WORK, err));
        memcpy(copy, c->x + c->off[b], (size_t)size * sizeof *copy);
        KL_TRY(kl_dense_svd((int)nl, (int)nr, copy, (int)nl, s, NULL, 1, NULL, 1, err));
        for (int64_t i = 0; i < k; i++) {
            norm2 += s[i] * s[i];
            if (s[i] > 0.0) *value -= s[i] * s[i] * log(s[i] * s[i]);
        }
        kl_free(&copy);
        kl_free(&s);
    }
    *value = *value / norm2 + log(norm2);
out:
    kl_free(&copy);
    kl_free(&s);
    return st;
}

/* <A_i>, or <B_i>, by lattice sites. */
static kl_status locals(scene *s, const request *q, int which, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_task *const t = s->t;
    for (int i = 0; i < t->lat->nsite; i++)
        KL_TRY(q->of[0] ? pair_value(t, s->ed, s->x, t->lat->position[i], q->of[which], 0, NULL, &v[i], err)
                        : product(s, 1, &i, &q->asked.op[which], NULL, &v[i], err));
out:
    return st;
}

/* <A_i B_j>, or <A_i S .. S B_j>, by lattice sites. */
static kl_status pairs(scene *s, const request *q, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_task *const t = s->t;
    const int n = t->lat->nsite;
    const int *const pos = t->lat->position;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double *const to = &v[i * n + j];
            const int site[2] = {i, j};
            if (!q->of[0]) KL_TRY(product(s, 2, site, q->asked.op, q->asked.between, to, err));
            else if (i == j) KL_TRY(pair_value(t, s->ed, s->x, pos[i], q->of[2], 0, NULL, to, err));
            else KL_TRY(pair_value(t, s->ed, s->x, pos[i], q->of[0], pos[j], q->of[1], to, err));
        }
out:
    return st;
}

static kl_status structure(scene *s, const request *q, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_lattice *const lat = s->t->lat;
    double (*k)[2] = NULL, *pair = NULL;
    int shape[2];
    KL_TRY(kl_lattice_momenta(lat, shape, &k, err));
    KL_TRY(kl_alloc(&pair, (int64_t)lat->nsite * lat->nsite, KL_MEM_WORK, err));
    KL_TRY(pairs(s, q, pair, err));
    kl_structure_factor(lat, pair, shape[0] * shape[1], (const double (*)[2])k, v);
out:
    kl_free(&k);
    kl_free(&pair);
    return st;
}

static kl_status reduced_pairs(void *self, const kl_siteop *a, const kl_siteop *b, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    scene *const s = self;
    const int n = s->t->lat->nsite;
    kl_siteop *const op[2] = {(kl_siteop *)(uintptr_t)a, (kl_siteop *)(uintptr_t)b};
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) {
            const int site[2] = {i, j};
            KL_TRY(product(s, 2, site, op, NULL, &v[i * n + j], err));
        }
out:
    return st;
}

static kl_status reduced_product(void *self, int n, const int *site, const kl_siteop *const *op, double *v,
                                 kl_err *err)
{
    return product(self, n, site, (kl_siteop *const *)op, NULL, v, err);
}

/* H's terms by bond, its values counted as the caller counts them. */
static kl_status energies(const scene *s, const kl_request *q, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    double *each = NULL;
    KL_TRY(kl_alloc(&each, s->t->terms->nterm, KL_MEM_WORK, err));
    KL_TRY(kl_ed_expect(s->ed, s->t->terms, s->x, each, err));
    kl_request_energies(q, s->t->terms, s->t->lat, each, v);
out:
    kl_free(&each);
    return st;
}

/* Products that somebody tells, each by itself; between: NULL, or what stands on the sites between. */
typedef struct rows {
    scene *s;
    const kl_siteop *between;
    double *v;
} rows;

static kl_status add_row(void *self, int64_t row, double coef, int n, const int *site,
                         const kl_siteop *const *op, const int *odd, kl_err *err)
{
    kl_status st = KL_OK;
    const rows *const r = self;
    double one;
    (void)odd;
    KL_TRY(product(r->s, n, site, (kl_siteop *const *)op, r->between, &one, err));
    r->v[row] += coef * one;
out:
    return st;
}

/* <X_b Y_c>, less <X_b><Y_c> where X and Y have values. */
static kl_status bonds(scene *s, const kl_request *r, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const int (*const bond)[2] = (const int (*)[2])r->bond;
    const int64_t n = r->nbond;
    double *one = NULL;
    char by[32];
    rows into = {s, NULL, v};
    KL_TRY(kl_bondop_each(r->bondop[0], r->bondop[1], r->nbond, bond, add_row, &into, err));
    if (r->kind != KL_REQUEST_BONDCONNECTED || kl_bondop_forbidden(r->bondop[0], NULL, by, sizeof by) != NULL)
        goto out;
    KL_TRY(kl_alloc(&one, 2 * n, KL_MEM_WORK, err));
    for (int o = 0; o < 2; o++) {
        into.v = one + o * n;
        KL_TRY(kl_bondop_each(r->bondop[o], NULL, r->nbond, bond, add_row, &into, err));
    }
    for (int64_t b = 0; b < n; b++)
        for (int64_t c = 0; c < n; c++) v[b * n + c] -= one[b] * one[n + c];
out:
    kl_free(&one);
    return st;
}

/* One product, or those over letters. */
static kl_status products(scene *s, const kl_request *r, double *v, kl_err *err)
{
    rows into = {s, r->between, v};
    if (r->nletter == 0) return product(s, r->nop, r->site, r->op, r->between, v, err);
    return kl_request_each(r, add_row, &into, err);
}

static int most_states(const kl_model *m)
{
    int most = 0;
    for (int k = 0; k < m->ntype; k++) most = m->type[k].dim > most ? m->type[k].dim : most;
    return most;
}

/* The probability of each state of each site. */
static kl_status populations(scene *s, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_task *const t = s->t;
    const int most = most_states(t->model);
    double *a = NULL;
    for (int i = 0; i < t->lat->nsite; i++) {
        const int pos = t->lat->position[i], dim = t->terms->type[pos]->dim;
        KL_TRY(cut_state(s, err));
        for (int k = 0; k < dim; k++) {
            KL_TRY(kl_alloc(&a, dim * dim, KL_MEM_WORK, err));
            a[k * (dim + 1)] = 1;
            const kl_ed_factor f = {pos, a};
            KL_TRY(kl_ed_product(s->cut, 1, &f, t->ex->nthread, &v[i * most + k], err));
            kl_free(&a);
        }
    }
out:
    kl_free(&a);
    return st;
}

/* <H>, or <(H - E)^2>. */
static kl_status energy(scene *s, int variance, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_ed *const ed = s->ed;
    kl_exec *const ex = s->t->ex;
    const int64_t n = ed->op.n;
    kl_dptr y = {0};
    double xy, xx;
    KL_TRY(ex->vt.alloc(ex, n, &y, err));
    KL_TRY(ed->op.apply(&ed->op, 1, s->x, n, y, n, err));
    ex->vt.dots(ex, n, 1, s->x, n, s->x, &xx);
    ex->vt.dots(ex, n, 1, s->x, n, y, &xy);
    *v = xy / xx * ed->unit;
    if (variance) {
        ex->vt.axpby(ex, n, -xy / xx, s->x, 1.0, y);
        ex->vt.dots(ex, n, 1, y, n, y, v);
        *v = *v / xx * ed->unit * ed->unit;
    }
out:
    ex->vt.release(ex, &y);
    return st;
}

/* Of a manifold of `many' states, in its mixture: what each state has (each[s].value) is averaged, <A> <B>
   afterwards. */
static kl_status measure_many(const scene *first, int64_t ldx, const request *q, int many,
                              const kl_ed_measured *each, kl_ed_measured *m, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = first->t->lat->nsite, connected = q->asked.kind == KL_REQUEST_CONNECTED;
    double *one = NULL, *mean = NULL;
    scene now = *first;
    KL_TRY(kl_alloc(&one, 2 * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&mean, 2 * n, KL_MEM_WORK, err));
    for (int s = 0; s < many; s++) {
        now.x = kl_dptr_at(first->x, s * ldx);
        now.cut = NULL;
        for (int o = 0; o < 2 && connected; o++) KL_TRY(locals(&now, q, o, one + o * n, err));
        kl_ed_cut_destroy(&now.cut);
        for (int i = 0; i < 2 * n; i++) mean[i] += one[i] / many;
        for (int64_t e = 0; e < m->n; e++)
            m->value[e] += (each[s].value[e] + (connected ? one[e / n] * one[n + e % n] : 0.0)) / many;
    }
    for (int64_t e = 0; e < m->n && connected; e++) m->value[e] -= mean[e / n] * mean[n + e % n];
out:
    kl_ed_cut_destroy(&now.cut);
    kl_free(&one);
    kl_free(&mean);
    return st;
}

static kl_status measure_one(scene *s, const request *q, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_request *const r = &q->asked;
    double *one = NULL;
    const int n = s->t->lat->nsite;
    const kl_reduced_source source = {s, reduced_pairs, reduced_product, NULL};
    switch (r->kind) {
    case KL_REQUEST_ENTROPY: return entropy(s, v, err);
    case KL_REQUEST_STRUCTURE: return structure(s, q, v, err);
    case KL_REQUEST_LOCAL: return locals(s, q, 0, v, err);
    case KL_REQUEST_CORR:
    case KL_REQUEST_STRING: return pairs(s, q, v, err);
    case KL_REQUEST_PRODUCT: return products(s, r, v, err);
    case KL_REQUEST_POPULATIONS: return populations(s, v, err);
    case KL_REQUEST_BOND:
    case KL_REQUEST_BONDCORR:
    case KL_REQUEST_BONDCONNECTED: return bonds(s, r, v, err);
    case KL_REQUEST_ENERGIES: return energies(s, r, v, err);
    case KL_REQUEST_DENSITY:
        return kl_reduced_density(s->t->terms, s->t->lat, r->nsite, r->site, &source, v, err);
    case KL_REQUEST_MUTUAL: return kl_reduced_mutual(s->t->terms, s->t->lat, &source, v, err);
    case KL_REQUEST_ENERGY:
    case KL_REQUEST_VARIANCE: return energy(s, r->kind == KL_REQUEST_VARIANCE, v, err);
    default: break;
    }
    KL_TRY(pairs(s, q, v, err));
    KL_TRY(kl_alloc(&one, 2 * n, KL_MEM_WORK, err));
    for (int o = 0; o < 2; o++) KL_TRY(locals(s, q, o, one + o * n, err));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) v[i * n + j] -= one[i] * one[n + j];
out:
    kl_free(&one);
    return st;
}

static void set_shape(const kl_task *t, const kl_request *q, kl_ed_measured *m)
{
    const int64_t n = t->lat->nsite;
    int grid[2];
    m->rank = 2;
    m->shape[0] = m->shape[1] = n;
    switch (q->kind) {
    case KL_REQUEST_LOCAL: m->rank = 1; break;
    case KL_REQUEST_STRUCTURE:
        kl_lattice_grid(t->lat, grid);
        m->shape[0] = grid[0];
        m->shape[1] = grid[1];
        m->rank = grid[1] > 1 ? 2 : 1;
        break;
    case KL_REQUEST_BOND:
    case KL_REQUEST_ENERGIES: m->rank = 1; /* fall through */
    case KL_REQUEST_BONDCONNECTED:
    case KL_REQUEST_BONDCORR: m->shape[0] = m->shape[1] = q->nbond; break;
    case KL_REQUEST_DENSITY:
        m->shape[0] = m->shape[1] = (int64_t)kl_reduced_states(t->terms, t->lat, q->nsite, q->site);
        break;
    case KL_REQUEST_POPULATIONS: m->shape[1] = most_states(t->model); break;
    case KL_REQUEST_ENTROPY:
        m->rank = 1;
        m->shape[0] = 1;
        break;
    case KL_REQUEST_PRODUCT:
        m->rank = q->nletter;
        for (int a = 0; a < q->nletter; a++) m->shape[a] = q->length[a];
        break;
    case KL_REQUEST_ENERGY:
    case KL_REQUEST_VARIANCE: m->rank = 0; break;
    default: break;
    }
    m->n = 1;
    for (int k = 0; k < m->rank; k++) m->n *= m->shape[k];
}

/* What is asked for, and behind it `top' and `top_PART' where nobody asked for these: text[*n]. */
static kl_status list_texts(const kl_task *t, const char ***text, int *n, kl_err *err)
{
    const kl_text_list *const asked = &t->o->measure;
    const char *top[KL_REQUEST_STANDARD];
    const int ntop = kl_request_tops(t->model, top);
    const kl_status st = kl_alloc(text, asked->n + ntop, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    for (*n = 0; *n < asked->n; ++*n) (*text)[*n] = asked->text[*n];
    for (int i = 0; i < ntop; i++) {
        int known = 0;
        for (int k = 0; k < asked->n; k++) known |= strcmp(asked->text[k], top[i]) == 0;
        if (!known) (*text)[(*n)++] = top[i];
    }
    return KL_OK;
}

kl_status kl_edmeasure_run(const kl_task *t, const kl_ed *ed, const kl_ed_result *r, kl_dptr x, int64_t ldx,
                           kl_ed_measured **out, int *nout, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_measured *all = NULL;
    request q = {.asked = {.kind = KL_REQUEST_LOCAL}};
    scene now = {t, ed, x, NULL};
    const char **text = NULL;
    int n = 0;
    const int many = kl_edresult_whole(r);
    *nout = 0;
    *out = NULL;
    if (!x.addr) return KL_OK;
    KL_TRY(list_texts(t, &text, &n, err));
    KL_TRY(kl_alloc(&all, (int64_t)n * (r->nstate + 1), KL_MEM_MISC, err));
    *out = all;
    for (int i = 0; i < n; i++) {
        KL_TRY(read_request(t, text[i], &q, err));
        const kl_request_kind kind = q.asked.kind;
        const int first = *nout;
        /* entropies of single states of a manifold are anything, and so is their mean */
        for (int k = 0; k < r->nstate + (many > 0 && kl_request_kinds[kind].in_mean); k++) {
            kl_ed_measured *const m = &all[(*nout)++];
            char who[24] = "";
            if (k > 0) snprintf(who, sizeof who, k < r->nstate ? "state_%d/" : "manifold/", k);
            kl_request_name(&q.asked, who, "", m->name, sizeof m->name);
            snprintf(m->note, sizeof m->note, "%s",
                     kind == KL_REQUEST_VARIANCE ? "<(H-E)^2>" : kl_request_kinds[kind].note);
            if (kind == KL_REQUEST_ENTROPY) KL_TRY(entropy_note(t, ed, m->note, sizeof m->note, err));
            set_shape(t, &q.asked, m);
            KL_TRY(kl_alloc(&m->value, m->n, KL_MEM_MISC, err));
            now.x = kl_dptr_at(x, k < r->nstate ? k * ldx : 0);
            if (k < r->nstate) KL_TRY(measure_one(&now, &q, m->value, err));
            else KL_TRY(measure_many(&now, ldx, &q, many, &all[first], m, err));
            kl_ed_cut_destroy(&now.cut);
        }
        request_clear(t->model, &q);
    }
out:
    kl_ed_cut_destroy(&now.cut);
    request_clear(t->model, &q);
    kl_free(&text);
    return st;
}

void kl_edmeasure_free(kl_ed_measured **m, int n)
{
    for (int i = 0; *m && i < n; i++) kl_free(&(*m)[i].value);
    kl_free(m);
}
