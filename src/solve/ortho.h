/* Orthonormal columns in an executor's memory: one more column against those before it, and random
   directions. Shared by the eigensolvers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ORTHO_H
#define KL_ORTHO_H
#include "solve/columns.h"
#include "solve/linop.h"

typedef struct kl_ortho {
    kl_columns c;
    double *scratch;  /* [columns + 1], host */
    const kl_linop *h; /* NULL, or who knows where states are */
    uint64_t random;  /* state of the random directions */
    /* NULL, or where kl_ortho_last adds its time up: [0] the first products with V, [1] all the rest */
    double *seconds;
} kl_ortho;

/* Orthonormalizes column k against the orthonormal columns 0..k-1. *left is the part of its norm that was
   left; 0 when nothing but rounding was, and then column k holds nothing of use. coef, if not NULL, [k+1]:
   the old column k is sum_j coef[j] V_j, new V_k included. */
kl_status kl_ortho_last(kl_ortho *o, int k, double *left, double *coef, kl_err *err) KL_MUST_CHECK;

/* Column k becomes a random direction of norm about 1 (not orthogonal to anything). */
kl_status kl_ortho_random(kl_ortho *o, int k, kl_err *err) KL_MUST_CHECK;

/* Column k becomes a random direction orthonormal to columns 0..k-1; k < n. */
kl_status kl_ortho_fresh(kl_ortho *o, int k, kl_err *err) KL_MUST_CHECK;

/* x = sum_j y[j] V_j over columns 0..k-1, scaled to norm 1 to the last bit that a division gives, so that
   callers may rely on it. x [n], device, outside V. */
kl_status kl_ortho_ritz(const kl_ortho *o, int k, const double *y, kl_dptr x, kl_err *err) KL_MUST_CHECK;

/* Column k. */
static inline kl_dptr kl_ortho_at(const kl_ortho *o, int k) { return kl_columns_at(&o->c, k); }

#endif
