/* Lists of operation records on the host against plain loops: random groups of products, sums and fills,
   operands in every memory, one and two threads with equal bits, products large enough for BLAS, groups in
   strips, and lists without anything in them.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "record/assemble.h"
#include "exec/batch_host.h"
#include "record/chunk.h"
#include "core.h"
#include "exec/exec.h"
#include "kl_test.h"
#include "record/concat.h"
#include "record/record.h"
#include "record/strips.h"
#include "exec/spmv.h"

enum { PLACE = 4000 }; /* doubles at LEFT, RIGHT, PACK and x of small lists */

typedef struct arena {
    int64_t nx, ny, nwork, nplace;
    double *x, *left, *right, *pack;
} arena;

static double *filled(int64_t n, uint64_t *seed)
{
    double *const p = kl_test_guarded(n);
    for (int64_t i = 0; i < n; i++) p[i] = kl_test_uniform(seed);
    return p;
}

static arena arena_open(int64_t nplace, uint64_t *seed)
{
    return (arena){.nx = nplace,
                   .nplace = nplace,
                   .x = filled(nplace, seed),
                   .left = filled(nplace, seed),
                   .right = filled(nplace, seed),
                   .pack = filled(nplace, seed)};
}

static void arena_close(arena *a)
{
    double *const all[] = {a->x, a->left, a->right, a->pack};
    for (int i = 0; i < 4; i++) {
        kl_test_guards_hold(all[i], i == 0 ? a->nx : a->nplace);
        kl_test_free(all[i]);
    }
}

static int below(uint64_t *seed, int n) { return (int)(kl_test_bits(seed) % (uint64_t)n); }

/* A memory to read rows x cols from: x, LEFT, RIGHT, PACK or what the group has put into WORK (all of it). */
static void operand(uint64_t *seed, const arena *a, int rows, int cols, int64_t nwork, uint8_t *at,
                    int64_t *off, int32_t *ld)
{
    static const uint8_t places[] = {KL_AT_X, KL_AT_LEFT, KL_AT_RIGHT, KL_AT_LEFT_PACK, KL_AT_WORK};
    const int most = nwork >= (int64_t)rows * cols ? 5 : 4;
    *at = places[below(seed, most)];
    const int64_t room = *at == KL_AT_WORK ? nwork : a->nplace;
    *ld = rows + below(seed, 4);
    if ((int64_t)*ld * cols > room) *ld = rows;
    *off = room > (int64_t)*ld * cols ? (int64_t)(kl_test_bits(seed) % (uint64_t)(room - (int64_t)*ld * cols))
                                      : 0;
}

/* Groups of random records; every group first writes all of its WORK, and all of its segment unless the list
   zeroes it. */
static void make(kl_batch *b, const arena *a, int ngroup, int most, int zero, uint64_t *seed)
{
    kl_err err = {""};
    int64_t y = 0;
    b->zero = zero;
    for (int g = 0; g < ngroup; g++) {
        const int rows = 1 + below(seed, most), cols = 1 + below(seed, most), nrec = below(seed, 12);
        const int64_t nwork = (int64_t)(1 + below(seed, most)) * (1 + below(seed, most));
        expect_ok(kl_batch_open_group(b, y, (int64_t)rows * cols, &err), err);
        expect_ok(kl_batch_reserve(b, nrec + 2, &err), err);
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_FILL,
                                     .at_c = KL_AT_WORK,
                                     .m = (int)nwork,
                                     .n = 1,
                                     .ldc = (int)nwork,
                                     .alpha = kl_test_uniform(seed)};
        if (!zero)
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_FILL,
                                         .at_c = KL_AT_Y,
                                         .m = rows,
                                         .n = cols,
                                         .ldc = rows,
                                         .c = y,
                                         .alpha = kl_test_uniform(seed)};
        for (int r = 0; r < nrec; r++) {
            kl_rec x = {.kind = (uint8_t)below(seed, 3),
                        .ta = (uint8_t)below(seed, 2),
                        .tb = (uint8_t)below(seed, 2),
                        .alpha = kl_test_uniform(seed)};
            const int to_work = below(seed, 3) == 0;
            if (to_work) { /* a column of WORK */
                x.at_c = KL_AT_WORK, x.m = 1 + below(seed, nwork < most ? (int)nwork : most), x.n = 1,
                x.ldc = x.m, x.beta = (uint8_t)below(seed, 2);
            } else { /* part of the segment */
                x.at_c = KL_AT_Y, x.m = 1 + below(seed, rows), x.n = 1 + below(seed, cols), x.ldc = rows,
                x.beta = (uint8_t)below(seed, 2);
                x.c = y + below(seed, rows - x.m + 1) + (int64_t)below(seed, cols - x.n + 1) * rows;
            }
            x.k = x.kind == KL_REC_GEMM ? below(seed, 20) : 0;
            const int64_t readable = to_work ? 0 : nwork; /* C may not overlap A or B */
            if (x.kind == KL_REC_GEMM) {
                operand(seed, a, x.ta ? x.k : x.m, x.ta ? x.m : x.k, readable, &x.at_a, &x.a, &x.lda);
                operand(seed, a, x.tb ? x.n : x.k, x.tb ? x.k : x.n, readable, &x.at_b, &x.b, &x.ldb);
                if (x.lda < 1) x.lda = 1;
                if (x.ldb < 1) x.ldb = 1;
            } else if (x.kind == KL_REC_ADD)
                operand(seed, a, x.ta ? x.n : x.m, x.ta ? x.m : x.n, readable, &x.at_a, &x.a, &x.lda);
            if (x.kind == KL_REC_FILL && !to_work && below(seed, 2)) { /* a diagonal */
                x.n = x.m < x.n ? x.m : x.n, x.m = 1, x.ldc = rows + 1;
            }
            *kl_batch_push(b) = x;
        }
        kl_batch_close_group(b, nwork);
        y += (int64_t)rows * cols;
        if (below(seed, 5) == 0) y += 3; /* a hole, to be left alone */
    }
    b->nx = a->nx, b->ny = y;
    expect_ok(kl_batch_close(b, &err), err);
}

/* The records one by one, element by element; size[] follows with magnitudes, for the bound of rounding. */
static void run_plain(const kl_batch *b, const arena *a, double *y, double *size)
{
    double *const work = calloc((size_t)b->nwork + 1, sizeof *work), *const mag = calloc((size_t)b->nwork + 1,
                                                                                         sizeof *mag);
    double *const base[KL_NAT] = {[KL_AT_X] = a->x,         [KL_AT_Y] = y,
                                  [KL_AT_WORK] = work,      [KL_AT_LEFT] = a->left,
                                  [KL_AT_RIGHT] = a->right, [KL_AT_LEFT_PACK] = a->pack};
    for (int g = 0; g < b->ngroup; g++) {
        for (int64_t i = b->group[g].y; b->zero && i < b->group[g].y + b->group[g].ny; i++)
            y[i] = size[i] = 0;
        for (int64_t q = b->group[g].first; q < b->group[g].last; q++) {
            const kl_rec *const r = &b->rec[q];
            for (int j = 0; j < r->n; j++)
                for (int i = 0; i < r->m; i++) {
                    double sum = 0, big = 0;
                    for (int p = 0; p < (r->kind == KL_REC_GEMM ? r->k : 1); p++) {
                        double t = 1, u = 1;
                        if (r->kind != KL_REC_FILL) {
                            const int64_t at =
                                r->kind == KL_REC_GEMM
                                    ? (r->ta ? p + (int64_t)i * r->lda : i + (int64_t)p * r->lda)
                                    : (r->ta ? j + (int64_t)i * r->lda : i + (int64_t)j * r->lda);
                            t = base[r->at_a][r->a + at];
                            u = r->at_a == KL_AT_WORK ? mag[r->a + at] : fabs(t);
                        }
                        if (r->kind == KL_REC_GEMM) {
                            const int64_t at = r->tb ? j + (int64_t)p * r->ldb : p + (int64_t)j * r->ldb;
                            t *= base[r->at_b][r->b + at];
                            u *= r->at_b == KL_AT_WORK ? mag[r->b + at] : fabs(base[r->at_b][r->b + at]);
                        }
                        sum += t, big += u;
                    }
                    const int64_t at = r->c + i + (int64_t)j * r->ldc;
                    double *const c = base[r->at_c] + at, *const m = (r->at_c == KL_AT_Y ? size : mag) + at;
                    *c = r->alpha * sum + (r->beta ? *c : 0);
                    *m = fabs(r->alpha) * big + (r->beta ? *m : 0);
                }
        }
    }
    free(work);
    free(mag);
}

/* On nthread threads; y full of NaN before. */
static double *run_host(kl_batch *b, const arena *a, int nthread)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    double *const y = kl_test_guarded(b->ny);
    expect_ok(kl_exec_open_host(nthread, &ex, &err), err);
    b->base[KL_AT_LEFT].addr = (uintptr_t)a->left, b->base[KL_AT_RIGHT].addr = (uintptr_t)a->right,
    b->base[KL_AT_LEFT_PACK].addr = (uintptr_t)a->pack;
    expect_ok(ex->vt.batch_prepare(ex, b, &err), err);
    for (int twice = 0; twice < 2; twice++) /* WORK of the first run must not matter to the second */
        expect_ok(ex->vt.batch_apply(ex, b, (kl_dptr){(uintptr_t)a->x}, (kl_dptr){(uintptr_t)y}, &err), err);
    ex->vt.batch_release(ex, b);
    expect_true(b->prepared == NULL);
    kl_exec_close(&ex);
    kl_test_guards_hold(y, b->ny);
    return y;
}

static void check(kl_batch *b, const arena *a)
{
    double *const one = run_host(b, a, 1), *const two = run_host(b, a, 2), *const three = run_host(b, a, 3),
                  *const want = kl_test_guarded(b->ny), *const size = calloc((size_t)b->ny + 1, sizeof *size);
    run_plain(b, a, want, size);
    expect_eq(memcmp(one, two, (size_t)b->ny * sizeof *one), 0);
    expect_eq(memcmp(one, three, (size_t)b->ny * sizeof *one), 0);
    for (int64_t i = 0; i < b->ny; i++) {
        if (isnan(want[i]) && isnan(one[i])) continue; /* a hole between the segments */
        expect_near(one[i], want[i], 2.3e-16 * 2000 * size[i]);
    }
    kl_test_free(one), kl_test_free(two), kl_test_free(three), kl_test_free(want);
    free(size);
}

static void test_random(void **state)
{
    (void)state;
    for (int round = 0; round < kl_test_rounds(400); round++) {
        uint64_t seed = (uint64_t)round;
        arena a = arena_open(PLACE, &seed);
        kl_batch b;
        kl_batch_init(&b);
        kl_test_case("round %d", round);
        make(&b, &a, 1 + below(&seed, 60), 1 + below(&seed, 40), round % 2, &seed);
        double flop = 0;
        for (int64_t i = 0; i < b.nrec; i++) flop += kl_rec_flop(&b.rec[i]);
        expect_near(b.flop, flop, 1e-9 * flop);
        for (int g = 1; g < b.ngroup; g++)
            expect_true(b.group[b.order[g - 1]].flop >= b.group[b.order[g]].flop);
        check(&b, &a);
        kl_batch_reset(&b); /* the lists are used again */
        make(&b, &a, 5, 10, 1, &seed);
        check(&b, &a);
        kl_batch_clear(&b);
        arena_close(&a);
    }
    expect_eq(kl_mem_live_total(), 0);
}

/* Few groups and many: largest first, and those that are as large in the order that they have. */
static void test_order(void **state)
{
    (void)state;
    for (int n = 1; n <= 5000; n *= 7) {
        kl_batch b;
        uint64_t seed = 5;
        kl_batch_init(&b);
        for (int g = 0; g < n; g++) {
            expect_eq(kl_batch_open_group(&b, g, 1, NULL), KL_OK);
            kl_batch_close_group(&b, 0);
            b.group[g].flop = (double)(kl_random_next(&seed) % 100) * (g % 3 == 0 ? 1e11 : 2.0);
        }
        expect_eq(kl_batch_close(&b, NULL), KL_OK);
        for (int i = 1; i < n; i++) {
            const double before = b.group[b.order[i - 1]].flop, now = b.group[b.order[i]].flop;
            expect_true(before > now || (before == now && b.order[i - 1] < b.order[i]));
        }
        kl_batch_clear(&b);
    }
}

/* Large products, on BLAS's side of the threshold and on either side of it. */
static void test_large(void **state)
{
    static const int shape[][3] = {{64, 64, 384},   {63, 64, 384},  {64, 63, 384}, {64, 64, 383},
                                   {200, 150, 597}, {597, 64, 400}, {1, 1, 597}};
    kl_err err = {""};
    (void)state;
    for (size_t k = 0; k < 4 * sizeof shape / sizeof *shape; k += KL_TEST_WATCHED ? 5 : 1) {
        uint64_t seed = k;
        arena a = arena_open(600 * 700, &seed);
        kl_batch b;
        kl_batch_init(&b);
        b.zero = 1;
        const int *const s = shape[k / 4], ta = k & 1, tb = k >> 1 & 1;
        for (int g = 0; g < 4; g++) {
            const int64_t y = (int64_t)g * s[0] * s[1];
            expect_ok(kl_batch_open_group(&b, y, (int64_t)s[0] * s[1], &err), err);
            expect_ok(kl_batch_reserve(&b, 2, &err), err);
            for (int r = 0; r < 2; r++)
                *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                              .ta = (uint8_t)ta,
                                              .tb = (uint8_t)(r ^ tb),
                                              .beta = 1,
                                              .at_a = KL_AT_LEFT,
                                              .at_b = KL_AT_X,
                                              .at_c = KL_AT_Y,
                                              .m = s[0],
                                              .n = s[1],
                                              .k = s[2],
                                              .lda = (ta ? s[2] : s[0]) + 2,
                                              .ldb = (r ^ tb ? s[1] : s[2]) + 1,
                                              .ldc = s[0],
                                              .a = 3 * g,
                                              .b = 5 * g,
                                              .c = y,
                                              .alpha = 0.5 + r};
            kl_batch_close_group(&b, 0);
        }
        b.nx = a.nx, b.ny = 4 * (int64_t)s[0] * s[1];
        expect_ok(kl_batch_close(&b, &err), err);
        kl_test_case("m=%d n=%d k=%d ta=%d tb=%d", s[0], s[1], s[2], ta, tb);
        check(&b, &a);
        kl_batch_clear(&b);
        arena_close(&a);
    }
    expect_eq(kl_mem_live_total(), 0);
}

/* Every thread has intermediates of its own: long groups that write and read them over and over. */
static void test_work(void **state)
{
    enum {
        LENGTH = 20000,
        GROUPS = 32,
        TIMES = KL_TEST_WATCHED ? 6 : 40,
    };
    kl_err err = {""};
    kl_batch b;
    uint64_t seed = 1;
    arena a = arena_open(8, &seed);
    (void)state;
    kl_batch_init(&b);
    for (int g = 0; g < GROUPS; g++) {
        const int64_t y = (int64_t)g * LENGTH;
        expect_ok(kl_batch_open_group(&b, y, LENGTH, &err), err);
        expect_ok(kl_batch_reserve(&b, 2 * TIMES, &err), err);
        for (int k = 0; k < TIMES; k++) {
            *kl_batch_push(&b) = (kl_rec){
                .kind = KL_REC_FILL, .at_c = KL_AT_WORK, .m = LENGTH, .n = 1, .ldc = LENGTH, .alpha = g + 1};
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                          .beta = 1,
                                          .at_a = KL_AT_WORK,
                                          .at_c = KL_AT_Y,
                                          .m = LENGTH,
                                          .n = 1,
                                          .lda = LENGTH,
                                          .ldc = LENGTH,
                                          .c = y,
                                          .alpha = 1};
        }
        kl_batch_close_group(&b, LENGTH);
    }
    b.zero = 1;
    b.ny = (int64_t)GROUPS * LENGTH;
    expect_ok(kl_batch_close(&b, &err), err);
    for (int nthread = 1; nthread <= 4; nthread++) {
        double *const y = run_host(&b, &a, nthread);
        kl_test_case("%d threads", nthread);
        for (int64_t i = 0; i < b.ny; i++) expect_eq(y[i], TIMES * (i / LENGTH + 1));
        kl_test_free(y);
    }
    kl_batch_clear(&b);
    arena_close(&a);
    expect_eq(kl_mem_live_total(), 0);
}

/* Groups so large that all threads work inside of one: intermediates that the next record reads, sums on one
   place, deep products, a small group behind. */
static void test_wide(void **state)
{
    enum {
        M = 150,
        K = 400,
        N = 300,
    };
    kl_err err = {""};
    kl_batch b;
    uint64_t seed = 5;
    arena a = arena_open(K * N, &seed);
    (void)state;
    kl_batch_init(&b);
    for (int64_t y = 0; y < 2 * M * N; y += M * N) {
        expect_ok(kl_batch_open_group(&b, y, M * N, &err), err);
        expect_ok(kl_batch_reserve(&b, 8, &err), err);
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .ta = 1,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_WORK,
                                      .m = M,
                                      .n = N,
                                      .k = 200,
                                      .lda = 200,
                                      .ldb = 200,
                                      .ldc = M,
                                      .alpha = 0.5};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .tb = 1,
                                      .beta = 1,
                                      .at_a = KL_AT_WORK,
                                      .at_b = KL_AT_RIGHT,
                                      .at_c = KL_AT_Y,
                                      .m = M,
                                      .n = 130,
                                      .k = N,
                                      .lda = M,
                                      .ldb = 130,
                                      .ldc = M,
                                      .c = y + 17 * M,
                                      .alpha = -1};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .beta = 1,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = M,
                                      .n = N,
                                      .k = K,
                                      .lda = M,
                                      .ldb = K,
                                      .ldc = M,
                                      .c = y,
                                      .alpha = 2};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                      .ta = 1,
                                      .beta = 1,
                                      .at_a = KL_AT_LEFT_PACK,
                                      .at_c = KL_AT_Y,
                                      .m = M,
                                      .n = 77,
                                      .lda = 77,
                                      .ldc = M,
                                      .c = y + 5 * M,
                                      .alpha = 3};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_FILL,
                                      .beta = 1,
                                      .at_c = KL_AT_Y,
                                      .m = 1,
                                      .n = M,
                                      .ldc = M + 1,
                                      .c = y,
                                      .alpha = 0.25};
        kl_batch_close_group(&b, M * N);
    }
    expect_ok(kl_batch_open_group(&b, 2 * M * N, 12, &err), err);
    expect_ok(kl_batch_reserve(&b, 1, &err), err);
    *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                  .beta = 1,
                                  .at_a = KL_AT_X,
                                  .at_b = KL_AT_RIGHT,
                                  .at_c = KL_AT_Y,
                                  .m = 3,
                                  .n = 4,
                                  .k = 9,
                                  .lda = 3,
                                  .ldb = 9,
                                  .ldc = 3,
                                  .c = 2 * M * N,
                                  .alpha = 1};
    kl_batch_close_group(&b, 0);
    b.zero = 1;
    b.ny = 2 * M * N + 12;
    expect_ok(kl_batch_close(&b, &err), err);
    kl_test_case("wide groups");
    check(&b, &a);
    kl_batch_clear(&b);
    arena_close(&a);
    expect_eq(kl_mem_live_total(), 0);
}

static void test_empty(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    kl_batch b;
    double y[4] = {NAN, NAN, NAN, NAN};
    (void)state;
    kl_batch_init(&b);
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    expect_ok(kl_batch_run(&b, ex, (kl_dptr){0}, (kl_dptr){(uintptr_t)y}, &err), err);
    expect_true(isnan(y[0]));
    b.zero = 1;
    expect_ok(kl_batch_open_group(&b, 1, 2, &err), err); /* nothing but its zeros */
    kl_batch_close_group(&b, 0);
    expect_ok(kl_batch_run(&b, ex, (kl_dptr){0}, (kl_dptr){(uintptr_t)y}, &err), err);
    expect_true(isnan(y[0]) && y[1] == 0 && y[2] == 0 && isnan(y[3]));
    kl_batch_clear(&b);
    kl_exec_close(&ex);
    expect_eq(kl_mem_live_total(), 0);
}

static void test_no_memory(void **state)
{
    kl_err err = {""};
    (void)state;
    for (int64_t k = 1;; k++) {
        uint64_t seed = 5;
        kl_exec *ex = NULL;
        kl_batch b;
        arena a = arena_open(PLACE, &seed);
        double *const y = kl_test_guarded(4 * 100);
        kl_status st = KL_OK;
        kl_batch_init(&b);
        kl_mem_fail_after(k);
        KL_TRY(kl_exec_open_host(2, &ex, &err));
        for (int g = 0; g < 40; g++) {
            KL_TRY(kl_batch_open_group(&b, 10 * g, 10, &err));
            KL_TRY(kl_batch_reserve(&b, 3, &err));
            for (int r = 0; r < 3; r++)
                *kl_batch_push(&b) =
                    (kl_rec){.kind = KL_REC_FILL, .at_c = KL_AT_WORK, .m = 1, .n = 1, .ldc = 1};
            kl_batch_close_group(&b, 1);
        }
        KL_TRY(kl_batch_run(&b, ex, (kl_dptr){(uintptr_t)a.x}, (kl_dptr){(uintptr_t)y}, &err));
    out:
        kl_mem_fail_after(0);
        kl_batch_clear(&b);
        kl_exec_close(&ex);
        kl_test_free(y);
        arena_close(&a);
        expect_eq(kl_mem_live_total(), 0);
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
}

/* Lists as superblocks make them, and some that have no such form: the joined list does the same, with fewer
   and longer products. */
static void test_concat(void **state)
{
    kl_err err = {""};
    kl_exec *ex;
    (void)state;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int round = 0; round < 200; round++) {
        uint64_t seed = (uint64_t)round + 1;
        enum { ROOM = 1600 };
        kl_batch b, joined, pack;
        kl_batch_init(&b);
        kl_test_case("round %d", round);
        int64_t ny = 0;
        int joins = 0;
        const int ngroup = 1 + below(&seed, 5);
        for (int g = 0; g < ngroup; g++) {
            const int m = 1 + below(&seed, 12), n = 1 + below(&seed, 12), nrec = below(&seed, 6);
            int right = 0, left = 0;
            expect_ok(kl_batch_open_group(&b, ny, (int64_t)m * n, &err), err);
            expect_ok(kl_batch_reserve(&b, 3 * nrec, &err), err);
            for (int r = 0; r < nrec; r++) {
                const int k = 1 + below(&seed, 12), j = 1 + below(&seed, 12), kind = below(&seed, 4),
                          ta = below(&seed, 2), tb = below(&seed, 2);
                kl_rec w = {.kind = KL_REC_GEMM,
                            .ta = (uint8_t)ta,
                            .at_a = KL_AT_LEFT,
                            .at_b = KL_AT_X,
                            .at_c = KL_AT_WORK,
                            .alpha = kl_test_uniform(&seed),
                            .k = j};
                kl_rec u = {.kind = KL_REC_GEMM,
                            .beta = 1,
                            .at_c = KL_AT_Y,
                            .c = ny,
                            .m = m,
                            .n = n,
                            .ldc = m,
                            .k = k,
                            .alpha = kl_test_uniform(&seed)};
                w.m = kind == 1 ? k : m, w.n = kind == 1 ? n : k, w.ldc = w.m, w.lda = ta ? j : w.m,
                w.ldb = j;
                if (kind == 1)
                    u.at_a = KL_AT_RIGHT, u.ta = (uint8_t)tb, u.lda = tb ? k : m, u.at_b = KL_AT_WORK,
                    u.ldb = k, left++;
                else
                    u.at_a = KL_AT_WORK, u.lda = m, u.at_b = KL_AT_RIGHT, u.tb = (uint8_t)tb,
                    u.ldb = tb ? n : k, right += kind != 2;
                *kl_batch_push(&b) = w;
                *kl_batch_push(&b) = u;
                if (kind == 2) *kl_batch_push(&b) = u; /* two readers: stays as it is */
            }
            joins += (right > 1 ? right - 1 : 0) + (left > 1 ? left - 1 : 0);
            kl_batch_close_group(&b, 144);
            ny += (int64_t)m * n;
        }
        b.zero = 1, b.nx = ROOM, b.ny = ny;
        expect_ok(kl_batch_close(&b, &err), err);
        expect_ok(kl_concat(&b, &joined, &pack, &err), err);
        expect_eq(joined.nrec, b.nrec - joins);
        expect_near(joined.flop, b.flop, 1e-9 * b.flop);
        double *const x = kl_test_guarded(ROOM), *const l = kl_test_guarded(ROOM),
                      *const r = kl_test_guarded(ROOM), *const s = kl_test_guarded(pack.ny),
                      *const y = kl_test_guarded(ny), *const z = kl_test_guarded(ny);
        for (int i = 0; i < ROOM; i++)
            x[i] = kl_test_uniform(&seed), l[i] = kl_test_uniform(&seed), r[i] = kl_test_uniform(&seed);
        b.base[KL_AT_LEFT].addr = pack.base[KL_AT_LEFT].addr = joined.base[KL_AT_LEFT].addr = (uintptr_t)l;
        b.base[KL_AT_RIGHT].addr = pack.base[KL_AT_RIGHT].addr = joined.base[KL_AT_RIGHT].addr = (uintptr_t)r;
        joined.base[KL_AT_STACK].addr = (uintptr_t)s;
        const kl_dptr px = {(uintptr_t)x};
        expect_ok(kl_batch_run(&b, ex, px, (kl_dptr){(uintptr_t)y}, &err), err);
        expect_ok(kl_batch_run(&pack, ex, px, (kl_dptr){(uintptr_t)s}, &err), err);
        expect_ok(kl_batch_run(&joined, ex, px, (kl_dptr){(uintptr_t)z}, &err), err);
        for (int64_t i = 0; i < ny; i++) expect_near(z[i], y[i], 1e-12 * (1 + fabs(y[i])));
        kl_test_guards_hold(s, pack.ny), kl_test_guards_hold(z, ny);
        kl_test_free(x), kl_test_free(l), kl_test_free(r), kl_test_free(s), kl_test_free(y), kl_test_free(z);
        kl_batch_clear(&b), kl_batch_clear(&joined), kl_batch_clear(&pack);
    }
    kl_exec_close(&ex);
}

/* An intermediate made of another one, whose memory is written anew: joined or not, the answer is that of the
   list. And a column, whose ldc says nothing, in a matrix that is put together. */
static void test_concat_chain(void **state)
{
    enum {
        N = 4,
        ALL = N * N,
    };
    kl_err err = {""};
    kl_exec *ex;
    kl_batch b, joined, pack, column;
    uint64_t seed = 3;
    double x[ALL], l[ALL], r[ALL], y[ALL], z[ALL], *s;
    (void)state;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int i = 0; i < ALL; i++)
        x[i] = kl_test_uniform(&seed), l[i] = kl_test_uniform(&seed), r[i] = kl_test_uniform(&seed);
    kl_batch_init(&b);
    expect_ok(kl_batch_open_group(&b, 0, ALL, &err), err);
    expect_ok(kl_batch_reserve(&b, 6, &err), err);
    for (int k = 0; k < 2; k++) {
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_WORK,
                                      .m = N,
                                      .n = N,
                                      .k = N,
                                      .lda = N,
                                      .ldb = N,
                                      .ldc = N,
                                      .alpha = 1 + k};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_WORK,
                                      .at_c = KL_AT_WORK,
                                      .m = N,
                                      .n = N,
                                      .k = N,
                                      .lda = N,
                                      .ldb = N,
                                      .ldc = N,
                                      .c = ALL,
                                      .alpha = 1};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .beta = 1,
                                      .at_a = KL_AT_WORK,
                                      .at_b = KL_AT_RIGHT,
                                      .at_c = KL_AT_Y,
                                      .m = N,
                                      .n = N,
                                      .k = N,
                                      .lda = N,
                                      .ldb = N,
                                      .ldc = N,
                                      .a = ALL,
                                      .alpha = 1};
    }
    kl_batch_close_group(&b, 2 * ALL);
    b.zero = 1, b.nx = b.ny = ALL;
    expect_ok(kl_batch_close(&b, &err), err);
    expect_ok(kl_concat(&b, &joined, &pack, &err), err);
    s = kl_test_guarded(pack.ny);
    b.base[KL_AT_LEFT].addr = pack.base[KL_AT_LEFT].addr = joined.base[KL_AT_LEFT].addr = (uintptr_t)l;
    b.base[KL_AT_RIGHT].addr = pack.base[KL_AT_RIGHT].addr = joined.base[KL_AT_RIGHT].addr = (uintptr_t)r;
    joined.base[KL_AT_STACK].addr = (uintptr_t)s;
    expect_ok(kl_batch_run(&b, ex, (kl_dptr){(uintptr_t)x}, (kl_dptr){(uintptr_t)y}, &err), err);
    expect_ok(kl_batch_run(&pack, ex, (kl_dptr){(uintptr_t)x}, (kl_dptr){(uintptr_t)s}, &err), err);
    expect_ok(kl_batch_run(&joined, ex, (kl_dptr){(uintptr_t)x}, (kl_dptr){(uintptr_t)z}, &err), err);
    for (int i = 0; i < ALL; i++) expect_near(z[i], y[i], 1e-13);
    kl_test_free(s);
    kl_batch_clear(&b), kl_batch_clear(&joined), kl_batch_clear(&pack);

    kl_spmat *m = NULL;
    const double *const base[KL_NAT] = {[KL_AT_LEFT] = l};
    kl_batch_init(&column);
    expect_ok(kl_batch_open_group(&column, 0, N, &err), err);
    expect_ok(kl_batch_reserve(&column, 1, &err), err);
    *kl_batch_push(&column) = (kl_rec){.kind = KL_REC_GEMM,
                                       .beta = 1,
                                       .at_a = KL_AT_LEFT,
                                       .at_b = KL_AT_X,
                                       .at_c = KL_AT_Y,
                                       .m = N,
                                       .n = 1,
                                       .k = N,
                                       .lda = N,
                                       .ldb = N,
                                       .ldc = 1,
                                       .alpha = 1};
    kl_batch_close_group(&column, 0);
    column.zero = 1, column.nx = column.ny = N;
    expect_ok(kl_batch_close(&column, &err), err);
    expect_ok(kl_assemble(&column, base, &m, &err), err);
    expect_eq(m->nnz, ALL);
    kl_spmat_destroy(&m);
    kl_batch_clear(&column);
    kl_exec_close(&ex);
}

/* A list in chunks, their operands gathered: the same results from little memory at a time, each chunk within
   its budget where one piece of work allows it. */
static void test_chunks(void **state)
{
    static const char operators[KL_NAT] = {[KL_AT_LEFT] = 1, [KL_AT_RIGHT] = 1, [KL_AT_LEFT_PACK] = 1};
    kl_err err = {""};
    kl_exec *ex;
    int many = 0;
    (void)state;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int round = 0; round < 200; round++) {
        uint64_t seed = (uint64_t)round + 7;
        arena a = arena_open(PLACE, &seed);
        kl_batch b;
        kl_chunks c;
        kl_batch_init(&b);
        make(&b, &a, 1 + below(&seed, 12), 1 + below(&seed, 30), round % 4 != 0, &seed);
        const int64_t budget = round % 3 == 0 ? 1 : 1 + below(&seed, 4000);
        kl_test_case("round %d budget %lld", round, (long long)budget);
        double *const want = kl_test_guarded(b.ny), *const size = calloc((size_t)b.ny + 1, sizeof *size),
                      *const y = kl_test_guarded(b.ny);
        run_plain(&b, &a, want, size);
        expect_ok(kl_chunks_create(&b, operators, budget, &c, &err), err);
        for (int g = 0; g < b.ngroup && b.zero; g++)
            for (int64_t i = b.group[g].y; i < b.group[g].y + b.group[g].ny; i++) y[i] = 0;
        int64_t nrec = 0, moved = 0, most = 0;
        for (int k = 0; k < c.nchunk; k++) {
            kl_batch *const q = &c.chunk[k].list;
            const kl_gather *const need = &c.chunk[k].need;
            double *const buffer = kl_test_guarded(need->n);
            const double *const from[KL_NAT] = {
                [KL_AT_LEFT] = a.left, [KL_AT_RIGHT] = a.right, [KL_AT_LEFT_PACK] = a.pack};
            for (int64_t i = 0; i < need->ncopy; i++) {
                expect_true(i == 0 || need->copy[i].to >= need->copy[i - 1].to + need->copy[i - 1].n);
                expect_eq(need->copy[i].to % 2, need->copy[i].from % 2);
                memcpy(buffer + need->copy[i].to, from[need->copy[i].at] + need->copy[i].from,
                       (size_t)need->copy[i].n * sizeof(double));
                moved += need->copy[i].n;
            }
            q->base[KL_AT_STACK].addr = (uintptr_t)buffer;
            most = need->n > most ? need->n : most;
            for (int64_t i = 0; i < q->nrec; i++)
                expect_true(!operators[q->rec[i].at_a] || q->rec[i].kind == KL_REC_FILL ||
                            q->rec[i].m * q->rec[i].n == 0 ||
                            (q->rec[i].kind == KL_REC_GEMM && q->rec[i].k == 0));
            expect_ok(ex->vt.batch_prepare(ex, q, &err), err);
            expect_ok(ex->vt.batch_apply(ex, q, (kl_dptr){(uintptr_t)a.x}, (kl_dptr){(uintptr_t)y}, &err),
                      err);
            ex->vt.batch_release(ex, q);
            kl_test_guards_hold(buffer, need->n);
            kl_test_free(buffer);
            nrec += q->nrec;
        }
        expect_eq(nrec, b.nrec);
        expect_eq(c.moved, moved);
        expect_eq(c.most, most);
        many += c.nchunk > 2;
        for (int64_t i = 0; i < b.ny; i++)
            expect_true((isnan(want[i]) && isnan(y[i])) || fabs(y[i] - want[i]) <= 2.3e-16 * 2000 * size[i]);
        kl_test_guards_hold(y, b.ny);
        kl_test_free(want), kl_test_free(y);
        free(size);
        kl_chunks_clear(&c);
        kl_batch_clear(&b);
        arena_close(&a);
    }
    expect_true(many > 50);
    kl_exec_close(&ex);
    expect_eq(kl_mem_live_total(), 0);
}

/* Records of an output may be cut before an intermediate is made anew, and nowhere between that and its last
   reader. */
static void test_cuts(void **state)
{
    kl_err err = {""};
    kl_batch b;
    char may[8];
    (void)state;
    kl_batch_init(&b);
    b.zero = 1;
    expect_ok(kl_batch_open_group(&b, 0, 4, &err), err);
    expect_ok(kl_batch_reserve(&b, 7, &err), err);
    const kl_rec make = {.kind = KL_REC_GEMM,
                         .at_a = KL_AT_LEFT,
                         .at_b = KL_AT_X,
                         .at_c = KL_AT_WORK,
                         .m = 2,
                         .n = 2,
                         .k = 2,
                         .lda = 2,
                         .ldb = 2,
                         .ldc = 2,
                         .alpha = 1};
    const kl_rec use = {.kind = KL_REC_GEMM,
                        .beta = 1,
                        .at_a = KL_AT_WORK,
                        .at_b = KL_AT_RIGHT,
                        .at_c = KL_AT_Y,
                        .m = 2,
                        .n = 2,
                        .k = 2,
                        .lda = 2,
                        .ldb = 2,
                        .ldc = 2,
                        .alpha = 1};
    const kl_rec plain = {.kind = KL_REC_ADD,
                          .beta = 1,
                          .at_a = KL_AT_X,
                          .at_c = KL_AT_Y,
                          .m = 2,
                          .n = 2,
                          .lda = 2,
                          .ldc = 2,
                          .alpha = 1};
    const kl_rec all[7] = {make, use, use, plain, make, plain, use};
    for (int i = 0; i < 7; i++) *kl_batch_push(&b) = all[i];
    kl_batch_close_group(&b, 4);
    kl_group_cuts(&b, &b.group[0], may);
    expect_eq(memcmp(may, "\1\0\0\1\1\0\0\1", 8), 0);
    b.zero = 0;
    kl_group_cuts(&b, &b.group[0], may);
    expect_eq(memcmp(may, "\1\0\0\0\0\0\0\1", 8), 0);
    kl_batch_clear(&b);
}

enum {
    TALL = 150,
    UPPER = 70,
    WIDE = 130,
    DEEP = 90
}; /* of test_strips: rows, those of an upper part, columns */

/* As in H x: an intermediate's rows are the segment's, from `row` on. */
static void push_rows(kl_batch *b, int64_t y, int row, int m, double alpha)
{
    kl_err err = {""};
    expect_ok(kl_batch_reserve(b, 4, &err), err);
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                 .ta = 1,
                                 .at_a = KL_AT_LEFT,
                                 .at_b = KL_AT_X,
                                 .at_c = KL_AT_WORK,
                                 .m = m,
                                 .n = DEEP,
                                 .k = 40,
                                 .lda = 41,
                                 .ldb = 40,
                                 .ldc = m,
                                 .alpha = alpha};
    for (int half = 0; half < 2; half++) /* each reads half of its columns */
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                     .tb = (uint8_t)half,
                                     .beta = 1,
                                     .at_a = KL_AT_WORK,
                                     .at_b = KL_AT_RIGHT,
                                     .at_c = KL_AT_Y,
                                     .m = m,
                                     .n = WIDE,
                                     .k = DEEP / 2,
                                     .lda = m,
                                     .ldb = WIDE,
                                     .ldc = TALL,
                                     .a = half * (int64_t)m * (DEEP / 2),
                                     .c = y + row,
                                     .alpha = 1};
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_ADD,
                                 .ta = (uint8_t)(row > 0),
                                 .beta = 1,
                                 .at_a = KL_AT_X,
                                 .at_c = KL_AT_Y,
                                 .m = m,
                                 .n = 9,
                                 .lda = TALL,
                                 .ldc = TALL,
                                 .c = y + row + 5 * TALL,
                                 .alpha = alpha};
}

/* As in the growth of a block: an intermediate's columns are the segment's, made of several products. */
static void push_columns(kl_batch *b, int64_t y)
{
    kl_err err = {""};
    expect_ok(kl_batch_reserve(b, 9, &err), err);
    for (int add = 0; add < 8; add++) /* the more, the less work a record: no wide group */
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                     .beta = (uint8_t)(add > 0),
                                     .at_a = KL_AT_LEFT,
                                     .at_b = KL_AT_X,
                                     .at_c = KL_AT_WORK,
                                     .m = DEEP,
                                     .n = WIDE,
                                     .k = 20,
                                     .lda = DEEP,
                                     .ldb = 25,
                                     .ldc = DEEP,
                                     .b = 2 * add,
                                     .alpha = 1 + add};
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                 .ta = 1,
                                 .beta = 1,
                                 .at_a = KL_AT_RIGHT,
                                 .at_b = KL_AT_WORK,
                                 .at_c = KL_AT_Y,
                                 .m = TALL,
                                 .n = WIDE,
                                 .k = DEEP - 7,
                                 .lda = DEEP,
                                 .ldb = DEEP,
                                 .ldc = TALL,
                                 .b = 7,
                                 .c = y,
                                 .alpha = 1};
}

/* One group that most of the work is in, and small ones: strips give the bits of the whole. */
static void test_strips(void **state)
{
    kl_err err = {""};
    (void)state;
    for (int way = KL_STRIPS_ROWS; way <= KL_STRIPS_COLUMNS; way++) {
        uint64_t seed = 3;
        arena a = arena_open(TALL * WIDE + 5000, &seed);
        int32_t place[9];
        kl_batch b;
        kl_batch_init(&b);
        b.zero = 1;
        expect_ok(kl_batch_open_group(&b, 3, TALL * WIDE, &err), err);
        if (way == KL_STRIPS_ROWS) push_rows(&b, 3, 0, UPPER, 1), push_rows(&b, 3, UPPER, TALL - UPPER, -2);
        else push_columns(&b, 3);
        kl_batch_close_group(&b, (int64_t)DEEP * WIDE);
        for (int g = 0; g < 5; g++) {
            const int64_t y = 3 + TALL * WIDE + 4 * g;
            expect_ok(kl_batch_open_group(&b, y, 4, &err), err);
            expect_ok(kl_batch_reserve(&b, 1, &err), err);
            *kl_batch_push(&b) =
                (kl_rec){.kind = KL_REC_FILL, .at_c = KL_AT_Y, .m = 2, .n = 2, .ldc = 2, .c = y, .alpha = g};
            kl_batch_close_group(&b, 0);
        }
        b.nx = a.nx, b.ny = 3 + TALL * WIDE + 20;
        expect_ok(kl_batch_close(&b, &err), err);
        const kl_strips s = kl_group_strips(&b, &b.group[0], place);
        expect_eq(s.way, way);
        expect_eq(s.n, way == KL_STRIPS_ROWS ? TALL : WIDE);
        expect_eq(s.ld, TALL);
        for (int i = 0; i < b.group[0].last; i++)
            expect_eq(place[i], way == KL_STRIPS_ROWS && i >= 4 ? UPPER : 0);
        check(&b, &a);
        double *const one = run_host(&b, &a, 1), *const many = run_host(&b, &a, 7);
        expect_eq(memcmp(one, many, (size_t)b.ny * sizeof *one), 0);
        kl_test_free(one), kl_test_free(many);
        kl_batch_clear(&b);
        arena_close(&a);
    }
    expect_eq(kl_mem_live_total(), 0);
}

/* What makes a group one piece. */
static void test_no_strips(void **state)
{
    kl_err err = {""};
    int32_t place[9];
    kl_batch b;
    (void)state;
    kl_batch_init(&b);
    expect_ok(kl_batch_open_group(&b, 0, TALL * WIDE, &err), err);
    push_rows(&b, 0, 0, UPPER, 1), push_rows(&b, 0, UPPER, TALL - UPPER, 1);
    kl_batch_close_group(&b, TALL * DEEP);
    const kl_group *const g = &b.group[0];
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_ROWS);
    const kl_rec reader = b.rec[2], maker = b.rec[4];
    b.rec[2].c += 1; /* the same rows of WORK at two places */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[2] = reader, b.rec[2].a += 1; /* other rows of it */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[2] = reader, b.rec[2].ta = 1; /* columns as rows */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[2] = reader, b.rec[2].at_b = KL_AT_Y; /* what others write */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[2] = reader, b.rec[2].ldc -= 1; /* another segment's rows */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[2] = reader, b.rec[4].at_b = KL_AT_WORK; /* an intermediate of an intermediate */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[4] = maker, b.rec[4].beta = 1; /* added to what has been read */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    b.rec[4] = maker;
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_ROWS);
    b.group[0].ny = 0; /* several segments */
    expect_eq(kl_group_strips(&b, g, place).way, KL_STRIPS_NONE);
    kl_batch_clear(&b);
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),    cmocka_unit_test(test_order),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_work),      cmocka_unit_test(test_wide),   cmocka_unit_test(test_empty),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_concat), cmocka_unit_test(test_concat_chain),
        cmocka_unit_test(test_chunks),    cmocka_unit_test(test_cuts),   cmocka_unit_test(test_strips),
        cmocka_unit_test(test_no_strips)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
