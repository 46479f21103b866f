/* V^T x for tall V.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_TALL_H
#define KL_CUDA_TALL_H
#include "exec/belt.h"
#include "../device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts V^T x; its nvec <= KL_RESULT numbers are in self->result when the stream is done. tree: sums of a
   block by a tree in shared memory, as nemes2014 has it, instead of shuffles; belt: columns of a pass, at
   most; 0: KL_BELT. */
void kl_cuda_dots_start(kl_cuda *self, int tree, int belt, int64_t n, int nvec, const double *v, int64_t ldv,
                        const double *x);
/* y = sum_j c[j] V_j + b y, then V^T y and y . y into self->result[nvec + 1], V being read once; 0 < nvec <
   KL_BELT, addresses even. */
void kl_cuda_combine_dots_start(const kl_cuda *self, int64_t n, int nvec, const double *v, int64_t ldv,
                                const double *c, double b, double *y);
/* Starts reading n numbers, for the time that takes. */
void kl_cuda_read_start(const kl_cuda *self, int64_t n, const double *p);
int kl_cuda_even(const void *a, const void *b, int64_t ld); /* 1: two numbers an access everywhere */
#ifdef __cplusplus
}
#endif
#endif
