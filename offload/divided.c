/* Blocks within a limit of the user's, which has them go back and forth all the time: by the driver's own
   pool, which divides what it has in microseconds where omp_target_alloc takes it a millisecond.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "offload.h"
#include <dlfcn.h>
#include <stdint.h>

/* As cuda.h has them; its header is not wanted for this. */
enum {
    RELEASE_THRESHOLD = 4,
    RESERVED_CURRENT = 5,
    POOLS_SUPPORTED = 115,
};

struct kl_offload_divided {
    int (*alloc)(uint64_t *, size_t, void *);
    int (*give)(uint64_t, void *);
    int (*wait)(void *);
    int (*tell)(void *, int, void *);
    int (*trim)(void *, size_t);
    void *pool;
    void **block; /* [n] */
    int64_t n, cap;
};

/* NULL: there is no such driver. It keeps what it once divided. */
static struct kl_offload_divided *open(const kl_offload *self)
{
    struct kl_offload_divided *d = NULL;
    int (*device_of)(int *), (*asked)(int *, int, int), (*pool_of)(void **, int), (*set)(void *, int, void *);
    uint64_t all = UINT64_MAX;
    int device, has = 0;
    if (kl_alloc(&d, 1, KL_MEM_MISC, NULL) != KL_OK) return NULL;
    *(void **)&device_of = dlsym(self->driver, "cuCtxGetDevice");
    *(void **)&asked = dlsym(self->driver, "cuDeviceGetAttribute");
    *(void **)&pool_of = dlsym(self->driver, "cuDeviceGetDefaultMemPool");
    *(void **)&set = dlsym(self->driver, "cuMemPoolSetAttribute");
    *(void **)&d->alloc = dlsym(self->driver, "cuMemAllocAsync");
    *(void **)&d->give = dlsym(self->driver, "cuMemFreeAsync");
    *(void **)&d->wait = dlsym(self->driver, "cuStreamSynchronize");
    *(void **)&d->tell = dlsym(self->driver, "cuMemPoolGetAttribute");
    *(void **)&d->trim = dlsym(self->driver, "cuMemPoolTrimTo");
    if (device_of && asked && pool_of && set && d->alloc && d->give && d->wait && d->tell && d->trim &&
        device_of(&device) == 0 && asked(&has, POOLS_SUPPORTED, device) == 0 && has &&
        pool_of(&d->pool, device) == 0 && set(d->pool, RELEASE_THRESHOLD, &all) == 0)
        return d;
    kl_free(&d);
    return NULL;
}

void *kl_offload_divided_get(kl_offload *self, int64_t bytes)
{
    struct kl_offload_divided *d = self->divided;
    uint64_t p = 0;
    if (!self->driver || *self->pool.most <= 0 || self->whole) return NULL;
    if (!d) d = self->divided = open(self);
    if (!d) {
        self->whole = 1;
        return NULL;
    }
    if (d->n == d->cap) {
        const int64_t cap = 2 * d->cap + 64;
        if (kl_realloc(&d->block, cap, KL_MEM_MISC, NULL) != KL_OK) return NULL;
        d->cap = cap;
    }
    if (d->alloc(&p, (size_t)bytes, NULL) != 0) return NULL;
    if (d->wait(NULL) != 0) {
        d->give(p, NULL);
        return NULL;
    }
    uint64_t has = 0; /* what the driver keeps undivided counts, too */
    if (d->tell(d->pool, RESERVED_CURRENT, &has) == 0 && has > (uint64_t)*self->pool.most)
        d->trim(d->pool, (size_t)*self->pool.most);
    return d->block[d->n++] = (void *)(uintptr_t)p;
}

int kl_offload_divided_give(kl_offload *self, void *block)
{
    struct kl_offload_divided *const d = self->divided;
    int64_t i = d ? d->n - 1 : -1;
    while (i >= 0 && d->block[i] != block) i--;
    if (i < 0) return 0;
    d->block[i] = d->block[--d->n];
    d->give((uintptr_t)block, NULL);
    return 1;
}

void kl_offload_divided_close(kl_offload *self)
{
    if (self->divided) {
        self->divided->trim(self->divided->pool, 0);
        kl_free(&self->divided->block);
    }
    kl_free(&self->divided);
}
