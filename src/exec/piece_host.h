/* Pieces of vectors that lie in the first cache: what the host's loops over long vectors are made of. A pass
   over a piece reads four columns at most, so that hardware follows all of them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PIECE_HOST_H
#define KL_PIECE_HOST_H
#include <stdint.h>

/* y[n] = sum_j c[j] v_j + b y of k >= 0 columns v[k][n], ldv apart; b = 0 never reads y. */
void kl_piece_combine(int64_t n, int k, const double *c, const double *v, int64_t ldv, double b, double *y);
/* sum[k] += v_j . x */
void kl_piece_dots(int64_t n, int k, const double *v, int64_t ldv, const double *x, double *sum);
/* r -= theta x; returns r . r */
double kl_piece_residual(int64_t n, double theta, const double *x, double *r);
/* Of M = d - theta, which has no smaller absolute value than floor: t = (r - e x) / M, and sum[2] += what
   r . (x / M) and x . (x / M) are. t may be r or x. */
void kl_piece_correct(int64_t n, const double *d, double theta, double floor, const double *r, double e,
                      const double *x, double *t);
void kl_piece_correct_dots(int64_t n, const double *d, double theta, double floor, const double *r,
                           const double *x, double *sum);

#endif
