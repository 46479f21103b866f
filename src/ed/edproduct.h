/* Products of operators of sites on a state of exact diagonalization, whatever they are and however many:
   basis state by basis state, without tables. Correlations of operators that a model's tables have are faster
   by kl_ed_expect.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDPRODUCT_H
#define KL_EDPRODUCT_H
#include "ed/bipartition.h"

/* An operator at a position of DMRG. */
typedef struct kl_ed_factor {
    int pos;
    const double *a; /* [dim * dim] of the position's site type, column-major */
} kl_ed_factor;

/* *value = <x| f[0] f[1] ... f[n - 1] |x> / <x|x>, positions in any order, repeated or not; x[h->n] on the
   host. The same bits on any number of threads. */
kl_status kl_ed_product(const kl_bipartition *h, const double *x, int n, const kl_ed_factor *f, int nthread,
                        double *value, kl_err *err) KL_MUST_CHECK;

#endif
