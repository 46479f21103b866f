/* Sums of matrices, transposes, diagonals and constants, and zeros: a block a cell, a thread an element at a
   time.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"

static __global__ void __launch_bounds__(256)
    sums(const kl_tile_cell *__restrict__ cell, const kl_summand *__restrict__ term, const double *x,
         double *y)
{
    const kl_tile_cell c = cell[blockIdx.x];
    double *const corner = (double *)(uintptr_t)kl_where(c.c, c.flags, KL_P_C, x, y);
    const kl_summand *const first = term + c.first, *const last = first + c.count;
    for (int e = (int)threadIdx.x; e < c.m * c.n; e += (int)blockDim.x) {
        const int j = e / c.m, row = c.row + e - j * c.m, col = c.col + j;
        double *const to = corner + row + (int64_t)col * c.ldc;
        double s = c.flags & KL_P_BETA ? *to : 0.0;
        for (const kl_summand *p = first; p < last; p++) {
            if (p->flags & KL_P_END) {
                s += p->alpha;
                continue;
            }
            const double *const a = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
            s += p->alpha * a[p->flags & KL_P_TA ? (int64_t)row * p->lda + col : row + (int64_t)col * p->lda];
        }
        *to = s;
    }
}

extern "C" void kl_cuda_sums(const kl_cuda *self, const kl_tile_cell *cell, int ncell, const kl_summand *term,
                             const double *x, double *y)
{
    if (ncell > 0) sums<<<(unsigned)ncell, 256, 0, self->stream>>>(cell, term, x, y);
}

static __global__ void __launch_bounds__(256) sum_record(kl_rec r, const double *a, double *c)
{
    const int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= (int64_t)r.m * r.n) return;
    const int64_t col = e / r.m, row = e - col * r.m;
    double *const to = c + row + col * r.ldc;
    const double v =
        r.kind == KL_REC_FILL ? r.alpha : r.alpha * a[r.ta ? row * r.lda + col : row + col * r.lda];
    *to = r.beta ? v + *to : v;
}

extern "C" void kl_cuda_sum_record(cudaStream_t stream, const kl_rec *r, const double *a, double *c)
{
    const int64_t n = (int64_t)r->m * r->n;
    if (n > 0) sum_record<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(*r, a, c);
}
