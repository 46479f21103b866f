/* Inverse Cholesky factors of many matrices: by threads, by an executor that has something for them, and by
   one without a library: always T^T A T = 1, and what is not positive definite is told.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/roots.h"
#include "kl_test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int calls;
static kl_status answer;

/* An executor's, for diagonal matrices. */
static kl_status roots_there(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, kl_dptr t,
                             char *good, kl_err *err)
{
    const double *const from = (const double *)a.addr;
    double *const to = (double *)t.addr;
    (void)ex;
    calls++;
    if (answer != KL_OK) return kl_fail(err, answer, "not here");
    for (int i = 0; i < nmat; i++) {
        memset(to + off[i], 0, sizeof *to * (size_t)n[i] * (size_t)n[i]);
        for (int64_t k = 0; k < n[i]; k++) {
            const double x = from[off[i] + k * (n[i] + 1)];
            good[i] = (char)(good[i] && x > 0);
            to[off[i] + k * (n[i] + 1)] = 1 / sqrt(x);
        }
    }
    return KL_OK;
}

static void check(kl_exec *ex, int diagonal)
{
    enum {
        COUNT = 6,
        BAD = 4,
    };
    static const int n[COUNT] = {3, 270, 0, 1, 20, 40};
    int64_t off[COUNT], length = 0;
    char good[COUNT];
    uint64_t seed = 4;
    kl_err err = {""};
    for (int i = 0; i < COUNT; i++) {
        off[i] = length;
        length += (int64_t)n[i] * n[i];
    }
    double *const all = calloc((size_t)length, sizeof *all);
    double *const host = calloc((size_t)length, sizeof *host);
    for (int i = 0; i < COUNT; i++)
        for (int c = 0; c < n[i]; c++)
            for (int r = 0; r <= c; r++) {
                const double x = r == c     ? 1 + kl_test_uniform(&seed) / 4
                                 : diagonal ? 0
                                            : kl_test_uniform(&seed) / n[i];
                all[off[i] + r + (int64_t)c * n[i]] = all[off[i] + c + (int64_t)r * n[i]] =
                    x * pow(10, -3.0 * (r + c) / n[i]);
            }
    all[off[BAD] + 21 * 5] = -1e-6;
    kl_dptr a = {0}, t = {0};
    expect_ok(kl_exec_copy_in(ex, all, length, &a, &err), err);
    expect_ok(ex->vt.alloc(ex, length, &t, &err), err);
    const kl_roots roots = {COUNT, n, off, length, a, t, good};
    expect_ok(kl_roots_find(ex, &roots, &err), err);
    expect_ok(ex->vt.download(ex, host, t, length, &err), err);
    for (int i = 0; i < COUNT; i++) {
        double *const product = calloc((size_t)n[i] + 1, sizeof *product);
        kl_test_case("matrix %d, diagonal %d", i, diagonal);
        expect_eq(good[i], i != BAD);
        for (int c = 0; c < n[i] && i != BAD; c++) {
            const double *const x = host + off[i] + (int64_t)c * n[i];
            for (int r = 0; r < n[i]; r++) {
                product[r] = 0;
                for (int k = 0; k < n[i]; k++) product[r] += all[off[i] + r + (int64_t)k * n[i]] * x[k];
            }
            for (int d = 0; d <= c; d++) {
                double dot = 0;
                for (int k = 0; k < n[i]; k++) dot += product[k] * host[off[i] + k + (int64_t)d * n[i]];
                expect_near(dot, c == d, 1e-11);
            }
        }
        free(product);
    }
    ex->vt.release(ex, &a);
    ex->vt.release(ex, &t);
    free(all);
    free(host);
}

static void test_many(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    (void)state;
    for (int nthread = 1; nthread <= 4; nthread += 3) {
        expect_ok(kl_exec_open_host(nthread, &ex, &err), err);
        check(ex, 0);
        check(ex, 1);
        ex->vt.roots = roots_there;
        answer = KL_OK, calls = 0;
        check(ex, 1);
        expect_eq(calls, 1);
        answer = KL_EABSENT;
        check(ex, 0);
        expect_eq(calls, 2);
        kl_exec_close(&ex);
    }
}

/* What fails there for other reasons is told. */
static void test_failure(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    const int n = 2;
    const int64_t off = 0;
    const double host[4] = {1, 0, 0, 1};
    char good;
    kl_dptr a = {0}, t = {0};
    (void)state;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_exec_copy_in(ex, host, 4, &a, &err), err);
    expect_ok(kl_exec_copy_in(ex, host, 4, &t, &err), err);
    ex->vt.roots = roots_there;
    answer = KL_ENOMEM;
    const kl_roots roots = {1, &n, &off, 4, a, t, &good};
    expect_eq(kl_roots_find(ex, &roots, &err), KL_ENOMEM);
    expect_true(strstr(err.text, "not here") != NULL);
    ex->vt.release(ex, &a);
    ex->vt.release(ex, &t);
    kl_exec_close(&ex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many), cmocka_unit_test(test_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
