/* Small dense linear algebra on the host, column-major, by LAPACK.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DENSE_H
#define KL_DENSE_H
#include "base/base.h"

/* Every call checks that what goes in and what comes out is finite, and takes its work space from a pool that
   is kept between calls; many threads may call at once. Input that is not finite is KL_EINPUT, an iteration
   that fails by both methods KL_ENOCONV. */

/* a[n][lda] symmetric (lower triangle read) -> eigenvectors in its columns, w[n] ascending. smalleig.h; of
   more rows, or on failure, syevd, then syev. */
kl_status kl_dense_eig(int n, double *a, int lda, double *w, kl_err *err) KL_MUST_CHECK;

/* The same of count <= KL_DENSE_FEW matrices of KL_DENSE_SMALL rows at most, a[n][n], side by side: less time
   than one after the other, equal bits. */
enum {
    KL_DENSE_SMALL = 80,
    KL_DENSE_FEW = 4,
};
typedef struct kl_dense_matrix {
    int n;
    double *a, *w;
} kl_dense_matrix;
kl_status kl_dense_eig_few(int count, const kl_dense_matrix *m, kl_err *err) KL_MUST_CHECK;
/* Rows of eigenproblems, cubed, that are worth a thread: some 30 us, several times what waking one that waits
   takes. */
#define KL_DENSE_WORTH 2e4

/* The same in steps, where only some of the vectors are wanted and which ones is known when many matrices
   have been looked at: a third of the work and more is saved then. reduce: a[n][lda], n >= 1, becomes Q of
   the tridiagonal matrix Q^T a Q, which has d[n] on its diagonal and e[n - 1] on the next one: its n - 1
   reflections in the columns, KL_DENSE_PANEL at a time as I - V T V^T (Schreiber and Van Loan, SIAM J. Sci.
   Stat. Comput. 10, 53 (1989)), the factors T in t[KL_DENSE_PANEL * n]. sytrd. kl_divide (divide.h) finds
   that matrix' vectors. transform: any `count` of them, z[count][n], become eigenvectors of the matrix,
   Q z. a and t are only read: threads may transform vectors of one matrix at a time. */
enum { KL_DENSE_PANEL = 32 };
kl_status kl_dense_eig_reduce(int n, double *a, int lda, double *d, double *e, double *t,
                              kl_err *err) KL_MUST_CHECK;
kl_status kl_dense_eig_transform(int n, const double *a, int lda, const double *t, int count, double *z,
                                 kl_err *err) KL_MUST_CHECK;

/* Eigenvectors z[n][ldz] and values w[n], ascending, of the tridiagonal matrix with d[n] on its diagonal and
   e[n - 1] on the next one, on one thread. stedc, on failure steqr. */
kl_status kl_dense_eig_tridiagonal(int n, const double *d, const double *e, double *w, double *z, int ldz,
                                   kl_err *err) KL_MUST_CHECK;

/* Eigenvalues first .. first + count, ascending, of the symmetric tridiagonal matrix with d[n] on its
   diagonal and e[n - 1] on the next one, into w[count]; their vectors into the columns of v[ldv] unless NULL.
   Bisection and inverse iteration: work of order n for each, every value to rounding. */
kl_status kl_dense_tridiagonal(int n, const double *d, const double *e, int first, int count, double *w,
                               double *v, int ldv, kl_err *err) KL_MUST_CHECK;

/* a (m x n, destroyed) = u (m x k) diag(s) vt (k x n), k = min(m,n), s descending; u and vt NULL: the values
   alone, in a fraction of the time. gesdd, on failure gesvd. */
kl_status kl_dense_svd(int m, int n, double *a, int lda, double *s, double *u, int ldu, double *vt, int ldvt,
                       kl_err *err) KL_MUST_CHECK;

/* Orthonormalizes the columns of a (m x n, m >= n) in place by Householder QR; dependent columns become some
   orthonormal directions. r (n x n), unless NULL: the upper triangle that a was these columns times, zeros
   below it. */
kl_status kl_dense_qr(int m, int n, double *a, int lda, double *r, int ldr, kl_err *err) KL_MUST_CHECK;

/* Gives the pool of work space back; idle spaces only, so it is safe at any time. kl_exec_close does it
   too. */
void kl_dense_release(void);

#endif
