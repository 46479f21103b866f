/* Eigenvectors, singular vectors and orthonormal columns of small matrices. Thousands of calls a second on 5
   to 100 rows are the usual case: Fortran LAPACK with work space from a pool, its size by formula and not by
   a query, closed forms for one and two rows.

   Eigenvectors, microseconds on one core (EPYC 9004, LAPACK 3.11 over BLIS 0.9):
     n        4     6    10    20    40    80    160     320
     syevd   1.8   4.0   8.5    33   131   476   1980    9250     taken beyond 80 rows
     syev    1.7   3.8   8.4    32   146   732   4550   29700
     syevr   3.1   5.5  11.8    37   154   505   2130    9880
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "base/blas.h"
#include "base/gemm.h"
#include "base/mem.h"
#include "base/smalleig.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <lapack.h>

_Static_assert((int)KL_DENSE_SMALL == KL_SMALL_EIG && (int)KL_DENSE_FEW == KL_SMALL_EIG_TOGETHER,
               "what smalleig.c can do");

enum {
    POOL = 64,  /* spaces kept; a thread beyond them allocates for its call */
    BLOCK = 64, /* no blocked routine of LAPACK uses wider panels than this */
};

typedef struct space {
    double *work;
    int *iwork;
    int64_t nwork, niwork;
} space;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static space pool[POOL];
static int npool;

static void space_free(space *s)
{
    kl_free(&s->work);
    kl_free(&s->iwork);
    s->nwork = s->niwork = 0;
}

static void space_give(space *s)
{
    pthread_mutex_lock(&pool_lock);
    const int kept = npool < POOL;
    if (kept) pool[npool++] = *s;
    pthread_mutex_unlock(&pool_lock);
    if (!kept) space_free(s);
}

/* Grown by doubling, so that slowly growing matrices do not reallocate each time. */
static kl_status space_take(int64_t nwork, int64_t niwork, space *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_blas_init();
    *s = (space){0};
    pthread_mutex_lock(&pool_lock);
    if (npool > 0) *s = pool[--npool];
    pthread_mutex_unlock(&pool_lock);
    if (s->nwork < nwork) {
        const int64_t want = nwork > 2 * s->nwork ? nwork : 2 * s->nwork;
        kl_free(&s->work);
        s->nwork = 0;
        KL_TRY(kl_alloc(&s->work, want, KL_MEM_WORK, err));
        s->nwork = want;
    }
    if (s->niwork < niwork) {
        const int64_t want = niwork > 2 * s->niwork ? niwork : 2 * s->niwork;
        kl_free(&s->iwork);
        s->niwork = 0;
        KL_TRY(kl_alloc(&s->iwork, want, KL_MEM_WORK, err));
        s->niwork = want;
    }
out:
    if (st != KL_OK) space_give(s);
    return st;
}

void kl_dense_release(void)
{
    pthread_mutex_lock(&pool_lock);
    while (npool > 0) space_free(&pool[--npool]);
    pthread_mutex_unlock(&pool_lock);
}

/* 0 * x summed is 0 for finite x and NaN otherwise, and vectorizes. */
static int finite_columns(int m, int n, const double *a, int lda)
{
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        const double *const column = a + j * lda;
        double part = 0.0;
#pragma omp simd reduction(+ : part)
        for (int i = 0; i < m; i++) part += 0.0 * column[i];
        sum += part;
    }
    return sum == 0.0;
}

/* Names the first bad element; only of the lower triangle when `lower` is set. */
static kl_status refuse_not_finite(const char *what, int m, int n, const double *a, int lda, int lower,
                                   kl_err *err)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = lower ? j : 0; i < m; i++)
            if (!isfinite(a[i + j * lda]))
                return kl_fail(
                    err, KL_EINPUT,
                    "%s: element (%lld,%lld) of a %d x %d matrix is %g; every element must be finite", what,
                    (long long)i, (long long)j, m, n, a[i + j * lda]);
    return KL_OK;
}

static int finite_lower(int n, const double *a, int lda)
{
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        const double *const column = a + j * lda;
        double part = 0.0;
#pragma omp simd reduction(+ : part)
        for (int i = (int)j; i < n; i++) part += 0.0 * column[i];
        sum += part;
    }
    return sum == 0.0;
}

/* One Jacobi rotation is exact for two rows, and accurate where the formula with the square root of a sum
   cancels. */
static void eig_two(double *a, int lda, double *w)
{
    const double p = a[0], q = a[1], r = a[lda + 1];
    double t = 0.0;
    if (q != 0.0) {
        const double half = 0.5 * r - 0.5 * p;
        t = q / (half + copysign(hypot(half, q), half)); /* |t| <= 1 */
    }
    const double c = 1.0 / sqrt(1.0 + t * t), s = t * c;
    const double low = p - t * q, high = r + t * q; /* of (c, -s) and (s, c) */
    const int swap = low > high;
    w[0] = swap ? high : low;
    w[1] = swap ? low : high;
    a[0] = swap ? s : c;
    a[1] = swap ? c : -s;
    a[lda] = swap ? c : s;
    a[lda + 1] = swap ? -s : c;
}

/* By syevd, then syev, for three rows and more. */
static kl_status eig_lapack(int n, double *a, int lda, double *w, kl_err *err)
{
    kl_status st = KL_OK;
    space s;
    const int64_t size = n;
    const int64_t nwork_wanted = 1 + 6 * size + 2 * size * size, nwork_blocked = (BLOCK + 2) * size;
    const int64_t nwork = nwork_wanted > nwork_blocked ? nwork_wanted : nwork_blocked;
    const int64_t niwork = 3 + 5 * size;
    if (nwork > INT32_MAX)
        return kl_fail(
            err, KL_EINPUT,
            "eigenvectors: %d rows, more than the 32766 that LAPACK's work space can be counted for", n);
    KL_TRY(space_take(nwork + size * size, niwork, &s, err));
    /* A copy of the triangle, for the second method. */
    double *const copy = s.work + nwork;
    for (int64_t j = 0; j < n; j++)
        memcpy(copy + j * size + j, a + j * lda + j, (size_t)(size - j) * sizeof(double));
    const int lwork = (int)nwork, liwork = (int)niwork;
    int status;
    LAPACK_dsyevd("V", "L", &n, a, &lda, w, s.work, &lwork, s.iwork, &liwork, &status);
    int good = status == 0 && finite_columns(n, 1, w, n) && finite_columns(n, n, a, lda);
    if (!good) {
        for (int64_t j = 0; j < n; j++)
            memcpy(a + j * lda + j, copy + j * size + j, (size_t)(size - j) * sizeof(double));
        LAPACK_dsyev("V", "L", &n, a, &lda, w, s.work, &lwork, &status);
        good = status == 0 && finite_columns(n, 1, w, n) && finite_columns(n, n, a, lda);
    }
    space_give(&s);
    if (!good)
        st = kl_fail(err, KL_ENOCONV, "eigenvectors of %d rows: syevd and syev both failed (syev says %d)", n,
                     status);
out:
    return st;
}

kl_status kl_dense_eig(int n, double *a, int lda, double *w, kl_err *err)
{
    if (n < 0 || lda < (n > 1 ? n : 1))
        return kl_fail(err, KL_EINPUT,
                       "eigenvectors: %d rows with a leading dimension of %d; it must be at least the rows",
                       n, lda);
    if (n == 0) return KL_OK;
    if (!finite_lower(n, a, lda)) return refuse_not_finite("eigenvectors", n, n, a, lda, 1, err);
    if (n == 1) {
        w[0] = a[0];
        a[0] = 1.0;
        return KL_OK;
    }
    if (n == 2) {
        eig_two(a, lda, w);
        return KL_OK;
    }
    if (n > KL_SMALL_EIG) return eig_lapack(n, a, lda, w, err);
    kl_status st = KL_OK;
    space s;
    KL_TRY(space_take(kl_small_eig_work(n), 0, &s, err));
    kl_small_matrix m = {.n = n, .a = a, .lda = lda, .w = w, .work = s.work};
    kl_small_eig(1, &m);
    space_give(&s);
    if (!m.done) st = eig_lapack(n, a, lda, w, err);
out:
    return st;
}

kl_status kl_dense_eig_few(int count, const kl_dense_matrix *m, kl_err *err)
{
    kl_status st = KL_OK;
    kl_small_matrix small[KL_DENSE_FEW];
    space s;
    int64_t nwork = 0;
    int n = 0;
    for (int k = 0; k < count; k++) {
        if (m[k].n < 3 || m[k].n > KL_SMALL_EIG || !finite_lower(m[k].n, m[k].a, m[k].n)) {
            KL_TRY(kl_dense_eig(m[k].n, m[k].a, m[k].n > 1 ? m[k].n : 1, m[k].w, err));
            continue;
        }
        small[n++] = (kl_small_matrix){.n = m[k].n, .a = m[k].a, .lda = m[k].n, .w = m[k].w};
        nwork += kl_small_eig_work(m[k].n);
    }
    if (n == 0) goto out;
    KL_TRY(space_take(nwork, 0, &s, err));
    double *work = s.work;
    for (int k = 0; k < n; work += kl_small_eig_work(small[k++].n)) small[k].work = work;
    kl_small_eig(n, small);
    space_give(&s);
    for (int k = 0; k < n; k++)
        if (!small[k].done) KL_TRY(eig_lapack(small[k].n, small[k].a, small[k].lda, small[k].w, err));
out:
    return st;
}

static kl_status refuse_rows(int n, kl_err *err)
{
    return kl_fail(err, KL_EINPUT, "eigenvectors: %d rows, more than LAPACK's work space can be counted for",
                   n);
}

/* Reflection j, of rows j + 1 and on, as column j of V with its one and its zeros; and the factors of the
   panels. */
static void explicit_reflections(int n, double *a, int lda, const double *tau, double *t)
{
    const int P = KL_DENSE_PANEL;
    for (int first = 0; first < n - 1; first += P) {
        const int width = n - 1 - first < P ? n - 1 - first : P, rows = n - 1 - first;
        double *const v = a + first + 1 + (int64_t)first * lda, *const factor = t + (int64_t)first * P;
        for (int j = 0; j < width; j++) {
            for (int i = 0; i < j; i++) v[i + (int64_t)j * lda] = 0.0;
            v[j + (int64_t)j * lda] = 1.0;
        }
        LAPACK_dlarft("F", "C", &rows, &width, v, &lda, tau + first, factor, &P);
        for (int j = 0; j < width; j++)
            for (int i = j + 1; i < width; i++) factor[i + j * P] = 0.0;
    }
}

kl_status kl_dense_eig_tridiagonal(int n, const double *d, const double *e, double *w, double *z, int ldz,
                                   kl_err *err)
{
    kl_status st = KL_OK;
    space s;
    if (n < 1 || ldz < n)
        return kl_fail(err, KL_EINPUT,
                       "eigenvectors of a tridiagonal matrix of %d rows with a leading dimension of %d; at "
                       "least one row, and a leading dimension of at least the rows, are needed",
                       n, ldz);
    if (!finite_columns(n, 1, d, n))
        return refuse_not_finite("diagonal of a tridiagonal matrix", n, 1, d, n, 0, err);
    if (n > 1 && !finite_columns(n - 1, 1, e, n))
        return refuse_not_finite("off-diagonal elements", n - 1, 1, e, n, 0, err);
    const int64_t size = n, nwork = 1 + 4 * size + size * size, niwork = 3 + 5 * size;
    if (nwork > INT32_MAX) return refuse_rows(n, err);
    KL_TRY(space_take(nwork + size, niwork, &s, err));
    double *const copy = s.work + nwork;
    const int lwork = (int)nwork, liwork = (int)niwork;
    int good = 0, status = 0;
    for (int method = 0; method < 2 && !good; method++) {
        memcpy(w, d, (size_t)n * sizeof *w);
        memcpy(copy, e, (size_t)(n - 1) * sizeof *w);
        if (method == 0) LAPACK_dstedc("I", &n, w, copy, z, &ldz, s.work, &lwork, s.iwork, &liwork, &status);
        else LAPACK_dsteqr("I", &n, w, copy, z, &ldz, s.work, &status);
        good = status == 0 && finite_columns(n, 1, w, n) && finite_columns(n, n, z, ldz);
    }
    space_give(&s);
    if (!good)
        st = kl_fail(err, KL_ENOCONV, "eigenvectors of %d rows: stedc and steqr both failed (steqr says %d)",
                     n, status);
out:
    return st;
}

kl_status kl_dense_eig_reduce(int n, double *a, int lda, double *d, double *e, double *t, kl_err *err)
{
    if (n < 1 || lda < n)
        return kl_fail(err, KL_EINPUT,
                       "eigenvectors: %d rows with a leading dimension of %d; at least one row, and a "
                       "leading dimension of at least the rows, are needed",
                       n, lda);
    if (!finite_lower(n, a, lda)) return refuse_not_finite("eigenvectors", n, n, a, lda, 1, err);
    kl_status st = KL_OK;
    const int64_t size = n, nwork = BLOCK * size;
    if (nwork > INT32_MAX) return refuse_rows(n, err);
    space s;
    KL_TRY(space_take(nwork + size, 0, &s, err));
    double *const tau = s.work + nwork;
    const int lwork = (int)nwork;
    int status;
    LAPACK_dsytrd("L", &n, a, &lda, d, e, tau, s.work, &lwork, &status);
    if (status == 0) explicit_reflections(n, a, lda, tau, t);
    else st = kl_fail(err, KL_ENOCONV, "eigenvectors of %d rows: sytrd failed (%d)", n, status);
    space_give(&s);
out:
    return st;
}

kl_status kl_dense_eig_transform(int n, const double *a, int lda, const double *t, int count, double *z,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    const int P = KL_DENSE_PANEL;
    kl_gemm_fn *const gemm = kl_gemm_choose(NULL);
    space s;
    if (n < 2 || count < 1) return KL_OK;
    KL_TRY(space_take(2 * (int64_t)P * count, 0, &s, err));
    double *const along = s.work, *const turned = along + (int64_t)P * count;
    for (int first = (n - 2) / P * P; first >= 0; first -= P) { /* Q z: the last reflection comes first */
        const int width = n - 1 - first < P ? n - 1 - first : P, rows = n - 1 - first;
        const double *const v = a + first + 1 + (int64_t)first * lda;
        gemm(1, 0, width, count, rows, 1.0, v, lda, z + first + 1, n, 0.0, along, P);
        gemm(0, 0, width, count, width, 1.0, t + (int64_t)first * P, P, along, P, 0.0, turned, P);
        gemm(0, 0, rows, count, width, -1.0, v, lda, turned, P, 1.0, z + first + 1, n);
    }
    space_give(&s);
out:
    return st;
}

kl_status kl_dense_tridiagonal(int n, const double *d, const double *e, int first, int count, double *w,
                               double *v, int ldv, kl_err *err)
{
    if (n < 1 || first < 0 || count < 1 || first + count > n || (v && ldv < n))
        return kl_fail(err, KL_EINPUT,
                       "eigenvalues %d to %d of a tridiagonal matrix of %d rows, vectors %d apart; they have "
                       "to be among its rows",
                       first, first + count - 1, n, ldv);
    if (!finite_columns(n, 1, d, n))
        return refuse_not_finite("diagonal of a tridiagonal matrix", n, 1, d, n, 0, err);
    if (n > 1 && !finite_columns(n - 1, 1, e, n))
        return refuse_not_finite("off-diagonal elements", n - 1, 1, e, n, 0, err);
    kl_status st = KL_OK;
    space s;
    KL_TRY(space_take(8 * (int64_t)n, 6 * (int64_t)n, &s, err));
    /* stevx scales its input; and it writes n values, whatever their count */
    double *const copy = s.work, *const value = copy + 2 * n;
    memcpy(copy, d, (size_t)n * sizeof(double));
    if (n > 1) memcpy(copy + n, e, (size_t)(n - 1) * sizeof(double));
    const double none = 0.0, finest = 2.0 * DBL_MIN;
    const int low = first + 1, high = first + count, wide = v ? ldv : 1;
    int found = 0, status;
    LAPACK_dstevx(v ? "V" : "N", "I", &n, copy, copy + n, &none, &none, &low, &high, &finest, &found, value,
                  v, &wide, s.work + 3 * n, s.iwork, s.iwork + 5 * n, &status);
    const int good = status == 0 && found == count && finite_columns(count, 1, value, count) &&
                     (!v || finite_columns(n, count, v, ldv));
    if (good) memcpy(w, value, (size_t)count * sizeof(double));
    space_give(&s);
    if (!good)
        st = kl_fail(err, KL_ENOCONV, "eigenvalues of a tridiagonal matrix of %d rows: stevx failed (%d)", n,
                     status);
out:
    return st;
}

/* One column or one row: its norm and its direction. */
static void svd_vector(int length, const double *a, int stride, double *s, double *direction,
                       int64_t direction_stride, double *one)
{
    double largest = 0.0;
    for (int64_t i = 0; i < length; i++) largest = fmax(largest, fabs(a[i * stride]));
    double sum = 0.0;
    for (int64_t i = 0; i < length && largest > 0.0; i++)
        sum += (a[i * stride] / largest) * (a[i * stride] / largest);
    *s = largest * sqrt(sum);
    for (int64_t i = 0; i < length && direction; i++)
        direction[i * direction_stride] =
            largest > 0.0 ? a[i * stride] / largest / sqrt(sum) : (i == 0 ? 1.0 : 0.0);
    if (one) *one = 1.0;
}

kl_status kl_dense_svd(int m, int n, double *a, int lda, double *s, double *u, int ldu, double *vt, int ldvt,
                       kl_err *err)
{
    const int k = m < n ? m : n;
    if (m < 0 || n < 0 || lda < (m > 1 ? m : 1) || ldu < (u && m > 1 ? m : 1) || ldvt < (vt && k > 1 ? k : 1))
        return kl_fail(
            err, KL_EINPUT,
            "singular values: %d x %d with leading dimensions %d, %d, %d; at least %d, %d, %d are needed", m,
            n, lda, ldu, ldvt, m, m, k);
    if (k == 0) return KL_OK;
    if (!finite_columns(m, n, a, lda)) return refuse_not_finite("singular values", m, n, a, lda, 0, err);
    if (n == 1) {
        svd_vector(m, a, 1, s, u, 1, vt);
        return KL_OK;
    }
    if (m == 1) {
        svd_vector(n, a, lda, s, vt, ldvt, u);
        return KL_OK;
    }
    kl_status st = KL_OK;
    const int64_t size = k;
    /* The least that gesdd takes for 'S' is 4 k^2 + 7 k; panels of (m + n) BLOCK let it run blocked, and
       gesvd too. */
    const int64_t nwork = 4 * size * size + 7 * size + BLOCK * ((int64_t)m + n) + size * BLOCK;
    const int64_t niwork = 8 * size;
    if (nwork > INT32_MAX)
        return kl_fail(err, KL_EINPUT,
                       "singular values: %d x %d, more than LAPACK's work space can be counted for", m, n);
    space sp;
    KL_TRY(space_take(nwork + (int64_t)m * n, niwork, &sp, err));
    double *const copy = sp.work + nwork;
    for (int64_t j = 0; j < n; j++) memcpy(copy + j * m, a + j * lda, (size_t)m * sizeof(double));
    const int lwork = (int)nwork;
    const char *const job = u ? "S" : "N";
    int status;
    LAPACK_dgesdd(job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, sp.work, &lwork, sp.iwork, &status);
    int good = status == 0 && finite_columns(k, 1, s, k) &&
               (!u || (finite_columns(m, k, u, ldu) && finite_columns(k, n, vt, ldvt)));
    if (!good) {
        for (int64_t j = 0; j < n; j++) memcpy(a + j * lda, copy + j * m, (size_t)m * sizeof(double));
        LAPACK_dgesvd(job, job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, sp.work, &lwork, &status);
        good = status == 0 && finite_columns(k, 1, s, k) &&
               (!u || (finite_columns(m, k, u, ldu) && finite_columns(k, n, vt, ldvt)));
    }
    space_give(&sp);
    if (!good)
        st = kl_fail(err, KL_ENOCONV,
                     "singular values of %d x %d: gesdd and gesvd both failed (gesvd says %d)", m, n, status);
out:
    return st;
}

kl_status kl_dense_qr(int m, int n, double *a, int lda, double *r, int ldr, kl_err *err)
{
    if (m < n || n < 0 || lda < (m > 1 ? m : 1) || ldr < (r && n > 1 ? n : 0))
        return kl_fail(err, KL_EINPUT,
                       "orthonormal columns: %d x %d with leading dimensions of %d and %d; rows >= columns "
                       "and leading dimensions >= "
                       "rows and columns are needed",
                       m, n, lda, ldr);
    if (n == 0) return KL_OK;
    if (!finite_columns(m, n, a, lda)) return refuse_not_finite("orthonormal columns", m, n, a, lda, 0, err);
    kl_status st = KL_OK;
    const int64_t nwork = (int64_t)BLOCK * n;
    if (nwork > INT32_MAX)
        return kl_fail(err, KL_EINPUT,
                       "orthonormal columns: %d columns, more than LAPACK's work space can be counted for",
                       n);
    space s;
    KL_TRY(space_take(nwork + n, 0, &s, err));
    double *const tau = s.work + nwork;
    const int lwork = (int)nwork;
    int status;
    LAPACK_dgeqrf(&m, &n, a, &lda, tau, s.work, &lwork, &status);
    for (int64_t j = 0; j < n && r && status == 0; j++) {
        memcpy(r + j * ldr, a + j * lda, (size_t)(j + 1) * sizeof *r);
        memset(r + j * ldr + j + 1, 0, (size_t)(n - j - 1) * sizeof *r);
    }
    if (status == 0) LAPACK_dorgqr(&m, &n, &n, a, &lda, tau, s.work, &lwork, &status);
    const int good = status == 0 && finite_columns(m, n, a, lda);
    space_give(&s);
    if (!good)
        st = kl_fail(err, KL_ENOCONV, "orthonormal columns of %d x %d: geqrf or orgqr failed (%d)", m, n,
                     status);
out:
    return st;
}
