/* The host executor's entries for lists of operation records: batch_prepare, batch_apply,
   batch_apply_many, batch_release and the choice of kl_vtable (exec.h), which documents them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BATCH_HOST_H
#define KL_BATCH_HOST_H
#include "exec/exec.h"

kl_status kl_host_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err) KL_MUST_CHECK;
kl_status kl_host_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y,
                              kl_err *err) KL_MUST_CHECK;
kl_status kl_host_batch_apply_many(kl_exec *ex, const kl_batch *b, int nvec, kl_dptr x, int64_t ldx,
                                   kl_dptr y, int64_t ldy, kl_err *err) KL_MUST_CHECK;
void kl_host_batch_release(kl_exec *ex, kl_batch *b);
/* What explain of kl_vtable says of a list. */
void kl_host_batch_choice(kl_exec *ex, const kl_batch *b, kl_choice *c);

#endif
