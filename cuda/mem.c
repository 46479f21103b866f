/* Device memory of the CUDA module: what its pool takes, and copies. A copy from or to the host is over when
   the call returns.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <string.h>

void *kl_cuda_get_block(void *ctx, int64_t bytes)
{
    kl_cuda *const self = ctx;
    void *p = NULL;
    self->nfree = -1;
    if (cudaMalloc(&p, (size_t)bytes) == cudaSuccess) return p;
    cudaGetLastError(); /* no memory is an answer, not a fault to be found later */
    return NULL;
}

void kl_cuda_give_block(void *ctx, void *block)
{
    kl_cuda *const self = ctx;
    self->nfree = -1;
    cudaFree(block);
}

void *kl_cuda_get_far(void *self, int64_t bytes)
{
    void *p = NULL;
    (void)self;
    if (cudaHostAlloc(&p, (size_t)bytes, cudaHostAllocMapped) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

void kl_cuda_give_far(void *self, void *block)
{
    (void)self;
    cudaFreeHost(block);
}

int kl_cuda_put(void *ctx, void *to, const void *from, int64_t bytes)
{
    const kl_cuda *const self = ctx;
    if (bytes == 0) return 0;
    return cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, self->stream) != cudaSuccess ||
           cudaStreamSynchronize(self->stream) != cudaSuccess;
}

int kl_cuda_get(void *ctx, void *to, const void *from, int64_t bytes)
{
    const kl_cuda *const self = ctx;
    if (bytes == 0) return 0;
    return cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, self->stream) != cudaSuccess ||
           cudaStreamSynchronize(self->stream) != cudaSuccess;
}

int64_t kl_cuda_room(kl_exec *ex)
{
    kl_cuda *const self = ex->self;
    const int64_t may = self->host->pool_room(&self->pool);
    if (self->nfree < 0) { /* a question that takes the driver longer than planning a short list */
        size_t nfree = 0, total = 0;
        if (cudaMemGetInfo(&nfree, &total) != cudaSuccess) return may;
        self->nfree = (int64_t)nfree;
    }
    const int64_t has = self->nfree + self->pool.cached;
    return has < may ? has : may;
}

kl_status kl_cuda_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_cuda *const self = ex->self;
    void *block;
    const kl_status st = self->host->pool_alloc(&self->pool, n * (int64_t)sizeof(double), &block, err);
    out->addr = (uintptr_t)block;
    return st;
}

void kl_cuda_release(kl_exec *ex, kl_dptr *p)
{
    kl_cuda *const self = ex->self;
    self->host->pool_release(&self->pool, kl_device(*p));
    self->host->pool_release(&self->far, kl_device(*p));
    p->addr = 0;
}

/* One address on both sides: unified addressing is there wherever this module runs. */
kl_status kl_cuda_alloc_far(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_cuda *const self = ex->self;
    void *block;
    kl_status st = kl_cuda_loads_open(self, err); /* what is there is copied: see copy_async */
    if (st != KL_OK) return st;
    st = self->host->pool_alloc(&self->far, n * (int64_t)sizeof(double), &block, err);
    out->addr = (uintptr_t)block;
    return st;
}

int kl_cuda_is_far(kl_exec *ex, kl_dptr p)
{
    const kl_cuda *const self = ex->self;
    return self->host->pool_has(&self->far, kl_device(p));
}

/* What the driver copies from usual memory goes through one thread. */
enum {
    STAGED_FROM = 512 << 20,
    STAGED = 16 << 20,
    PIECE = 1 << 20,
};

typedef struct staged {
    char *to;
    const char *from;
    int64_t bytes;
} staged;

static void copy_piece(void *ctx, int64_t task, int thread)
{
    const staged *const c = ctx;
    const int64_t at = task * PIECE, rest = c->bytes - at;
    (void)thread;
    memcpy(c->to + at, c->from + at, (size_t)(rest < PIECE ? rest : PIECE));
}

/* By all threads into two pieces of pinned memory in turn, while the other one is in flight. 1: there is
   none, or a copy failed. */
static int put_staged(kl_exec *ex, char *to, const char *from, int64_t bytes)
{
    kl_cuda *const self = ex->self;
    char *pinned = NULL;
    cudaEvent_t sent[2] = {NULL, NULL};
    int bad = cudaHostAlloc((void **)&pinned, 2 * STAGED, cudaHostAllocDefault) != cudaSuccess;
    for (int k = 0; k < 2 && !bad; k++)
        bad = cudaEventCreateWithFlags(&sent[k], cudaEventDisableTiming) != cudaSuccess;
    for (int64_t at = 0, k = 0; at < bytes && !bad; at += STAGED, k = 1 - k) {
        staged c = {pinned + k * STAGED, from + at, bytes - at < STAGED ? bytes - at : STAGED};
        bad = at >= 2 * STAGED && cudaEventSynchronize(sent[k]) != cudaSuccess;
        self->host->par_for(ex->nthread, (c.bytes + PIECE - 1) / PIECE, copy_piece, &c);
        bad = bad ||
              cudaMemcpyAsync(to + at, c.to, (size_t)c.bytes, cudaMemcpyHostToDevice, self->stream) !=
                  cudaSuccess ||
              cudaEventRecord(sent[k], self->stream) != cudaSuccess;
    }
    bad = cudaStreamSynchronize(self->stream) != cudaSuccess || bad;
    for (int k = 0; k < 2; k++)
        if (sent[k]) cudaEventDestroy(sent[k]);
    if (pinned) cudaFreeHost(pinned);
    if (bad) cudaGetLastError();
    return bad;
}

kl_status kl_cuda_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const int64_t bytes = n * (int64_t)sizeof(double);
    if (bytes >= STAGED_FROM && ex->nthread > 1 &&
        put_staged(ex, (char *)kl_device(dst), (const char *)src, bytes) == 0)
        return KL_OK;
    if (kl_cuda_put(self, kl_device(dst), src, bytes) == 0) return KL_OK;
    return kl_cuda_check(self, "copying to the device", err);
}

kl_status kl_cuda_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err)
{
    kl_cuda *const self = ex->self;
    if (kl_cuda_get(self, dst, kl_device(src), n * (int64_t)sizeof(double)) == 0) return KL_OK;
    return kl_cuda_check(self, "copying from the device", err);
}

kl_status kl_cuda_send(kl_exec *ex, kl_spdev *d, const void *from, int64_t bytes, void *out, kl_err *err)
{
    kl_cuda *const self = ex->self;
    kl_dptr *const p = &d->array[d->narray];
    const kl_status st = ex->vt.alloc(ex, bytes / 8 + 1, p, err);
    if (st != KL_OK) return st;
    d->narray++;
    d->bytes += bytes;
    *(void **)out = (void *)p->addr;
    if (kl_cuda_put(self, (void *)p->addr, from, bytes) == 0) return KL_OK;
    return self->host->fail(err, KL_EBROKEN, "%lld bytes could not be copied to the device",
                            (long long)bytes);
}
