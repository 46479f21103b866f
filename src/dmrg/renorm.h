/* Transforms the operators of an enlarged block into the basis that a truncation keeps.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RENORM_H
#define KL_RENORM_H
#include "dmrg/block.h"
#include "dmrg/state.h"

/* *out: the block of one more site, whose operators are O^T A O for every operator A of the enlarged block
   `grown`. O is the isometry `iso`; iso_data: its matrices on the executor. */
kl_status kl_block_grow(kl_exec *ex, const kl_bigop *grown, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err) KL_MUST_CHECK;
/* The same where a block of the same operators is there whose states are the first of iso's in each of its
   sectors: what it has between sectors of `least` states and more is copied. known may be NULL. */
kl_status kl_block_grow_on(kl_exec *ex, const kl_bigop *grown, const kl_isometry *iso, kl_dptr iso_data,
                           const kl_block *known, int least, kl_block **out, kl_err *err) KL_MUST_CHECK;

#endif
