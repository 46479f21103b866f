/* The least eigenvectors of Gram matrices A^T A, and an orthonormal basis of all the others' images: what a
   truncation leaves out where it leaves out little, as one-site steps do, found without diagonalizing the
   rest. Inverse subspace iteration by Cholesky factors, all work with large matrices being lists of products.
   It wants a basis in which A^T A is about diagonal, as that of the sweep before is, for its first guess.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LEASTCOLUMNS_H
#define KL_LEASTCOLUMNS_H
#include "exec/exec.h"

typedef struct kl_least_part {
    int n; /* rows of the matrix */
    int64_t gram; /* where it lies, both triangles */
    /* found */
    int tried; /* eigenvectors looked for, the last few of them in vain; 0: leave this matrix to others */
    double *value; /* [tried] ascending: of the least; borrowed from kl_least */
    double trace; /* of the whole matrix */
    const double *all; /* [n] ascending, of whoever asked for them; NULL: not known */
    int64_t row; /* where its tridiagonal matrix begins, of whoever made one */
    int64_t t, w, small; /* where it has its matrices [n x n], [n x tried] and [tried x tried] */
    double shift;
} kl_least_part;

typedef struct kl_least {
    /* given; all borrowed */
    kl_exec *ex;
    int npart;
    kl_least_part *part;
    double stay; /* the share of all columns that is expected to stay; above 1: all */
    /* found */
    int64_t nt, nw, nsmall;
    kl_dptr t; /* [nt] T of each part, T^T A^T A T = 1 */
    kl_dptr p; /* [nt] work */
    kl_dptr w; /* [nw] columns whose combinations the vectors are */
    double *vec, *value; /* [nsmall] those combinations, and as many values, host */
} kl_least;

/* gram: on the executor. Deterministic: yes, on any number of threads. */
kl_status kl_least_find(kl_least *l, kl_dptr gram, kl_err *err) KL_MUST_CHECK;
/* Of how many columns a part may lose `drop` without a doubt about which ones. Pure. */
int kl_least_sure(int tried, int drop);
/* Columns Z [n x (n - drop[i])] of each part that was found and has to[i] >= 0, to `to[i]` of z: A Z is
   orthonormal but for rounding, and orthogonal to the images of the drop[i] least eigenvectors. Once only:
   what was found is gone then. */
kl_status kl_least_rest(kl_least *l, const int *drop, const int64_t *to, int64_t nz, kl_dptr z,
                        kl_err *err) KL_MUST_CHECK;
void kl_least_clear(kl_least *l);

#endif
