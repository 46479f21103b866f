/* Sums over the threads of a warp or of a block, many at a time; then see reduce_device.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_REDUCE_CUH
#define KL_CUDA_REDUCE_CUH
#include "device/reduce_device.h"
#include <cuda_runtime.h>

/* One step of kl_warp_sums: lanes HALF apart. Recursion, because a loop that is not unrolled would put v in
   memory. */
template <int HALF, int W, int P>
static __device__ __forceinline__ void kl_sum_step(double (&v)[P], int lane)
{
    if constexpr (HALF >= P) {
#pragma unroll
        for (int j = 0; j < W; j++) v[j] += __shfl_xor_sync(~0u, v[j], HALF);
    } else {
        const bool upper = (lane & HALF) != 0;
#pragma unroll
        for (int j = 0; j < HALF; j++) {
            const double mine = upper ? v[j + HALF] : v[j], other = upper ? v[j] : v[j + HALF];
            v[j] = mine + __shfl_xor_sync(~0u, other, HALF);
        }
    }
    if constexpr (HALF > 1) kl_sum_step<HALF / 2, W, P>(v, lane);
}

/* s[j] of all lanes added up: lane j returns value j, j < W <= 32. Each step halves the values that a lane
   still carries, so that W of them take hardly more shuffles than 32 lanes. */
template <int W>
static __device__ __forceinline__ double kl_warp_sums(double (&s)[W])
{
    constexpr int P = W <= 1 ? 1 : W <= 2 ? 2 : W <= 4 ? 4 : W <= 8 ? 8 : W <= 16 ? 16 : 32;
    double v[P];
#pragma unroll
    for (int j = 0; j < P; j++) v[j] = j < W ? s[j] : 0.0;
    kl_sum_step<16, W, P>(v, (int)threadIdx.x % 32);
    return v[0];
}

/* The same of all T threads of a block: thread j returns value j. */
template <int W, int T>
static __device__ __forceinline__ double kl_block_sums(double (&s)[W])
{
    __shared__ double warp[T / 32][W];
    const int me = (int)threadIdx.x;
    const double a = kl_warp_sums<W>(s);
    double b = 0.0;
    if (me % 32 < W) warp[me / 32][me % 32] = a;
    __syncthreads();
    if (me < W)
#pragma unroll
        for (int w = 0; w < T / 32; w++) b += warp[w][me];
    return b;
}
#endif
