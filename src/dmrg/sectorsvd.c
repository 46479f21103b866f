/* Singular vectors of one sector: see sectorsvd.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/sectorsvd.h"
#include "base/dense.h"
#include "base/mem.h"
#include <string.h>

kl_status kl_sector_svd(const kl_density *d, const double *psi, int c, double **vec, double **w, int *n,
                        kl_err *err)
{
    kl_status st = KL_OK;
    const kl_wave *const wave = &d->wave;
    const kl_layout *const lay = wave->layout;
    const int nstate = d->nstate, left = d->side == KL_LEFT;
    const int i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
    double *a = NULL, *other = NULL;
    if (i < 0 || j < 0) return KL_OK;
    const int p = wave->row->basis.dim[i], q = wave->col->basis.dim[j];
    const int rows = left ? p : q, width = left ? q : p;
    const int cols = width * nstate, k = rows < cols ? rows : cols;
    KL_TRY(kl_alloc(w, k, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(vec, (int64_t)rows * k, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&other, (int64_t)k * cols, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a, (int64_t)rows * cols, KL_MEM_WORK, err));
    for (int s = 0; s < nstate; s++) {
        const double *const seg = psi + s * lay->n + lay->off[i];
        double *const to = a + (int64_t)s * rows * width;
        for (int x = 0; !left && x < p; x++)
            for (int y = 0; y < q; y++) to[y + (int64_t)x * q] = seg[x + (int64_t)y * p];
        if (left) memcpy(to, seg, (size_t)p * (size_t)q * sizeof *seg);
    }
    KL_TRY(kl_dense_svd(rows, cols, a, rows, *w, *vec, rows, other, k, err));
    for (int s = 0; s < k; s++) (*w)[s] *= (*w)[s];
    *n = k;
out:
    kl_free(&a);
    kl_free(&other);
    return st;
}
