/* See termsetup.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "termsetup.h"

/* lattice: a spec, "torus:2x2 doubled" with double bonds; sets: "name=text" ..., NULL. */
kl_status term_try(term_setup *s, const kl_model *m, const char *lattice, const char *order,
                   const char *const *sets, kl_err *err)
{
    kl_status st = KL_OK;
    *s = (term_setup){NULL, NULL, NULL};
    char spec[64] = "";
    strncat(spec, lattice, strcspn(lattice, " "));
    KL_TRY(kl_lattice_create(spec, 0, strstr(lattice, " doubled") != NULL, &s->lat, err));
    KL_TRY(kl_lattice_reorder(s->lat, order, err));
    KL_TRY(kl_params_create(m, s->lat, &s->par, err));
    for (int k = 0; sets != NULL && sets[k] != NULL; k++) {
        char name[32];
        const size_t n = strcspn(sets[k], "=");
        snprintf(name, sizeof name, "%.*s", (int)n, sets[k]);
        KL_TRY(kl_params_set(s->par, name, sets[k] + n + 1, 7, err));
    }
    KL_TRY(kl_terms_create(m, s->lat, s->par, &s->terms, err));
out:
    return st;
}

void term_drop(term_setup *s)
{
    kl_terms_destroy(&s->terms);
    kl_params_destroy(&s->par);
    kl_lattice_destroy(&s->lat);
}

term_setup term_make(const kl_model *m, const char *lattice, const char *order, const char *const *sets)
{
    term_setup s;
    kl_err err = {""};
    if (term_try(&s, m, lattice, order, sets, &err) != KL_OK)
        fail_msg("%s on %s: %s", m->name, lattice, err.text);
    return s;
}

/* Adds coef * M_0 (x) M_1 (x) ... to h[dim][dim], columns first. A string of sorted operators puts P^(odd
   ones to the right) on each site. */
static void add_kron(const kl_terms *t, const kl_term *term, double *h, int64_t dim)
{
    double *product = malloc(sizeof *product);
    int64_t size = 1;
    product[0] = term->coef;
    for (int p = 0; p < t->nsite; p++) {
        const kl_site_type *type = t->type[p];
        const int d = type->dim;
        double *next = calloc((size_t)(size * d * size * d), sizeof *next),
               *one = calloc((size_t)(d * d), sizeof *one);
        int right = 0, op = 0;
        for (int k = 0; k < term->nop; k++) {
            const kl_op_at *o = &t->op[term->first + k];
            if (k > 0) assert_true(o[-1].pos < o->pos);
            assert_true(o->op != KL_OP_IDENTITY);
            if (o->pos == p) op = o->op;
            if (o->pos > p) right += t->type[o->pos]->op[o->op].odd;
        }
        for (int e = 0; e < type->op[op].nelem; e++) {
            const kl_elem *x = &type->op[op].elem[e];
            int odd = 0;
            for (int q = 0; q < t->model->ncharge; q++)
                odd += t->model->charge[q].odd * type->state_charge[x->col][q];
            one[x->col * d + x->row] = odd % 2 != 0 && right % 2 != 0 ? -x->value : x->value;
        }
        for (int64_t c = 0; c < size; c++)
            for (int64_t r = 0; r < size; r++)
                for (int cc = 0; cc < d && product[c * size + r] != 0.0; cc++)
                    for (int rr = 0; rr < d; rr++)
                        next[(c * d + cc) * size * d + r * d + rr] = product[c * size + r] * one[cc * d + rr];
        free(product);
        free(one);
        product = next;
        size *= d;
    }
    assert_true(size == dim);
    for (int64_t i = 0; i < dim * dim; i++) h[i] += product[i];
    free(product);
}

double *term_expand(const kl_terms *t, int64_t dim)
{
    double *h = calloc((size_t)(dim * dim), sizeof *h);
    for (int64_t i = 0; i < dim; i++) h[i * dim + i] = t->constant;
    for (int64_t k = 0; k < t->nterm; k++) add_kron(t, &t->term[k], h, dim);
    return h;
}

/* The list's H equals the oracle's, is symmetric, and keeps the charges. */
void term_compare(const term_setup *s, oracle *o)
{
    oracle_sector *all = oracle_sector_create(o, NULL);
    double *want = oracle_dense(all), *have = term_expand(s->terms, o->dim), size = 1.0;
    const int64_t n = o->dim;
    for (int64_t i = 0; i < n * n; i++) size = fmax(size, fabs(want[i]));
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < n; r++) {
            if (!(fabs(have[c * n + r] - want[c * n + r]) <= 1e-13 * size))
                fail_msg("%s on %s: H[%lld][%lld] = %.17g, the oracle has %.17g", s->terms->model->name,
                         s->lat->spec, (long long)r, (long long)c, have[c * n + r], want[c * n + r]);
            if (!(fabs(have[c * n + r] - have[r * n + c]) <= 1e-13 * size))
                fail_msg("H is not symmetric at (%lld, %lld)", (long long)r, (long long)c);
            int a[KL_MAX_CHARGE] = {0}, b[KL_MAX_CHARGE] = {0};
            oracle_charge(o, r, a);
            oracle_charge(o, c, b);
            if (have[c * n + r] != 0.0 && memcmp(a, b, sizeof a) != 0)
                fail_msg("H[%lld][%lld] changes a charge", (long long)r, (long long)c);
        }
    free(want);
    free(have);
    oracle_sector_destroy(&all);
}
