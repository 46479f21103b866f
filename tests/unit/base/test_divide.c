/* Tridiagonal matrices by divide and conquer: vectors and values of every kind of matrix that is joined, that
   is not, and that is left to another method; refusals, threads, no memory.
   SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "kl_test.h"
#include "base/blas.h"
#include "base/dense.h"
#include "base/divide.h"
#include <dlfcn.h>

static const double EPS = 2.220446049250313e-16;

static _Atomic int64_t roots_found;
static int64_t root_that_fails; /* 0: none */

/* LAPACK's, which fails where a test wants it to. */
void dlaed4_(const int *n, const int *i, const double *d, const double *z, double *delta, const double *rho,
             double *dlam, int *info);
void dlaed4_(const int *n, const int *i, const double *d, const double *z, double *delta, const double *rho,
             double *dlam, int *info)
{
    void (*real)(const int *, const int *, const double *, const double *, double *, const double *, double *,
                 int *);
    void *const found = dlsym(RTLD_NEXT, "dlaed4_");
    memcpy(&real, &found, sizeof real);
    real(n, i, d, z, delta, rho, dlam, info);
    if (++roots_found == root_that_fails) *info = 1;
}

enum { KINDS = 12 };

static double make(int kind, int n, double *d, double *e)
{
    uint64_t seed = (uint64_t)(n + 31 * kind);
    double most = 0;
    for (int i = 0; i < n; i++) {
        const double x = kl_test_uniform(&seed), y = kl_test_uniform(&seed);
        d[i] = x, e[i] = y;
        if (kind == 1) d[i] = 2, e[i] = -1; /* the particle in a box: 2 - 2 cos(pi k / (n + 1)) */
        /* Wilkinson: pairs that agree to all digits */
        if (kind == 2) d[i] = fabs(i - 0.5 * (n - 1)), e[i] = 1;
        if (kind == 3) d[i] = e[i] = 0;
        if (kind == 4) d[i] = 3, e[i] = 0;
        /* parts that are not coupled, cut where they meet */
        if (kind == 5) e[i] = i == n / 2 - 1 || i % 7 == 3 ? 0 : y;
        if (kind == 6) d[i] *= 1e150, e[i] *= 1e150;
        if (kind == 7) d[i] *= 1e-150, e[i] *= 1e-150;
        /* weights that fall off, as a wavefunction's do */
        if (kind == 8) d[i] = exp(-0.1 * i) * fabs(x), e[i] = 0.3 * exp(-0.1 * i) * y;
        /* nothing in the lower half */
        if (kind == 9) d[i] = i < n / 2 ? x : 1e-30 * x, e[i] = i < n / 2 ? y : 1e-30 * y;
        if (kind == 10) e[i] = 1e-12 * y; /* halves that are hardly coupled */
        if (kind == 11) d[i] = 3, e[i] = i == n / 2 - 1; /* a single pair to be joined, whose values agree */
        most = fmax(most, fmax(fabs(d[i]), fabs(e[i])));
    }
    return most;
}

/* Vectors [first, first + count) are orthonormal, and eigenvectors with these values. */
static void check(int n, const double *d, const double *e, double most, const double *w, int first, int count,
                  const double *z)
{
    double *const g = calloc((size_t)count * (size_t)count + 1, sizeof *g);
    kl_dgemm('T', 'N', count, count, n, 1.0, z, n, z, n, 0.0, g, count);
    double orthogonal = 0, residual = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++) orthogonal = fmax(orthogonal, fabs(g[i + j * count] - (i == j)));
    for (int k = 0; k < count; k++)
        for (int i = 0; i < n; i++) {
            const double *const x = z + (int64_t)k * n;
            residual = fmax(residual, fabs(d[i] * x[i] + (i > 0 ? e[i - 1] * x[i - 1] : 0) +
                                           (i + 1 < n ? e[i] * x[i + 1] : 0) - w[first + k] * x[i]));
        }
    free(g);
    expect_near(orthogonal, 0, 20 * EPS * sqrt(n));
    expect_near(residual, 0, 20 * EPS * sqrt(n) * most);
}

static void test_kinds(void **state)
{
    (void)state;
    static const int size[] = {1, 2, 3, 50, 256, 257, 300, 531, 1030};
    enum { NSIZE = sizeof size / sizeof *size };
    const int sizes = KL_TEST_WATCHED ? NSIZE - 1 : NSIZE;
    for (int kind = 0; kind < KINDS; kind++) {
        double *d[NSIZE], *e[NSIZE], *w[NSIZE], most[NSIZE], values[2500], *value = values;
        const double *dd[NSIZE], *ee[NSIZE];
        kl_divided got[NSIZE], again[NSIZE];
        kl_err err;
        for (int i = 0; i < sizes; i++) {
            dd[i] = d[i] = kl_test_guarded(size[i]), ee[i] = e[i] = kl_test_guarded(size[i]);
            most[i] = make(kind, size[i], d[i], e[i]);
            e[i][size[i] - 1] = (double)NAN; /* is not read */
        }
        expect_ok(kl_divide(3, sizes, size, dd, ee, got, &err), err);
        expect_ok(kl_divide(1, sizes, size, dd, ee, again, &err), err);
        expect_ok(kl_divide_values(1 + kind % 3, sizes, size, dd, ee, values, &err), err);
        for (int i = 0; i < sizes; value += size[i++]) {
            const int n = size[i];
            kl_test_case("kind=%d n=%d", kind, n);
            expect_eq(got[i].n, n);
            /* and no root was left to another method */
            expect_eq(got[i].joined > 0,
                      n > KL_DIVIDE_WHOLE && (kind < 3 || kind > 5) && !(kind == 8 && n > 1000));
            /* nor is work done for values that agree: of 300, 27 differ at all */
            if (kind == 2 && n % 2 == 0) expect_true(got[i].joined <= 20);
            expect_eq(memcmp(got[i].w, again[i].w, (size_t)n * sizeof(double)), 0);
            double *const z = kl_test_guarded((int64_t)n * n), *const alone = calloc((size_t)n * (size_t)n,
                                                                                     sizeof *alone);
            kl_divided_columns(&again[i], 0, n, alone);
            kl_divided_columns(&got[i], 0, n, z);
            expect_eq(memcmp(z, alone, (size_t)n * (size_t)n * sizeof *z), 0);
            w[i] = calloc((size_t)n, sizeof *w[i]);
            expect_ok(kl_dense_eig_tridiagonal(n, d[i], e[i], w[i], alone, n, &err), err);
            for (int k = 0; k < n; k++) {
                expect_near(got[i].w[k], w[i][k], 10 * EPS * sqrt(n) * most[i]);
                expect_true(k == 0 || got[i].w[k] >= got[i].w[k - 1]);
                expect_near(value[k], got[i].w[k], 10 * EPS * sqrt(n) * most[i]);
                expect_true(k == 0 || value[k] >= value[k - 1]);
                if (kind == 1) expect_near(got[i].w[k], 2 - 2 * cos(M_PI * (k + 1) / (n + 1)), 50 * EPS);
            }
            check(n, d[i], e[i], most[i], got[i].w, 0, n, z);
            kl_test_guards_hold(z, (int64_t)n * n);
            for (int first = 1 + n / 3; first < n; first += 1 + n / 4) { /* some of them, the other call's */
                const int count = n - first < n / 2 ? n - first : n / 2;
                memset(z, 0xff, (size_t)n * (size_t)n * sizeof *z);
                kl_divided_columns(&again[i], first, count, z + (int64_t)first * n);
                check(n, d[i], e[i], most[i], again[i].w, first, count, z + (int64_t)first * n);
                expect_true(isnan(z[(int64_t)first * n - 1]));
                expect_true(first + count == n || isnan(z[(int64_t)(first + count) * n]));
            }
            kl_test_free(z);
            free(alone), free(w[i]);
            kl_divided_clear(&got[i]);
            kl_divided_clear(&again[i]);
        }
        for (int i = 0; i < sizes; i++) {
            kl_test_guards_hold(d[i], size[i]);
            kl_test_guards_hold(e[i], size[i]);
            kl_test_free(d[i]);
            kl_test_free(e[i]);
        }
    }
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

/* Where the secular equation is not solved, another method takes the matrix; its neighbours are joined. */
static void test_failing_roots(void **state)
{
    (void)state;
    enum {
        N = 600,
        OTHER = 400,
    };
    static const int size[2] = {N, OTHER};
    double *const d = calloc(N, sizeof *d), *const e = calloc(N, sizeof *e),
                  *const z = calloc((size_t)N * N, sizeof *z);
    const double most = make(0, N, d, e), *const dd[2] = {d, d}, *const ee[2] = {e, e};
    /* matrix by matrix; both at a time, and the last join is the first one's */
    for (int nthread = 1; nthread <= 2; nthread++) {
        int64_t all = 0;
        for (int which = 0; which < 4; which++) {
            kl_divided got[2];
            kl_err err;
            kl_test_case("threads=%d which=%d", nthread, which);
            roots_found = 0;
            /* the first is stedc's, of a leaf */
            root_that_fails = which == 1 ? 1 : which == 2 ? all / 2 : which == 3 ? all - 5 : 0;
            expect_ok(kl_divide(nthread, 2, size, dd, ee, got, &err), err);
            if (which == 0) all = roots_found;
            expect_true(roots_found > root_that_fails);
            for (int i = 0; i < 2; i++) {
                const int left = which == 3 && i == (nthread == 1);
                if (which != 2) expect_eq(got[i].joined > 0, !left);
                expect_eq(!got[i].packed, got[i].joined == 0);
                kl_divided_columns(&got[i], 0, size[i], z);
                check(size[i], d, e, most, got[i].w, 0, size[i], z);
                kl_divided_clear(&got[i]);
            }
            double values[N + OTHER], wanted[N + OTHER];
            root_that_fails = 0;
            expect_ok(kl_divide_values(nthread, 2, size, dd, ee, wanted, &err), err);
            roots_found = 0;
            root_that_fails = which == 1 ? 1 : which == 2 ? all / 2 : which == 3 ? all - 5 : 0;
            expect_ok(kl_divide_values(nthread, 2, size, dd, ee, values, &err), err);
            expect_true(roots_found > root_that_fails);
            for (int i = 0; i < N + OTHER; i++) expect_near(values[i], wanted[i], 1e-13 * most);
        }
    }
    root_that_fails = 0;
    free(d), free(e), free(z);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    enum { N = 300 };
    static const int size[2] = {40, N};
    double d[N], e[N];
    const double *const dd[2] = {d, d}, *const ee[2] = {e, e};
    kl_divided got[2];
    kl_err err;
    expect_ok(kl_divide(2, 0, NULL, NULL, NULL, NULL, &err), err);
    for (int where = 0; where < N; where += N / 2 - 1) { /* at an end, at the cut, behind it */
        (void)make(0, N, d, e);
        d[where] = (double)NAN;
        expect_refused(kl_divide(2, 2, size, dd, ee, got, &err), KL_EINPUT, err, "finite");
        (void)make(0, N, d, e);
        if (where == N - 2) continue;
        e[where] = (double)INFINITY;
        expect_refused(kl_divide(2, 2, size, dd, ee, got, &err), KL_EINPUT, err, "finite");
    }
    (void)make(0, N, d, e);
    for (int nthread = 1; nthread <= 2; nthread++) { /* each a task; the large one shared out */
        kl_status st = KL_ENOMEM;
        int64_t k = 1;
        for (; st == KL_ENOMEM && k < 100; k++) {
            kl_dense_release();
            kl_mem_fail_after(k);
            st = kl_divide(nthread, 2, size, dd, ee, got, &err);
            kl_mem_fail_after(0);
            if (st == KL_OK) continue;
            expect_true(strstr(err.text, "memory") != NULL);
            kl_dense_release();
            expect_eq(kl_mem_live_total(), 0);
        }
        expect_ok(st, err);
        expect_true(k > 15);
        kl_divided_clear(&got[0]);
        kl_divided_clear(&got[1]);
    }
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_failing_roots),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
