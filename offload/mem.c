/* Device memory of the offload executor: what its pool takes from omp_target_alloc, and copies.
   SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/mem.h"
#include "offload.h"
#include <dlfcn.h>
#include <omp.h>
#include <string.h>

/* The device's own memory. A build whose regions run in the program has no offload runtime to ask: there it
   is the host's, each block its own, so that a sanitizer sees an overrun. */
#if KL_OFFLOAD_ON_HOST
static void *get_block(int64_t bytes, int device)
{
    void *p = NULL;
    (void)device;
    return kl_realloc_bytes(&p, bytes, 1, KL_MEM_VECTOR, NULL) == KL_OK ? p : NULL;
}

static void give_block(void *block, int device)
{
    (void)device;
    kl_free_ptr(&block);
}

static int copy_block(void *to, const void *from, int64_t bytes, int to_device, int from_device)
{
    (void)to_device, (void)from_device;
    memcpy(to, from, (size_t)bytes);
    return 0;
}
#else
static void *get_block(int64_t bytes, int device) { return omp_target_alloc((size_t)bytes, device); }
static void give_block(void *block, int device) { omp_target_free(block, device); }
static int copy_block(void *to, const void *from, int64_t bytes, int to_device, int from_device)
{
    return omp_target_memcpy(to, from, (size_t)bytes, 0, 0, to_device, from_device);
}
#endif

void *kl_offload_get_block(void *self, int64_t bytes)
{
    void *const block = kl_offload_divided_get(self, bytes);
    return block ? block : get_block(bytes, ((kl_offload *)self)->device);
}

void kl_offload_give_block(void *self, void *block)
{
    if (!kl_offload_divided_give(self, block)) give_block(block, ((kl_offload *)self)->device);
}

#if !KL_OFFLOAD_ON_HOST
/* Pages that are there are locked in a fraction of the time in which the driver makes and locks them. NULL:
   it cannot, or under another address. */
static void *lock_pages(const kl_offload *self, int64_t bytes)
{
    enum { PORTABLE_AND_MAPPED = 3 }; /* cuda.h */
    int (*lock)(void *, size_t, unsigned), (*unlock)(void *), (*address)(uint64_t *, void *, unsigned);
    uint64_t seen = 0;
    if (!self->driver) return NULL;
    *(void **)&lock = dlsym(self->driver, "cuMemHostRegister_v2");
    *(void **)&unlock = dlsym(self->driver, "cuMemHostUnregister");
    *(void **)&address = dlsym(self->driver, "cuMemHostGetDevicePointer_v2");
    void *const p = lock && unlock && address ? kl_mem_take_pages(bytes, self->nthread) : NULL;
    if (p && lock(p, (size_t)bytes, PORTABLE_AND_MAPPED) == 0) {
        if (address(&seen, p, 0) == 0 && seen == (uintptr_t)p) return p;
        unlock(p);
    }
    kl_mem_give_pages(p);
    return NULL;
}

/* 0: they are not locked by us. */
static int unlock_pages(const kl_offload *self, void *p)
{
    int (*unlock)(void *);
    if (!self->driver) return 0;
    *(void **)&unlock = dlsym(self->driver, "cuMemHostUnregister");
    if (!unlock || unlock(p) != 0) return 0;
    kl_mem_give_pages(p);
    return 1;
}
#endif

/* The host's memory that the device reads and writes, too, under the same address. */
void *kl_offload_get_far(void *ctx, int64_t bytes)
{
    const kl_offload *const self = ctx;
#if KL_OFFLOAD_ON_HOST
    return get_block(bytes, self->device);
#else
    void *const pages = lock_pages(self, bytes);
    return pages ? pages : self->pin((size_t)bytes, self->device);
#endif
}

void kl_offload_give_far(void *ctx, void *block)
{
    const kl_offload *const self = ctx;
#if KL_OFFLOAD_ON_HOST
    give_block(block, self->device);
#else
    if (!unlock_pages(self, block)) self->unpin(block, self->device);
#endif
}

int64_t kl_offload_free_bytes(const kl_offload *self)
{
    int (*info)(size_t *, size_t *);
    size_t nfree = 0, total = 0;
    int64_t has = -1;
    if (self->driver) *(void **)&info = dlsym(self->driver, "cuMemGetInfo_v2");
    if (self->driver && info && info(&nfree, &total) == 0) has = (int64_t)nfree + self->pool.cached;
    const int64_t may = kl_pool_room(&self->pool);
    return has < 0 ? (may < INT64_MAX ? may : -1) : may < has ? may : has;
}

int64_t kl_offload_room(kl_exec *ex)
{
    const int64_t has = kl_offload_free_bytes(ex->self);
    return has < 0 ? INT64_MAX : has;
}

int kl_offload_put(void *self, void *to, const void *from, int64_t bytes)
{
    return bytes == 0 ? 0
                      : copy_block(to, from, bytes, ((kl_offload *)self)->device, omp_get_initial_device());
}

int kl_offload_get(const kl_offload *self, void *to, const void *from, int64_t bytes)
{
    return bytes == 0 ? 0 : copy_block(to, from, bytes, omp_get_initial_device(), self->device);
}

kl_status kl_offload_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_offload *const self = ex->self;
    void *block;
    const kl_status st = kl_pool_alloc(&self->pool, n * (int64_t)sizeof(double), &block, err);
    out->addr = (uintptr_t)block;
    return st;
}

void kl_offload_release(kl_exec *ex, kl_dptr *p)
{
    kl_offload *const self = ex->self;
    kl_pool_release(&self->pool, kl_device(*p));
    kl_pool_release(&self->far, kl_device(*p));
    p->addr = 0;
}

kl_status kl_offload_alloc_far(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_offload *const self = ex->self;
    void *block;
    self->nthread = ex->nthread;
    const kl_status st = kl_pool_alloc(&self->far, n * (int64_t)sizeof(double), &block, err);
    out->addr = (uintptr_t)block;
    return st;
}

int kl_offload_is_far(kl_exec *ex, kl_dptr p)
{
    return kl_pool_has(&((const kl_offload *)ex->self)->far, kl_device(p));
}

/* Far memory is an ordinary array of the host, and a region is done when it returns. */
static int copy_far(kl_exec *ex, kl_dptr there, void *to, const void *from, int64_t n)
{
    if (!kl_offload_is_far(ex, there)) return 0;
    memcpy(to, from, (size_t)n * sizeof(double));
    return 1;
}

kl_status kl_offload_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    if (copy_far(ex, dst, kl_device(dst), src, n)) return KL_OK;
    if (kl_offload_put(ex->self, kl_device(dst), src, n * (int64_t)sizeof(double)) == 0) return KL_OK;
    return kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied to the device",
                   (long long)(n * (int64_t)sizeof(double)));
}

kl_status kl_offload_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err)
{
    if (copy_far(ex, src, dst, kl_device(src), n)) return KL_OK;
    if (kl_offload_get(ex->self, dst, kl_device(src), n * (int64_t)sizeof(double)) == 0) return KL_OK;
    return kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied from the device",
                   (long long)(n * (int64_t)sizeof(double)));
}
