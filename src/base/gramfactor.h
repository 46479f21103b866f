/* Orthonormal columns by Gram matrices: the host's part, small matrices only. Whoever holds the long columns
   makes their Gram matrix and multiplies them by what comes out, so that all work with long columns is
   products. Cholesky QR in passes (Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, ETNA 44, 306 (2015)).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GRAMFACTOR_H
#define KL_GRAMFACTOR_H
#include "base/base.h"

/* How far the columns were from orthonormal. */
typedef struct kl_gram_found {
    double least; /* smallest squared distance of a column of norm 1 from the span of the columns before it */
    int nbad; /* columns nearer than KL_GRAM_RESOLVED: made orthogonal to the others, but not to each other */
    int ndead; /* columns that are zero, and stay so */
    int sorted; /* 1: columns were taken by their norms, the largest first; the matrices are no triangles */
} kl_gram_found;

#define KL_GRAM_RESOLVED 1e-10 /* squared distances below it are lost in the rounding of a Gram matrix */
#define KL_GRAM_DONE 0.25 /* columns that far apart are orthonormal to rounding after the pass */

/* g[n][n], column-major: the lower triangle of Y^T Y becomes the upper triangular T of one pass, zeros below,
   and Y T is nearer to orthonormal; once `least` is above KL_GRAM_DONE and no column is bad, it is
   orthonormal to rounding. r[n][n], unless NULL: the upper triangle that the new columns have to be
   multiplied by to give Y again. A small column in front of a far larger one goes behind it, or its rounding
   would be part of that; T and r are triangles in that order only. drop: 1 makes bad columns zero.
   work: 2 n^2 + 4 n numbers. nthread: for one large matrix; the bits do not depend on it. */
void kl_gram_factor(int nthread, int n, double *g, double *r, int drop, double *work, kl_gram_found *found);

/* Eigenvectors z[n][n] and values w[n] of R^T R, R as above, about ascending. Small values are as
   exact, relative to themselves, as those of a singular value decomposition of R: where values are below 1e-9
   of the largest, R times their vectors has a Gram matrix of its own. What is below 1e-22 of the largest is
   said to be 0. work: 3 n^2 numbers. */
kl_status kl_gram_graded(int n, const double *r, double *w, double *z, double *work,
                         kl_err *err) KL_MUST_CHECK;

#endif
