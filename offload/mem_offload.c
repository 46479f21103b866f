/* Device memory: one pool over omp_target_alloc. Sizes come in eight steps an octave, so that the blocks of one DMRG step serve the next; what is given
   back waits in a list of its size, up to as much as is in use.
   SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "mem.h"
#include "offload.h"
#include <dlfcn.h>
#include <omp.h>
#include <string.h>

enum { LEAST = 512, HEADROOM = 1 << 30 };

/* The device's own memory. A build whose regions run in the program has no offload runtime to ask: there it is the host's, each block its own, so that a
   sanitizer sees an overrun. */
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

/* Class of a size and the bytes of its blocks. */
static int class_of(int64_t bytes, int64_t *size)
{
    int64_t step = LEAST / 8, base = LEAST;
    int octave = 0;
    while (bytes > 2 * base && octave < KL_NCLASS / 8 - 1) base *= 2, step *= 2, octave++;
    const int part = bytes <= base ? 0 : (int)((bytes - base + step - 1) / step);
    *size = base + part * step;
    return part == 8 ? 8 * (octave + 1) : 8 * octave + part; /* twice the base is the next octave's first */
}

static int push(kl_block_list *l, void *block)
{
    if (l->n == l->cap) {
        const int64_t cap = 2 * l->cap + 16;
        if (kl_realloc(&l->block, cap, KL_MEM_MISC, NULL) != KL_OK) return 0;
        l->cap = cap;
    }
    l->block[l->n++] = block;
    return 1;
}

static int pooled(const kl_offload *self) { return !self->on_host; }

/* 1 when so many bytes more would be beyond what the program may take. */
static int over(const kl_offload *self, int64_t bytes)
{
    return self->ex->most_bytes > 0 && self->live + self->cached + bytes > self->ex->most_bytes;
}

static int64_t size_of_class(int c)
{
    const int64_t base = (int64_t)LEAST << (c / 8);
    return base + c % 8 * (base / 8);
}

void kl_offload_trim(kl_offload *self)
{
    for (int c = 0; c < KL_NCLASS; c++) {
        kl_block_list *const l = &self->free_list[c];
        while (l->n > 0) {
            give_block(l->block[--l->n], self->device);
            kl_mem_device_count(-size_of_class(c));
        }
    }
    self->cached = 0;
}

void *kl_offload_take(kl_offload *self, int64_t bytes)
{
    int64_t size;
    const int c = class_of(bytes, &size);
    void *p = NULL;
    if (!pooled(self)) {
        if (over(self, bytes)) return NULL;
        p = get_block(bytes, self->device);
        if (p) kl_mem_device_count(bytes), self->live += bytes;
        return p;
    }
    kl_block_list *const l = &self->free_list[c];
    if (l->n > 0) {
        p = l->block[--l->n];
        self->cached -= size;
    } else {
        if (over(self, size)) kl_offload_trim(self);
        if (over(self, size)) return NULL;
        p = get_block(size, self->device);
        if (!p) {
            kl_offload_trim(self);
            p = get_block(size, self->device);
        }
        if (p) kl_mem_device_count(size);
    }
    if (p) self->live += size;
    return p;
}

void kl_offload_give(kl_offload *self, void *block, int64_t bytes)
{
    int64_t size;
    const int c = class_of(bytes, &size);
    if (!block) return;
    if (!pooled(self)) {
        give_block(block, self->device);
        kl_mem_device_count(-bytes);
        self->live -= bytes;
        return;
    }
    self->live -= size;
    if (self->cached + size > self->live + HEADROOM) kl_offload_trim(self);
    if (self->cached + size <= self->live + HEADROOM && push(&self->free_list[c], block)) {
        self->cached += size;
        return;
    }
    give_block(block, self->device);
    kl_mem_device_count(-size);
}

int64_t kl_offload_free_bytes(const kl_offload *self)
{
    int (*info)(size_t *, size_t *);
    size_t nfree = 0, total = 0;
    int64_t has = -1;
    if (self->driver) *(void **)&info = dlsym(self->driver, "cuMemGetInfo_v2");
    if (self->driver && info && info(&nfree, &total) == 0) has = (int64_t)nfree + self->cached;
    if (self->ex->most_bytes <= 0) return has;
    const int64_t may = self->ex->most_bytes > self->live ? self->ex->most_bytes - self->live : 0;
    return has < 0 || may < has ? may : has;
}

int64_t kl_offload_room(kl_exec *ex)
{
    const int64_t has = kl_offload_free_bytes(ex->self);
    return has < 0 ? INT64_MAX : has;
}

int kl_offload_put(const kl_offload *self, void *to, const void *from, int64_t bytes)
{
    return bytes == 0 ? 0 : copy_block(to, from, bytes, self->device, omp_get_initial_device());
}

int kl_offload_get(const kl_offload *self, void *to, const void *from, int64_t bytes)
{
    return bytes == 0 ? 0 : copy_block(to, from, bytes, omp_get_initial_device(), self->device);
}

/* Callers give back an address alone, so sizes are kept here; there are some hundred blocks at most, and the latest go first. */
kl_status kl_offload_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_offload *const self = ex->self;
    *out = (kl_dptr){0};
    const int64_t bytes = n * (int64_t)sizeof(double);
    if (self->nowned == self->cap_owned) {
        const int64_t cap = 2 * self->cap_owned + 64;
        const kl_status st = kl_realloc(&self->owned, cap, KL_MEM_MISC, err);
        if (st != KL_OK) return st;
        self->cap_owned = cap;
    }
    void *const p = kl_offload_take(self, bytes);
    if (!p)
        return kl_fail(err, KL_ENOMEM, "the device has no %lld bytes free (this program has taken %lld of it)", (long long)bytes,
                       (long long)kl_mem_device_live_bytes());
    self->owned[self->nowned++] = (kl_owned){p, bytes};
    out->addr = (uintptr_t)p;
    return KL_OK;
}

void kl_offload_release(kl_exec *ex, kl_dptr *p)
{
    kl_offload *const self = ex->self;
    void *const block = kl_device(*p);
    p->addr = 0;
    if (!block) return;
    int64_t i = self->nowned - 1;
    while (i >= 0 && self->owned[i].block != block) i--;
    if (i < 0) return;
    const int64_t bytes = self->owned[i].bytes;
    memmove(&self->owned[i], &self->owned[i + 1], (size_t)(--self->nowned - i) * sizeof *self->owned);
    kl_offload_give(self, block, bytes);
}

kl_status kl_offload_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    if (kl_offload_put(ex->self, kl_device(dst), src, n * (int64_t)sizeof(double)) == 0) return KL_OK;
    return kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied to the device", (long long)(n * (int64_t)sizeof(double)));
}

kl_status kl_offload_download(kl_exec *ex, double *dst, kl_dptr src, int64_t n, kl_err *err)
{
    if (kl_offload_get(ex->self, dst, kl_device(src), n * (int64_t)sizeof(double)) == 0) return KL_OK;
    return kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied from the device", (long long)(n * (int64_t)sizeof(double)));
}
