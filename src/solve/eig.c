/* The call in front of the eigensolvers: arguments checked once, the clock read once.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/eig.h"
#include "solve/davidson.h"
#include "solve/lanczos.h"
#include "base/prof.h"

int64_t kl_eig_work_doubles(const kl_eig_opts *opts, int64_t n)
{
    const int columns =
        opts->solver == KL_SOLVER_LANCZOS ? kl_lanczos_columns(opts, n) : kl_davidson_columns(opts, n);
    return columns * kl_eig_stride(n);
}

kl_status kl_eig_solve(const kl_linop *h, const kl_eig_opts *opts, kl_dptr x, int64_t ldx, double *energy,
                       double *residual, kl_eig_stats *stats, kl_err *err)
{
    const int64_t start = kl_prof_clock();
    *stats = (kl_eig_stats){0};
    if (kl_linop_all(h) < 1)
        return kl_fail(err, KL_EINPUT, "eigensolver: a matrix of %lld rows; at least 1 is needed",
                       (long long)kl_linop_all(h));
    if (opts->nroot < 1 || opts->nroot > kl_linop_all(h))
        return kl_fail(err, KL_EINPUT,
                       "eigensolver: %d roots of a matrix of %lld rows; 1 to %lld are allowed", opts->nroot,
                       (long long)kl_linop_all(h), (long long)kl_linop_all(h));
    if (opts->max_basis != 0 && opts->max_basis < opts->nroot + 2)
        return kl_fail(err, KL_EINPUT,
                       "eigensolver: a basis of %d vectors for %d roots; at least %d are needed (0: chosen "
                       "by the program)",
                       opts->max_basis, opts->nroot, opts->nroot + 2);
    if (!(opts->tol >= 0.0) || !(opts->tol_rel >= 0.0))
        return kl_fail(err, KL_EINPUT, "eigensolver: tolerances %g and %g; 0 or more are allowed", opts->tol,
                       opts->tol_rel);
    const kl_status st = opts->solver == KL_SOLVER_LANCZOS
                             ? kl_lanczos_solve(h, opts, x, ldx, energy, residual, stats, err)
                             : kl_davidson_solve(h, opts, x, ldx, energy, residual, stats, err);
    stats->seconds_all = 1e-9 * (double)(kl_prof_clock() - start);
    return st;
}
