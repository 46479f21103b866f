/* The host executor's entries for sums of Kronecker products: kron_prepare, kron_apply, kron_release,
   kron_left and kron_beyond of kl_vtable (exec.h), which documents them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRON_HOST_H
#define KL_KRON_HOST_H
#include "exec/exec.h"
#include "exec/kron.h"

kl_status kl_host_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err) KL_MUST_CHECK;
kl_status kl_host_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr x, kl_dptr y, double *xy,
                             kl_err *err) KL_MUST_CHECK;
void kl_host_kron_release(kl_exec *ex, kl_kron *k);
kl_status kl_host_kron_left(kl_exec *ex, const kl_kron *k, int adds, kl_dptr x, kl_dptr y,
                            kl_err *err) KL_MUST_CHECK;
kl_status kl_host_kron_beyond(kl_exec *ex, const kl_kron *k, const kl_kron_beyond *b, kl_dptr x, kl_dptr y,
                              kl_err *err) KL_MUST_CHECK;

#endif
