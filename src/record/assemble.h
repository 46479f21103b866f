/* The matrix that a record list multiplies by, assembled as CSR: what lists are there to avoid, for
   comparison.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ASSEMBLE_H
#define KL_ASSEMBLE_H
#include "record/record.h"
#include "sparse/spmat.h"

/* Elements of the matrix at most: of each block of y with each block of x, counted once for each
   intermediate. Negative: a list that is none of y = sum A x B. */
double kl_assemble_elements(const kl_batch *b);
/* base[]: where operands lie, on the host. EINPUT: a list of another kind, or a matrix that CSR cannot
   count. */
kl_status kl_assemble(const kl_batch *b, const double *const base[KL_NAT], kl_spmat **out,
                      kl_err *err) KL_MUST_CHECK;

#endif
