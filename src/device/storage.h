/* Lists whose operators stay on the host (nemes2014's third strategy, NoStreamAndStorage): chunk by chunk
   they come into one of two buffers while the chunk before is multiplied out of the other, on any device
   that has far memory and copies beside its products. Launches nothing itself: that is the executor's
   part.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STORAGE_H
#define KL_STORAGE_H
#include "device/devbatch.h"
#include "record/chunk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is the executor's own. */
typedef struct kl_storage_way {
    const kl_tile_plan_opts *o; /* of a chunk's list */
    kl_pool *pool;
    const char *kernel;
    /* all launches of a prepared list; may return before they are done */
    void (*launch)(kl_exec *ex, const kl_devbatch *p, kl_dptr x, kl_dptr y);
} kl_storage_way;

/* 1: operators of the list lie in far memory. */
int kl_storage_wanted(kl_exec *ex, const kl_batch *b);

/* b->prepared becomes a list in chunks. */
kl_status kl_storage_prepare(kl_exec *ex, kl_batch *b, const kl_storage_way *way, kl_err *err) KL_MUST_CHECK;
void kl_storage_release(kl_exec *ex, kl_batch *b, kl_pool *pool);
kl_status kl_storage_apply(kl_exec *ex, const kl_batch *b, const kl_storage_way *way, kl_dptr x, kl_dptr y,
                           kl_err *err) KL_MUST_CHECK;
void kl_storage_explain(const kl_batch *b, kl_batch_plan *out);
/* What preparing it would come to. */
kl_status kl_storage_dry(kl_exec *ex, const kl_batch *b, const kl_storage_way *way, kl_batch_plan *out,
                         kl_err *err) KL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
