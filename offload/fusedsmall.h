/* Fused steps of a few vectors, in registers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FUSEDSMALL_OFFLOAD_H
#define KL_FUSEDSMALL_OFFLOAD_H
#include "exec/fusedsmall.h"
#include "offload.h"

/* For bare regions, and what kl_fused_small_takes says. */
void kl_offload_fused_small(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots);

#endif
