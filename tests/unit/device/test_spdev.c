/* Layouts of sparse matrices for devices, read back by plain loops that follow the description in spdev.h:
   every non-zero once and nothing else, for matrices with gaps of any length, empty rows, one row, more
   ranges than rows; the kernels that read them, thread by thread; which way is chosen; matrices with the
   printed statistics.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "warps.h"

#include "ci/cimatrix.h"
#include "base/mem.h"
#include "base/random.h"
#include "device/spdev.h"
#include "device/spmv_device.h"

static const kl_spmachine machine = {.warps = 1, .nblock = 3, .shared_bytes = 232448};

static void check_packed(const kl_spmat *m, const kl_spargs *a)
{
    expect_true(a->nxblock >= 1 && (a->nxblock == 1 || (int64_t)a->nxblock * a->nshared >= m->ncol));
    for (int64_t i = 0; i < m->nrow; i++) {
        int64_t k = kl_sp_offset(m, m->start, i);
        for (int b = 0; b < a->nxblock; b++) {
            const uint32_t first = a->group[b * m->nrow + i], n = a->group[b * m->nrow + i + 1] - first;
            for (uint32_t g = 0; g < n; g++) {
                int64_t c = (int64_t)a->base[first + g] << (8 * a->step_bytes);
                for (int j = 0; j < 8; j++) {
                    const int64_t at = 8 * (int64_t)(first + g) + j;
                    c +=
                        a->step_bytes == 1 ? ((const uint8_t *)a->step)[at] : ((const uint16_t *)a->step)[at];
                    expect_true(c < m->ncol); /* whatever is read of x is there */
                    const double v = a->packed[8 * (int64_t)first + (j / 2 * (int64_t)n + g) * 2 + j % 2];
                    if (v == 0.0) continue;
                    expect_true(k < kl_sp_offset(m, m->start, i + 1));
                    expect_eq(c, kl_sp_column(m, m->rest_column, k));
                    expect_true(v == m->rest_value[k] && (a->nxblock == 1 || c / a->nshared == b));
                    k++;
                }
            }
        }
        expect_eq(k, kl_sp_offset(m, m->start, i + 1));
    }
}

typedef struct walk {
    const kl_spmat *m;
    double *y;       /* sums of value * f(column) */
    unsigned char *written;
} walk;

static double f(int64_t column) { return 1.0 + 0.001 * (double)(column % 1009); }

static void walk_share(walk *w, const kl_spargs *a, int range, int far, int64_t low, const kl_spshare *share)
{
    int64_t slice = share->slice;
    double sum[32] = {0};
    for (int64_t s = share->from; s < share->to; s++) {
        int last = 0;
        for (int lane = 0; lane < 32; lane++) {
            const int64_t quad = s / 4, k = s % 4;
            const double v =
                (far ? a->far_value : a->dense_value)[quad * 128 + k / 2 * 64 + lane * 2 + k % 2];
            const uint32_t word =
                far ? a->far_column[quad * 128 + lane * 4 + k] : a->dense_column[quad * 128 + lane * 4 + k];
            const uint32_t mark = far ? UINT32_C(1) << 31 : 1U << 15;
            const int64_t c = low + (int64_t)(word & ~mark);
            expect_true(c < w->m->ncol && (far || c < low + a->dense_width));
            expect_true(lane == 0 || last == ((word & mark) != 0)); /* the whole warp ends its slice */
            last = (word & mark) != 0;
            sum[lane] += v * f(c);
        }
        for (int lane = 0; lane < 32 && last; lane++) {
            const uint16_t row = (far ? a->far_row : a->dense_row)[32 * slice + lane];
            if (row != KL_TILE_NO_ROW) {
                w->y[a->range[range] + row] += sum[lane];
                if (far) w->written[a->range[range] + row]++;
            }
            expect_true(row != KL_TILE_NO_ROW || sum[lane] == 0);
            sum[lane] = 0;
        }
        slice += last;
        expect_true(s + 1 < share->to || last); /* shares end with a slice */
    }
}

static void check_tiles(const kl_spmat *m, const kl_spargs *a)
{
    walk w = {m, calloc((size_t)m->nrow + 1, sizeof(double)), calloc((size_t)m->nrow + 1, 1)};
    const int nrest = a->ndense > 0 ? a->ndense : 1;
    expect_true(a->nrange % machine.nblock == 0 && a->range[0] == 0 && a->range[a->nrange] == m->nrow);
    for (int r = 0; r < a->nrange; r++) {
        expect_true(a->range[r + 1] >= a->range[r] &&
                    (int64_t)a->range[r + 1] - a->range[r] <= a->most_rows &&
                    a->most_rows <= KL_TILE_ROWS + 1);
        for (int b = 0; b < a->ndense; b++)
            for (int k = 0; k < a->nworker; k++)
                walk_share(&w, a, r, 0, (int64_t)b * a->dense_width,
                           &a->share[(r * a->ndense + b) * a->nworker + k]);
        for (int k = 0; k < nrest * a->nworker; k++)
            walk_share(&w, a, r, 1, 0, &a->rest[r * nrest * a->nworker + k]);
    }
    for (int64_t i = 0; i < m->nrow; i++) {
        double sum = 0, size = 0;
        for (int64_t k = kl_sp_offset(m, m->start, i); k < kl_sp_offset(m, m->start, i + 1); k++) {
            sum += m->rest_value[k] * f(kl_sp_column(m, m->rest_column, k));
            size += 2 * fabs(m->rest_value[k]);
        }
        expect_near(w.y[i], sum, 1e-13 * size);
        expect_eq(w.written[i], 1); /* the last part writes every row */
    }
    free(w.y);
    free(w.written);
}

static void test_layouts(void **state)
{
    (void)state;
    static const int64_t cases[][4] = {{1, 1, 1, 0},
                                       {50, 70, 5, 0},
                                       {300, 70000, 40, 0},
                                       {300, 33000, 40, 3000},
                                       {2000, 3000, 30, 400},
                                       {900, 16777216, 30, 0},
                                       {900, 20000000, 30, 0},
                                       {400, 9000000, 3, 0},
                                       {30000, 5000, 20, 1200},
                                       {0, 5, 1, 0}};
    kl_exec *ex = NULL;
    kl_err err;
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        kl_spmat *m = core_sparse(cases[k][0], cases[k][1], cases[k][2], cases[k][3], 11 + k);
        kl_test_case("case %d: %lld rows, %lld columns, %lld non-zeros", (int)k, (long long)m->nrow,
                     (long long)m->ncol, (long long)m->nnz);
        for (int way = KL_SPWAY_PACKED; way <= KL_SPWAY_TILES; way++) {
            kl_spmv s = {.ex = ex, .m = m, .way = (kl_spway)way};
            expect_ok(kl_spdev_prepare(ex, &machine, &s, &err), err);
            const kl_spdev *const d = s.plan;
            expect_eq(d->way, way);
            if (way == KL_SPWAY_PACKED) check_packed(m, &d->args);
            else check_tiles(m, &d->args);
            kl_spdev_release(ex, &s);
        }
        kl_spmat_destroy(&m);
    }
    kl_exec_close(&ex);
    expect_eq(kl_mem_live_total(), 0);
}

static void test_dense_blocks(void **state)
{
    (void)state;
    kl_exec *ex = NULL;
    kl_err err;
    kl_spmat *m = core_sparse(30000, 40000, 60, 39000, 3);
    expect_ok(kl_exec_open_host(2, &ex, &err), err);
    kl_spmv s = {.ex = ex, .m = m, .way = KL_SPWAY_TILES};
    expect_ok(kl_spdev_prepare(ex, &machine, &s, &err), err);
    const kl_spdev *const d = s.plan;
    expect_true(d->args.ndense >= 2);
    check_tiles(m, &d->args);
    kl_spdev_release(ex, &s);
    kl_spmat_destroy(&m);
    kl_exec_close(&ex);
}

/* ---------------------------------------------------------------- the kernels themselves, thread by
   thread */

typedef struct launch {
    const kl_spdev *d;
    int nvec, nv;
    const double *x, *xs;
    double *y, *shared;
} launch;

static void one_vector(void *arg)
{
    const launch *const l = arg;
    const kl_spargs *const a = &l->d->args;
    if (l->d->way == KL_SPWAY_THREAD) kl_sp_thread(a, a->index_bytes, l->x, l->y);
    else if (l->d->way == KL_SPWAY_WARPS) kl_sp_warps(a, a->index_bytes, l->shared, l->x, l->y);
    else if (l->d->way == KL_SPWAY_PACKED)
        kl_sp_packed(a, a->step_bytes, kl_packed_sums(a, kl_block_count(), kl_block_size() / 32), l->shared,
                     l->x, l->y);
    else if (l->d->way == KL_SPWAY_TILES) kl_sp_tiles(a, l->shared, l->x, l->y);
    else kl_sp_warp(a, a->index_bytes, l->d->lanes, l->x, l->y);
}

static void many_vectors(void *arg)
{
    const launch *const l = arg;
    const kl_spargs *const a = &l->d->args;
    if (l->d->way == KL_SPWAY_THREAD)
        kl_sp_thread_block(a, a->index_bytes, l->nv, l->nvec, l->xs, l->y, a->nrow);
    else if (l->d->way == KL_SPWAY_PACKED)
        kl_sp_packed_block(a, a->step_bytes, l->nv, l->nvec, l->xs, l->y, a->nrow);
    else kl_sp_warp_block(a, a->index_bytes, l->nv, l->nvec, l->xs, l->y, a->nrow);
}

static int enough(int64_t threads, int size) { return (int)((threads + size - 1) / size); }

/* Every way and number of vectors gives what plain sums give. */
static void check_kernels(kl_exec *ex, const kl_spmat *csr, const kl_spmat *m, kl_spway way, int threads)
{
    enum { MOST = 8 };
    kl_err err;
    kl_spmv s = {.ex = ex, .m = m, .way = way, .threads = threads};
    expect_ok(kl_spdev_prepare(ex, &machine, &s, &err), err);
    kl_spdev *const d = s.plan;
    const kl_spargs *const a = &d->args;
    const int64_t nrow = m->nrow, ncol = m->ncol;
    double *x = NULL, *xs = NULL, *y = NULL, *shared = NULL;
    expect_ok(kl_alloc(&x, ncol * MOST, KL_MEM_VECTOR, &err), err);
    expect_ok(kl_alloc(&xs, ncol * MOST, KL_MEM_VECTOR, &err), err);
    expect_ok(kl_alloc(&y, nrow * MOST, KL_MEM_VECTOR, &err), err);
    expect_ok(kl_alloc(&shared, machine.shared_bytes / 8, KL_MEM_WORK, &err), err);
    for (int64_t k = 0; k < ncol * MOST; k++) x[k] = kl_random_at(3, k);
    for (int nvec = 1; nvec <= MOST; nvec += nvec == 1 ? 2 : 5) { /* 1, 3, 8 */
        const int nv = nvec == 1   ? 1
                       : nvec == 3 ? 4
                                   : 8,
                  size = way == KL_SPWAY_TILES               ? 32 * KL_TILE_WARPS
                         : way == KL_SPWAY_PACKED && nv == 1 ? 1024
                         : threads > 0                       ? threads
                                                             : 64;
        launch l = {d, nvec, nv, x, xs, y, shared};
        /* theirs are those of other ways */
        if (nv > 1 && (way == KL_SPWAY_TILES || way == KL_SPWAY_WARPS)) break;
        for (int64_t k = 0; k < nrow * MOST; k++) y[k] = NAN;
        for (int64_t i = 0; i < ncol; i++)
            for (int v = 0; v < nv; v++) xs[i * nv + v] = v < nvec ? x[i + v * ncol] : 0.0;
        const int64_t lanes = way == KL_SPWAY_WARPS ? 64 : way == KL_SPWAY_THREAD ? 1 : d->lanes;
        if (nv > 1)
            warps_run(enough(nrow * (way == KL_SPWAY_THREAD ? nv / 2 : 32), size), size, many_vectors, &l);
        else
            warps_run(way == KL_SPWAY_TILES    ? a->nrange
                      : way == KL_SPWAY_PACKED ? machine.nblock
                                               : enough(nrow * lanes, size),
                      size, one_vector, &l);
        for (int v = 0; v < nvec; v++)
            for (int64_t i = 0; i < nrow; i++) {
                double sum = 0;
                for (int64_t k = kl_sp_offset(csr, csr->start, i); k < kl_sp_offset(csr, csr->start, i + 1);
                     k++)
                    sum += csr->rest_value[k] * x[v * ncol + kl_sp_column(csr, csr->rest_column, k)];
                expect_near(y[v * nrow + i], sum, 1e-11);
            }
    }
    kl_free(&x);
    kl_free(&xs);
    kl_free(&y);
    kl_free(&shared);
    kl_spdev_release(ex, &s);
}

static void test_kernels(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns, mean;
    } size[] = {{1, 300, 40}, {150, 300, 4}, {150, 70000, 20}, {97, 300, 60}};
    kl_exec *ex = NULL;
    kl_err err;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (size_t k = 0; k < sizeof(size) / sizeof(*size); k++) {
        kl_spmat *csr = core_sparse(size[k].rows, size[k].columns, size[k].mean, 0, 5 + k), *hybrid = NULL,
                 *sliced = NULL;
        expect_ok(kl_spmat_convert(csr, &(kl_spopts){.format = KL_SP_HYBRID, .boundary = 3}, &hybrid, &err),
                  err);
        expect_ok(kl_spmat_convert(csr, &(kl_spopts){.format = KL_SP_SELLR}, &sliced, &err), err);
        for (int threads = 64; threads <= 128; threads += 64) {
            kl_test_case("%lldx%lld, %d threads", (long long)size[k].rows, (long long)size[k].columns,
                         threads);
            check_kernels(ex, csr, csr, KL_SPWAY_WARP, threads);
            check_kernels(ex, csr, hybrid, KL_SPWAY_WARP, threads);
            check_kernels(ex, csr, hybrid, KL_SPWAY_WARPS, threads);
        }
        check_kernels(ex, csr, sliced, KL_SPWAY_THREAD, 0);
        check_kernels(ex, csr, csr, KL_SPWAY_PACKED, 0);
        check_kernels(ex, csr, csr, KL_SPWAY_TILES, 0);
        kl_spmat_destroy(&sliced);
        kl_spmat_destroy(&hybrid);
        kl_spmat_destroy(&csr);
    }
    kl_exec_close(&ex);
}

static void test_choice(void **state)
{
    (void)state;
    const kl_spmachine plain = {0};
    kl_layout_cost cost[2] = {{0}};
    int64_t pays;
    kl_spmat m = {.format = KL_SP_CSR, .nrow = 32768, .ncol = 32768, .nnz = 31000000};
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_PACKED);
    expect_true(pays > 1000 && pays < 4000);
    expect_eq(kl_spway_choose(&machine, &m, pays, 16, cost, &pays), KL_SPWAY_PACKED);
    expect_eq(kl_spway_choose(&machine, &m, pays - 1, 16, cost, &pays), KL_SPWAY_WARP);
    expect_eq(kl_spway_choose(&plain, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_THREAD);
    m.nrow = m.ncol = 1638564; /* N2, up to seven-fold excitations */
    m.nnz = 802440444;
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_WARP);
    expect_eq(pays, 0);
    m.nrow = m.ncol = 1048576;
    m.nnz = 91000000;
    expect_eq(kl_spway_choose(&machine, &m, 20, 16, cost, &pays), KL_SPWAY_WARP); /* a solve */
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 1, cost, &pays), KL_SPWAY_TILES);
    expect_eq(kl_spway_choose(&machine, &m, 1000, 16, cost, &pays), KL_SPWAY_TILES);
    /* one thread lays out too slowly */
    expect_eq(kl_spway_choose(&machine, &m, 1000, 1, cost, &pays), KL_SPWAY_WARP);
    /* where this machine was measured, its figures count */
    cost[0] = (kl_layout_cost){.lay_out = 1600, .gain = 1};
    expect_eq(kl_spway_choose(&machine, &m, 100, 16, cost, &pays), KL_SPWAY_TILES);
    expect_eq(pays, 100);
    expect_eq(kl_spway_choose(&machine, &m, 99, 16, cost, &pays), KL_SPWAY_WARP);
    cost[0].gain = 0; /* no faster here */
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_WARP);
    expect_eq(pays, 0);
    cost[0] = (kl_layout_cost){0};
    m.symmetric = 1;
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_WARP);
    expect_eq(pays, 0);
    m.symmetric = 0;
    m.format = KL_SP_HYBRID;
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_WARP);
    m.format = KL_SP_SELL;
    expect_eq(kl_spway_choose(&machine, &m, KL_SPMV_MANY, 16, cost, &pays), KL_SPWAY_THREAD);
}

static void test_refusals(void **state)
{
    (void)state;
    kl_exec *ex = NULL;
    kl_err err;
    kl_spmat *m = core_sparse(50, 70, 5, 0, 5), *ell = NULL;
    kl_spmv *s = NULL;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_refused(kl_spmv_create_way(ex, m, KL_SPWAY_PACKED, 0, &s, &err), KL_EABSENT, err, "packed");
    expect_true(s == NULL);
    expect_ok(kl_spmat_convert(m, &(kl_spopts){.format = KL_SP_ELL}, &ell, &err), err);
    kl_spmv a = {.ex = ex, .m = ell, .way = KL_SPWAY_WARP};
    expect_refused(kl_spdev_prepare(ex, &machine, &a, &err), KL_EABSENT, err,
                   "'warp' for a matrix in format ell");
    kl_exec_close(&ex);
    const int64_t live = kl_mem_live_total();
    for (int64_t k = 1;; k++) { /* every allocation failing: nothing is left behind */
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        kl_spmv b = {.ex = ex, .m = m, .way = k % 2 ? KL_SPWAY_TILES : KL_SPWAY_PACKED};
        kl_mem_fail_after((k + 1) / 2);
        const kl_status st = kl_spdev_prepare(ex, &machine, &b, &err);
        kl_mem_fail_after(0);
        expect_true(st == KL_OK || st == KL_ENOMEM);
        kl_spdev_release(ex, &b);
        kl_exec_close(&ex);
        expect_eq(kl_mem_live_total(), live);
        if (st == KL_OK && k > 60) break;
        expect_true(k < 200);
    }
    kl_spmat_destroy(&ell);
    kl_spmat_destroy(&m);
    expect_eq(kl_mem_live_total(), 0);
}

/* Tables 3 and 4 of mahmoud2018, number by number. */
/* Table 4 of mahmoud2018 follows from the non-zeros of Table 3: the regions are a tenth of the columns and
   the rest. */
static void test_printed_sparsity(void **state)
{
    static const double table[KL_CIMATRIX_COUNT] = {0.989985, 0.989990, 0.989997, 0.989993, 0.989994,
                                                    0.989990, 0.989997, 0.989993, 0.990002, 0.989993};
    (void)state;
    for (int number = 1; number <= KL_CIMATRIX_COUNT; number++) {
        int64_t expansion, longest, row;
        double reference, rest;
        kl_cimatrix_printed(number, &expansion, &longest, &row);
        const kl_spmat_facts f = {.nnz_reference = 21463040, .nnz_expansion = expansion};
        kl_cimatrix_sparsity(&f, KL_CIMATRIX_SMALL, &reference, &rest);
        expect_near(reference, 0.800110, 5.1e-7);
        expect_near(rest, table[number - 1], 5.1e-7);
    }
}

static void test_printed(void **state)
{
    (void)state;
    kl_err err;
    kl_spmat *m = NULL, *same = NULL;
    expect_ok(kl_cimatrix_create(KL_CIMATRIX_SMALL, 2, 2, &m, &err), err);
    kl_spmat_facts facts;
    kl_spmat_look(m, KL_CIMATRIX_BOUNDARY, &facts);
    expect_eq(facts.nnz_reference, 21463040);
    expect_eq(facts.nnz_expansion, 9673031);
    expect_eq(facts.nnz, 31136071);
    expect_eq(facts.longest, 1069);
    expect_eq(facts.longest_row + 1, 6144);
    expect_near(facts.sparsity, 0.971002, 6e-7);
    int64_t left = 0;
    for (int64_t k = 0; k < m->nnz; k++) left += kl_sp_column(m, m->rest_column, k) < 3276;
    expect_eq(left, 21463040);
    for (int64_t i = 0; i < m->nrow; i += 97)
        for (int64_t k = kl_sp_offset(m, m->start, i) + 1; k < kl_sp_offset(m, m->start, i + 1); k++)
            expect_true(kl_sp_column(m, m->rest_column, k) > kl_sp_column(m, m->rest_column, k - 1));
    expect_ok(kl_cimatrix_create(KL_CIMATRIX_SMALL, 2, 1, &same, &err), err); /* on any number of threads */
    expect_true(memcmp(m->rest_value, same->rest_value, (size_t)m->nnz * 8) == 0 &&
                memcmp(m->rest_column, same->rest_column, (size_t)m->nnz * 2) == 0);
    kl_spmat_destroy(&same);
    kl_spmat_destroy(&m);
    expect_refused(kl_cimatrix_create(100, 1, 1, &m, &err), KL_EINPUT, err, "16384");
    expect_refused(kl_cimatrix_create(32768, 11, 1, &m, &err), KL_EINPUT, err, "matrix 11");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),         cmocka_unit_test(test_dense_blocks),
        cmocka_unit_test(test_kernels),         cmocka_unit_test(test_choice),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_printed_sparsity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
