/* Lists like those of DMRG: written to a file and read again, and shared by a device and the host.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/assemble.h"
#include "core.h"
#include "exec/exec.h"
#include "exec/hybrid.h"
#include "kl_test.h"
#include "record/reclist.h"
#include "record/record.h"
#include "exec/spmv.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int below(uint64_t *seed, int n) { return (int)(kl_test_bits(seed) % (uint64_t)n); }

static double *filled(int64_t n, uint64_t *seed)
{
    double *const p = kl_test_guarded(n);
    for (int64_t i = 0; i < n; i++) p[i] = kl_test_uniform(seed);
    return p;
}

/* Groups as superblocks make them: intermediates with one reader, products and sums that add to y; 2 doubles
   of y are left alone behind each. */
static void make_superblock(kl_batch *b, int64_t room, int ngroup, uint64_t *seed)
{
    kl_err err = {""};
    int64_t ny = 0;
    for (int g = 0; g < ngroup; g++) {
        const int m = 1 + below(seed, 15), n = 1 + below(seed, 15), nrec = 1 + below(seed, 6);
        expect_ok(kl_batch_open_group(b, ny, (int64_t)m * n, &err), err);
        expect_ok(kl_batch_reserve(b, 3 * nrec, &err), err);
        for (int q = 0; q < nrec; q++) {
            const int k = 1 + below(seed, 15), j = 1 + below(seed, 15);
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .at_a = KL_AT_LEFT,
                                         .at_b = KL_AT_X,
                                         .at_c = KL_AT_WORK,
                                         .m = m,
                                         .n = k,
                                         .k = j,
                                         .lda = m,
                                         .ldb = j,
                                         .ldc = m,
                                         .alpha = 0.5};
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .beta = 1,
                                         .at_a = KL_AT_WORK,
                                         .at_b = KL_AT_RIGHT,
                                         .at_c = KL_AT_Y,
                                         .m = m,
                                         .n = n,
                                         .k = k,
                                         .lda = m,
                                         .ldb = k,
                                         .ldc = m,
                                         .c = ny,
                                         .alpha = 1.5};
            if (q % 3 == 2)
                *kl_batch_push(b) = (kl_rec){.kind = KL_REC_ADD,
                                             .beta = 1,
                                             .at_a = KL_AT_X,
                                             .at_c = KL_AT_Y,
                                             .m = m,
                                             .n = n,
                                             .lda = m,
                                             .ldc = m,
                                             .c = ny,
                                             .alpha = -1};
        }
        kl_batch_close_group(b, 225);
        ny += (int64_t)m * n + 2;
    }
    b->zero = 1, b->nx = room, b->ny = ny;
    expect_ok(kl_batch_close(b, &err), err);
}

/* Two operators stacked below each other on both sides, in the four orders of superblock.c: one product makes
   L x or x R of both, the next two add up halves of what it reads. */
static void make_stacks(kl_batch *b, int way)
{
    enum {
        MANY = 2,
        NL = 3,
        ML = 4,
        NR = 5,
        MR = 2,
    };
    kl_err err = {""};
    const int adjoint = way % 2, left = way < 2, rows = adjoint ? NL : ML, cols = adjoint ? NR : MR,
              to_rows = adjoint ? ML : NL, to_cols = adjoint ? MR : NR;
    kl_rec one = {.kind = KL_REC_GEMM, .at_a = KL_AT_X, .at_b = KL_AT_X, .at_c = KL_AT_WORK, .alpha = 0.5},
           two = {.kind = KL_REC_GEMM,
                  .beta = 1,
                  .at_a = KL_AT_WORK,
                  .at_b = KL_AT_WORK,
                  .at_c = KL_AT_Y,
                  .m = to_rows,
                  .n = to_cols,
                  .ldc = to_rows,
                  .k = MANY * (left ? cols : rows),
                  .alpha = -2};
    if (left && !adjoint) {
        one.at_a = KL_AT_LEFT, one.lda = one.m = MANY * NL, one.ldb = one.k = rows, one.n = cols;
        two.lda = to_rows, two.at_b = KL_AT_RIGHT, two.ldb = NR, two.tb = 1;
    } else if (left) {
        one.lda = one.k = rows, one.ta = 1, one.m = cols, one.at_b = KL_AT_LEFT, one.ldb = NL;
        one.n = MANY * to_rows;
        two.lda = MANY * cols, two.ta = 1, two.at_b = KL_AT_RIGHT, two.ldb = MANY * NR;
    } else if (!adjoint) {
        one.at_a = KL_AT_RIGHT, one.lda = one.m = MANY * NR, one.ldb = one.n = rows, one.tb = 1, one.k = cols;
        two.at_a = KL_AT_LEFT, two.lda = NL, two.ldb = to_cols, two.tb = 1;
    } else {
        one.lda = one.m = rows, one.at_b = KL_AT_RIGHT, one.ldb = NR, one.n = MANY * to_cols, one.k = cols;
        two.at_a = KL_AT_LEFT, two.lda = MANY * NL, two.ta = 1, two.ldb = MANY * rows;
    }
    one.ldc = one.m;
    expect_ok(kl_batch_open_group(b, 0, (int64_t)to_rows * to_cols, &err), err);
    expect_ok(kl_batch_reserve(b, 3, &err), err);
    *kl_batch_push(b) = one;
    for (int half = 0; half < 2; half++) {
        kl_rec *const r = kl_batch_push(b);
        const int from = half * (two.k / 2);
        *r = two;
        r->k = half ? two.k - from : two.k / 2;
        r->a += two.ta ? from : (int64_t)from * two.lda;
        r->b += two.tb ? (int64_t)from * two.ldb : from;
    }
    kl_batch_close_group(b, (int64_t)one.m * one.n);
    b->zero = 1, b->nx = (int64_t)rows * cols, b->ny = (int64_t)to_rows * to_cols;
    expect_ok(kl_batch_close(b, &err), err);
}

/* The matrix of each: the list run on unit vectors. */
static void test_stacks(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    uint64_t seed = 11;
    (void)state;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int way = 0; way < 4; way++) {
        kl_batch b;
        kl_spmat *m = NULL;
        kl_test_case("order %d", way);
        kl_batch_init(&b);
        make_stacks(&b, way);
        double *const l = filled(24, &seed), *const r = filled(20, &seed), *const x = filled(b.nx, &seed),
                      *const y = filled(b.ny, &seed), *const z = filled(b.ny, &seed);
        const double *const base[KL_NAT] = {[KL_AT_LEFT] = l, [KL_AT_RIGHT] = r};
        expect_near(kl_assemble_elements(&b), (double)(b.nx * b.ny), 0);
        expect_ok(kl_assemble(&b, base, &m, &err), err);
        expect_eq(m->nnz, b.nx * b.ny);
        kl_spmv *s = NULL;
        expect_ok(kl_spmv_create(ex, m, KL_SPMV_MANY, &s, &err), err);
        b.base[KL_AT_LEFT].addr = (uintptr_t)l, b.base[KL_AT_RIGHT].addr = (uintptr_t)r;
        expect_ok(ex->vt.batch_prepare(ex, &b, &err), err);
        for (int64_t j = 0; j < b.nx; j++) {
            for (int64_t k = 0; k < b.nx; k++) x[k] = k == j;
            expect_ok(ex->vt.batch_apply(ex, &b, (kl_dptr){(uintptr_t)x}, (kl_dptr){(uintptr_t)y}, &err),
                      err);
            expect_ok(kl_spmv_apply(s, 1, (kl_dptr){(uintptr_t)x}, b.nx, (kl_dptr){(uintptr_t)z}, b.ny, &err),
                      err);
            for (int64_t k = 0; k < b.ny; k++) expect_near(z[k], y[k], 1e-14);
        }
        ex->vt.batch_release(ex, &b);
        kl_spmv_destroy(&s);
        kl_spmat_destroy(&m);
        kl_test_free(l), kl_test_free(r), kl_test_free(x), kl_test_free(y), kl_test_free(z);
        kl_batch_clear(&b);
    }
    kl_exec_close(&ex);
}

/* Lists written and read again, and assembled: the same records, the same product; what is no such file is
   refused with its line. */
static void test_saved(void **state)
{
    kl_err err = {""};
    char path[] = "/tmp/kronlat-records-XXXXXX";
    kl_reclist *back = NULL;
    kl_batch list[3];
    uint64_t seed = 5;
    int n = 0;
    (void)state;
    close(mkstemp(path));
    expect_ok(kl_reclist_create(path, &err), err);
    for (int i = 0; i < 3; i++) {
        char title[32];
        kl_batch_init(&list[i]);
        make_superblock(&list[i], 400, 1 + 2 * i, &seed);
        snprintf(title, sizeof title, "list %d", i);
        expect_ok(kl_reclist_append(path, title, &list[i], &err), err);
    }
    /* a limit on files is a disk that is full: what was there stays, whole */
    struct stat whole, after;
    struct rlimit free_to_grow, full;
    signal(SIGXFSZ, SIG_IGN);
    stat(path, &whole);
    getrlimit(RLIMIT_FSIZE, &free_to_grow);
    full = free_to_grow;
    full.rlim_cur = (rlim_t)whole.st_size + 100;
    setrlimit(RLIMIT_FSIZE, &full);
    const kl_status appended = kl_reclist_append(path, "one more", &list[2], &err);
    full.rlim_cur = 5;
    setrlimit(RLIMIT_FSIZE, &full);
    const kl_status created = kl_reclist_create(path, &(kl_err){""});
    setrlimit(RLIMIT_FSIZE, &free_to_grow);
    expect_eq(appended, KL_EIO);
    expect_true(strstr(err.text, path) != NULL);
    expect_eq(created, KL_EIO);
    expect_true(stat(path, &after) == 0 && after.st_size == whole.st_size);
    expect_ok(kl_reclist_read(path, &n, &back, &err), err);
    expect_eq(n, 3);
    for (int i = 0; i < 3; i++) {
        kl_batch *const b = &back[i].list;
        kl_spmat *m = NULL;
        kl_exec *ex = NULL;
        expect_eq(b->nrec, list[i].nrec);
        expect_eq(b->ngroup, list[i].ngroup);
        expect_eq(memcmp(b->rec, list[i].rec, (size_t)b->nrec * sizeof *b->rec), 0);
        expect_true(back[i].size[KL_AT_LEFT] > 0 && back[i].size[KL_AT_LEFT] <= 225 &&
                    back[i].size[KL_AT_RIGHT_PACK] == 0);
        expect_near(b->flop, list[i].flop, 0);
        double *const x = filled(400, &seed), *const l = filled(225, &seed), *const r = filled(225, &seed),
                      *const y = kl_test_guarded(b->ny), *const z = kl_test_guarded(b->ny);
        const double *const base[KL_NAT] = {[KL_AT_LEFT] = l, [KL_AT_RIGHT] = r};
        b->base[KL_AT_LEFT].addr = (uintptr_t)l, b->base[KL_AT_RIGHT].addr = (uintptr_t)r;
        expect_ok(kl_assemble(b, base, &m, &err), err);
        expect_true((double)m->nnz <= kl_assemble_elements(b));
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        kl_spmv *s = NULL;
        expect_ok(kl_spmv_create(ex, m, KL_SPMV_MANY, &s, &err), err);
        expect_ok(kl_spmv_apply(s, 1, (kl_dptr){(uintptr_t)x}, 400, (kl_dptr){(uintptr_t)z}, b->ny, &err),
                  err);
        kl_spmv_destroy(&s);
        expect_ok(kl_batch_run(b, ex, (kl_dptr){(uintptr_t)x}, (kl_dptr){(uintptr_t)y}, &err), err);
        for (int64_t k = 0; k < b->ny; k++)
            expect_true((isnan(y[k]) && z[k] == 0) || fabs(y[k] - z[k]) <= 1e-12 * (1 + fabs(y[k])));
        kl_test_free(x), kl_test_free(l), kl_test_free(r), kl_test_free(y), kl_test_free(z);
        kl_spmat_destroy(&m);
        kl_exec_close(&ex);
    }
    kl_reclist_destroy(n, &back);
    /* one byte changed, anywhere: read as something else, or refused; never beyond its operands */
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    for (int round = 0; round < 300; round++) {
        static const char some[] = "0123456789 -.enanx\n";
        const long at = (long)(kl_test_bits(&seed) % (uint64_t)size);
        fseek(f, at, SEEK_SET);
        const int was = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(some[below(&seed, (int)sizeof some - 1)], f);
        fflush(f);
        const kl_status st = kl_reclist_read(path, &n, &back, &err);
        expect_true(st == KL_OK || st == KL_EINPUT || st == KL_ENOMEM);
        if (st == KL_EINPUT) expect_true(strstr(err.text, path) != NULL);
        if (st == KL_OK) kl_reclist_destroy(n, &back);
        fseek(f, at, SEEK_SET);
        fputc(was, f);
        fflush(f);
    }
    fclose(f);
    remove(path);
    expect_refused(kl_reclist_read(path, &n, &back, &err), KL_EIO, err, path);
    for (int i = 0; i < 3; i++) kl_batch_clear(&list[i]);
    expect_eq(kl_mem_live_total(), 0);
}

/* The host and a "device" that is the host as well: every share from none to all, outputs that are cut,
   and lists that stay with the device. */
static void test_hybrid(void **state)
{
    static const char *const steps[] = {"0:1e-6", "0:0.3", "0:1", "0:0.1,2:2.5,5:40", "0:1e6"};
    kl_err err = {""};
    kl_exec *ex;
    (void)state;
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    for (int w = 0; w < 5; w++) {
        kl_exec *device, *both;
        expect_ok(w % 2 ? core_open_small(INT64_MAX, &device, &err) : kl_exec_open_host(1, &device, &err),
                  err);
        expect_ok(kl_exec_open_hybrid_take(&device, 2, steps[w], &both, &err), err);
        expect_true(device == NULL);
        for (int round = 0; round < 60; round++) {
            enum { ROOM = 400 };
            uint64_t seed = (uint64_t)(100 * w + round + 1);
            kl_batch b;
            kl_batch_init(&b);
            kl_test_case("%s round %d", steps[w], round);
            const int ngroup = 1 + below(&seed, 6);
            double *const x = kl_test_guarded(ROOM), *const l = kl_test_guarded(ROOM),
                          *const r = kl_test_guarded(ROOM);
            for (int i = 0; i < ROOM; i++)
                x[i] = kl_test_uniform(&seed), l[i] = kl_test_uniform(&seed), r[i] = kl_test_uniform(&seed);
            make_superblock(&b, ROOM, ngroup, &seed);
            const int64_t ny = b.ny;
            b.lasting = round % 5 != 0;
            b.base[KL_AT_LEFT].addr = (uintptr_t)l, b.base[KL_AT_RIGHT].addr = (uintptr_t)r;
            double *const y = kl_test_guarded(ny), *const z = kl_test_guarded(ny);
            kl_exec *const run[2] = {ex, both};
            for (int e = 0; e < 2; e++) {
                expect_ok(run[e]->vt.batch_prepare(run[e], &b, &err), err);
                for (int twice = 0; twice < 2; twice++)
                    expect_ok(run[e]->vt.batch_apply(run[e], &b, (kl_dptr){(uintptr_t)x},
                                                     (kl_dptr){(uintptr_t)(e ? z : y)}, &err),
                              err);
                run[e]->vt.batch_release(run[e], &b);
            }
            for (int64_t i = 0; i < ny; i++)
                expect_true((isnan(y[i]) && isnan(z[i])) || fabs(z[i] - y[i]) <= 1e-12 * (1 + fabs(y[i])));
            kl_test_guards_hold(z, ny);
            kl_test_free(x), kl_test_free(l), kl_test_free(r), kl_test_free(y), kl_test_free(z);
            kl_batch_clear(&b);
        }
        kl_exec_close(&both);
    }
    kl_exec *device, *both;
    expect_ok(kl_exec_open_host(1, &device, &err), err);
    expect_refused(kl_exec_open_hybrid_take(&device, 1, "100:3,50:2", &both, &err), KL_EINPUT, err, "50:2");
    expect_refused(kl_exec_open_hybrid_take(&device, 1, "", &both, &err), KL_EINPUT, err, "nothing");
    expect_ok(kl_exec_open_hybrid_take(&device, 1, "auto", &both, &err), err);
    kl_exec_close(&both);
    kl_exec_close(&ex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_saved), cmocka_unit_test(test_stacks),
                                       cmocka_unit_test(test_hybrid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
