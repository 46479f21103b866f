/* Random operands of what is timed, made by all threads: by one they take longer than the measurements.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPERANDS_H
#define KL_OPERANDS_H
#include "sparse/spmat.h"

void kl_operands_fill(int nthread, int64_t n, uint64_t seed, double *x);
/* n rows of `each` elements anywhere, at most 65536; n a multiple of each, or nearly. */
kl_status kl_operands_matrix(int nthread, int64_t n, int64_t each, kl_spmat **out, kl_err *err) KL_MUST_CHECK;

#endif
