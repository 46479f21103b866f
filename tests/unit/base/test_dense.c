/* Eigenvectors, singular values and orthonormal columns: reconstruction, orthogonality, refusals, and the
   large product.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "base/blas.h"
#include "base/dense.h"
#include <omp.h>

static const double EPS = 2.220446049250313e-16;

/* Columns orthonormal to c eps n. */
static void check_columns(int m, int n, const double *a, int lda)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i <= j; i++) {
            double sum = 0.0;
            for (int k = 0; k < m; k++) sum += a[k + i * lda] * a[k + j * lda];
            expect_near(sum, i == j, 20 * EPS * (m + 5));
        }
}

enum { KINDS = 7 };

/* Kinds of symmetric matrices: random in three units, zero, a multiple of one, nearly diagonal with pairs
   that nearly coincide, and with weights that fall off as a wavefunction's do. The lower triangle of
   a[n][lda], whose upper one stays as it was, and all of whole[n][n]; returns their size. */
static double make_symmetric(int n, int kind, double *a, int lda, double *whole, uint64_t seed)
{
    const double scale = kind == 4 ? 1e150 : kind == 5 ? 1e-150 : 1.0;
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) {
            const double r = kl_test_uniform(&seed);
            const double v = kind == 1   ? 0.0
                             : kind == 2 ? (i == j ? 3.0 : 0.0)
                             : kind == 3 ? (i == j ? 1.0 + i % 2 : 1e-9 * r)
                             : kind == 6 ? exp(-0.1 * i) * exp(-0.1 * j) * r
                                         : scale * r;
            whole[i + j * n] = whole[j + i * n] = a[i + j * lda] = v;
        }
    return fmax(scale * 3.0 * sqrt(n), 1e-300);
}

/* Columns [from, to) of v are eigenvectors of whole, of this size, with the values w. */
static void check_vectors(int n, const double *whole, double norm, const double *w, const double *v, int ldv,
                          int from, int to)
{
    for (int k = from; k < to; k++)
        for (int i = 0; i < n; i++) {
            double sum = 0.0;
            for (int j = 0; j < n; j++) sum += whole[i + j * n] * v[j + (int64_t)k * ldv];
            expect_near(sum, w[k] * v[i + (int64_t)k * ldv], 20 * EPS * sqrt(n) * norm);
        }
}

static void test_eig(void **state)
{
    (void)state;
    static const int sizes[] = {0, 1, 2, 3, 4, 10, 16, 31, 33, 64, 80, 81, 130};
    for (size_t si = 0; si < sizeof(sizes) / sizeof(*sizes); si++)
        for (int kind = 0; kind < KINDS; kind++) {
            const int n = sizes[si], lda = n + 3;
            kl_test_case("n=%d kind=%d", n, kind);
            double *const a = kl_test_guarded((int64_t)lda * n), *const w = kl_test_guarded(n);
            double *const kept = calloc((size_t)n * n + 1, sizeof(double));
            const double norm = make_symmetric(n, kind, a, lda, kept, 5); /* the upper triangle stays NaN */
            kl_err err;
            expect_ok(kl_dense_eig(n, a, lda, w, &err), err);
            check_columns(n, n, a, lda);
            for (int k = 1; k < n; k++) expect_true(w[k] >= w[k - 1]);
            check_vectors(n, kept, norm, w, a, lda, 0, n);
            kl_test_guards_hold(a, (int64_t)lda * n);
            kl_test_guards_hold(w, n);
            kl_test_free(a);
            kl_test_free(w);
            free(kept);
        }
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* Whichever are done together, equal bits. */
static void test_eig_few(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 7, 8, 9, 17, 24, 40, 63, 79, 80, 5, 31, 30};
    enum { MOST = KL_DENSE_SMALL };
    const int nsize = (int)(sizeof sizes / sizeof *sizes);
    double *const room = calloc((size_t)KL_DENSE_FEW * MOST * MOST, sizeof(double)),
                  *const want = calloc((size_t)MOST * MOST, sizeof(double)),
                  *const kept = calloc((size_t)MOST * MOST, sizeof(double));
    for (int first = 0; first + KL_DENSE_FEW <= nsize; first++)
        for (int count = 1; count <= KL_DENSE_FEW; count++) {
            kl_dense_matrix m[KL_DENSE_FEW];
            double w[KL_DENSE_FEW][MOST], single[MOST];
            kl_err err;
            kl_test_case("%d from the %dth size on", count, first);
            for (int k = 0; k < count; k++) {
                const int n = sizes[first + k];
                m[k] = (kl_dense_matrix){n, room + (int64_t)k * MOST * MOST, w[k]};
                make_symmetric(n, (first + k) % KINDS, m[k].a, n, kept, 5);
            }
            expect_ok(kl_dense_eig_few(count, m, &err), err);
            for (int k = 0; k < count; k++) {
                const int n = m[k].n;
                make_symmetric(n, (first + k) % KINDS, want, n, kept, 5);
                expect_ok(kl_dense_eig(n, want, n, single, &err), err);
                expect_true(memcmp(single, m[k].w, sizeof(double) * (size_t)n) == 0);
                expect_true(memcmp(want, m[k].a, sizeof(double) * (size_t)n * (size_t)n) == 0);
            }
        }
    free(room);
    free(want);
    free(kept);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* In two steps: the same eigenvalues, and whichever columns are transformed, in pieces and by threads, are
   eigenvectors; the others are left as they were. */
static void test_eig_steps(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 10, 31, 32, 33, 34, 64, 65, 66, 130, 200};
    for (size_t si = 0; si < sizeof(sizes) / sizeof(*sizes); si++)
        for (int kind = 0; kind < KINDS; kind++) {
            const int n = sizes[si], lda = n + 3, P = KL_DENSE_PANEL;
            kl_test_case("n=%d kind=%d", n, kind);
            double *const a = kl_test_guarded((int64_t)lda * n), *const w = kl_test_guarded(n),
                          *const z = kl_test_guarded((int64_t)n * n),
                          *const t = kl_test_guarded((int64_t)P * n);
            double *const d = kl_test_guarded(n), *const e = kl_test_guarded(n);
            double *const kept = calloc((size_t)n * n, sizeof(double)),
                          *const whole = calloc((size_t)n * n, sizeof(double)),
                          *const want = calloc((size_t)n, sizeof(double));
            assert_non_null(kept);
            assert_non_null(whole);
            assert_non_null(want);
            const double norm = make_symmetric(n, kind, a, lda, kept, 7);
            memcpy(whole, kept, (size_t)n * (size_t)n * sizeof(double));
            kl_err err;
            expect_ok(kl_dense_eig(n, whole, n, want, &err), err);
            expect_ok(kl_dense_eig_reduce(n, a, lda, d, e, t, &err), err);
            expect_ok(kl_dense_eig_tridiagonal(n, d, e, w, z, n, &err), err);
            for (int k = 0; k < n; k++) expect_near(w[k], want[k], 20 * EPS * norm);
            check_columns(n, n, z, n);
            const int from = n / 3, last = n - (n > 40); /* one at the end stays */
            memcpy(whole, z, (size_t)n * (size_t)n * sizeof(double));
            int wrong = 0;
#pragma omp parallel for num_threads(3) schedule(dynamic, 1) reduction(+ : wrong)
            for (int k = from; k < last; k += 7)
                wrong += kl_dense_eig_transform(n, a, lda, t, last - k < 7 ? last - k : 7, z + (int64_t)k * n,
                                                NULL) != KL_OK;
            expect_eq(wrong, 0);
            expect_ok(kl_dense_eig_transform(n, a, lda, t, 0, z, &err), err);
            expect_eq(memcmp(z, whole, (size_t)from * (size_t)n * sizeof(double)), 0);
            expect_eq(memcmp(z + (int64_t)last * n, whole + (int64_t)last * n,
                             (size_t)(n - last) * (size_t)n * sizeof(double)),
                      0);
            check_columns(n, last - from, z + (int64_t)from * n, n);
            check_vectors(n, kept, norm, w, z, n, from, last);
            kl_test_guards_hold(a, (int64_t)lda * n);
            kl_test_guards_hold(w, n);
            kl_test_guards_hold(z, (int64_t)n * n);
            kl_test_guards_hold(t, (int64_t)P * n);
            kl_test_guards_hold(d, n);
            kl_test_guards_hold(e, n);
            kl_test_free(d);
            kl_test_free(e);
            kl_test_free(a);
            kl_test_free(w);
            kl_test_free(z);
            kl_test_free(t);
            free(kept);
            free(whole);
            free(want);
        }
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* Any stretch of the spectrum against that of the full matrix: random, uncoupled, all equal, pairs that
   nearly coincide, any unit. */
static void test_tridiagonal(void **state)
{
    (void)state;
    kl_err err;
    for (int n = 1; n <= 150; n = n < 6 ? n + 1 : 5 * n / 2)
        for (int kind = 0; kind < 6; kind++) {
            kl_test_case("n=%d kind=%d", n, kind);
            uint64_t seed = (uint64_t)(n + kind);
            const double scale = kind == 4 ? 1e100 : kind == 5 ? 1e-100 : 1.0;
            double *const d = calloc((size_t)n, sizeof *d), *const e = calloc((size_t)n, sizeof *e),
                          *const a = calloc((size_t)(n * n), sizeof *a),
                          *const w = calloc((size_t)n, sizeof *w);
            for (int i = 0; i < n; i++) {
                d[i] = kind == 2 ? 1.0 : kind == 3 ? fabs(i - 0.5 * (n - 1)) : scale * kl_test_uniform(&seed);
                e[i] = kind == 1   ? (i % 3 == 0) * 0.5
                       : kind == 2 ? 0.0
                       : kind == 3 ? 1.0
                                   : scale * kl_test_uniform(&seed);
                a[i + i * n] = d[i];
                if (i + 1 < n) a[i + 1 + i * n] = e[i];
            }
            expect_ok(kl_dense_eig(n, a, n, w, &err), err);
            const double most = fmax(fabs(w[0]), fabs(w[n - 1]));
            for (int first = 0; first < n; first += 1 + n / 3)
                for (int count = 1; first + count <= n && count <= 4; count++) {
                    const int ldv = n + 2;
                    double got[4], again[4], *const v = kl_test_guarded((int64_t)ldv * count);
                    expect_ok(kl_dense_tridiagonal(n, d, e, first, count, got, v, ldv, &err), err);
                    expect_ok(kl_dense_tridiagonal(n, d, e, first, count, again, NULL, 0, &err), err);
                    check_columns(n, count, v, ldv);
                    for (int k = 0; k < count; k++) {
                        expect_near(got[k], w[first + k], 20 * EPS * n * most);
                        expect_near(again[k], w[first + k], 20 * EPS * n * most);
                        for (int i = 0; i < n; i++) {
                            const double *const x = v + k * ldv;
                            const double hx = d[i] * x[i] + (i > 0 ? e[i - 1] * x[i - 1] : 0.0) +
                                              (i + 1 < n ? e[i] * x[i + 1] : 0.0);
                            expect_near(hx, got[k] * x[i], 40 * EPS * n * most);
                        }
                    }
                    kl_test_guards_hold(v, (int64_t)ldv * count);
                    kl_test_free(v);
                }
            free(d), free(e), free(a), free(w);
        }
    double one[2] = {1.0, (double)NAN}, w;
    expect_refused(kl_dense_tridiagonal(2, one, one, 0, 1, &w, NULL, 0, &err), KL_EINPUT, err, "nan");
    expect_refused(kl_dense_tridiagonal(1, one, NULL, 0, 2, &w, NULL, 0, &err), KL_EINPUT, err, "0 to 1");
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* Two rows, against the exact answer where a formula would cancel. */
static void test_eig_two(void **state)
{
    (void)state;
    double a[4] = {1.0, 1e-10, NAN, 1.0 + 1e-10}, w[2];
    kl_err err;
    expect_ok(kl_dense_eig(2, a, 2, w, &err), err);
    expect_near(w[1] - w[0], sqrt(5.0) * 1e-10, 4e-16);
    double b[4] = {2.0, 0.0, NAN, -1.0};
    expect_ok(kl_dense_eig(2, b, 2, w, &err), err);
    expect_near(w[0], -1.0, 0.0);
    expect_near(fabs(b[1]), 1.0, 0.0);
    double c[4] = {0.0, -3.0, NAN, 0.0};
    expect_ok(kl_dense_eig(2, c, 2, w, &err), err);
    expect_near(w[0], -3.0, 1e-15);
    expect_near(c[0] * c[1], 0.5, 1e-15);
}

static void test_svd(void **state)
{
    (void)state;
    static const int shapes[][2] = {{0, 3}, {1, 1},   {1, 5},   {6, 1},    {2, 2},
                                    {3, 7}, {33, 31}, {20, 90}, {100, 12}, {64, 64}};
    for (size_t si = 0; si < sizeof(shapes) / sizeof(*shapes); si++)
        for (int kind = 0; kind < 4; kind++) {
            const int m = shapes[si][0], n = shapes[si][1], k = m < n ? m : n, lda = m + 2, ldu = m + 1,
                      ldvt = k + 1;
            kl_test_case("m=%d n=%d kind=%d", m, n, kind);
            uint64_t seed = 9;
            double *const a = kl_test_guarded((int64_t)lda * n), *const u = kl_test_guarded((int64_t)ldu * k),
                          *const vt = kl_test_guarded((int64_t)ldvt * n);
            double *const s = kl_test_guarded(k), *const alone = kl_test_guarded(k),
                          *const kept = calloc((size_t)m * n + 1, sizeof(double));
            for (int j = 0; j < n; j++)
                for (int i = 0; i < m; i++) {
                    const double r = kl_test_uniform(&seed);
                    kept[i + j * m] = a[i + j * lda] = kind == 1   ? 0.0
                                                       : kind == 2 ? 1.0
                                                       : kind == 3 ? (i == j ? pow(10.0, -i) : 0.0)
                                                                   : r;
                }
            kl_err err;
            expect_ok(kl_dense_svd(m, n, a, lda, s, u, ldu, vt, ldvt, &err), err);
            check_columns(m, k, u, ldu);
            for (int i = 0; i < k; i++) {
                if (i > 0) expect_true(s[i] <= s[i - 1]);
                expect_true(s[i] >= 0.0);
                for (int q = 0; q <= i; q++) {
                    double sum = 0.0;
                    for (int j = 0; j < n; j++) sum += vt[i + j * ldvt] * vt[q + j * ldvt];
                    expect_near(sum, i == q, 20 * EPS * (n + 5));
                }
            }
            for (int j = 0; j < n; j++)
                for (int i = 0; i < m; i++) {
                    double sum = 0.0;
                    for (int q = 0; q < k; q++) sum += u[i + q * ldu] * s[q] * vt[q + j * ldvt];
                    expect_near(sum, kept[i + j * m], 20 * EPS * sqrt((double)m * n + 10.0) * 2.0);
                }
            /* Small singular values keep their absolute accuracy: a density matrix would have lost those
               below 1e-8. */
            if (kind == 3)
                for (int i = 0; i < k; i++) expect_near(s[i], pow(10.0, -i), 4 * EPS);
            kl_test_guards_hold(a, (int64_t)lda * n);
            kl_test_guards_hold(u, (int64_t)ldu * k);
            kl_test_guards_hold(vt, (int64_t)ldvt * n);
            kl_test_guards_hold(s, k);
            for (int j = 0; j < n; j++) memcpy(a + j * lda, kept + j * m, (size_t)m * sizeof *a);
            expect_ok(kl_dense_svd(m, n, a, lda, alone, NULL, 1, NULL, 1, &err), err);
            for (int i = 0; i < k; i++) expect_near(alone[i], s[i], 20 * EPS * sqrt((double)m * n + 10.0));
            kl_test_guards_hold(a, (int64_t)lda * n);
            kl_test_guards_hold(alone, k);
            kl_test_free(a);
            kl_test_free(u);
            kl_test_free(vt);
            kl_test_free(s);
            kl_test_free(alone);
            free(kept);
        }
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

static void test_qr(void **state)
{
    (void)state;
    static const int shapes[][2] = {{3, 0}, {1, 1}, {7, 7}, {33, 5}, {200, 40}};
    for (size_t si = 0; si < sizeof(shapes) / sizeof(*shapes); si++)
        for (int dependent = 0; dependent < 2; dependent++) {
            const int m = shapes[si][0], n = shapes[si][1], lda = m + 1, ldr = n + 2;
            kl_test_case("m=%d n=%d dependent=%d", m, n, dependent);
            uint64_t seed = 2;
            double *const a = kl_test_guarded((int64_t)lda * n);
            double *const r = kl_test_guarded((int64_t)ldr * n), *const kept = calloc((size_t)m * n + 1,
                                                                                      sizeof(double));
            for (int j = 0; j < n; j++)
                for (int i = 0; i < m; i++)
                    a[i + j * lda] = dependent && j > 0 ? a[i] : kl_test_uniform(&seed);
            for (int j = 0; j < n; j++) memcpy(kept + j * m, a + j * lda, (size_t)m * sizeof *a);
            kl_err err;
            expect_ok(kl_dense_qr(m, n, a, lda, r, ldr, &err), err);
            check_columns(m, n, a, lda);
            for (int j = 0; j < n; j++)
                for (int i = 0; i < m; i++) {
                    double sum = 0.0;
                    for (int l = 0; l < n; l++) sum += a[i + l * lda] * r[l + j * ldr];
                    expect_near(sum, kept[i + j * m], 20 * EPS * sqrt((double)m * n + 10.0));
                    if (i < n && i > j) expect_true(r[i + j * ldr] == 0.0);
                }
            if (n > 0) { /* the first column keeps its direction */
                double dot = 0.0, square = 0.0;
                for (int i = 0; i < m; i++) {
                    dot += kept[i] * a[i];
                    square += kept[i] * kept[i];
                }
                expect_near(fabs(dot), sqrt(square), 1e-13);
            }
            kl_test_guards_hold(a, (int64_t)lda * n);
            kl_test_guards_hold(r, (int64_t)ldr * n);
            for (int j = 0; j < n; j++) memcpy(a + j * lda, kept + j * m, (size_t)m * sizeof *a);
            expect_ok(kl_dense_qr(m, n, a, lda, NULL, 0, &err), err);
            check_columns(m, n, a, lda);
            kl_test_free(a);
            kl_test_free(r);
            free(kept);
        }
    kl_dense_release();
}

static void test_refusals(void **state)
{
    (void)state;
    enum { MANY = 90 }; /* rows that LAPACK takes */
    static double many[MANY * MANY], values[MANY];
    double a[9] = {1, 2, 3, 2, NAN, 4, 3, 4, 5}, w[3], u[9], vt[9], t[3 * KL_DENSE_PANEL];
    kl_err err;
    expect_refused(kl_dense_eig(3, a, 3, w, &err), KL_EINPUT, err, "element (1,1)");
    expect_refused(kl_dense_svd(3, 3, a, 3, w, u, 3, vt, 3, &err), KL_EINPUT, err, "element (1,1)");
    expect_refused(kl_dense_qr(3, 3, a, 3, NULL, 0, &err), KL_EINPUT, err, "finite");
    a[4] = INFINITY;
    expect_refused(kl_dense_eig(3, a, 3, w, &err), KL_EINPUT, err, "inf");
    expect_refused(kl_dense_eig(3, a, 2, w, &err), KL_EINPUT, err, "leading dimension");
    expect_refused(kl_dense_eig_reduce(3, a, 3, w, u, t, &err), KL_EINPUT, err, "inf");
    expect_refused(kl_dense_eig_reduce(3, a, 2, w, u, t, &err), KL_EINPUT, err, "leading dimension");
    expect_refused(kl_dense_eig_reduce(0, a, 3, w, u, t, &err), KL_EINPUT, err, "at least one row");
    expect_refused(kl_dense_eig_tridiagonal(3, a + 5, a + 2, w, vt, 2, &err), KL_EINPUT, err,
                   "leading dimension");
    expect_refused(kl_dense_qr(2, 3, a, 3, NULL, 0, &err), KL_EINPUT, err, "rows >= columns");
    expect_refused(kl_dense_qr(3, 3, a, 3, w, 2, &err), KL_EINPUT, err, "3 and 2");
    a[4] = 1.0;
    for (int64_t k = 1; k <= 2; k++) {
        kl_dense_release();
        kl_mem_fail_after(k);
        expect_eq(k == 1 ? kl_dense_eig(3, a, 3, w, &err) : kl_dense_eig(MANY, many, MANY, values, &err),
                  KL_ENOMEM);
        kl_mem_fail_after(0);
        kl_dense_release();
        kl_mem_fail_after(k);
        if (k == 1) expect_eq(kl_dense_eig_reduce(3, a, 3, w, u, t, &err), KL_ENOMEM);
        else expect_eq(kl_dense_eig_tridiagonal(3, a, u, w, vt, 3, &err), KL_ENOMEM);
        kl_mem_fail_after(0);
    }
    expect_ok(kl_dense_eig(3, a, 3, w, &err), err);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

static void test_threads(void **state)
{
    (void)state;
    int wrong = 0;
#pragma omp parallel for num_threads(4) reduction(+ : wrong)
    for (int t = 0; t < 400; t++) {
        const int n = 3 + t % 40;
        double a[43 * 43], w[43];
        for (int i = 0; i < n * n; i++) a[i] = i % (n + 1) == 0 ? i / (n + 1) : 0.0;
        if (kl_dense_eig(n, a, n, w, NULL) != KL_OK) wrong++;
        for (int i = 0; i < n; i++) wrong += fabs(w[i] - i) > 1e-13;
    }
    expect_eq(wrong, 0);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* trap: BLIS has hung where regions of OpenMP were nested, and a threaded one gives other bits: here both
   levels call it at once. */
static void test_nested(void **state)
{
    enum {
        N = 150,
        OUTER = 2,
        INNER = 3,
    };
    (void)state;
    uint64_t seed = 5;
    double *const x = malloc(sizeof(double) * N * N * (2 + OUTER * INNER)), *const y = x + N * N,
                  *const z = y + N * N;
    assert_non_null(x);
    for (int i = 0; i < 2 * N * N; i++) x[i] = kl_test_uniform(&seed);
    const int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(OUTER)
    {
        const int outer = omp_get_thread_num();
#pragma omp parallel num_threads(INNER)
        for (int repeat = 0; repeat < 5; repeat++) {
            double *const c = z + (int64_t)(outer * INNER + omp_get_thread_num()) * N * N;
            kl_dgemm('N', 'T', N, N, N, 1.0, x, N, y, N, 0.0, c, N);
        }
    }
    omp_set_max_active_levels(levels);
    double *const one = malloc(sizeof(double) * N * N);
    assert_non_null(one);
    kl_dgemm('N', 'T', N, N, N, 1.0, x, N, y, N, 0.0, one, N);
    for (int t = 0; t < OUTER * INNER; t++)
        expect_eq(memcmp(one, z + (int64_t)t * N * N, sizeof(double) * N * N), 0);
    free(one);
    free(x);
}

static void test_product(void **state)
{
    (void)state;
    const kl_blas_info *const about = kl_blas_about();
    print_message("BLAS %s (%s, kernel %s) %s\nLAPACK %s\n", about->blas_path, about->blas_version,
                  about->kernel, about->steered, about->lapack_path);
    expect_true(strlen(about->blas_path) > 0 && strlen(about->lapack_path) > 0);
    for (int t = 0; t < 4; t++) {
        const int m = 37, n = 53, k = 41, ta = t & 1, tb = t >> 1, lda = (ta ? k : m) + 2,
                  ldb = (tb ? n : k) + 1, ldc = m + 3;
        uint64_t seed = 8;
        double a[60 * 60], b[60 * 60];
        for (int i = 0; i < 60 * 60; i++) {
            a[i] = kl_test_uniform(&seed);
            b[i] = kl_test_uniform(&seed);
        }
        double *const c = kl_test_guarded((int64_t)ldc * n);
        kl_dgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.5, a, lda, b, ldb, 0.0, c, ldc);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0.0;
                for (int q = 0; q < k; q++)
                    sum += a[ta ? q + i * lda : i + q * lda] * b[tb ? j + q * ldb : q + j * ldb];
                expect_near(c[i + j * ldc], 1.5 * sum, 10 * EPS * k);
            }
        kl_test_guards_hold(c, (int64_t)ldc * n);
        kl_test_free(c);
    }
    expect_true(kl_blas_measure(64) > 0.0);
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eig),         cmocka_unit_test(test_eig_steps), cmocka_unit_test(test_eig_two),
        cmocka_unit_test(test_tridiagonal), cmocka_unit_test(test_svd),       cmocka_unit_test(test_qr),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_threads),   cmocka_unit_test(test_nested),
        cmocka_unit_test(test_product),     cmocka_unit_test(test_eig_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
