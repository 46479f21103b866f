/* Sums of operator strings as Kronecker products on the halves of a system.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRONSUM_H
#define KL_KRONSUM_H
#include "ed/bipartition.h"
#include "exec/kron.h"

/* The sum of a term list, or of its terms [from, to); charges must be conserved, symmetry is not needed. */
kl_status kl_kron_compile(const kl_bipartition *h, const kl_terms *terms, int64_t from, int64_t to,
                          kl_kron **out, kl_err *err) KL_MUST_CHECK;

#endif
