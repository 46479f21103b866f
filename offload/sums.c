/* Sums of matrices, transposes, diagonals and constants, and zeros: every element of every cell of a launch
   is a thread of its own.
   SPDX-License-Identifier: Apache-2.0 */
#include "products.h"
#include "target.h"

static inline void sum(int i, const kl_tile_cell *cell, const kl_summand *term, const double *x, double *y)
{
    const kl_tile_cell *const c = cell + i / KL_CELL;
    const int e = i % KL_CELL, m = c->m, j = e / m;
    if (j >= c->n) return;
    const int row = c->row + e - j * m, col = c->col + j;
    double *const to =
        (double *)(uintptr_t)kl_where(c->c, c->flags, KL_P_C, x, y) + row + (int64_t)col * c->ldc;
    double s = c->flags & KL_P_BETA ? *to : 0.0;
    const kl_summand *const last = term + c->first + c->count;
    for (const kl_summand *p = term + c->first; p < last; p++) {
        if (p->flags & KL_P_END) {
            s += p->alpha;
            continue;
        }
        const double *const a = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
        s += p->alpha * a[p->flags & KL_P_TA ? (int64_t)row * p->lda + col : row + (int64_t)col * p->lda];
    }
    *to = s;
}

void kl_offload_sums(const kl_offload *self, const kl_tile_cell *cell, int ncell, const kl_summand *term,
                     const double *x, double *y)
{
    const int all = ncell * KL_CELL;
    KL_KERNEL(self, all, sum(t, cell, term, x, y), is_device_ptr(cell, term, x, y));
}
