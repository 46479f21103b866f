/* Sums over threads, warps and blocks in an order that depends on the launch alone: equal input gives equal bits.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_FOLD_CUH
#define KL_CUDA_FOLD_CUH
#include <cuda_runtime.h>

/* One step of kl_warp_sums: lanes HALF apart. Recursion, because a loop that is not unrolled would put v in memory. */
template <int HALF, int W, int P> static __device__ __forceinline__ void kl_sum_step(double (&v)[P], int lane)
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

/* s[j] of all lanes added up: lane j returns value j, j < W <= 32. Each step halves the values that a lane still carries, so that W of them take hardly more
   shuffles than 32 lanes. */
template <int W> static __device__ __forceinline__ double kl_warp_sums(double (&s)[W])
{
    constexpr int P = W <= 1 ? 1 : W <= 2 ? 2 : W <= 4 ? 4 : W <= 8 ? 8 : W <= 16 ? 16 : 32;
    double v[P];
#pragma unroll
    for (int j = 0; j < P; j++) v[j] = j < W ? s[j] : 0.0;
    kl_sum_step<16, W, P>(v, (int)threadIdx.x % 32);
    return v[0];
}

/* Rows of `wide` numbers in shared memory, any count of them: the first becomes the sum of all. All threads call; at least wide * groups / 2 of them. */
static __device__ __forceinline__ void kl_sum_rows(double *shared, int wide, int groups)
{
    for (int half; groups > 1; groups = half) {
        half = (groups + 1) / 2;
        __syncthreads();
        if ((int)threadIdx.x < (groups - half) * wide) shared[threadIdx.x] += shared[(int)threadIdx.x + half * wide];
    }
}

/* value(j), j < W, of every block -> result[W], by the last block to arrive. part: [blocks][W] on the device; shared: [THREADS]. All threads call. */
template <int THREADS, class F> static __device__ __forceinline__ void kl_fold_blocks(int W, F value, double *part, double *result, int *counter, double *shared)
{
    __shared__ bool last;
    const int me = (int)threadIdx.x;
    if (me < THREADS)
        for (int j = me; j < W; j += THREADS) part[(int64_t)blockIdx.x * W + j] = value(j);
    __syncthreads();
    if (me == 0) { /* releases what the whole block has written, and acquires what the others have: one thread waits for memory, not all */
        int before;
        asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        last = before == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    int wide = 1; /* threads side by side; the others take other blocks */
    while (wide < W && wide < THREADS) wide *= 2;
    const int groups = THREADS / wide, j0 = me % wide, g = me / wide;
    for (int first = 0; first < W; first += wide) {
        const int j = first + j0;
        double a = 0.0;
        if (me < THREADS && j < W) {
#pragma unroll 16
            for (int b = g; b < (int)gridDim.x; b += groups) a += __ldcg(part + (int64_t)b * W + j);
        }
        if (me < THREADS) shared[me] = a;
        kl_sum_rows(shared, wide, groups);
        if (me < wide && j < W) result[j] = shared[me];
        __syncthreads();
    }
    if (me == 0) *counter = 0;
}
#endif
