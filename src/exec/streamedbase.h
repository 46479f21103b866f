/* What streamed.c, streamedkron.c and streamedspmv.c share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STREAMEDBASE_H
#define KL_STREAMEDBASE_H
#include "exec/streamed.h"
#include "exec/spmv.h"

typedef struct kl_streamed {
    kl_exec ex; /* first: what callers hold */
    kl_exec *device;
    kl_exec *cpu; /* for what is far */
    int64_t keep;
    int64_t pack_below; /* bytes: pieces of rows that are shorter are packed by the host */
    kl_streamed_facts facts;
} kl_streamed;

/* What of a product is done: all of it, or parts of it for the clock. */
enum {
    KL_STREAMED_COPIES = 1,
    KL_STREAMED_WORK = 2,
};

/* Waits until the device is done with all that it was told. */
static inline void kl_streamed_settle(kl_exec *device, kl_dptr any)
{
    device->vt.join(device, device->vt.copy_async(device, 0, any, any, KL_COPY_AFTER), 1);
}

/* Of an executor that is one. */
static inline kl_streamed *kl_streamed_of(kl_exec *ex) { return (kl_streamed *)(void *)ex; }

/* streamedkron.c */
kl_status kl_streamed_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err);
kl_status kl_streamed_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr x, kl_dptr y, double *xy,
                                 kl_err *err);
void kl_streamed_kron_release(kl_exec *ex, kl_kron *k);

/* streamedspmv.c */
kl_status kl_streamed_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err);
kl_status kl_streamed_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                                 int64_t ldy, kl_err *err);
void kl_streamed_spmv_release(kl_exec *ex, kl_spmv *s);

#endif
