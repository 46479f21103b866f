/* Device memory kept for the next who wants as much: see pool.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"
#include "base/mem.h"
#include <string.h>

enum { LEAST = 512 };
/* A block that waits may be so many classes, of eight an octave, larger than what is asked for. */
enum { FIT = 3 };
/* Bytes that may be taken in all are those that were in use at a time, a quarter more and this. Of a run of
   DMRG (8x4, S = 0, 17 GB in use; its requests replayed) the driver then makes blocks of 64 GB; of 450 where
   a sixteenth more may be taken, and of 180 where three times as much could and the largest went first. */
#define HEADROOM ((int64_t)1 << 28)
/* Of the host's memory, which a driver takes longest to make ready, as much as is in use may wait, and
   this. */
#define HEADROOM_FAR ((int64_t)1 << 30)

/* Class of a size and the bytes of its blocks. */
static int class_of(int64_t bytes, int64_t *size)
{
    int64_t step = LEAST / 8, base = LEAST;
    int octave = 0;
    while (bytes > 2 * base && octave < KL_POOL_NCLASS / 8 - 1) base *= 2, step *= 2, octave++;
    const int part = bytes <= base ? 0 : (int)((bytes - base + step - 1) / step);
    *size = base + part * step;
    return part == 8 ? 8 * (octave + 1) : 8 * octave + part; /* twice the base is the next octave's first */
}

static int64_t size_of_class(int c)
{
    const int64_t base = (int64_t)LEAST << (c / 8);
    return base + c % 8 * (base / 8);
}

static void count(const kl_pool *p, int64_t change)
{
    if (p->far) kl_mem_count(KL_MEM_BLOCK, change);
    else kl_mem_device_count(change);
}

/* What is given out, and comes back. */
static void use(kl_pool *p, int64_t change)
{
    p->live += change;
    if (p->live > p->top) p->top = p->live;
    if (!p->far) kl_mem_device_use(change);
}

static int push(const kl_pool *p, kl_pool_list *l, void *block)
{
    if (l->n == l->cap) {
        const int64_t cap = 2 * l->cap + 16;
        if (kl_realloc(&l->block, cap, KL_MEM_MISC, NULL) != KL_OK) return 0;
        l->cap = cap;
    }
    l->block[l->n++] = (kl_pool_waiting){block, p->ngiven};
    return 1;
}

/* The class whose first block has waited longest; -1: none waits. The first of a list is its oldest. */
static int oldest_class(const kl_pool *p)
{
    int oldest = -1;
    for (int c = 0; c < KL_POOL_NCLASS; c++)
        if (p->list[c].n > 0 && (oldest < 0 || p->list[c].block[0].since < p->list[oldest].block[0].since))
            oldest = c;
    return oldest;
}

/* Blocks that wait go back to the device, those that have waited longest first, until they have `most`
   bytes. */
static void trim(kl_pool *p, int64_t most)
{
    while (p->cached > most && p->cached > 0) {
        const int c = oldest_class(p);
        kl_pool_list *const l = &p->list[c];
        const int64_t size = size_of_class(c);
        p->give(p->ctx, l->block[0].at);
        memmove(&l->block[0], &l->block[1], (size_t)--l->n * sizeof *l->block);
        p->cached -= size;
        count(p, -size);
    }
}

/* ---------------------------------------------------------------- regions */

/* Whole regions go back while more than so many bytes wait. */
static void drop_regions(kl_pool *p, int64_t most)
{
    int64_t bytes;
    void *at;
    while (p->cached > most && (at = kl_regions_drop(&p->regions, &bytes)) != NULL) {
        p->give(p->ctx, at);
        p->cached -= bytes;
        count(p, -bytes);
    }
}

/* One that has a block of `size'. 0: there is no memory. */
static int add_region(kl_pool *p, int64_t size)
{
    int64_t bytes = kl_regions_next(&p->regions, size);
    void *at = p->get(p->ctx, bytes);
    if (!at && bytes > size) at = p->get(p->ctx, bytes = size);
    if (!at) return 0;
    if (!kl_regions_add(&p->regions, at, bytes)) {
        p->give(p->ctx, at);
        return 0;
    }
    p->cached += bytes;
    count(p, bytes);
    return 1;
}

static void *take_of_regions(kl_pool *p, int64_t bytes)
{
    const int64_t size = kl_regions_size(bytes);
    void *block = kl_regions_take(&p->regions, size);
    if (!block && !add_region(p, size)) {
        drop_regions(p, 0); /* others are too short for it */
        if (!add_region(p, size)) return NULL;
    }
    if (!block) block = kl_regions_take(&p->regions, size);
    p->cached -= size;
    use(p, size);
    return block;
}

static void give_to_regions(kl_pool *p, void *block, int64_t bytes)
{
    const int64_t size = kl_regions_size(bytes);
    use(p, -size);
    p->cached += size;
    kl_regions_give(&p->regions, block, size);
    drop_regions(p, p->live + HEADROOM_FAR);
}

/* ---------------------------------------------------------------- blocks */

void kl_pool_clear(kl_pool *p)
{
    if (p->spare) p->free_spare(&p->spare);
    if (p->far && !p->single) drop_regions(p, 0);
    kl_regions_clear(&p->regions);
    trim(p, 0);
    for (int c = 0; c < KL_POOL_NCLASS; c++) kl_free(&p->list[c].block);
    kl_free(&p->owned);
    kl_free(&p->larger);
    p->cap_larger = 0;
}

int64_t kl_pool_most(int64_t in_use) { return in_use + in_use / 4 + HEADROOM; }

/* Bytes that may wait while so many are in use. */
static int64_t may_wait(const kl_pool *p, int64_t live)
{
    const int64_t top = live > p->top ? live : p->top;
    return kl_pool_most(top) - live;
}

/* A block that waits, of class c or of one a little larger, which it keeps; NULL: there is none. */
static void *waiting(kl_pool *p, int c, int64_t *size)
{
    if (p->single) return NULL;
    for (int k = c; k <= c + FIT && k < KL_POOL_NCLASS; k++) {
        kl_pool_list *const l = &p->list[k];
        if (l->n == 0) continue;
        if (k > c) {
            if (p->nlarger == p->cap_larger) {
                const int64_t cap = 2 * p->cap_larger + 16;
                if (kl_realloc(&p->larger, cap, KL_MEM_MISC, NULL) != KL_OK) return NULL;
                p->cap_larger = cap;
            }
            *size = size_of_class(k);
            p->larger[p->nlarger++] = (kl_pool_owned){l->block[l->n - 1].at, k};
        }
        p->cached -= *size;
        return l->block[--l->n].at;
    }
    return NULL;
}

/* The class of a block that comes back, *size being what its bytes ask for. */
static int own_class(kl_pool *p, const void *block, int c, int64_t *size)
{
    int64_t i = p->nlarger - 1;
    while (i >= 0 && p->larger[i].block != block) i--;
    if (i < 0) return c;
    const int own = (int)p->larger[i].bytes;
    p->larger[i] = p->larger[--p->nlarger];
    *size = size_of_class(own);
    return own;
}

int64_t kl_pool_room(const kl_pool *p)
{
    if (*p->most <= 0) return INT64_MAX;
    return *p->most > p->live ? *p->most - p->live : 0;
}

/* A block from the device, within what the user allows. */
static void *fresh(kl_pool *p, int64_t size)
{
    if (*p->most > 0 && p->live + p->cached + size > *p->most) return NULL;
    void *const block = p->get(p->ctx, size);
    if (block) count(p, size);
    return block;
}

void *kl_pool_take(kl_pool *p, int64_t bytes)
{
    int64_t size;
    const int c = class_of(bytes, &size);
    if (p->far && !p->single) return take_of_regions(p, bytes);
    if (p->single) size = bytes;
    void *block = waiting(p, c, &size);
    if (!block) {
        trim(p, may_wait(p, p->live + size));
        block = fresh(p, size);
        /* first only what the user's limit asks for: a driver takes milliseconds for each block */
        if (!block && p->cached > 0 && *p->most > 0 && p->live + size <= *p->most) {
            trim(p, *p->most - p->live - size);
            block = fresh(p, size);
        }
        if (!block && p->cached > 0) {
            trim(p, 0);
            block = fresh(p, size);
        }
    }
    if (block) use(p, size);
    return block;
}

void kl_pool_give(kl_pool *p, void *block, int64_t bytes)
{
    int64_t size;
    if (!block) return;
    if (p->far && !p->single) {
        give_to_regions(p, block, bytes);
        return;
    }
    const int asked = class_of(bytes, &size), c = own_class(p, block, asked, &size);
    if (p->single) size = bytes;
    use(p, -size);
    p->ngiven++;
    if (!p->single) {
        const int64_t most = may_wait(p, p->live);
        trim(p, most - size);
        if (p->cached + size <= most && push(p, &p->list[c], block)) {
            p->cached += size;
            return;
        }
    }
    p->give(p->ctx, block);
    count(p, -size);
}

/* There are some hundred blocks at most, and the latest go first. */
kl_status kl_pool_alloc(kl_pool *p, int64_t bytes, void **out, kl_err *err)
{
    *out = NULL;
    if (p->nowned == p->cap_owned) {
        const int64_t cap = 2 * p->cap_owned + 64;
        const kl_status st = kl_realloc(&p->owned, cap, KL_MEM_MISC, err);
        if (st != KL_OK) return st;
        p->cap_owned = cap;
    }
    *out = kl_pool_take(p, bytes);
    if (!*out && p->far)
        return kl_fail(err, KL_ENOMEM, "the host has no %lld bytes that a device could read",
                       (long long)bytes);
    int64_t size;
    (void)class_of(bytes, &size); /* of nothing too a block */
    if (!*out && *p->most > 0 && p->live + p->cached + size > *p->most)
        return kl_fail(err, KL_ENOMEM,
                       "the device memory that this program is allowed is used up: %lld of %lld bytes are "
                       "taken, %lld more are wanted (--device-memory)",
                       (long long)(p->live + p->cached), (long long)*p->most, (long long)size);
    if (!*out)
        return kl_fail(err, KL_ENOMEM,
                       "the device has no %lld bytes free (this program has taken %lld of it)",
                       (long long)size, (long long)kl_mem_device_live_bytes());
    p->owned[p->nowned++] = (kl_pool_owned){*out, bytes};
    return KL_OK;
}

int kl_pool_has(const kl_pool *p, const void *address)
{
    for (int64_t i = 0; i < p->nowned; i++)
        if ((const char *)address >= (const char *)p->owned[i].block &&
            (const char *)address < (const char *)p->owned[i].block + p->owned[i].bytes)
            return 1;
    return 0;
}

void kl_pool_release(kl_pool *p, void *block)
{
    if (!block) return;
    int64_t i = p->nowned - 1;
    while (i >= 0 && p->owned[i].block != block) i--;
    if (i < 0) return;
    const int64_t bytes = p->owned[i].bytes;
    memmove(&p->owned[i], &p->owned[i + 1], (size_t)(--p->nowned - i) * sizeof *p->owned);
    kl_pool_give(p, block, bytes);
}
