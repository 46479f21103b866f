/* Symmetric matrices to tridiagonal ones by Householder reflections, all matrices of a call side by side, a
   launch a row: see offload/reduce.c, whose steps these are. A matrix of a thousand rows is no work for a
   device that has one after the other, as cuSOLVER does.
   SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    COLUMNS = KL_TRIDIAGONAL_COLUMNS,
    TOLD = 2 * WARPS,
    STRIPS = KL_TRIDIAGONAL_STRIPS
};
static_assert(KL_REDUCE_COLUMNS == WARPS * COLUMNS, "columns of a block");

/* s[N] of all threads added up, for all of them, in one order. */
template <int N>
static __device__ __forceinline__ void add_up(double *s, double *told)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        for (int far = 16; far > 0; far /= 2) s[k] += __shfl_xor_sync(0xffffffffu, s[k], far);
        if (threadIdx.x % 32 == 0) told[k * WARPS + threadIdx.x / 32] = s[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++) {
        s[k] = told[k * WARPS];
        for (int i = 1; i < WARPS; i++) s[k] += told[k * WARPS + i];
    }
}

/* Rows q, q + 32, ... of a warp's columns: all is read before anything is written. */
template <int S>
static __device__ __forceinline__ void update(int q, double *const *own, const double *vs, const double *ws,
                                              const double *us, const double *vc, const double *wc,
                                              double *sum)
{
    double x[S][COLUMNS];
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) x[s][k] = own[k][q + 32 * s];
#pragma unroll
    for (int s = 0; s < S; s++) {
        const double vq = vs[q + 32 * s], wq = ws[q + 32 * s], uq = us[q + 32 * s];
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) {
            const double now = x[s][k] - vq * wc[k] - wq * vc[k];
            own[k][q + 32 * s] = now;
            sum[k] += now * uq;
        }
    }
}

/* Step j: a block's columns of a matrix. */
static __global__ void __launch_bounds__(THREADS) step(int j, const kl_tridiagonal_matrix *all,
                                                       const int *owner,
                                                       double *elements, kl_tridiagonal_vectors u)
{
    extern __shared__ double told[];
    const int me = (int)threadIdx.x, lane = me % 32;
    const kl_tridiagonal_matrix m = all[owner[blockIdx.x]];
    const int part = (int)blockIdx.x - m.first, n = m.n, rows = n - j;
    if (part > 0 && part * KL_REDUCE_COLUMNS + 1 >= rows) return;
    /* from row j on */
    double *const vs = told + 2 * TOLD, *const ws = vs + n, *const us = ws + n;
    double *const column = elements + m.off + j + (int64_t)j * n; /* j, from row j on */
    const double *const v = u.v + m.at + j, *const p = u.p + m.at + j;
    double *const next_v = u.next_v + m.at + j, *const next_p = u.next_p + m.at + j;
    double s[2] = {0.0, 0.0}, scale = 0.0, share;
    for (int q = me; q < rows; q += THREADS) {
        const double x = j > 0 ? v[q] : 0.0, y = j > 0 ? p[q] : 0.0;
        vs[q] = x, ws[q] = y;
        s[0] += y * x, s[1] += x * x;
    }
    add_up<2>(s, told);
    const double tau = kl_tridiagonal_factors(s[0], s[1], &share), vj = vs[0], wj = tau * ws[0] - share * vj;
    __syncthreads(); /* ws[0] is read */
    s[0] = 0.0;
    for (int q = me; q < rows; q += THREADS) {
        const double w = tau * ws[q] - share * vs[q], x = column[q] - vs[q] * wj - w * vj;
        ws[q] = w, us[q] = x;
        if (q > 1) s[0] += x * x;
    }
    add_up<1>(s, told + TOLD);
    const double diagonal = us[0], element = rows > 1 ? kl_tridiagonal_reflected(us[1], s[0], &scale) : 0.0;
    __syncthreads(); /* us[0] and us[1] are read */
    for (int q = me; q < rows; q += THREADS) {
        const double x = q > 1 ? us[q] * scale : q == 1 && scale != 0.0 ? 1.0 : 0.0;
        us[q] = x;
        if (part == 0) next_v[q] = x;
        if (part == 0 && j > 0) column[q - n] = vs[q]; /* in column j - 1 */
    }
    if (part == 0 && me == 0) u.d[m.at + j] = diagonal, u.e[m.at + j] = element;
    for (int q = me; part == 0 && j > 0 && q < j; q += THREADS) column[q - j - n] = 0.0;
    __syncthreads();
    for (int c = 1 + (part * WARPS + me / 32) * COLUMNS; c < rows; c += m.blocks * KL_REDUCE_COLUMNS) {
        double sum[COLUMNS], vc[COLUMNS], wc[COLUMNS], *own[COLUMNS];
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) { /* those beyond the last are the first once more */
            const int here = c + k < rows ? c + k : c;
            sum[k] = 0.0, vc[k] = vs[here], wc[k] = ws[here], own[k] = column + (int64_t)here * n;
        }
        int q = 1 + lane;
        for (; q + 32 * (STRIPS - 1) < rows; q += 32 * STRIPS)
            update<STRIPS>(q, own, vs, ws, us, vc, wc, sum);
        for (; q < rows; q += 32) update<1>(q, own, vs, ws, us, vc, wc, sum);
#pragma unroll
        for (int k = 0; k < COLUMNS; k++) {
            for (int far = 16; far > 0; far /= 2) sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], far);
            if (lane == k && c + k < rows) next_p[c + k] = sum[k];
        }
    }
}

static size_t bytes_for(int largest) { return (size_t)(2 * TOLD + 3 * largest) * sizeof(double); }

extern "C" int kl_cuda_reduce_fits(const kl_cuda *self, int largest)
{
    if (bytes_for(largest) > (size_t)self->shared_bytes) return 0;
    return cudaFuncSetAttribute(step, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes_for(largest)) == cudaSuccess;
}

extern "C" void kl_cuda_reduce_step(const kl_cuda *self, int j, int blocks, int largest,
                                    const kl_tridiagonal_matrix *all, const int *owner, double *a,
                                    const kl_tridiagonal_vectors *u)
{
    step<<<(unsigned)blocks, THREADS, bytes_for(largest), self->stream>>>(j, all, owner, a, *u);
}
