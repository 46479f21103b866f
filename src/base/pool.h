/* Device memory kept for the next who wants as much: sizes come in eight steps an octave, so that the blocks
   of one DMRG step serve the next; what is given back waits in a list of its size, and serves whoever wants
   as much or less by some steps. Of a device no more is taken in all than was in use at a time and a quarter
   of it: what has waited longest goes back before. The host's memory, which a driver takes longest to make
   ready, comes in large regions that are divided. Where memory comes from is the executor's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_POOL_H
#define KL_POOL_H
#include "base/base.h"
#include "base/regions.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KL_POOL_NCLASS = 8 * 48 };

typedef struct kl_pool_waiting {
    void *at;
    int64_t since; /* number of blocks that had come back before */
} kl_pool_waiting;

typedef struct kl_pool_list { /* free blocks of one size */
    int64_t n, cap;
    kl_pool_waiting *block;
} kl_pool_list;

typedef struct kl_pool_owned {
    void *block;
    int64_t bytes;
} kl_pool_owned;

typedef struct kl_pool {
    /* Set by the executor; ctx is its own. */
    void *ctx;
    void *(*get)(void *ctx, int64_t bytes); /* NULL: no memory */
    void (*give)(void *ctx, void *block);
    /* from the host to the device; 0: done */
    int (*put)(void *ctx, void *to, const void *from, int64_t bytes);
    int far;          /* 1: memory of the host: it counts as such, and comes in regions */
    int single;       /* every block its own, none kept: a sanitizer then sees an overrun */
    const int64_t *most; /* bytes that may be taken from the device in all; 0: what it has */
    /* Of the host: what a list was planned in, for the next one; freed with the pool, by this. */
    void *spare;
    void (*free_spare)(void **spare);
    /* The pool's own. */
    kl_pool_list list[KL_POOL_NCLASS];
    kl_pool_owned *owned; /* what alloc gave out */
    int64_t nowned, cap_owned;
    kl_pool_owned *larger; /* what was given out to who asked for less: bytes is the block's class */
    int64_t nlarger, cap_larger;
    kl_regions regions; /* of the host's memory */
    int64_t ngiven; /* number of blocks that came back */
    int64_t cached, live, top; /* bytes that wait, given out, and given out at most at a time */
} kl_pool;

void *kl_pool_take(kl_pool *p, int64_t bytes);             /* NULL: no memory */
/* bytes as they were asked for; NULL is accepted */
void kl_pool_give(kl_pool *p, void *block, int64_t bytes);
/* The same for callers that give back an address alone. */
kl_status kl_pool_alloc(kl_pool *p, int64_t bytes, void **out, kl_err *err) KL_MUST_CHECK;
void kl_pool_release(kl_pool *p, void *block);
int kl_pool_has(const kl_pool *p, const void *address); /* 1: in a block that alloc gave out */
/* bytes that it may still give out; INT64_MAX: as many as there are */
int64_t kl_pool_room(const kl_pool *p);
/* bytes that it takes of a device at most while no more than so many are in use at a time */
int64_t kl_pool_most(int64_t in_use);
void kl_pool_clear(kl_pool *p); /* at the end, when all was given back */

#ifdef __cplusplus
}
#endif
#endif
