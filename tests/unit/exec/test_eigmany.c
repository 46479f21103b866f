/* Eigenvectors of many matrices: by threads alone, shared with an executor, and by one that has no memory or
   no library for them; always A V = V diag(w), values ascending, vectors orthonormal.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/eigmany.h"
#include "base/dense.h"
#include "kl_test.h"
#include <math.h>

static int calls, rows; /* what the executor was asked for, the largest matrix */
static kl_status answer;

/* An executor's, by LAPACK. */
static kl_status eigen_there(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *w,
                             kl_err *err)
{
    double *const data = (double *)a.addr;
    (void)ex;
    calls++;
    rows = n[0];
    if (answer != KL_OK) return kl_fail(err, answer, "not here");
    for (int i = 0; i < nmat; w += n[i++]) {
        const kl_status st = kl_dense_eig(n[i], data + off[i], n[i], w, err);
        if (st != KL_OK) return st;
    }
    return KL_OK;
}

static void check(kl_exec *ex, int shared)
{
    enum { COUNT = 7 };
    static const int n[COUNT] = {3, 40, 0, 1, 75, 40, 6};
    int64_t off[COUNT], length = 0, at = 0, total = 0;
    uint64_t seed = 4;
    kl_err err = {""};
    for (int i = 0; i < COUNT; i++) {
        off[i] = length;
        length += (int64_t)n[i] * n[i];
        total += n[i];
    }
    double *const all = malloc(sizeof *all * (size_t)length), *const host =
                                                                  calloc((size_t)length, sizeof *host);
    double *const w = calloc((size_t)total, sizeof *w);
    for (int i = 0; i < COUNT; i++)
        for (int c = 0; c < n[i]; c++)
            for (int r = 0; r <= c; r++)
                all[off[i] + r + (int64_t)c * n[i]] = all[off[i] + c + (int64_t)r * n[i]] =
                    kl_test_uniform(&seed);
    kl_dptr a = {0};
    expect_ok(kl_exec_copy_in(ex, all, length, &a, &err), err);
    const kl_eigen_many many = {COUNT, n, off, length, a, host, w};
    expect_ok(kl_eigen_many_find(ex, &many, shared, &err), err);
    for (int i = 0; i < COUNT; at += n[i++])
        for (int c = 0; c < n[i]; c++) {
            const double *const v = host + off[i] + (int64_t)c * n[i];
            kl_test_case("matrix %d, vector %d", i, c);
            if (c > 0) expect_true(w[at + c] >= w[at + c - 1]);
            for (int r = 0; r < n[i]; r++) {
                double sum = 0;
                for (int k = 0; k < n[i]; k++) sum += all[off[i] + r + (int64_t)k * n[i]] * v[k];
                expect_near(sum, w[at + c] * v[r], 1e-12 * n[i]);
            }
            for (int d = 0; d <= c; d++) {
                double dot = 0;
                for (int k = 0; k < n[i]; k++) dot += v[k] * host[off[i] + k + (int64_t)d * n[i]];
                expect_near(dot, c == d, 1e-12);
            }
        }
    ex->vt.release(ex, &a);
    free(all);
    free(host);
    free(w);
}

static void test_many(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    (void)state;
    for (int nthread = 1; nthread <= 6; nthread += 5) {
        expect_ok(kl_exec_open_host(nthread, &ex, &err), err);
        check(ex, 1);
        ex->vt.eigen = eigen_there;
        ex->eigen.least = 20;
        static const kl_status answers[] = {KL_OK, KL_ENOMEM, KL_EABSENT};
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
            answer = answers[i];
            calls = 0;
            check(ex, 1);
            expect_eq(calls, 1);
            expect_eq(rows, 75);
            check(ex, 0);
            expect_eq(calls, 1);
        }
        kl_exec_close(&ex);
    }
}

static int asked;
static void soon(kl_exec *ex)
{
    (void)ex;
    asked++;
}

/* An executor that takes long to open is asked to begin with that when it would have saved a part of it, and
   gets matrices when it would have saved as much. */
static void test_opening(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    (void)state;
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    ex->vt.eigen = eigen_there;
    ex->vt.eigen_soon = soon;
    ex->eigen.least = 20;
    ex->eigen.ntime = 2;
    ex->eigen.time[0] = (kl_eigen_time){20, 1, 2};
    ex->eigen.time[1] = (kl_eigen_time){200, 1, 2};
    ex->eigen.opening = 1e6;
    answer = KL_OK;
    calls = asked = 0;
    check(ex, 1);
    expect_near(ex->eigen.saved, 0, 0); /* never worth it */
    ex->eigen.time[1].there = ex->eigen.time[0].there = 1e-3;
    check(ex, 1);
    const double saved = ex->eigen.saved; /* each time */
    expect_true(saved > 0 && saved < 1e4);
    expect_eq(asked, 0);
    ex->eigen.opening = 5 * saved;
    check(ex, 1);
    expect_eq(asked, 1);
    expect_eq(calls, 0);
    ex->eigen.opening = 2.5 * saved;
    check(ex, 1);
    expect_eq(asked, 2);
    expect_eq(calls, 1);
    check(ex, 1);
    expect_eq(asked, 2);
    expect_eq(calls, 2);
    kl_exec_close(&ex);
}

/* What fails there for other reasons is told. */
static void test_failure(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    const int n = 30;
    const int64_t off = 0;
    double host[30 * 30] = {0}, w[30];
    kl_dptr a = {0};
    (void)state;
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    ex->vt.eigen = eigen_there;
    answer = KL_ENOCONV;
    expect_ok(kl_exec_copy_in(ex, host, n * n, &a, &err), err);
    const kl_eigen_many many = {1, &n, &off, n * n, a, host, w};
    expect_eq(kl_eigen_many_find(ex, &many, 1, &err), KL_ENOCONV);
    expect_true(strstr(err.text, "not here") != NULL);
    ex->vt.release(ex, &a);
    kl_exec_close(&ex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many), cmocka_unit_test(test_opening),
                                       cmocka_unit_test(test_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
