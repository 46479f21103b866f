/* Blocks of columns made orthonormal: Y = Q R for columns of every kind, those that depend on others or are
   zero included; blocks that were not asked for stay; the same bits on any number of threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/gramcolumns.h"
#include "kl_test.h"

enum { NBLOCK = 6 };

/* Columns that are random, nearly the same, spread over 1e-12 to 1, dependent, zero here and there; or
   none. */
static void fill_block(int kind, const kl_column_block *p, double *y, uint64_t *seed)
{
    const int m = p->rows, n = p->width;
    for (int64_t i = 0; i < (int64_t)m * n; i++) y[i] = kl_test_uniform(seed);
    for (int j = 1; j < n; j++)
        for (int i = 0; i < m; i++) {
            double *const at = y + i + (int64_t)j * m;
            if (kind == 1) *at = y[i] + 1e-7 * *at;
            if (kind == 2) *at *= pow(10, -12.0 * j / n);
            if (kind == 3 && j % 5 == 4) *at = at[-m] - 2 * at[-2 * m];
            if (kind == 4 && j % 7 == 3) *at = 0;
        }
}

static void check_block(const kl_column_block *p, const double *y, const double *q, const double *r)
{
    const int m = p->rows, n = p->width;
    for (int a = 0; a < n; a++)
        for (int b = 0; b <= a; b++) {
            double sum = 0;
            for (int i = 0; i < m; i++) sum += q[i + (int64_t)a * m] * q[i + (int64_t)b * m];
            expect_near(sum, a == b, 2e-14);
        }
    for (int j = 0; j < n; j++) {
        double size = 0;
        for (int i = 0; i < m; i++) size = fmax(size, fabs(y[i + (int64_t)j * m]));
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int k = 0; k < n; k++) sum += q[i + (int64_t)k * m] * r[k + (int64_t)j * n];
            expect_near(sum, y[i + (int64_t)j * m], 1e-13 * size);
        }
    }
}

/* R = Q^T Y, where the run told none. */
static void find_triangle(const kl_column_block *p, const double *y, const double *q, double *r)
{
    const int m = p->rows, n = p->width;
    for (int j = 0; j < n; j++)
        for (int k = 0; k < n; k++) {
            double sum = 0;
            for (int i = 0; i < m; i++) sum += q[i + (int64_t)k * m] * y[i + (int64_t)j * m];
            r[k + (int64_t)j * n] = sum;
        }
}

static void check_blocks(int roots)
{
    double *bits = NULL;
    for (int nthread = 1; nthread <= 3; nthread += 2) {
        kl_err err = {""};
        kl_exec *ex = NULL;
        kl_gramcolumns g;
        kl_column_block block[NBLOCK] = {{40, 30, 0, 0}, {90, 20, 0, 0},  {150, 70, 0, 0},
                                         {60, 60, 0, 0}, {200, 33, 0, 0}, {10, 0, 0, 0}};
        int64_t n = 5;
        uint64_t seed = 3;
        for (int i = 0; i < NBLOCK; i++) {
            block[i].at = n;
            n += (int64_t)block[i].rows * block[i].width + 3;
        }
        expect_ok(kl_exec_open_host(nthread, &ex, &err), err);
        expect_ok(kl_gramcolumns_open(ex, NBLOCK, block, &g, &err), err);
        double *const y = calloc((size_t)n, sizeof *y), *const q = calloc((size_t)n, sizeof *q),
                      *const tri = calloc((size_t)g.ngram, sizeof *tri);
        for (int i = 0; i < NBLOCK; i++) fill_block(i, &block[i], y + block[i].at, &seed);
        kl_dptr data = {0}, spare = {0};
        expect_ok(kl_exec_copy_in(ex, y, n, &data, &err), err);
        expect_ok(kl_exec_copy_in(ex, y, n, &spare, &err), err);
        kl_gramcolumns_unit(&g, block, tri);
        const char asked[NBLOCK] = {1, 1, 1, 1, 0, 1}; /* and the fifth by itself */
        const kl_gramcolumns_at at = {block, &data, &spare, n};
        kl_gramcolumns_opts o = {.asked = asked,
                                 .dependent = KL_DEPENDENT_REPLACED,
                                 .first = roots ? KL_FIRST_ROOTS : KL_FIRST_PASSES,
                                 .tri = roots ? NULL : tri};
        expect_ok(kl_gramcolumns_run(&g, &at, &o, &err), err);
        expect_ok(ex->vt.download(ex, q, data, n, &err), err);
        for (int i = 0; i < 4 && roots; i++)
            find_triangle(&block[i], y + block[i].at, q + block[i].at, tri + block[i].gram);
        for (int i = 0; i < 4; i++)
            check_block(&block[i], y + block[i].at, q + block[i].at, tri + block[i].gram);
        for (int64_t i = 0; i < (int64_t)block[4].rows * block[4].width; i++)
            expect_true(q[block[4].at + i] == y[block[4].at + i]);
        o.asked = NULL;
        kl_gramcolumns_unit(&g, block, tri);
        expect_ok(ex->vt.upload(ex, data, y, n, &err), err);
        expect_ok(kl_gramcolumns_run(&g, &at, &o, &err), err);
        expect_ok(ex->vt.download(ex, q, data, n, &err), err);
        for (int i = 0; i < NBLOCK && roots; i++)
            find_triangle(&block[i], y + block[i].at, q + block[i].at, tri + block[i].gram);
        for (int i = 0; i < NBLOCK; i++)
            check_block(&block[i], y + block[i].at, q + block[i].at, tri + block[i].gram);
        for (int i = 0; bits && i < NBLOCK; i++)
            for (int64_t k = 0; k < (int64_t)block[i].rows * block[i].width; k++)
                expect_true(q[block[i].at + k] == bits[block[i].at + k]);
        free(bits);
        bits = q;
        ex->vt.release(ex, &data), ex->vt.release(ex, &spare);
        kl_gramcolumns_close(&g);
        kl_exec_close(&ex);
        free(y), free(tri);
    }
    free(bits);
}

static void test_blocks(void **state)
{
    (void)state;
    check_blocks(0);
}

/* By inverse Cholesky factors first, which some of these blocks do not have. */
static void test_roots(void **state)
{
    (void)state;
    check_blocks(1);
}

/* Zero columns stay so, and the others are orthonormal. */
static void test_zero(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_exec *ex = NULL;
    kl_gramcolumns g;
    kl_column_block block = {80, 25, 0, 0};
    uint64_t seed = 8;
    const int64_t n = 80 * 25;
    double *const y = calloc((size_t)n, sizeof *y);
    kl_dptr data = {0}, spare = {0};
    fill_block(4, &block, y, &seed);
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_gramcolumns_open(ex, 1, &block, &g, &err), err);
    expect_ok(kl_exec_copy_in(ex, y, n, &data, &err), err);
    expect_ok(kl_exec_copy_in(ex, y, n, &spare, &err), err);
    const kl_gramcolumns_at at = {&block, &data, &spare, n};
    const kl_gramcolumns_opts o = {.dependent = KL_DEPENDENT_ZERO};
    expect_ok(kl_gramcolumns_run(&g, &at, &o, &err), err);
    expect_ok(ex->vt.download(ex, y, data, n, &err), err);
    int zeros = 0;
    for (int j = 0; j < 25; j++) {
        double sum = 0;
        for (int i = 0; i < 80; i++) sum += y[i + 80 * j] * y[i + 80 * j];
        zeros += sum == 0;
        if (sum > 0) expect_near(sum, 1, 1e-14);
    }
    expect_eq(zeros, 4);
    ex->vt.release(ex, &data), ex->vt.release(ex, &spare);
    kl_gramcolumns_close(&g);
    kl_exec_close(&ex);
    free(y);
}

/* Columns that are nearly orthonormal become so by products alone, near to what they were; others as ever.
   Blocks that were not asked for stay. */
static void test_nearly(void **state)
{
    static const double off[] = {1e-9, 1e-4, 1e-2, 1};
    (void)state;
    for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
        kl_err err = {""};
        kl_exec *ex = NULL;
        kl_gramcolumns g;
        kl_column_block block[3] = {{80, 25, 0, 0}, {50, 7, 80 * 25, 0}, {30, 30, 80 * 25 + 50 * 7, 0}};
        const int64_t n = block[2].at + 30 * 30;
        uint64_t seed = 6;
        double *const y = calloc((size_t)n, sizeof *y), *const was = calloc((size_t)n, sizeof *was);
        kl_dptr data = {0}, spare = {0};
        for (int b = 0; b < 3; b++)
            for (int j = 0; j < block[b].width; j++)
                for (int i = 0; i < block[b].rows; i++)
                    y[block[b].at + i + (int64_t)j * block[b].rows] =
                        (i == j) + off[k] / 20 * kl_test_uniform(&seed);
        memcpy(was, y, sizeof *y * (size_t)n);
        expect_ok(kl_exec_open_host(2, &ex, &err), err);
        expect_ok(kl_gramcolumns_open(ex, 3, block, &g, &err), err);
        expect_ok(kl_exec_copy_in(ex, y, n, &data, &err), err);
        expect_ok(kl_exec_copy_in(ex, y, n, &spare, &err), err);
        const char asked[3] = {1, 0, 1};
        const kl_gramcolumns_at at = {block, &data, &spare, n};
        const kl_gramcolumns_opts o = {
            .asked = asked, .dependent = KL_DEPENDENT_REPLACED, .first = KL_FIRST_PRODUCTS};
        kl_test_case("off by %g", off[k]);
        expect_ok(kl_gramcolumns_run(&g, &at, &o, &err), err);
        expect_ok(ex->vt.download(ex, y, data, n, &err), err);
        for (int b = 0; b < 3; b++) {
            const int m = block[b].rows;
            for (int a = 0; a < block[b].width; a++)
                for (int c = 0; c <= a && asked[b]; c++) {
                    double sum = 0;
                    for (int i = 0; i < m; i++)
                        sum += y[block[b].at + i + (int64_t)a * m] * y[block[b].at + i + (int64_t)c * m];
                    expect_near(sum, a == c, 1e-14);
                }
            for (int64_t i = 0; i < (int64_t)m * block[b].width; i++)
                expect_near(y[block[b].at + i], was[block[b].at + i], asked[b] ? 2 * off[k] : 0);
        }
        ex->vt.release(ex, &data), ex->vt.release(ex, &spare);
        kl_gramcolumns_close(&g);
        kl_exec_close(&ex);
        free(y), free(was);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_zero),
                                       cmocka_unit_test(test_nearly), cmocka_unit_test(test_roots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
