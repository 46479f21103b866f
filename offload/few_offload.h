/* Fused steps of a few vectors, in registers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FEW_OFFLOAD_H
#define KL_FEW_OFFLOAD_H
#include "offload.h"

/* 1 where this is the way to go. */
int kl_offload_few_takes(const kl_offload *self, int64_t n, const kl_fuse *f);
void kl_offload_few(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots);

#endif
