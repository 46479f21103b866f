/* Sparse products by CUDA: launches of the kernels in src/device/spmv_device.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "device/spmv_device.h"

enum { KL_PACKED_THREADS = 1024 };

extern __shared__ double kl_shared[];

namespace
{

template <int bytes, int lanes>
__global__ void warp(kl_spargs a, const double *x, double *y)
{
    kl_sp_warp(&a, bytes, lanes, x, y);
}
template <int bytes>
__global__ void warps(kl_spargs a, const double *x, double *y)
{
    kl_sp_warps(&a, bytes, kl_shared, x, y);
}
template <int bytes>
__global__ void thread(kl_spargs a, const double *x, double *y)
{
    kl_sp_thread(&a, bytes, x, y);
}
__global__ void one_half(kl_spargs a, const double *x, double *y) { kl_sp_half(&a, x, y); }
template <int bytes>
__global__ void __launch_bounds__(KL_PACKED_THREADS, 1)
    packed(kl_spargs a, int nsum, const double *x, double *y)
{
    kl_sp_packed(&a, bytes, nsum, kl_shared, x, y);
}
__global__ void __launch_bounds__(32 * KL_TILE_WARPS, 1) tiles(kl_spargs a, const double *x, double *y)
{
    kl_sp_tiles(&a, kl_shared, x, y);
}
__global__ void scatter(int64_t nrow, int nvec, int nv, const double *ys, double *y, int64_t ldy)
{
    const int64_t k = kl_thread_number(), v = k / nrow;
    if (v < nvec) y[k % nrow + v * ldy] = ys[k % nrow * nv + v];
}

__global__ void gather(int64_t ncol, int nvec, int nv, const double *x, int64_t ldx, double *xs)
{
    kl_sp_gather(ncol, nvec, nv, x, ldx, xs);
}
/* The second number says how many registers are worth taking: 64 keep loads of a warp's four non-zeros on
   their kernel, PACKED is faster by more threads of 32. */
template <int bytes, int nv>
__global__ void __launch_bounds__(1024, 1)
    warp_block(kl_spargs a, int nvec, const double *xs, double *y, int64_t ldy)
{
    kl_sp_warp_block(&a, bytes, nv, nvec, xs, y, ldy);
}
template <int bytes, int nv>
__global__ void __launch_bounds__(1024, 2)
    packed_block(kl_spargs a, int nvec, const double *xs, double *y, int64_t ldy)
{
    kl_sp_packed_block(&a, bytes, nv, nvec, xs, y, ldy);
}
template <int bytes, int nv>
__global__ void __launch_bounds__(1024)
    thread_block(kl_spargs a, int nvec, const double *xs, double *y, int64_t ldy)
{
    kl_sp_thread_block(&a, bytes, nv, nvec, xs, y, ldy);
}

int blocks(int64_t threads, int size) { return (int)((threads + size - 1) / size); }

template <int bytes>
void launch_warp(const kl_spdev *d, cudaStream_t stream, const double *x, double *y)
{
    const int grid = blocks(d->args.nrow * d->lanes, d->threads);
    if (d->lanes == 32) warp<bytes, 32><<<grid, d->threads, 0, stream>>>(d->args, x, y);
    else if (d->lanes == 16) warp<bytes, 16><<<grid, d->threads, 0, stream>>>(d->args, x, y);
    else if (d->lanes == 8) warp<bytes, 8><<<grid, d->threads, 0, stream>>>(d->args, x, y);
    else warp<bytes, 4><<<grid, d->threads, 0, stream>>>(d->args, x, y);
}

template <int bytes>
void launch_packed(const kl_spdev *d, cudaStream_t stream, int nblock, const double *x, double *y)
{
    const int nwarp = KL_PACKED_THREADS / 32, shared = kl_packed_shared_bytes(&d->args, nblock, nwarp);
    cudaFuncSetAttribute(packed<bytes>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    packed<bytes><<<nblock, KL_PACKED_THREADS, shared, stream>>>(
        d->args, kl_packed_sums(&d->args, nblock, nwarp), x, y);
}

template <int bytes, int nv>
void launch_block(const kl_spdev *d, cudaStream_t stream, int nvec, const double *xs, double *y, int64_t ldy)
{
    const int64_t nrow = d->args.nrow;
    const int t = d->threads;
    if (d->way == KL_SPWAY_THREAD)
        thread_block<bytes, nv><<<blocks(nrow * nv / 2, t), t, 0, stream>>>(d->args, nvec, xs, y, ldy);
    else warp_block<bytes, nv><<<blocks(nrow * 32, t), t, 0, stream>>>(d->args, nvec, xs, y, ldy);
}

template <int nv>
void launch_blocks(const kl_spdev *d, cudaStream_t stream, int nvec, const double *xs, double *y, int64_t ldy)
{
    const int grid = blocks(d->args.nrow * 32, d->threads);
    if (d->way == KL_SPWAY_PACKED && d->args.step_bytes == 1)
        packed_block<1, nv><<<grid, d->threads, 0, stream>>>(d->args, nvec, xs, y, ldy);
    else if (d->way == KL_SPWAY_PACKED)
        packed_block<2, nv><<<grid, d->threads, 0, stream>>>(d->args, nvec, xs, y, ldy);
    else if (d->args.index_bytes == 2) launch_block<2, nv>(d, stream, nvec, xs, y, ldy);
    else launch_block<4, nv>(d, stream, nvec, xs, y, ldy);
}

} // namespace

extern "C" void kl_cuda_spmv_gather(const kl_cuda *self, int64_t ncol, int nvec, int nv, const double *x,
                                    int64_t ldx, double *xs)
{
    gather<<<blocks(ncol * nv, 256), 256, 0, self->stream>>>(ncol, nvec, nv, x, ldx, xs);
}

extern "C" void kl_cuda_spmv_scatter(const kl_cuda *self, int64_t nrow, int nvec, int nv, const double *ys,
                                     double *y, int64_t ldy)
{
    scatter<<<blocks(nrow * nvec, 256), 256, 0, self->stream>>>(nrow, nvec, nv, ys, y, ldy);
}

extern "C" void kl_cuda_spmv(const kl_cuda *self, const kl_spdev *d, int nvec, int nv, const double *x,
                             int64_t ldx, double *y, int64_t ldy)
{
    const kl_spargs *const a = &d->args;
    const int t = d->threads, narrow = a->index_bytes == 2, nblock = self->nsm;
    const cudaStream_t stream = self->stream;
    if (a->symmetric) {
        for (int v = 0; v < nvec; v++) {
            cudaMemsetAsync(y + v * ldy, 0, (size_t)a->nrow * 8, stream);
            one_half<<<blocks(a->nrow * 32, t), t, 0, stream>>>(*a, x + v * ldx, y + v * ldy);
        }
        return;
    }
    if (nv > 1) {
        double *const xs = (double *)d->x.addr;
        kl_cuda_spmv_gather(self, a->ncol, nvec, nv, x, ldx, xs);
        if (nv == 2) launch_blocks<2>(d, stream, nvec, xs, y, ldy);
        else if (nv == 4) launch_blocks<4>(d, stream, nvec, xs, y, ldy);
        else if (nv == 8) launch_blocks<8>(d, stream, nvec, xs, y, ldy);
        else launch_blocks<16>(d, stream, nvec, xs, y, ldy);
        return;
    }
    switch (d->way) {
    case KL_SPWAY_THREAD:
        if (narrow) thread<2><<<blocks(a->nrow, t), t, 0, stream>>>(*a, x, y);
        else thread<4><<<blocks(a->nrow, t), t, 0, stream>>>(*a, x, y);
        break;
    case KL_SPWAY_WARPS:
        if (narrow) warps<2><<<blocks(a->nrow * 64, t), t, t / 4, stream>>>(*a, x, y);
        else warps<4><<<blocks(a->nrow * 64, t), t, t / 4, stream>>>(*a, x, y);
        break;
    case KL_SPWAY_PACKED:
        if (a->step_bytes == 1) launch_packed<1>(d, stream, nblock, x, y);
        else launch_packed<2>(d, stream, nblock, x, y);
        break;
    case KL_SPWAY_TILES:
        cudaFuncSetAttribute(tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, kl_tile_shared_bytes(a));
        tiles<<<a->nrange, 32 * KL_TILE_WARPS, kl_tile_shared_bytes(a), stream>>>(*a, x, y);
        break;
    default:
        if (narrow) launch_warp<2>(d, stream, x, y);
        else launch_warp<4>(d, stream, x, y);
        break;
    }
}
