/* The eigensolver that the options name.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EIG_H
#define KL_EIG_H
#include "solve/eigbase.h"

/* In: x[nroot][ldx] start vectors (any scale; need not be orthogonal; a zero or dependent one is replaced by
   a random one), device. Out: x orthonormal Ritz vectors, energy[nroot] ascending, residual[nroot] |H x - E
   x|. Not converged is not an error: look at stats. */
kl_status kl_eig_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx, double *energy,
                       double *residual, kl_eig_stats *stats, kl_err *err) KL_MUST_CHECK;

/* Doubles that kl_eig_solve allocates on the executor for vectors of length n; for estimates made
   beforehand. */
int64_t kl_eig_work_doubles(const kl_eig_opts *opts, int64_t n);

#endif
