/* The leading left singular vectors of wavefunctions A with few columns, by way of A^T A: its eigenvectors Z,
   and then A Z, whose columns are orthogonal but for rounding. Products make them orthonormal (Newton and
   Schulz; Higham, Functions of Matrices (2008), 8.3), so that no matrix visits the host.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DUALCOLUMNS_H
#define KL_DUALCOLUMNS_H
#include "dmrg/rangefind.h"

/* Both do what kl_range_gram and kl_range_columns do, for the parts of mode KL_RANGE_DUAL. Deterministic:
   yes, on any number of threads. */
kl_status kl_dual_gram(const kl_range *r, int divisor, const int64_t *off, const int *sec, int64_t nto,
                       kl_dptr to, kl_err *err) KL_MUST_CHECK;
kl_status kl_dual_columns(kl_range *r, const kl_range_view *t, kl_dptr z, int64_t nz, int64_t ndata,
                          kl_dptr data, kl_err *err) KL_MUST_CHECK;

#endif
