/* A matrix of a site as a sum of operators of the tables: see sitepart.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/sitepart.h"

#include <math.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"

void kl_sitepart_clear(kl_sitepart *p)
{
    kl_free(&p->op);
    kl_free(&p->coef);
    p->n = 0;
}

static double element_dot(int dim, const kl_site_op *o, const double *mat)
{
    double sum = 0.0;
    for (int e = 0; e < o->nelem; e++) sum += o->elem[e].value * mat[o->elem[e].row + o->elem[e].col * dim];
    return sum;
}

/* coef with mat = coef * o; 0: it is no multiple of it. */
static double multiple_of(int dim, const kl_site_op *o, const double *mat)
{
    double size = 0.0, left = 0.0;
    int most = 0;
    for (int e = 1; e < o->nelem; e++)
        if (fabs(o->elem[e].value) > fabs(o->elem[most].value)) most = e;
    if (o->nelem == 0) return 0.0;
    const double coef = mat[o->elem[most].row + o->elem[most].col * dim] / o->elem[most].value;
    for (int col = 0, e = 0; col < dim; col++)
        for (int row = 0; row < dim; row++) {
            const int there = e < o->nelem && o->elem[e].row == row && o->elem[e].col == col;
            size = fmax(size, fabs(mat[row + col * dim]));
            left = fmax(left, fabs(mat[row + col * dim] - (there ? coef * o->elem[e].value : 0.0)));
            e += there;
        }
    return left <= 1e-15 * size ? coef : 0.0;
}

/* One operator where that is enough, so that strings do not become many; else by least squares over all
   operators of the type, each over its norm, for they may be measured in any unit. */
kl_status kl_sitepart_find(const kl_site_type *type, const double *mat, kl_sitepart *out, int *found,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const int n = type->nop, dim = type->dim;
    double *gram = NULL, *w = NULL, *full = NULL, size = 0.0, left = 0.0;
    KL_TRY(kl_alloc(&gram, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, 4 * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&full, dim * dim, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->op, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->coef, n, KL_MEM_MISC, err));
    *found = 1;
    for (int k = 0; k < n; k++) {
        const double coef = multiple_of(dim, &type->op[k], mat);
        if (coef == 0.0) continue;
        *out->op = k;
        *out->coef = coef;
        out->n = 1;
        goto out;
    }
    double *const b = w + n, *const c = b + n, *const norm = c + n;
    for (int k = 0; k < n; k++) {
        for (int e = 0; e < type->op[k].nelem; e++) norm[k] = hypot(norm[k], type->op[k].elem[e].value);
        if (norm[k] == 0) norm[k] = 1;
    }
    for (int k = 0; k < n; k++) {
        memset(full, 0, sizeof(double) * (size_t)(dim * dim));
        for (int e = 0; e < type->op[k].nelem; e++)
            full[type->op[k].elem[e].row + type->op[k].elem[e].col * dim] =
                type->op[k].elem[e].value / norm[k];
        for (int l = 0; l < n; l++) gram[l + k * n] = element_dot(dim, &type->op[l], full) / norm[l];
        b[k] = element_dot(dim, &type->op[k], mat) / norm[k];
    }
    KL_TRY(kl_dense_eig(n, gram, n, w, err));
    for (int j = 0; j < n; j++) {
        double along = 0.0;
        if (w[j] <= 1e-12 * w[n - 1]) continue;
        for (int k = 0; k < n; k++) along += gram[k + j * n] * b[k];
        for (int k = 0; k < n; k++) c[k] += along / w[j] * gram[k + j * n];
    }
    for (int k = 0; k < n; k++) c[k] /= norm[k];
    memcpy(full, mat, sizeof(double) * (size_t)(dim * dim));
    for (int k = 0; k < n; k++)
        for (int e = 0; e < type->op[k].nelem; e++)
            full[type->op[k].elem[e].row + type->op[k].elem[e].col * dim] -= c[k] * type->op[k].elem[e].value;
    for (int i = 0; i < dim * dim; i++) size = fmax(size, fabs(mat[i])), left = fmax(left, fabs(full[i]));
    *found = left <= 1e-11 * size;
    for (int k = 0; k < n; k++)
        if (fabs(c[k]) * norm[k] > 1e-13 * size) {
            out->op[out->n] = k;
            out->coef[out->n++] = c[k];
        }
out:
    kl_free(&gram);
    kl_free(&w);
    kl_free(&full);
    return st;
}
