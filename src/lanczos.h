/* Thick-restart block Lanczos with full reorthogonalization, behind kl_eig_solve: for operators without a useful diagonal.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LANCZOS_H
#define KL_LANCZOS_H
#include "davidson.h"

/* As kl_eig_solve, whose checks of the arguments are done. */
kl_status kl_lanczos_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx, double *energy, kl_eig_stats *stats,
                           kl_err *err) KL_MUST_CHECK;

/* Columns of length n (as padded by the caller) that it allocates. */
int kl_lanczos_columns(const kl_eig_opts *opts, int64_t n);

/* Distance of columns, at least n: 64-byte aligned, and no two neighbours at the same place of a cache. */
int64_t kl_eig_stride(int64_t n);

/* What rounding alone leaves of a residual, in units of the largest |H v| seen. */
#define KL_EIG_ROUNDING (4 * 2.220446049250313e-16)

enum {
    KL_EIG_GUARD_STEPS = 30,    /* products spent to see whether something lies below a start that was exact */
    KL_EIG_RECHECK_RESTARTS = 8 /* restarts after which a convergence by recurrences is confirmed by fresh products */
};

#endif
