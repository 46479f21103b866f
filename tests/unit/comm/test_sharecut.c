/* Groups of a list cut by columns: what the pieces make, against loops; what cannot be cut; where borders
   lie.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/sharecut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "kl_test.h"

/* y (P x Q, first rows from ROW on) = number A x B^T for x (M x N) and A (P - ROW x M), B (Q - COLUMN x N) */
enum {
    M = 11,
    N = 40,
    P = 13,
    Q = 56,
    ROW = 3,
    COLUMN = 8,
    OFF = 5,
    NX = M * N,
    NY = P * Q,
};

typedef struct data {
    double x[NX], a[(P - ROW) * M], b[(Q - COLUMN) * N], c[P * M], d[Q * N];
    double left[(P - ROW) * M + P * M], right[(Q - COLUMN) * N + Q * N];
} data;

static void fill(data *t)
{
    uint64_t seed = 7;
    double *const all[] = {t->x, t->a, t->b, t->c, t->d};
    const size_t n[] = {NX, (P - ROW) * M, (Q - COLUMN) * N, P * M, Q * N};
    for (int k = 0; k < 5; k++)
        for (size_t i = 0; i < n[k]; i++) all[k][i] = kl_test_uniform(&seed);
    memcpy(t->left, t->a, sizeof t->a);
    memcpy(t->left + (P - ROW) * M, t->c, sizeof t->c);
    memcpy(t->right, t->b, sizeof t->b);
    memcpy(t->right + (Q - COLUMN) * N, t->d, sizeof t->d);
}

/* y = 2 (A x) B^T on a part of it, half of A x on N of its columns, C x on the first N, x D^T on M of its
   rows, and x itself there. */
static void oracle(const data *t, double *y)
{
    memset(y, 0, NY * sizeof *y);
    for (int i = 0; i < P; i++)
        for (int j = 0; j < Q; j++) {
            double *const to = &y[i + P * j];
            for (int m = 0; m < M && i >= ROW && j >= COLUMN; m++)
                for (int n = 0; n < N; n++)
                    *to += 2.0 * t->a[i - ROW + (P - ROW) * m] * t->x[m + M * n] *
                           t->b[j - COLUMN + (Q - COLUMN) * n];
            for (int m = 0; m < M && i >= ROW && j >= COLUMN && j < COLUMN + N; m++)
                *to += 1.0 * t->a[i - ROW + (P - ROW) * m] * t->x[m + M * (j - COLUMN)];
            for (int m = 0; m < M && j < N; m++) *to += t->c[i + P * m] * t->x[m + M * j];
            for (int n = 0; n < N && i < M; n++) *to += t->x[i + M * n] * t->d[j + Q * n];
            if (i < M && j >= COLUMN && j < COLUMN + N) *to += 3.0 * t->x[i + M * (j - COLUMN)];
        }
}

static void push(kl_batch *b, kl_rec r)
{
    kl_err err;
    expect_ok(kl_batch_reserve(b, 1, &err), err);
    *kl_batch_push(b) = r;
}

static void make_list(const data *t, kl_batch *b)
{
    kl_err err;
    kl_batch_init(b);
    b->zero = 1;
    b->nx = NX;
    b->ny = OFF + NY;
    b->base[KL_AT_LEFT].addr = (uintptr_t)t->left;
    b->base[KL_AT_RIGHT].addr = (uintptr_t)t->right;
    expect_ok(kl_batch_open_group(b, OFF, NY, &err), err);
    push(b, (kl_rec){.kind = KL_REC_GEMM,
                     .at_a = KL_AT_LEFT,
                     .at_b = KL_AT_X,
                     .at_c = KL_AT_WORK,
                     .m = P - ROW,
                     .n = N,
                     .k = M,
                     .lda = P - ROW,
                     .ldb = M,
                     .ldc = P - ROW,
                     .alpha = 2.0});
    /* in two parts of the columns of WORK */
    for (int half = 0; half < 2; half++) {
        const int from = half ? 15 : 0, n = half ? N - 15 : 15;
        push(b, (kl_rec){.kind = KL_REC_GEMM,
                         .tb = 1,
                         .beta = 1,
                         .at_a = KL_AT_WORK,
                         .at_b = KL_AT_RIGHT,
                         .at_c = KL_AT_Y,
                         .m = P - ROW,
                         .n = Q - COLUMN,
                         .k = n,
                         .lda = P - ROW,
                         .ldb = Q - COLUMN,
                         .ldc = P,
                         .a = (int64_t)from * (P - ROW),
                         .b = (int64_t)from * (Q - COLUMN),
                         .c = OFF + ROW + P * COLUMN,
                         .alpha = 1.0});
    }
    push(b, (kl_rec){.kind = KL_REC_ADD,
                     .beta = 1,
                     .at_a = KL_AT_WORK,
                     .at_c = KL_AT_Y,
                     .m = P - ROW,
                     .n = N,
                     .lda = P - ROW,
                     .ldc = P,
                     .c = OFF + ROW + P * COLUMN,
                     .alpha = 0.5});
    push(b, (kl_rec){.kind = KL_REC_GEMM,
                     .beta = 1,
                     .at_a = KL_AT_LEFT,
                     .at_b = KL_AT_X,
                     .at_c = KL_AT_Y,
                     .m = P,
                     .n = N,
                     .k = M,
                     .lda = P,
                     .ldb = M,
                     .ldc = P,
                     .a = (P - ROW) * M,
                     .c = OFF,
                     .alpha = 1.0});
    push(b, (kl_rec){.kind = KL_REC_GEMM,
                     .tb = 1,
                     .beta = 1,
                     .at_a = KL_AT_X,
                     .at_b = KL_AT_RIGHT,
                     .at_c = KL_AT_Y,
                     .m = M,
                     .n = Q,
                     .k = N,
                     .lda = M,
                     .ldb = Q,
                     .ldc = P,
                     .b = (Q - COLUMN) * N,
                     .c = OFF,
                     .alpha = 1.0});
    push(b, (kl_rec){.kind = KL_REC_ADD,
                     .beta = 1,
                     .at_a = KL_AT_X,
                     .at_c = KL_AT_Y,
                     .m = M,
                     .n = N,
                     .lda = M,
                     .ldc = P,
                     .c = OFF + P * COLUMN,
                     .alpha = 3.0});
    kl_batch_close_group(b, (P - ROW) * N);
    expect_ok(kl_batch_close(b, &err), err);
}

static void run(kl_exec *ex, kl_batch *b, const data *t, double *y)
{
    kl_err err;
    expect_ok(kl_batch_close(b, &err), err);
    expect_ok(ex->vt.batch_prepare(ex, b, &err), err);
    expect_ok(ex->vt.batch_apply(ex, b, (kl_dptr){(uintptr_t)t->x}, (kl_dptr){(uintptr_t)y}, &err), err);
    ex->vt.batch_release(ex, b);
}

static void test_pieces_make_what_the_group_makes(void **state)
{
    (void)state;
    static const int cuts[][4] = {{0, Q}, {0, 1, Q}, {0, 16, Q}, {0, 7, 9, Q}, {0, COLUMN, COLUMN + N, Q}};
    static const int pieces[] = {1, 2, 2, 3, 3};
    static data t;
    static double wanted[NY], y[OFF + NY];
    kl_exec *ex = NULL;
    kl_err err;
    fill(&t);
    oracle(&t, wanted);
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (size_t c = 0; c < sizeof pieces / sizeof *pieces; c++) {
        kl_batch b, some;
        int ld;
        make_list(&t, &b);
        expect_eq(kl_cut_columns(&b, &b.group[0], &ld), Q);
        expect_eq(ld, P);
        kl_batch_init(&some);
        some.zero = 1;
        some.nx = b.nx;
        some.ny = b.ny;
        memcpy(some.base, b.base, sizeof b.base);
        for (int i = 0; i < pieces[c]; i++)
            expect_ok(kl_cut_take(&b, &b.group[0], cuts[c][i], cuts[c][i + 1], &some, &err), err);
        for (int i = 0; i < OFF + NY; i++) y[i] = NAN;
        run(ex, &some, &t, y);
        for (int i = 0; i < NY; i++) expect_true(fabs(y[OFF + i] - wanted[i]) < 1e-12);
        kl_batch_clear(&some);
        kl_batch_clear(&b);
    }
    kl_exec_close(&ex);
}

/* What reads rows of WORK, reads y, overwrites, or is strided. */
static void test_what_cannot_be_cut(void **state)
{
    (void)state;
    static data t;
    int ld;
    fill(&t);
    for (int c = 0; c < 6; c++) {
        kl_batch b;
        make_list(&t, &b);
        kl_rec *const r = b.rec;
        if (c == 0) r[1].ta = 1;
        if (c == 1) r[1].beta = 0;
        if (c == 2) r[5].at_a = KL_AT_Y;
        if (c == 3) r[6].ldc = P + 1;
        if (c == 4) r[0].at_a = KL_AT_X;
        if (c == 5) b.zero = 0;
        expect_eq(kl_cut_columns(&b, &b.group[0], &ld), 0);
        kl_batch_clear(&b);
    }
}

/* Three groups alike: one of three has to be cut in the middle for two ranks, none for three. */
static void test_borders(void **state)
{
    (void)state;
    static data t;
    kl_batch b;
    int ld;
    fill(&t);
    make_list(&t, &b);
    const int group[] = {0, 0, 0}, n = kl_cut_columns(&b, &b.group[0], &ld);
    const double f = b.group[0].flop, cost[] = {f, f, f}, even[] = {1, 1, 1}, fast[] = {8, 1};
    const int columns[] = {n, n, n}, none[] = {0, 0, 0};
    kl_cut_border at[4];
    const kl_cut_list l = {&b, 3, group, cost, columns}, whole = {&b, 3, group, cost, none};
    kl_cut_borders(&l, 2, even, at);
    expect_true(at[0].group == 0 && at[0].column == 0 && at[2].group == 3 && at[2].column == 0);
    expect_eq(at[1].group, 1);
    expect_true(at[1].column == 16 || at[1].column == 32);
    kl_cut_borders(&l, 3, even, at);
    for (int r = 0; r <= 3; r++) expect_true(at[r].group == r && at[r].column == 0);
    kl_cut_borders(&l, 2, fast, at); /* 2.67 of three groups */
    expect_true(at[1].group == 2 && at[1].column >= 16);
    kl_cut_borders(&whole, 2, even, at);
    expect_true(at[1].column == 0 && (at[1].group == 1 || at[1].group == 2));
    int order[1];
    kl_err err;
    b.parts = 1;
    expect_ok(kl_cut_order(&b, order, &err), err);
    expect_ok(kl_cut_find(&b, order, 2, even, 0.0, at, &err), err);
    const double left = kl_cut_flop(&b, order, at[0], at[1]), right = kl_cut_flop(&b, order, at[1], at[2]);
    expect_true(at[1].column > 0 && left > 0.0 && right > 0.0);
    expect_true(fabs(left - right) <
                0.25 * (left + right)); /* one group: all or nothing where it stays whole */
    expect_ok(kl_cut_find(&b, order, 2, even, 1e30, at, &err), err); /* a message costs more than that */
    expect_eq(at[1].column, 0);
    kl_batch_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_make_what_the_group_makes),
        cmocka_unit_test(test_what_cannot_be_cut),
        cmocka_unit_test(test_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
