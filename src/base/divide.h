/* Eigenvalues of symmetric tridiagonal matrices, all matrices of a call on all threads, and those of their
   eigenvectors that are wanted. Divide and conquer (Cuppen, Numer. Math. 36, 177 (1981); Gu and Eisenstat,
   SIAM J. Matrix Anal. Appl. 16, 172 (1995)): a matrix is two halves and a change of rank one. LAPACK's stedc
   does a matrix on one thread and all of its vectors; here halves of halves are tasks, so are pieces of what
   joins them, and the last product, most of the work, is left until it is known which vectors are kept: of a
   truncation a half or fewer. A matrix that is a small part of all the work is one task.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DIVIDE_H
#define KL_DIVIDE_H
#include "base/base.h"

enum { KL_DIVIDE_WHOLE = 128 }; /* rows that stedc gets as a whole */

/* Eigenvector `order[s]` of the s-th value is, of the first `joined` ones, column by column of z[n][n]: the
   upper `half` rows are packed[half][count[0] + count[1]] times the column's first numbers, the rows below
   the rest of packed, [n - half][count[1] + count[2]], times its numbers from count[0] on. The others stand
   in z. */
typedef struct kl_divided {
    int n;
    double *w; /* [n] ascending */
    int *order;
    double *z, *packed; /* packed: NULL where nothing was joined */
    int half, joined, count[3];
} kl_divided;

/* Matrix i has d[i][n[i]] on its diagonal and e[i][n[i] - 1] on the next one, which are only read; out[nmat],
   whose contents are taken for garbage. KL_EINPUT: something is not finite; KL_ENOCONV: no method of LAPACK
   found the values; out is cleared then. Vectors are orthogonal, and values right, to rounding of the
   largest, as stedc's. */
kl_status kl_divide(int nthread, int nmat, const int *n, const double *const *d, const double *const *e,
                    kl_divided *out, kl_err *err) KL_MUST_CHECK;

/* Their values alone, those of all matrices behind each other in w. Of vectors the joins ask for the first
   and the last row of each half, so that nothing is multiplied. */
kl_status kl_divide_values(int nthread, int nmat, const int *n, const double *const *d,
                           const double *const *e, double *w, kl_err *err) KL_MUST_CHECK;

/* Eigenvectors [first, first + count) of m into the columns of z[count][n]. Threads may ask for columns of
   one matrix at a time. */
void kl_divided_columns(const kl_divided *m, int first, int count, double *z);

void kl_divided_clear(kl_divided *m);

#endif
