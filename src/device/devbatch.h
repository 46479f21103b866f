/* A record list made ready for a device: its tiles, memory for its intermediates, the tables over there. Who
   launches what is the executor's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DEVBATCH_H
#define KL_DEVBATCH_H
#include "exec/exec.h"
#include "base/pool.h"
#include "device/tileplan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_devbatch {
    kl_tile_plan plan;    /* its lists are on the device; launches here */
    kl_dptr base[KL_NAT];
    void *work, *list;
    int64_t work_bytes, list_bytes; /* work_bytes 0: not ours */
    kl_piece *piece;   /* in list */
    kl_tile_cell *cell;
    kl_summand *term;
} kl_devbatch;

/* The two halves of preparing, for lists that share memory for their intermediates: afterwards plan.nwork of
   b->prepared says how many doubles are wanted there, of a budget that only a single intermediate may exceed;
   then the rest. work is the caller's. */
kl_status kl_devbatch_open(kl_batch *b, const kl_tile_plan_opts *o, int64_t budget, kl_pool *pool,
                           kl_err *err) KL_MUST_CHECK;
kl_status kl_devbatch_load(kl_batch *b, void *work, kl_pool *pool, kl_err *err) KL_MUST_CHECK;
/* Both. b->prepared becomes a kl_devbatch. has: bytes that the device can give out, a quarter of which
   intermediates may take (a solver's basis comes after them); -1: not known. */
kl_status kl_devbatch_prepare(kl_batch *b, const kl_tile_plan_opts *o, int64_t has, kl_pool *pool,
                              kl_err *err) KL_MUST_CHECK;
void kl_devbatch_release(kl_batch *b, kl_pool *pool);
/* Operands are where they were. */
kl_status kl_devbatch_check(const kl_batch *b, kl_err *err) KL_MUST_CHECK;
void kl_devbatch_explain(const kl_batch *b, const char *kernel, kl_batch_plan *out);
/* What preparing it would come to. */
kl_status kl_devbatch_dry(const kl_batch *b, const kl_tile_plan_opts *o, int64_t has, const char *kernel,
                          kl_batch_plan *out, kl_err *err) KL_MUST_CHECK;

/* The answer of vt.explain for a list that comes to this, `lead` being what is special to the executor. */
void kl_devbatch_choice(const kl_batch_plan *plan, const char *lead, kl_choice *c);
/* The answer for what every device does alike; 0: this operation is none of that. */
int kl_devbatch_common(const kl_call *call, kl_choice *c);

#ifdef __cplusplus
}
#endif
#endif
