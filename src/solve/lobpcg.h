/* LOBPCG after Yamada, Machida and Imamura 2020, for a block of vectors: one pass for all updates of a step
   and the inner products of the next.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LOBPCG_H
#define KL_LOBPCG_H
#include "solve/eigbase.h"

/* Vectors at most: a step is one pass over six columns for each of them, and this is what executors fuse. */
enum { KL_LOBPCG_MOST = 16 };

/* As kl_eig_solve with opts->nroot vectors, of which the first nwant have to converge; the others are guards,
   which keep a multiplet whole and speed up the rest. opts->max_basis and tol_rel are not used. h->diagonal,
   where there is one, preconditions. */
kl_status kl_lobpcg_solve(const kl_linop *h, const kl_eig_opts *opts, int nwant, kl_dptr x, int64_t ldx,
                          double *energy, double *residual, kl_eig_stats *stats, kl_err *err) KL_MUST_CHECK;

/* Columns of length n that it allocates. */
int kl_lobpcg_columns(int nroot);

#endif
