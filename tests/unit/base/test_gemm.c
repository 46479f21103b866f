/* The small product kernel, every instruction set that this CPU runs, against plain loops: all sizes up to
   33, large ones, both transpositions, padded strides, factors, outputs full of NaN, guard words.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/gemm.h"
#include "kl_test.h"

static struct {
    const char *name;
    kl_gemm_fn *fn;
} isa[3];
static int nisa;

static int setup(void **state)
{
    (void)state;
    isa[nisa].name = "generic", isa[nisa++].fn = kl_gemm_generic;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        isa[nisa].name = "avx2", isa[nisa++].fn = kl_gemm_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        isa[nisa].name = "avx512", isa[nisa++].fn = kl_gemm_avx512;
#endif
    return 0;
}

/* rows x cols with leading dimension ld; what lies between the columns is NaN. */
static double *matrix(int rows, int cols, int ld, uint64_t *seed)
{
    double *const a = kl_test_guarded((int64_t)ld * cols);
    for (int c = 0; c < cols; c++)
        for (int r = 0; r < rows; r++) a[r + (int64_t)c * ld] = kl_test_uniform(seed);
    return a;
}

typedef struct shape {
    int ta, tb, m, n, k, pad;
    double alpha, beta;
} shape;

static void check(const shape *s, uint64_t seed)
{
    const int ra = s->ta ? s->k : s->m, ca = s->ta ? s->m : s->k, rb = s->tb ? s->n : s->k,
              cb = s->tb ? s->k : s->n;
    const int lda = ra + (s->pad ? 3 : 0), ldb = rb + (s->pad ? 5 : 0), ldc = s->m + (s->pad ? 7 : 0);
    double *const a = matrix(ra, ca, lda, &seed), *const b = matrix(rb, cb, ldb, &seed),
                  *const c0 = matrix(s->m, s->n, ldc, &seed);
    const int64_t nc = (int64_t)ldc * s->n;
    double *const want = malloc((size_t)(nc + 1) * sizeof *want), *const bound = malloc((size_t)(nc + 1) *
                                                                                        sizeof *bound);
    for (int j = 0; j < s->n; j++)
        for (int i = 0; i < s->m; i++) {
            double sum = 0, size = 0;
            for (int p = 0; p < s->k; p++) {
                const double x = a[s->ta ? p + (int64_t)i * lda : i + (int64_t)p * lda] *
                                 b[s->tb ? j + (int64_t)p * ldb : p + (int64_t)j * ldb];
                sum += x, size += fabs(x);
            }
            const int64_t at = i + (int64_t)j * ldc;
            want[at] = s->alpha * sum + (s->beta == 0 ? 0 : s->beta * c0[at]);
            bound[at] = 2.3e-16 * (s->k + 4) * (fabs(s->alpha) * size + fabs(s->beta * c0[at]));
        }
    for (int v = 0; v < nisa; v++) {
        double *const c = kl_test_guarded(nc);
        for (int j = 0; j < s->n; j++)
            for (int i = 0; i < s->m && s->beta != 0; i++) /* beta = 0: NaN stays and may not be read */
                c[i + (int64_t)j * ldc] = c0[i + (int64_t)j * ldc];
        kl_test_case("%s ta=%d tb=%d m=%d n=%d k=%d pad=%d alpha=%g beta=%g", isa[v].name, s->ta, s->tb, s->m,
                     s->n, s->k, s->pad, s->alpha, s->beta);
        isa[v].fn(s->ta, s->tb, s->m, s->n, s->k, s->alpha, a, lda, b, ldb, s->beta, c, ldc);
        for (int j = 0; j < s->n; j++) {
            for (int i = 0; i < s->m; i++) {
                const int64_t at = i + (int64_t)j * ldc;
                if (!(fabs(c[at] - want[at]) <= bound[at])) expect_near(c[at], want[at], bound[at]);
            }
            for (int i = s->m; i < ldc; i++)
                if (!isnan(c[i + (int64_t)j * ldc]))
                    fail_msg("%s: written between the columns", kl_test_text);
        }
        kl_test_guards_hold(c, nc);
        kl_test_free(c);
    }
    free(want), free(bound);
    kl_test_free(a), kl_test_free(b), kl_test_free(c0);
}

static void test_small(void **state)
{
    static const double alphas[] = {1, -0.7, 0, 2.5}, betas[] = {0, 1, -0.5};
    uint64_t seed = 1;
    (void)state;
    for (int m = 0; m <= 33; m++)
        for (int n = 0; n <= 33; n++)
            for (int k = 0; k <= 33; k++)
                for (int t = 0; t < 4; t++) {
                    const uint64_t r = kl_test_bits(&seed);
                    if (KL_TEST_WATCHED && r % 8 > 0) continue;
                    const shape s = {t & 1,           t >> 1, m, n, k, (int)(r % 2), alphas[r / 2 % 4],
                                     betas[r / 8 % 3]};
                    check(&s, r);
                }
}

/* Every factor with every transposition, at sizes around the tiles' and the packed panel's. */
static void test_factors(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8, 9, 12, 23, 24, 25, 31, 33, 48, 49},
                     depths[] = {0, 1, 2, 255, 256, 257, 512, 597};
    static const double alphas[] = {1, 0, -0.7, 1e150}, betas[] = {0, 1, -0.5, 1e-150};
    uint64_t seed = 2;
    (void)state;
    for (size_t m = 0; m < sizeof sizes / sizeof *sizes; m++)
        for (size_t n = m % 3; n < sizeof sizes / sizeof *sizes; n += 3)
            for (size_t k = 0; k < sizeof depths / sizeof *depths; k++)
                for (int t = 0; t < 4; t++)
                    for (int f = (int)((m + n + k) % 2); f < 16; f += 2) {
                        const shape s = {t & 1,     t >> 1,    sizes[m],      sizes[n],
                                         depths[k], f % 4 > 1, alphas[f % 4], betas[f / 4]};
                        const uint64_t r = kl_test_bits(&seed);
                        if (!KL_TEST_WATCHED || r % 8 == 0) check(&s, r);
                    }
}

static void test_large(void **state)
{
    static const int sizes[][3] = {{597, 597, 597}, {597, 33, 31},   {31, 597, 33}, {1, 597, 597},
                                   {597, 1, 597},   {597, 597, 1},   {0, 597, 3},   {597, 0, 3},
                                   {597, 5, 0},     {300, 200, 1025}};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int t = 0; t < 4; t++) {
            const shape s = {t & 1,       t >> 1, sizes[k][0], sizes[k][1],
                             sizes[k][2], t % 2,  -1.5,        (t + (int)k) % 3 - 1.0};
            check(&s, k + 10u * (uint64_t)t);
        }
}

/* The choice obeys the environment, and takes nothing that the CPU lacks. */
static void test_choice(void **state)
{
    const char *name = NULL;
    (void)state;
    unsetenv("KRONLAT_ISA");
    kl_gemm_fn *const best = kl_gemm_choose(&name);
    expect_true(best == isa[nisa - 1].fn && !strcmp(name, isa[nisa - 1].name));
    for (int v = 0; v < nisa; v++) {
        setenv("KRONLAT_ISA", isa[v].name, 1);
        expect_true(kl_gemm_choose(&name) == isa[v].fn && !strcmp(name, isa[v].name));
    }
    setenv("KRONLAT_ISA", "sse", 1);
    expect_true(kl_gemm_choose(NULL) == best);
    unsetenv("KRONLAT_ISA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_factors),
                                       cmocka_unit_test(test_large), cmocka_unit_test(test_choice)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
