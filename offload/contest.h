/* What the offload executor's H v is compared with.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OFFLOAD_CONTEST_H
#define KL_OFFLOAD_CONTEST_H
#include "exec/baselines.h"
#include "exec/kron.h"
#include "offload.h"

/* kl_baselines.kron_contest; no library is asked. */
kl_status kl_offload_kron_contest(kl_exec *ex, const kl_kron *k, kl_kron_contest *out, kl_err *err);

#endif
