/* Device memory of the CUDA module: what its pool takes, and copies. When a call returns, the host's memory
   may be written again; numbers that come to the host are there.
   SPDX-License-Identifier: Apache-2.0 */
#include "copies.h"

#include <string.h>

/* of copies */
static kl_cuda *owner(void *ctx) { return ((kl_cuda_copies *)ctx)->self; }

/* The driver keeps what it once divided, until the device is left. */
static int can_divide(kl_cuda_copies *c)
{
    int has = 0;
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    if (c->divides == 0)
        c->divides =
            cudaDeviceGetAttribute(&has, cudaDevAttrMemoryPoolsSupported, c->self->device) == cudaSuccess &&
                    has && cudaDeviceGetDefaultMemPool(&pool, c->self->device) == cudaSuccess &&
                    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess
                ? 1
                : -1;
    return c->divides > 0;
}

/* What the driver keeps undivided counts, too. */
static void keep_limit(const kl_cuda *self)
{
    cudaMemPool_t pool;
    uint64_t has = 0;
    if (cudaDeviceGetDefaultMemPool(&pool, self->device) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &has) == cudaSuccess &&
        has > (uint64_t)*self->pool.most)
        cudaMemPoolTrimTo(pool, (size_t)*self->pool.most);
}

/* Where a limit has blocks go back and forth all the time, each would cost a millisecond. NULL: as usual, and
   so where there are other ranks, of which some reach each other's memory by handles of whole blocks. */
static void *divided(kl_cuda_copies *c, int64_t bytes)
{
    kl_cuda *const self = c->self;
    void *p = NULL;
    if (*self->pool.most <= 0 || self->ranked || !can_divide(c)) return NULL;
    if (c->ndivided == c->cap_divided) {
        const int64_t cap = 2 * c->cap_divided + 64;
        if (self->host->realloc_bytes((void **)&c->divided, cap, sizeof(void *), KL_MEM_MISC, NULL) != KL_OK)
            return NULL;
        c->cap_divided = cap;
    }
    if (cudaMallocAsync(&p, (size_t)bytes, self->stream) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    if (cudaStreamSynchronize(self->stream) != cudaSuccess) { /* other streams may have it, too */
        cudaFreeAsync(p, self->stream);
        return NULL;
    }
    keep_limit(self);
    return c->divided[c->ndivided++] = p;
}

void kl_cuda_ranked(kl_exec *ex) { ((kl_cuda *)ex->self)->ranked = 1; }

void *kl_cuda_get_block(void *ctx, int64_t bytes)
{
    kl_cuda *const self = owner(ctx);
    void *p = divided(ctx, bytes);
    if (p) return p;
    self->nfree = -1;
    if (cudaMalloc(&p, (size_t)bytes) == cudaSuccess) return p;
    cudaGetLastError(); /* no memory is an answer, not a fault to be found later */
    return NULL;
}

void kl_cuda_give_block(void *ctx, void *block)
{
    kl_cuda_copies *const c = ctx;
    kl_cuda *const self = c->self;
    int64_t i = c->ndivided - 1;
    while (i >= 0 && c->divided[i] != block) i--;
    if (i >= 0) {
        c->divided[i] = c->divided[--c->ndivided];
        cudaFreeAsync(block, self->stream);
        return;
    }
    self->nfree = -1;
    cudaFree(block);
}

/* Pages that are there are locked in a fraction of the time in which the driver makes and locks them. */
void *kl_cuda_get_far(void *ctx, int64_t bytes)
{
    const kl_cuda *const self = ctx;
    void *p = self->host->mem_take_pages(bytes, self->nthread), *seen = NULL;
    if (p && cudaHostRegister(p, (size_t)bytes, cudaHostRegisterMapped | cudaHostRegisterPortable) ==
                 cudaSuccess) {
        if (cudaHostGetDevicePointer(&seen, p, 0) == cudaSuccess && seen == p) return p;
        cudaHostUnregister(p);
    }
    cudaGetLastError();
    self->host->mem_give_pages(p);
    if (cudaHostAlloc(&p, (size_t)bytes, cudaHostAllocMapped) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

void kl_cuda_give_far(void *ctx, void *block)
{
    const kl_cuda *const self = ctx;
    if (cudaHostUnregister(block) == cudaSuccess) {
        self->host->mem_give_pages(block);
        return;
    }
    cudaGetLastError();
    cudaFreeHost(block); /* it was the driver's own */
}

int kl_cuda_put(void *ctx, void *to, const void *from, int64_t bytes)
{
    const kl_cuda *const self = ctx;
    if (bytes == 0) return 0;
    return cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, self->stream) != cudaSuccess ||
           cudaStreamSynchronize(self->stream) != cudaSuccess;
}

kl_status kl_cuda_copies_open(kl_cuda *self, void **out, kl_err *err)
{
    const kl_status st = self->host->alloc_bytes(out, 1, sizeof(kl_cuda_copies), KL_MEM_MISC, err);
    if (st == KL_OK) ((kl_cuda_copies *)*out)->self = self;
    return st;
}

static void give_ring(kl_cuda_copies *c)
{
    for (int i = 0; i < KL_RING; i++) {
        if (c->sent[i]) cudaEventDestroy(c->sent[i]);
        c->sent[i] = NULL;
    }
    if (c->pinned) cudaFreeHost(c->pinned);
    c->pinned = NULL;
}

void kl_cuda_copies_close(kl_cuda_copies **c)
{
    if (!*c) return;
    cudaMemPool_t pool;
    if ((*c)->divides > 0 && cudaDeviceGetDefaultMemPool(&pool, (*c)->self->device) == cudaSuccess &&
        cudaStreamSynchronize((*c)->self->stream) == cudaSuccess)
        cudaMemPoolTrimTo(pool, 0);
    give_ring(*c);
    (*c)->self->host->free_ptr((void **)&(*c)->divided);
    (*c)->self->host->free_ptr((void **)c);
}

/* Opened with the first copy. 0: there is no pinned memory to be had. */
static int open_ring(kl_cuda_copies *c)
{
    if (c->pinned) return 1;
    if (c->refused) return 0;
    int good = cudaHostAlloc((void **)&c->pinned, (size_t)KL_RING * KL_RING_BYTES, cudaHostAllocDefault) ==
               cudaSuccess;
    for (int i = 0; i < KL_RING && good; i++)
        good = cudaEventCreateWithFlags(&c->sent[i], cudaEventDisableTiming) == cudaSuccess;
    if (good) return 1;
    cudaGetLastError();
    give_ring(c);
    c->refused = 1;
    return 0;
}

/* Pieces of a copy, and where they are pinned. */
typedef struct pieces {
    kl_cuda_copies *of;
    int first, back; /* back: from the pinned ones */
    char *host;
    int64_t bytes;
} pieces;

static char *pinned(const pieces *p, int64_t i)
{
    return p->of->pinned + (size_t)((p->first + i) % KL_RING) * KL_RING_BYTES;
}

static size_t bytes_of(const pieces *p, int64_t i)
{
    const int64_t rest = p->bytes - i * KL_RING_BYTES;
    return (size_t)(rest < KL_RING_BYTES ? rest : KL_RING_BYTES);
}

static void copy_pinned(void *self, int64_t i, int thread)
{
    const pieces *const p = self;
    char *const here = p->host + i * KL_RING_BYTES;
    (void)thread;
    if (p->back) memcpy(here, pinned(p, i), bytes_of(p, i));
    else memcpy(pinned(p, i), here, bytes_of(p, i));
}

/* To the device, or from there, by pinned memory; what comes from there is there. 1: it failed. */
static int by_ring(kl_cuda_copies *c, int nthread, int back, char *device, char *host, int64_t bytes)
{
    const cudaStream_t stream = c->self->stream;
    const int most = back ? KL_RING : KL_RING / 3; /* more to the device go on being sent meanwhile */
    int bad = 0;
    for (int64_t at = 0; at < bytes && !bad; at += (int64_t)most * KL_RING_BYTES) {
        pieces p = {c, c->next, back, host + at, bytes - at};
        const int64_t all = (p.bytes + KL_RING_BYTES - 1) / KL_RING_BYTES, n = all < most ? all : most;
        for (int i = 0; i < n && !back && !bad; i++)
            bad = cudaEventSynchronize(c->sent[(p.first + i) % KL_RING]) != cudaSuccess;
        if (!back) c->self->host->par_for(nthread, n, copy_pinned, &p);
        for (int i = 0; i < n && !bad; i++) {
            char *const there = device + at + i * (int64_t)KL_RING_BYTES;
            /* the other side may be the host's as well, where operators wait */
            bad = cudaMemcpyAsync(back ? pinned(&p, i) : there, back ? there : pinned(&p, i), bytes_of(&p, i),
                                  cudaMemcpyDefault, stream) != cudaSuccess;
            if (!bad) bad = cudaEventRecord(c->sent[(p.first + i) % KL_RING], stream) != cudaSuccess;
        }
        c->next = (int)((p.first + n) % KL_RING);
        if (!back || bad) continue;
        bad = cudaStreamSynchronize(stream) != cudaSuccess;
        if (!bad) c->self->host->par_for(nthread, n, copy_pinned, &p);
    }
    return bad;
}

static int put_later(kl_cuda_copies *c, int nthread, void *to, const void *from, int64_t bytes)
{
    if (bytes == 0) return 0;
    if (!open_ring(c)) return kl_cuda_put(c->self, to, from, bytes);
    return by_ring(c, nthread, 0, to, (char *)(uintptr_t)from, bytes) ||
           (c->self->loads && cudaStreamSynchronize(c->self->stream) != cudaSuccess);
}

int kl_cuda_put_later(void *copies, void *to, const void *from, int64_t bytes)
{
    return put_later(copies, 1, to, from, bytes);
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
    self->nthread = ex->nthread;
    st = self->host->pool_alloc(&self->far, n * (int64_t)sizeof(double), &block, err);
    out->addr = (uintptr_t)block;
    return st;
}

int kl_cuda_is_far(kl_exec *ex, kl_dptr p)
{
    const kl_cuda *const self = ex->self;
    return self->host->pool_has(&self->far, kl_device(p));
}

/* What the driver copies from usual memory goes through one thread; here all of them bring it to pinned
   memory. */
kl_status kl_cuda_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const int64_t bytes = n * (int64_t)sizeof(double);
    if (put_later(self->pool.ctx, ex->nthread, kl_device(dst), src, bytes) == 0) return KL_OK;
    return kl_cuda_check(self, "copying to the device", err);
}

kl_status kl_cuda_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err)
{
    enum { WORTH = 1 << 20 }; /* bytes from which several threads take them from pinned memory */
    kl_cuda *const self = ex->self;
    const int64_t bytes = n * (int64_t)sizeof(double);
    const int bad = bytes >= WORTH && open_ring(self->pool.ctx)
                        ? by_ring(self->pool.ctx, ex->nthread, 1, (char *)kl_device(src), (char *)dst, bytes)
                        : kl_cuda_get(self, dst, kl_device(src), bytes);
    return bad ? kl_cuda_check(self, "copying from the device", err) : KL_OK;
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
