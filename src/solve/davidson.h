/* Block Davidson after Alg. 3 of Nemes et al., Comput. Phys. Commun. 185 (2014) 1570, with a bounded basis,
   thick restart, diagonal preconditioner (Olsen's correction) and several roots.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DAVIDSON_H
#define KL_DAVIDSON_H
#include "solve/eigbase.h"

/* As kl_eig_solve, whose checks of the arguments are done. */
kl_status kl_davidson_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx,
                            double *energy, double *residual, kl_eig_stats *stats, kl_err *err) KL_MUST_CHECK;

/* Columns of length n (as padded by the caller) that it allocates. */
int kl_davidson_columns(const kl_eig_opts *opts, int64_t n);
/* How many of these columns, and of the buffers for columns that come from the host, must be on a device that
   has no memory for all of them. */
int kl_davidson_least_columns(const kl_eig_opts *opts, int64_t n);

#endif
