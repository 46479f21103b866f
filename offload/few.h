/* Fused steps of a few vectors, in registers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FEW_OFFLOAD_H
#define KL_FEW_OFFLOAD_H
#include "exec/few.h"
#include "offload.h"

/* For bare regions, and what kl_few_takes says. */
void kl_offload_few(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots);

#endif
