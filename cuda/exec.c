/* The CUDA executor: a complete table on memory of the primary context, which OpenMP offload in the same
   program uses as well.
   SPDX-License-Identifier: Apache-2.0 */
#include "copies.h"
#include "crew.h"
#include "device/reduce_device.h"
#include <stdio.h>

enum {
    INTS = (4 + KL_TURNS) * (int)sizeof(int),
    SLOTS = KL_SLOTS * (int)sizeof(kl_slot),
};

static const int64_t no_limit = 0;

static void cuda_close(kl_exec *ex)
{
    kl_cuda *self = ex->self;
    const kl_cuda_host *const host = self->host;
    if (self->stream) cudaStreamSynchronize(self->stream);
#ifdef KL_CUDA_NCCL
    kl_cuda_link_close(self);
#endif
    kl_cuda_eigen_wait(self);
    kl_cuda_peers_close(self);
    kl_cuda_blas_close(self);
    kl_cuda_crew_close(self);
    kl_cuda_roots_close(self);
    kl_cuda_solver_close(self);
    host->pool_give(&self->pool, self->scratch, KL_SCRATCH * (int64_t)sizeof(double));
    host->pool_give(&self->pool, self->slot, SLOTS);
    host->pool_give(&self->pool, self->counter, INTS);
    host->pool_give(&self->pool, self->table, KL_STAGING);
    kl_cuda_loads_close(self);
    kl_cuda_copies *copies = self->pool.ctx;
    host->pool_clear(&self->pool);
    kl_cuda_copies_close(&copies);
    host->pool_clear(&self->far);
    if (self->result) cudaFreeHost(self->result);
    if (self->staging) cudaFreeHost(self->staging);
    if (self->done) cudaEventDestroy(self->done);
    if (self->stream) cudaStreamDestroy(self->stream);
    host->free_ptr((void **)&self);
}

/* The GPU, in a context that spins: one that sleeps doubles the time of a short kernel.
   The context stays for the life of the program: nobody here resets a device. */
static kl_status find_device(kl_cuda *self, kl_device_choice which, kl_err *err)
{
    const kl_cuda_host *const host = self->host;
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaErrorInsufficientDriver || e == cudaErrorNoDevice || e == cudaErrorInitializationError ||
        (e == cudaSuccess && n == 0)) {
        cudaGetLastError();
        return host->fail(err, KL_EABSENT, "--exec cuda: %s; allowed: host auto",
                          e == cudaErrorInsufficientDriver
                              ? "there is no NVIDIA driver, or it is older than CUDA wants"
                              : "there is no NVIDIA GPU");
    }
    self->device = which.number < 0 ? 0 : which.number;
    if (which.in_turn && n > 0) self->device %= n;
    if (e == cudaSuccess && self->device >= n)
        return host->fail(err, KL_EINPUT, "--device %d: there %s %d GPU%s; allowed: 0 to %d", self->device,
                          n == 1 ? "is" : "are", n, n == 1 ? "" : "s", n - 1);
    if (e == cudaSuccess) e = cudaSetDeviceFlags(cudaDeviceScheduleSpin);
    if (e == cudaSuccess) e = cudaSetDevice(self->device);
    if (e == cudaSuccess) e = cudaFree(NULL);
    int major = 0, minor = 0;
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, self->device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, self->device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&self->nsm, cudaDevAttrMultiProcessorCount, self->device);
    int l2 = 0;
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, self->device);
    self->l2_bytes = l2;
    self->sm = 10 * major + minor;
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&self->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                   self->device);
    if (e == cudaSuccess && self->shared_bytes < kl_cuda_products_shared())
        return host->fail(err, KL_EABSENT,
                          "--exec cuda: products want %d bytes of shared memory a block, the GPU, an sm_%d, "
                          "has %d; allowed: sm_80, sm_90, sm_100 and what has as much",
                          kl_cuda_products_shared(), self->sm, self->shared_bytes);
    if (e == cudaSuccess) e = kl_cuda_products_init(self);
    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
        cudaGetLastError();
        return host->fail(
            err, KL_EABSENT,
            "--exec cuda: the GPU is an sm_%d; the module was made for sm_%s (meson option -Dnvcc_arch)",
            self->sm, KL_CUDA_ARCH);
    }
    if (e != cudaSuccess)
        return host->fail(err, KL_EABSENT, "--exec cuda: device %d of %d cannot be used: %s", self->device, n,
                          cudaGetErrorString(e));
    return KL_OK;
}

/* Whom the pools of memory ask for more, and what limits them. */
static void set_pools(kl_cuda *self, kl_exec *ex)
{
    self->pool.get = kl_cuda_get_block, self->pool.give = kl_cuda_give_block;
    self->pool.put = kl_cuda_put_later, self->pool.most = &ex->most_bytes;
    self->far = (kl_pool){.ctx = self,
                          .get = kl_cuda_get_far,
                          .give = kl_cuda_give_far,
                          .put = kl_cuda_put,
                          .most = &no_limit,
                          .far = 1};
}

static void fill_eigen(kl_eigen_cost *e)
{
    /* a thread of its host has a matrix while all others have theirs: up to three times as long as alone */
    static const kl_eigen_time h100[] = {
        {64, 0.8e-3, 0.6e-3}, {128, 3e-3, 0.9e-3}, {256, 12e-3, 1.5e-3},
        {512, 55e-3, 3.7e-3}, {1024, 0.38, 10e-3}, {2500, 5.5, 35e-3},
    };
    e->least = 100;
    e->opening = 0.2; /* the first matrix takes 0.15 to 1 s: a thread loads cuSOLVER while LAPACK has them */
    e->ntime = (int)(sizeof h100 / sizeof *h100);
    for (int i = 0; i < e->ntime; i++) e->time[i] = h100[i];
}

static kl_status cuda_open(const kl_cuda_host *host, kl_device_choice which, kl_exec *ex, kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *self = NULL;
    KL_TRY(host->alloc_bytes((void **)&self, 1, sizeof *self, KL_MEM_MISC, err));
    ex->self = self;
    self->host = host;
    self->nfree = -1;
    KL_TRY(kl_cuda_copies_open(self, &self->pool.ctx, err));
    set_pools(self, ex);
    KL_TRY(find_device(self, which, err));
    if (cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaEventCreateWithFlags(&self->done, cudaEventDisableTiming) != cudaSuccess ||
        cudaHostAlloc((void **)&self->result, KL_RESULT * sizeof(double), cudaHostAllocMapped) !=
            cudaSuccess ||
        cudaHostAlloc(&self->staging, KL_STAGING, cudaHostAllocDefault) != cudaSuccess)
        KL_TRY(kl_cuda_check(self, "opening the device", err));
    self->scratch = host->pool_take(&self->pool, KL_SCRATCH * (int64_t)sizeof(double));
    self->slot = host->pool_take(&self->pool, SLOTS);
    self->counter = host->pool_take(&self->pool, INTS);
    self->turns = self->counter ? self->counter + 4 : NULL;
    self->table = host->pool_take(&self->pool, KL_STAGING);
    if (!self->scratch || !self->slot || !self->counter || !self->table ||
        cudaMemsetAsync(self->slot, 0, SLOTS, self->stream) != cudaSuccess ||
        cudaMemsetAsync(self->counter, 0, INTS, self->stream) != cudaSuccess) {
        st = host->fail(err, KL_ENOMEM, "--exec cuda: device %d gives no memory", self->device);
        goto out;
    }
    snprintf(ex->where, sizeof ex->where, "device %d (sm_%d, %d multiprocessors), module for sm_%s",
             self->device, self->sm, self->nsm, KL_CUDA_ARCH);
    fill_eigen(&ex->eigen);
    static const kl_baselines baselines = {.trial = kl_cuda_trial, .kron_contest = kl_cuda_kron_contest};
    ex->baselines = &baselines;
    ex->peers = &kl_cuda_peers_table;
    ex->vt = (kl_vtable){
        .alloc = kl_cuda_alloc,
        .release = kl_cuda_release,
        .alloc_far = kl_cuda_alloc_far,
        .is_far = kl_cuda_is_far,
        .copy_async = kl_cuda_copy_async,
        .copy_pieces = kl_cuda_copy_pieces,
        .join = kl_cuda_join,
        .upload = kl_cuda_upload,
        .download = kl_cuda_download,
        .copy = kl_cuda_copy,
        .fill = kl_cuda_fill,
        .axpby = kl_cuda_axpby,
        .dots = kl_cuda_dots,
        .combine = kl_cuda_combine,
        .precondition = kl_cuda_precondition,
        .fuse = kl_cuda_fuse,
        .eigen = kl_cuda_eigen,
        .eigen_soon = kl_cuda_eigen_soon,
        .roots = kl_cuda_roots,
        .tridiagonal = kl_cuda_tridiagonal,
        .batch_prepare = kl_cuda_batch_prepare,
        .batch_apply = kl_cuda_batch_apply,
        .batch_release = kl_cuda_batch_release,
        .kron_prepare = kl_cuda_kron_prepare,
        .kron_apply = kl_cuda_kron_apply,
        .kron_release = kl_cuda_kron_release,
        .kron_left = kl_cuda_kron_left,
        .kron_beyond = kl_cuda_kron_beyond,
        .kron_dot = kl_cuda_kron_dot,
        .kron_random = kl_cuda_kron_random,
        .kron_diagonal = kl_cuda_kron_diagonal,
        .spmv_prepare = kl_cuda_spmv_prepare,
        .spmv_apply = kl_cuda_spmv_apply,
        .spmv_release = kl_cuda_spmv_release,
        .moves_fetch = kl_cuda_moves_fetch,
        .moves_land = kl_cuda_moves_land,
        .dets_apply = kl_cuda_dets_apply,
        .rows_prepare = kl_cuda_rows_prepare,
        .rows_release = kl_cuda_rows_release,
        .rows_take = kl_cuda_rows_take,
        .rows_add = kl_cuda_rows_add,
        .ranked = kl_cuda_ranked,
#ifdef KL_CUDA_NCCL
        .link_name = kl_cuda_link_name,
        .link_open = kl_cuda_link_open,
        .link_start = kl_cuda_link_start,
        .link_join = kl_cuda_link_join,
#endif
        .batch_explain = kl_cuda_batch_explain,
        .room = kl_cuda_room,
        .explain = kl_cuda_explain,
        .close = cuda_close,
    };
    return KL_OK;
out:
    if (self) cuda_close(ex);
    ex->self = NULL;
    return st;
}

__attribute__((visibility("default"))) extern const kl_cuda_module kl_cuda_module_table;
const kl_cuda_module kl_cuda_module_table = {
    .abi = KL_CUDA_ABI,
    .bytes = KL_CUDA_SIZES,
    .made_for = KL_CUDA_ARCH,
    .open = cuda_open,
};
