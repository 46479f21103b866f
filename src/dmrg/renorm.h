/* The operators of an enlarged block in the basis that a truncation keeps.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RENORM_H
#define KL_RENORM_H
#include "dmrg/block.h"
#include "dmrg/state.h"

/* O^T (block (x) site) O for every operator of `grown`, as a block of one more site. iso_data: the matrices
   of the isometry O on the executor. */
kl_status kl_block_grow(kl_exec *ex, const kl_bigop *grown, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err) KL_MUST_CHECK;

#endif
