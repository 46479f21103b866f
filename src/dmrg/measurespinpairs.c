/* Correlations and products in a state of the total spin: see measurespin.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "dmrg/measurespin.h"
#include "model/wigner.h"
#include "phase.h"
#include <math.h>

/* ---- pairs ---- */

typedef struct pairing { /* what is read of two operators */
    const kl_measure *m;
    kl_irreducibles a, b, between, one;
} pairing;

static kl_status decompose(const kl_model *model, const kl_siteop *a, kl_irreducibles *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int t = 0; t < model->ntype; t++)
        if (a->mat[t] != NULL) KL_TRY(kl_irreducibles_add(model, t, a->mat[t], x, err));
out:
    return st;
}

/* For all positions p < q and one part y of the second operator: u = <A_p between y_q>, of A what goes with
   y, which is as even or odd; value[p][q] += upper * u, value[q][p] += lower * u. */
static kl_status pass(const pairing *z, const kl_irreducibles *a, const kl_irreducible *y, double upper,
                      double lower, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_measure *const m = z->m;
    const int n = m->can->nsite, S = kl_tensors_spin(m);
    int nL = 0, ns = 0, *at = NULL;
    double *u = NULL;
    kl_source *list = NULL;
    kl_recipe *r = NULL;
    kl_level now = {0};
    KL_TRY(kl_alloc(&list, (int64_t)a->n * (S + 1), KL_MEM_WORK, err));
    for (int k = 0; k < a->n; k++) {
        const kl_irreducible *const x = &a->list[k];
        if (x->part != -y->part || kl_qn_cmp(kl_qn_add(m->can->model, x->shift, y->shift), kl_qn_zero()))
            continue;
        for (int L = 0; L <= S; L++) {
            const double c = kl_tensors_weight(m, L) *
                             kl_clebsch(2 * L, 0, x->rank, x->part, y->rank, x->part) *
                             kl_clebsch(y->rank, x->part, y->rank, y->part, 0, 0);
            if (fabs(c) < KL_SPIN_ZERO) continue;
            list[ns++] = (kl_source){L - 1, x, c};
            nL = L > nL ? L : nL;
        }
    }
    if (ns == 0) goto out;
    KL_TRY(kl_alloc(&u, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&r, nL + 1, KL_MEM_WORK, err));
    for (int k = 0; k < nL; k++) r[k] = kl_tensors_edge(k, z->one.list);
    KL_TRY(kl_tensors_start(m, nL, &now, err));
    for (int q = 0, count = 0; q < n; q++) {
        int fresh = 0;
        if (count > 0) KL_TRY(kl_tensors_close(m, q, &now, nL, y, u, err));
        for (int o = 0; o < count; o++) {
            value[at[o] * (int64_t)n + q] += upper * u[o];
            value[q * (int64_t)n + at[o]] += lower * u[o];
        }
        for (int s = 0; s < ns; s++) fresh |= list[s].x->n[kl_tensors_type(m, q)] > 0;
        if (q == n - 1) break;
        r[nL] = (kl_recipe){.shift = list[0].x->shift,
                            .rank = y->rank,
                            .carried = count > 0 ? nL : -1,
                            .by = z->between.list,
                            .nsource = fresh ? ns : 0,
                            .list = list};
        KL_TRY(kl_tensors_grow(m, q, nL + (count > 0 || fresh), r, &now, err));
        if (fresh) at[count++] = q;
    }
out:
    kl_tensors_clear(m, &now);
    kl_free(&list);
    kl_free(&r);
    kl_free(&u);
    kl_free(&at);
    return st;
}

/* <A_p B_p> by position, for A B as matrices. */
static kl_status same_site(const kl_measure *m, const kl_siteop *a, const kl_siteop *b, double *value,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const model = m->can->model;
    double **mat = NULL;
    KL_TRY(kl_alloc(&mat, model->ntype, KL_MEM_WORK, err));
    for (int t = 0; t < model->ntype; t++) {
        const int d = model->type[t].dim;
        if (a->mat[t] == NULL || b->mat[t] == NULL) continue;
        KL_TRY(kl_alloc(&mat[t], (int64_t)d * d, KL_MEM_WORK, err));
        for (int c = 0; c < d; c++)
            for (int k = 0; k < d; k++)
                for (int i = 0; i < d; i++) mat[t][i + c * d] += a->mat[t][i + k * d] * b->mat[t][k + c * d];
    }
    KL_TRY(kl_tensors_each_site(m, mat, value, err));
out:
    for (int t = 0; mat != NULL && t < model->ntype; t++) kl_free(&mat[t]);
    kl_free(&mat);
    return st;
}

/* What stands on the sites between: one scalar, the identity for NULL. */
static kl_status read_between(const kl_measure *m, const kl_siteop *s, kl_irreducibles *x, kl_err *err)
{
    kl_status st = KL_OK;
    if (s == NULL) return kl_irreducibles_add_identity(m->can->model, x, err);
    KL_TRY(decompose(m->can->model, s, x, err));
    if (x->n != 1 || x->list->rank != 0 || kl_qn_cmp(x->list->shift, kl_qn_zero()) != 0)
        st = kl_fail(err, KL_EINPUT,
                     "operator '%.200s' is to stand between others in a state of a total spin: it must be a "
                     "scalar of it, and conserve every charge",
                     s->text);
out:
    return st;
}

int kl_measure_can_pass(const kl_measure *m, const kl_siteop *between)
{
    kl_irreducibles x = {0};
    kl_err unused;
    if (between == NULL || kl_model_spin(m->can->model) < 0) return 1;
    const int can = read_between(m, between, &x, &unused) == KL_OK;
    kl_irreducibles_clear(&x);
    return can;
}

kl_status kl_measurespin_pairs(const kl_measure *m, const kl_siteop *a, const kl_siteop *between,
                               const kl_siteop *b, int connected, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = m->can->nsite;
    pairing z = {.m = m};
    double *v = NULL, *one = NULL;
    /* <A_q B_p>, q > p, is <A_p B_q> where B is the adjoint of A */
    const int adjoint = kl_siteop_adjoint(a, b) && (!between || kl_siteop_adjoint(between, between));
    KL_TRY(kl_alloc(&v, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&one, 3 * (int64_t)n, KL_MEM_WORK, err));
    KL_TRY(decompose(m->can->model, a, &z.a, err));
    KL_TRY(decompose(m->can->model, b, &z.b, err));
    KL_TRY(read_between(m, between, &z.between, err));
    KL_TRY(kl_irreducibles_add_identity(m->can->model, &z.one, err));
    for (int k = 0; k < z.b.n; k++) KL_TRY(pass(&z, &z.a, &z.b.list[k], 1, adjoint, v, err));
    for (int k = 0; !adjoint && k < z.a.n; k++) {
        const kl_irreducible *const x = &z.a.list[k];
        KL_TRY(pass(&z, &z.b, x, 0, kl_phase_exchange(x->odd, x->odd), v, err));
    }
    KL_TRY(same_site(m, a, b, one, err));
    if (connected) {
        KL_TRY(kl_tensors_each_site(m, a->mat, one + n, err));
        KL_TRY(kl_tensors_each_site(m, b->mat, one + 2 * n, err));
    }
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            value[m->lat->order[p] * (int64_t)n + m->lat->order[q]] =
                (p == q ? one[p] : v[p * (int64_t)n + q]) - one[n + p] * one[2 * n + q];
out:
    kl_irreducibles_clear(&z.a);
    kl_irreducibles_clear(&z.b);
    kl_irreducibles_clear(&z.between);
    kl_irreducibles_clear(&z.one);
    kl_free(&v);
    kl_free(&one);
    return st;
}

/* ---- products on a list of sites ---- */

typedef struct chain { /* operators on positions that rise, each cut into its parts */
    const kl_measure *m;
    const kl_irreducible *between, *one;
    int n;
    int *pos, *choice;
    kl_irreducibles *at;
} chain;

/* The recipes of one more operator x: from tensors of component Q, in front of which they stand at the
   edge with `first`. */
static kl_status join_recipes(const chain *c, const kl_level *now, int Q, const kl_irreducible *x, int first,
                              kl_recipe **r, kl_source **list, int *n, kl_err *err)
{
    kl_status st = KL_OK;
    const int before = now->n + first; /* at the edge the identity comes besides */
    int most = 0, ns = 0;
    for (int k = 0; k < now->n; k++) most = now->list[k].rank > most ? now->list[k].rank : most;
    most += x->rank;
    *n = 0;
    KL_TRY(kl_alloc(r, most + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(list, (int64_t)(most + 1) * before, KL_MEM_WORK, err));
    for (int K = (most % 2); K <= most; K += 2) {
        const int from = ns;
        kl_qn shift = x->shift;
        for (int k = first ? -1 : 0; k < now->n; k++) {
            const int rank = k < 0 ? 0 : now->list[k].rank;
            const double w = (first ? kl_tensors_weight(c->m, k + 1) : 1) *
                             kl_clebsch(rank, Q, x->rank, x->part, K, Q + x->part);
            if (fabs(w) < KL_SPIN_ZERO) continue;
            (*list)[ns++] = (kl_source){k, x, w};
            if (k >= 0) shift = kl_qn_add(c->m->can->model, now->list[k].shift, x->shift);
        }
        if (ns > from)
            (*r)[(*n)++] = (kl_recipe){
                .shift = shift, .rank = K, .carried = -1, .nsource = ns - from, .list = *list + from};
    }
out:
    return st;
}

/* value += weight * <...> of one choice of parts. */
static kl_status add_choice(const chain *c, double weight, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_measure *const m = c->m;
    kl_level now = {0};
    kl_recipe *r = NULL;
    kl_source *list = NULL;
    int Q = 0, k = 0, nL = 0;
    for (int i = 0; i < c->n; i++) nL += c->at[i].list[c->choice[i]].rank;
    nL = nL / 2 < kl_tensors_spin(m) ? nL / 2 : kl_tensors_spin(m);
    KL_TRY(kl_tensors_start(m, nL, &now, err));
    for (int p = 0; p < c->pos[c->n - 1]; p++) {
        const int here = p == c->pos[k];
        int n = now.n;
        if (here) {
            const kl_irreducible *const x = &c->at[k].list[c->choice[k]];
            KL_TRY(join_recipes(c, &now, Q, x, k == 0, &r, &list, &n, err));
            Q += x->part;
            k++;
        } else if (n > 0) {
            KL_TRY(kl_alloc(&r, n, KL_MEM_WORK, err));
            for (int i = 0; i < n; i++)
                r[i] = (kl_recipe){.shift = now.list[i].shift,
                                   .rank = now.list[i].rank,
                                   .carried = i,
                                   .by = k == 0 ? c->one : c->between};
        }
        if (here && n == 0) goto out;
        if (n > 0) KL_TRY(kl_tensors_grow(m, p, n, r, &now, err));
        kl_free(&r);
        kl_free(&list);
    }
    const kl_irreducible *const last = &c->at[k].list[c->choice[k]];
    for (int i = 0; i < now.n; i++) {
        double u;
        const kl_qn sum = kl_qn_add(m->can->model, now.list[i].shift, last->shift);
        if (now.list[i].rank != last->rank || kl_qn_cmp(sum, kl_qn_zero()) != 0) continue;
        KL_TRY(kl_tensors_close(m, c->pos[k], &now, i, last, &u, err));
        *value += weight * u * kl_clebsch(last->rank, Q, last->rank, last->part, 0, 0);
    }
out:
    kl_tensors_clear(m, &now);
    kl_free(&r);
    kl_free(&list);
    return st;
}

/* Projects a on elements of one parity and multiplies: ab = a0 * that. */
static void times_parity(const kl_model *plain, int t, const double *a0, const double *a, int odd, double *ab)
{
    const kl_site_type *const type = &plain->type[t];
    const int d = type->dim;
    for (int c = 0; c < d; c++)
        for (int k = 0; k < d; k++) {
            const kl_qn shift = kl_qn_sub(plain, kl_qn_of(plain, type->state_charge[k]),
                                          kl_qn_of(plain, type->state_charge[c]));
            if (a[k + c * d] == 0 || kl_qn_odd(plain, shift) != odd) continue;
            for (int i = 0; i < d; i++) ab[i + c * d] += a0[i + k * d] * a[k + c * d];
        }
}

/* Bits 1 and 2: it has even elements, odd ones. */
static int parities(const kl_siteop *a, int t)
{
    const kl_site_type *const type = &a->model->type[t];
    int has = 0;
    for (int c = 0; a->mat[t] != NULL && c < type->dim; c++)
        for (int k = 0; k < type->dim; k++)
            if (a->mat[t][k + c * type->dim] != 0)
                has |= 1 << kl_qn_odd(a->model, kl_qn_sub(a->model, kl_qn_of(a->model, type->state_charge[k]),
                                                          kl_qn_of(a->model, type->state_charge[c])));
    return has;
}

/* What stands on one position, multiplied and cut into its parts. */
static kl_status put_together(const kl_measure *m, int p, int n, const kl_siteop *const *op, const int *odd,
                              double **product, kl_irreducibles *x, kl_err *err)
{
    kl_status st = KL_OK;
    const int t = kl_tensors_type(m, p), d = m->can->type[p]->dim;
    double *ab = NULL;
    kl_free(product);
    KL_TRY(kl_alloc(product, (int64_t)d * d, KL_MEM_WORK, err));
    for (int i = 0; i < d; i++) (*product)[i * (d + 1)] = 1;
    for (int k = 0; k < n; k++) {
        KL_TRY(kl_alloc(&ab, (int64_t)d * d, KL_MEM_WORK, err));
        if (op[k]->mat[t] != NULL) times_parity(op[k]->model, t, *product, op[k]->mat[t], odd[k], ab);
        kl_free(product);
        *product = ab;
        ab = NULL;
    }
    KL_TRY(kl_irreducibles_add(m->can->model, t, *product, x, err));
out:
    kl_free(&ab);
    return st;
}

/* One choice of parities, sorted: key[n] rises. */
static kl_status add_sorted(chain *c, int n, const int *key, const kl_siteop *const *op, const int *odd,
                            double sign, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_measure *const m = c->m;
    double *product = NULL, *each = NULL, **mat = NULL;
    int empty = 0;
    c->n = 0;
    for (int k = 0; k < n;) {
        int last = k;
        while (last < n && key[last] == key[k]) last++;
        c->pos[c->n] = key[k];
        c->choice[c->n] = 0;
        KL_TRY(put_together(m, key[k], last - k, op + k, odd + k, &product, &c->at[c->n], err));
        empty |= c->at[c->n++].n == 0;
        k = last;
    }
    if (empty) goto out;
    if (c->n == 1) {
        KL_TRY(kl_alloc(&each, m->can->nsite, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&mat, m->can->model->ntype, KL_MEM_WORK, err));
        mat[kl_tensors_type(m, key[0])] = product;
        KL_TRY(kl_tensors_each_site(m, mat, each, err));
        *value += sign * each[key[0]];
        goto out;
    }
    for (int k = 0; k >= 0;) {
        KL_TRY(add_choice(c, sign, value, err));
        for (k = c->n - 1; k >= 0 && ++c->choice[k] == c->at[k].n; k--) c->choice[k] = 0;
    }
out:
    for (int k = 0; k < c->n; k++) kl_irreducibles_clear(&c->at[k]);
    kl_free(&product);
    kl_free(&each);
    kl_free(&mat);
    return st;
}

kl_status kl_measurespin_product(const kl_measure *m, int n, const int *site, const kl_siteop *const *op,
                                 const kl_siteop *between, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    chain c = {.m = m};
    kl_irreducibles one = {0}, middle = {0};
    int *work = NULL;
    const kl_siteop **sorted = NULL;
    *value = 0;
    KL_TRY(kl_alloc(&work, 7 * (int64_t)n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sorted, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&c.at, n, KL_MEM_WORK, err));
    int *const key = work, *const odd = work + n, *const perm = work + 2 * n, *const moved = work + 3 * n;
    c.pos = work + 4 * n;
    c.choice = work + 5 * n;
    int *const has = work + 6 * n;
    for (int k = 0; k < n; k++) {
        has[k] = parities(op[k], kl_tensors_type(m, m->lat->position[site[k]]));
        if (has[k] == 0) goto out; /* the product vanishes */
        odd[k] = has[k] == 2;
    }
    KL_TRY(kl_irreducibles_add_identity(m->can->model, &one, err));
    KL_TRY(read_between(m, between, &middle, err));
    c.one = one.list;
    c.between = middle.list;
    for (int k = 0; k >= 0;) {
        int sum = 0;
        for (k = 0; k < n; k++) {
            key[k] = m->lat->position[site[k]];
            moved[k] = odd[k];
            sum += odd[k];
        }
        if (sum % 2 == 0) {
            const double sign = kl_phase_sort(n, key, moved, perm);
            for (k = 0; k < n; k++) {
                sorted[k] = op[perm[k]];
                moved[k] = odd[perm[k]];
            }
            KL_TRY(add_sorted(&c, n, key, sorted, moved, sign, value, err));
        }
        for (k = n - 1; k >= 0 && (odd[k] == 1 || has[k] == 1); k--) odd[k] = has[k] == 2;
        if (k >= 0) odd[k] = 1;
    }
out:
    kl_irreducibles_clear(&one);
    kl_irreducibles_clear(&middle);
    kl_free(&work);
    kl_free(&sorted);
    kl_free(&c.at);
    return st;
}
