/* Eigenvectors of small symmetric matrices, of 3 to KL_SMALL_EIG rows: half of LAPACK's time there, where
   most of it is calls and loops over strides.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SMALLEIG_H
#define KL_SMALLEIG_H
#include "base/base.h"

enum {
    KL_SMALL_EIG = 80,
    KL_SMALL_EIG_TOGETHER = 4, /* matrices that are done side by side, in little more time than one */
};

/* Doubles of work space, which has to be aligned to 64 bytes. */
int64_t kl_small_eig_work(int n);

/* a[n][lda], lower triangle read -> eigenvectors in its columns, w[n] ascending; everything in it is finite.
   done: 0: it did not converge, or left the range of numbers; a is what it was. */
typedef struct kl_small_matrix {
    int n;
    double *a;
    int lda;
    double *w, *work;
    int done;
} kl_small_matrix;

/* count <= KL_SMALL_EIG_TOGETHER; best of about one size. What comes out does not depend on which matrices
   are done together. */
void kl_small_eig(int count, kl_small_matrix *a);

#endif
