/* The host executor's entries for products with sparse matrices: spmv_prepare, spmv_apply and spmv_release of
   kl_vtable (exec.h), which documents them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPMV_HOST_H
#define KL_SPMV_HOST_H
#include "exec/spmv.h"

kl_status kl_host_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err) KL_MUST_CHECK;
kl_status kl_host_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                             int64_t ldy, kl_err *err) KL_MUST_CHECK;
void kl_host_spmv_release(kl_exec *ex, kl_spmv *s);

#endif
