/* Triangles of Gram matrices: passes of Cholesky QR on columns of any condition, and small singular values.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "base/dense.h"
#include "base/gemm.h"
#include "base/gramfactor.h"

enum {
    ROWS = 190,
    MOST = 170,
};

typedef enum kind { RANDOM, GRADED, TINY, NEAR, COPIES, ZEROS, RISING, NKIND } kind;

/* y[n][ROWS]: of unit size; falling by 1e-12 in all; of size 1e-140; neighbours that differ by 1e-7; copies;
   with columns of zeros; nearly dependent and rising by 1e9: where small ones went first, the large ones were
   off by 5e-9; now 2e-10 without fused multiply-add, 3e-13 with it. */
static void make(kind k, int n, double *y, uint64_t seed)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < ROWS; i++) {
            const double u = kl_test_uniform(&seed), before = j > 0 ? y[i + (j - 1) * ROWS] : 0;
            double *const to = &y[i + j * ROWS];
            *to = u;
            if (k == GRADED) *to = u * pow(10, -12.0 * j / n);
            if (k == TINY) *to = u * 1e-140;
            if (k == NEAR && j % 3 == 1) *to = before + 1e-7 * u;
            if (k == COPIES && j % 3 == 1) *to = before;
            if (k == ZEROS && j % 4 == 2) *to = 0;
            const double far = i / (double)ROWS - j / (double)n;
            if (k == RISING) *to = (exp(-20 * far * far) + 1e-6 * u) * pow(10, 9.0 * j / n - 9);
        }
}

/* Passes until done; `all` multiplies the last columns back to the first. Returns the number of passes. */
static int passes(int n, double *y, double *all)
{
    kl_gemm_fn *const gemm = kl_gemm_choose(NULL);
    double *const g = kl_test_guarded((int64_t)n * n), *const r = kl_test_guarded((int64_t)n * n);
    double *const work = kl_test_guarded(2 * (int64_t)n * n + 4 * n), *const to =
                                                                          kl_test_guarded((int64_t)n * ROWS);
    int pass = 0;
    for (int i = 0; i < n * n; i++) all[i] = i % (n + 1) == 0;
    for (int done = 0; !done && pass < 5; pass++) {
        kl_gram_found found;
        gemm(1, 0, n, n, ROWS, 1, y, ROWS, y, ROWS, 0, g, n);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < j; i++) g[i + j * n] = NAN; /* nobody reads it */
        kl_gram_factor(1, n, g, r, pass == 4, work, &found);
        gemm(0, 0, ROWS, n, n, 1, y, ROWS, g, n, 0, to, ROWS);
        memcpy(y, to, (size_t)n * ROWS * sizeof *y);
        gemm(0, 0, n, n, n, 1, r, n, all, n, 0, g, n);
        memcpy(all, g, (size_t)n * (size_t)n * sizeof *g);
        done = found.nbad == 0 && found.least >= KL_GRAM_DONE;
    }
    kl_test_free(g);
    kl_test_free(r);
    kl_test_free(work);
    kl_test_free(to);
    return pass;
}

static void test_passes(void **state)
{
    static const int sizes[] = {1, 2, 7, 32, 33, 40, 65, 100, 170};
    (void)state;
    const char *isa;
    kl_gemm_choose(&isa);
    const int fused = strcmp(isa, "generic") != 0; /* multiplies and adds with one rounding */
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (kind k = 0; k < NKIND; k++) {
            const int n = sizes[s];
            kl_test_case("n=%d kind=%d", n, (int)k);
            double *const y = kl_test_guarded((int64_t)n * ROWS), *const all =
                                                                      kl_test_guarded((int64_t)n * n);
            double *const was = malloc((size_t)n * ROWS * sizeof *was);
            make(k, n, y, 3 + s);
            memcpy(was, y, (size_t)n * ROWS * sizeof *was);
            const int count = passes(n, y, all);
            expect_true(count <= (k == RANDOM || k == GRADED || k == TINY || k == ZEROS ? 2 : 4));
            for (int j = 0; j < n; j++) {
                const double *const a = y + j * ROWS;
                double norm = 0, miss = 0, size = 0;
                for (int i = 0; i < ROWS; i++) norm += a[i] * a[i];
                /* What is left of a copy is rounding, of which there may be none where nothing is fused. */
                const int zero =
                    (k == ZEROS && j % 4 == 2) || (!fused && k == COPIES && j % 3 == 1 && norm == 0);
                expect_near(norm, !zero, 1e-13);
                for (int l = 0; l < j; l++) {
                    double dot = 0;
                    for (int i = 0; i < ROWS; i++) dot += a[i] * y[i + l * ROWS];
                    expect_near(dot, 0, 2e-14);
                }
                for (int i = 0; i < ROWS; i++) {
                    double sum = 0;
                    for (int l = 0; l < n; l++) sum += y[i + l * ROWS] * all[l + j * n];
                    miss += (sum - was[i + j * ROWS]) * (sum - was[i + j * ROWS]);
                    size += was[i + j * ROWS] * was[i + j * ROWS];
                }
                expect_true(sqrt(miss) <= (k == RISING ? fused ? 1e-10 : 1e-9 : 1e-13 * sqrt(size)));
            }
            kl_test_free(y);
            kl_test_free(all);
            free(was);
        }
}

/* One large matrix by several threads: the same bits. */
static void test_threads(void **state)
{
    enum { N = 411 };
    const size_t bytes = sizeof(double) * N * N;
    double *const gram = malloc(bytes), *const g = malloc(bytes), *const r = malloc(bytes),
                  *const work = malloc(2 * bytes + 4 * N * sizeof(double)), *const first = malloc(2 * bytes);
    uint64_t seed = 4;
    (void)state;
    for (int j = 0; j < N; j++)
        for (int i = j; i < N; i++)
            gram[i + j * N] = i == j ? 2 + 1e-3 * i : 0.5 / (double)N * kl_test_uniform(&seed) / (1 + i - j);
    for (int nthread = 1; nthread <= 5; nthread += 2) {
        kl_gram_found found;
        memcpy(g, gram, bytes);
        kl_gram_factor(nthread, N, g, r, 0, work, &found);
        expect_true(found.least >= KL_GRAM_DONE && found.nbad == 0);
        if (nthread == 1) {
            memcpy(first, g, bytes);
            memcpy(first + N * N, r, bytes);
        }
        expect_true(memcmp(g, first, bytes) == 0 && memcmp(r, first + N * N, bytes) == 0);
    }
    free(gram);
    free(g);
    free(r);
    free(work);
    free(first);
}

/* Columns of rank 5 only: zeros in the end, or directions orthogonal to the others; never anything else. */
static void test_rank(void **state)
{
    enum { N = 48 };
    kl_gemm_fn *const gemm = kl_gemm_choose(NULL);
    uint64_t seed = 9;
    (void)state;
    double y[N * ROWS], all[N * N], left[5 * ROWS], right[5 * N], g[N * N];
    for (int i = 0; i < 5 * ROWS; i++) left[i] = kl_test_uniform(&seed);
    for (int i = 0; i < 5 * N; i++) right[i] = kl_test_uniform(&seed);
    gemm(0, 0, ROWS, N, 5, 1, left, ROWS, right, 5, 0, y, ROWS);
    passes(N, y, all);
    gemm(1, 0, N, N, ROWS, 1, y, ROWS, y, ROWS, 0, g, N);
    double kept = 0;
    for (int j = 0; j < N; j++) {
        const double d = g[j * (N + 1)];
        expect_true(d == 0 || fabs(d - 1) < 1e-13);
        for (int i = 0; i < j; i++) expect_near(g[i + j * N], 0, 1e-13);
    }
    for (int a = 0; a < 5; a++) { /* all that was there is in their span */
        double size = 0, in = 0;
        for (int i = 0; i < ROWS; i++) size += left[i + a * ROWS] * left[i + a * ROWS];
        for (int j = 0; j < N; j++) {
            double dot = 0;
            for (int i = 0; i < ROWS; i++) dot += y[i + j * ROWS] * left[i + a * ROWS];
            in += dot * dot;
        }
        expect_near(in / size, 1, 1e-13);
        kept += in;
    }
    expect_true(kept > 0);
}

static void test_graded(void **state)
{
    static const int sizes[] = {1, 2, 5, 40, 90};
    static const double fall[] = {0, 1e-5, 1e-9, 1e-13};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t f = 0; f < sizeof fall / sizeof *fall; f++) {
            const int n = sizes[s];
            kl_test_case("n=%d fall=%g", n, fall[f]);
            uint64_t seed = 5 + s;
            kl_err err;
            double *const r = kl_test_guarded((int64_t)n * n), *const z = kl_test_guarded((int64_t)n * n);
            double *const w = kl_test_guarded(n), *const work = kl_test_guarded(3 * (int64_t)n * n);
            double *const copy = malloc((size_t)n * n * sizeof *copy), *const value =
                                                                           malloc((size_t)n * sizeof *value);
            for (int j = 0; j < n; j++)
                for (int i = 0; i < n; i++) {
                    const double size = fall[f] > 0 ? pow(fall[f], (double)j / n) : 1;
                    copy[i + j * n] = r[i + j * n] =
                        i <= j ? size * ((i == j) + 0.3 * kl_test_uniform(&seed)) : 0;
                }
            expect_ok(kl_gram_graded(n, r, w, z, work, &err), err);
            expect_ok(kl_dense_svd(n, n, copy, n, value, NULL, 1, NULL, 1, &err), err);
            for (int j = 0; j < n; j++) {
                double along = 0;
                for (int i = 0; i < n; i++) {
                    double sum = 0;
                    for (int l = i; l < n; l++) sum += r[i + l * n] * z[l + j * n];
                    along += sum * sum;
                }
                expect_near(along, w[j],
                            1e-6 * w[j] + 1e-22 * w[n - 1]); /* the vectors are those of the values */
                for (int i = 0; i <= j; i++) {
                    double dot = 0;
                    for (int l = 0; l < n; l++) dot += z[l + i * n] * z[l + j * n];
                    expect_near(dot, i == j, 2e-14);
                }
            }
            for (int j = 0; j < n; j++) {
                const double exact = value[n - 1 - j] * value[n - 1 - j];
                expect_near(w[j], exact, 1e-5 * exact + 1e-22 * w[n - 1]);
            }
            kl_test_free(r);
            kl_test_free(z);
            kl_test_free(w);
            kl_test_free(work);
            free(copy);
            free(value);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_passes), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_rank), cmocka_unit_test(test_graded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
