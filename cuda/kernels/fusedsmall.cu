/* Linear combinations and inner products of a few vectors in one pass over memory, all in registers: the
   steps of LOBPCG and of Lanczos with one vector. What a thread reads of the inputs is combined, stored and
   multiplied before it reads on; the products are those of all outputs, or of all inputs where nothing is
   written, and are added up in a fixed order. Anything wider is fuse.cu's.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "exec/fusedsmall.h"
#include "reduce.cuh"

enum { THREADS = 256 };

/* pairs: of rows, a thread takes two at a time. */
template <int NIN, int NOUT>
static __global__ void __launch_bounds__(THREADS, 2)
    pass(int64_t pairs, const __grid_constant__ kl_fused_small f, kl_slot *slot, double *result)
{
    constexpr int N = NOUT ? NOUT : NIN, NSUM = N * (N + 1) / 2;
    __shared__ double fold[THREADS];
    const uint64_t launch = kl_launch_number(slot, NSUM);
    double s[NSUM];
#pragma unroll
    for (int q = 0; q < NSUM; q++) s[q] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < pairs;
         i += (int64_t)gridDim.x * THREADS) {
        double2 in[NIN], out[N];
#pragma unroll
        for (int j = 0; j < NIN; j++) in[j] = ((const double2 *)f.in[j])[i];
        if constexpr (NOUT > 0) {
#pragma unroll
            for (int k = 0; k < NOUT; k++) {
                out[k] = make_double2(0.0, 0.0);
#pragma unroll
                for (int j = 0; j < NIN; j++)
                    if (f.used >> (KL_FUSED_SMALL_IN * k + j) & 1) {
                        out[k].x = fma(f.c[k][j], in[j].x, out[k].x);
                        out[k].y = fma(f.c[k][j], in[j].y, out[k].y);
                    }
                ((double2 *)f.out[k])[i] = out[k];
            }
        } else {
#pragma unroll
            for (int j = 0; j < NIN; j++) out[j] = in[j];
        }
        int q = 0;
#pragma unroll
        for (int b = 0; b < N; b++)
#pragma unroll
            for (int a = 0; a <= b; a++, q++) s[q] = fma(out[a].y, out[b].y, fma(out[a].x, out[b].x, s[q]));
    }
    kl_reduce_blocks(THREADS, NSUM, kl_block_sums<NSUM, THREADS>(s), launch, slot, result, fold);
}

template <int NIN, int NOUT>
static cudaError_t start(const kl_cuda *self, int64_t pairs, const kl_fused_small &f)
{
    int each = 1;
    const cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, pass<NIN, NOUT>, THREADS, 0);
    if (e != cudaSuccess) return e;
    const int64_t most = (int64_t)each * self->nsm, want = (pairs + THREADS - 1) / THREADS;
    pass<NIN, NOUT><<<(unsigned)(want < most ? want : most), THREADS, 0, self->stream>>>(pairs, f, self->slot,
                                                                                         self->result);
    return cudaGetLastError();
}

template <int NIN>
static cudaError_t choose(const kl_cuda *self, int64_t pairs, const kl_fused_small &f, int nout)
{
    switch (nout) {
    case 0: return start<NIN, 0>(self, pairs, f);
    case 1: return start<NIN, 1>(self, pairs, f);
    case 2: return start<NIN, 2>(self, pairs, f);
    case 3: return start<NIN, 3>(self, pairs, f);
    case 4: return start<NIN, 4>(self, pairs, f);
    default: return start<NIN, 5>(self, pairs, f);
    }
}

extern "C" cudaError_t kl_cuda_fused_small_start(const kl_cuda *self, int64_t n, const kl_fuse *from)
{
    const kl_fused_small f = kl_fused_small_at(from, 0);
    switch (from->nin) {
    case 1: return choose<1>(self, n / 2, f, from->nout);
    case 2: return choose<2>(self, n / 2, f, from->nout);
    case 3: return choose<3>(self, n / 2, f, from->nout);
    case 4: return choose<4>(self, n / 2, f, from->nout);
    case 5: return choose<5>(self, n / 2, f, from->nout);
    default: return choose<6>(self, n / 2, f, from->nout);
    }
}
