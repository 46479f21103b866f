/* Eigenvectors of small symmetric matrices, of 3 to KL_SMALL_EIG rows: half of LAPACK's time there, where
   most of it is calls and loops over strides.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SMALLEIG_H
#define KL_SMALLEIG_H
#include "base/base.h"

enum { KL_SMALL_EIG = 80 };

/* Doubles of work space, which has to be aligned to 64 bytes. */
int64_t kl_small_eig_work(int n);

/* a[n][lda], lower triangle read -> eigenvectors in its columns, w[n] ascending; everything in it is finite.
   0: it did not converge, or left the range of numbers; a is what it was. */
int kl_small_eig(int n, double *a, int lda, double *w, double *work);

#endif
