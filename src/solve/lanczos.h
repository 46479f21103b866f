/* Thick-restart block Lanczos with full reorthogonalization: for operators without a useful diagonal.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LANCZOS_H
#define KL_LANCZOS_H
#include "solve/eigbase.h"

/* As kl_eig_solve, whose checks of the arguments are done. */
kl_status kl_lanczos_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx, double *energy,
                           double *residual, kl_eig_stats *stats, kl_err *err) KL_MUST_CHECK;

/* Columns of length n (as padded by the caller) that it allocates. */
int kl_lanczos_columns(const kl_eig_opts *opts, int64_t n);

#endif
