/* Matrices of a site cut into components of irreducible operators: see irreducible.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/irreducible.h"
#include "base/mem.h"
#include "model/wigner.h"
#include <math.h>

#define ZERO 1e-14 /* of the largest number of the matrix */

void kl_irreducibles_clear(kl_irreducibles *x)
{
    for (int k = 0; k < x->n; k++) {
        for (int t = 0; x->list[k].elem != NULL && t < x->ntype; t++) kl_free(&x->list[k].elem[t]);
        kl_free(&x->list[k].elem);
        kl_free(&x->list[k].n);
    }
    kl_free(&x->list);
    x->n = 0;
}

/* <component r| a |component c> of the site's multiplets. */
static double between(const kl_site_type *type, const double *a, int r, int c)
{
    const int d = type->dim;
    const double *const left = type->vector + (int64_t)r * d, *const right = type->vector + (int64_t)c * d;
    double sum = 0;
    for (int j = 0; j < d; j++)
        for (int i = 0; right[j] != 0 && i < d; i++) sum += left[i] * a[i + j * d] * right[j];
    return sum;
}

/* The reduced matrix of component q of rank k between the multiplets whose first steps these are. */
static double reduced(const kl_site_type *type, const double *a, int row, int col, int k, int q)
{
    const int to = type->spin[row], from = type->spin[col];
    double sum = 0;
    for (int m = -from; m <= from; m += 2) {
        if (m + q < -to || m + q > to) continue;
        const double g = kl_clebsch(from, m, k, q, to, m + q);
        if (g != 0) sum += g * between(type, a, row + (m + q + to) / 2, col + (m + from) / 2);
    }
    return sum * (k + 1) / (to + 1);
}

/* The part with these numbers, new where there is none. */
static kl_status find(const kl_model *m, kl_irreducibles *x, kl_qn shift, int rank, int part,
                      kl_irreducible **out, kl_err *err)
{
    kl_status st = KL_OK;
    int k = 0;
    while (k < x->n &&
           (x->list[k].rank != rank || x->list[k].part != part || kl_qn_cmp(x->list[k].shift, shift) != 0))
        k++;
    if (k == x->n) {
        KL_TRY(kl_realloc(&x->list, x->n + 1, KL_MEM_WORK, err));
        x->list[x->n++] =
            (kl_irreducible){.shift = shift, .odd = kl_qn_odd(m, shift), .rank = rank, .part = part};
        KL_TRY(kl_alloc(&x->list[k].n, m->ntype, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&x->list[k].elem, m->ntype, KL_MEM_WORK, err));
    }
    *out = &x->list[k];
out:
    return st;
}

/* One element for every two steps of the two multiplets. */
static kl_status add_elements(kl_irreducible *o, const kl_site_type *type, int t, int row, int col,
                              double value, kl_err *err)
{
    kl_status st = KL_OK;
    const int rows = type->spin[row] + 1, cols = type->spin[col] + 1;
    KL_TRY(kl_realloc(&o->elem[t], o->n[t] + rows * cols, KL_MEM_WORK, err));
    for (int c = 0; c < cols; c++)
        for (int r = 0; r < rows; r++) o->elem[t][o->n[t]++] = (kl_elem){row + r, col + c, value};
out:
    return st;
}

/* Charges of a step, the spin aside. */
static kl_qn scalar_charge(const kl_model *m, const kl_site_type *type, int s)
{
    kl_qn q = kl_qn_of(m, type->state_charge[s]);
    q.v[kl_model_spin(m)] = 0;
    return q;
}

static int is_first(const kl_model *m, const kl_site_type *type, int s)
{
    return type->state_charge[s][kl_model_spin(m)] == -type->spin[s];
}

/* All ranks between two multiplets, which begin at these steps. */
static kl_status add_pair(const kl_model *m, int t, const double *a, int row, int col, double small,
                          kl_irreducibles *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const type = &m->type[t];
    const int to = type->spin[row], from = type->spin[col];
    const kl_qn shift = kl_qn_sub(m, scalar_charge(m, type, row), scalar_charge(m, type, col));
    for (int k = to > from ? to - from : from - to; k <= to + from; k += 2)
        for (int q = -k; q <= k; q += 2) {
            const double value = reduced(type, a, row, col, k, q);
            kl_irreducible *o;
            if (fabs(value) <= small) continue;
            KL_TRY(find(m, x, shift, k, q, &o, err));
            KL_TRY(add_elements(o, type, t, row, col, value, err));
        }
out:
    return st;
}

kl_status kl_irreducibles_add(const kl_model *m, int t, const double *a, kl_irreducibles *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const type = &m->type[t];
    double largest = 0;
    x->ntype = m->ntype;
    for (int i = 0; i < type->dim * type->dim; i++) largest = fmax(largest, fabs(a[i]));
    for (int col = 0; col < type->dim; col++)
        for (int row = 0; row < type->dim; row++)
            if (is_first(m, type, row) && is_first(m, type, col))
                KL_TRY(add_pair(m, t, a, row, col, ZERO * largest, x, err));
out:
    return st;
}

kl_status kl_irreducibles_add_identity(const kl_model *m, kl_irreducibles *x, kl_err *err)
{
    kl_status st = KL_OK;
    double *one = NULL;
    for (int t = 0; t < m->ntype; t++) {
        const int d = m->type[t].dim;
        KL_TRY(kl_alloc(&one, (int64_t)d * d, KL_MEM_WORK, err));
        for (int i = 0; i < d; i++) one[i * (d + 1)] = 1;
        KL_TRY(kl_irreducibles_add(m, t, one, x, err));
        kl_free(&one);
    }
out:
    kl_free(&one);
    return st;
}
