/* Fewer, larger products from a record list (elwasif): all that is added to one output by second products Y
   += W_r B_r^T, over all terms k and all source sectors J, becomes one, [W_1 ... W_n] [B_1 ... B_n]^T. The
   W_r are written side by side; the B_r are copied side by side once, with their coefficients, which takes
   memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CONCAT_H
#define KL_CONCAT_H
#include "record/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *out does what `in` does, given that base[KL_AT_STACK] holds what *pack writes as its y (pack->ny doubles;
   it reads the operands of `in` and nothing of x). Both are closed; the caller clears both. What has no such
   form stays as it is. */
kl_status kl_concat(const kl_batch *in, kl_batch *out, kl_batch *pack, kl_err *err) KL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
