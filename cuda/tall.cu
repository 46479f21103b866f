/* V^T x and V y for tall V, the two operations that a Davidson step lives on: up to 16 columns a pass, private sums folded in a fixed order, so that equal
   input gives equal bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

enum { BLOCK = 256, WIDEST = 16 };

/* ---- V^T x ---- */

/* Sums of a block, then, in the last block to arrive, of all blocks in their order: the bits do not depend on who was last. */
template <int W> static __device__ void fold(double *s, double *part, double *result, int *counter)
{
    __shared__ double mine[BLOCK / 32][W];
    __shared__ bool last;
    const int me = (int)threadIdx.x, lane = me % 32, warp = me / 32;
#pragma unroll
    for (int j = 0; j < W; j++) {
        for (int by = 16; by > 0; by /= 2) s[j] += __shfl_down_sync(~0u, s[j], by);
        if (lane == 0) mine[warp][j] = s[j];
    }
    __syncthreads();
    if (me < W) {
        double a = 0.0;
        for (int w = 0; w < BLOCK / 32; w++) a += mine[w][me];
        part[(int64_t)blockIdx.x * W + me] = a;
        __threadfence();
    }
    __syncthreads();
    if (me == 0) last = atomicAdd(counter, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int j = warp; j < W; j += BLOCK / 32) {
        double a = 0.0;
        for (int b = lane; b < (int)gridDim.x; b += 32) a += __ldcg(part + (int64_t)b * W + j);
        for (int by = 16; by > 0; by /= 2) a += __shfl_down_sync(~0u, a, by);
        if (lane == 0) result[j] = a;
    }
    if (me == 0) *counter = 0;
}

/* Columns that are not there are the last one again, which costs no traffic. */
template <int W> static __global__ void __launch_bounds__(BLOCK) dots(int64_t n, int have, const double *__restrict__ v, int64_t ldv, const double *__restrict__ x,
                                                                      double *part, double *result, int *counter)
{
    double s[W];
#pragma unroll
    for (int j = 0; j < W; j++) s[j] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += (int64_t)gridDim.x * BLOCK) {
        const double a = x[i];
#pragma unroll
        for (int j = 0; j < W; j++) s[j] += v[i + (j < have ? j : have - 1) * ldv] * a;
    }
    fold<W>(s, part, result, counter);
}

extern "C" void kl_cuda_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, kl_dptr xp, double *out)
{
    const kl_cuda *const self = (const kl_cuda *)ex->self;
    const double *const x = kl_device(xp);
    const unsigned blocks = 4 * (unsigned)self->nsm;
    for (int first = 0; first < nvec; first += KL_RESULT) {
        const int most = nvec - first < KL_RESULT ? nvec - first : KL_RESULT;
        for (int j = 0; j < most;) {
            const int left = most - j, W = left > 8 ? 16 : left > 4 ? 8 : left > 2 ? 4 : left, have = left < W ? left : W;
            const double *const v = kl_device(vp) + (first + j) * ldv;
            double *const to = self->result + j;
            int *const count = self->counter;
            if (to + W > self->result + KL_RESULT) { /* the last columns of a full row of results: one at a time */
                dots<1><<<blocks, BLOCK, 0, self->stream>>>(n, 1, v, ldv, x, self->scratch, to, count);
                j++;
                continue;
            }
            switch (W) {
            case 1: dots<1><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, x, self->scratch, to, count); break;
            case 2: dots<2><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, x, self->scratch, to, count); break;
            case 4: dots<4><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, x, self->scratch, to, count); break;
            case 8: dots<8><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, x, self->scratch, to, count); break;
            default: dots<16><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, x, self->scratch, to, count); break;
            }
            j += have;
        }
        const bool good = cudaStreamSynchronize(self->stream) == cudaSuccess;
        for (int j = 0; j < most; j++) out[first + j] = good ? self->result[j] : nan("");
    }
}

/* ---- V y ---- */

struct factors {
    double c[WIDEST];
};

template <int W> static __global__ void __launch_bounds__(BLOCK) combine(int64_t n, int have, const double *__restrict__ v, int64_t ldv, factors f, double b, double *y)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    double a = b != 0.0 ? b * y[i] : 0.0;
#pragma unroll
    for (int j = 0; j < W; j++) a += f.c[j] * v[i + (j < have ? j : have - 1) * ldv];
    y[i] = a;
}

extern "C" void kl_cuda_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, const double *c, double b, kl_dptr yp)
{
    const kl_cuda *const self = (const kl_cuda *)ex->self;
    double *const y = kl_device(yp);
    if (nvec == 0) {
        if (b == 0.0) kl_cuda_fill(ex, n, 0.0, yp);
        else if (b != 1.0) kl_cuda_axpby(ex, n, b, yp, 0.0, yp);
        return;
    }
    if (n == 0) return;
    const unsigned blocks = (unsigned)((n + BLOCK - 1) / BLOCK);
    for (int j = 0; j < nvec; b = 1.0) {
        const int left = nvec - j, W = left > 8 ? 16 : left > 4 ? 8 : left > 2 ? 4 : left, have = left < W ? left : W;
        const double *const v = kl_device(vp) + j * ldv;
        factors f = {};
        for (int k = 0; k < have; k++) f.c[k] = c[j + k];
        switch (W) {
        case 1: combine<1><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, f, b, y); break;
        case 2: combine<2><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, f, b, y); break;
        case 4: combine<4><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, f, b, y); break;
        case 8: combine<8><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, f, b, y); break;
        default: combine<16><<<blocks, BLOCK, 0, self->stream>>>(n, have, v, ldv, f, b, y); break;
        }
        j += have;
    }
}
