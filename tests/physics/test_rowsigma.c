/* Products whose elements are made as they are needed: against the stored matrix, element by element through
   vectors; in part stored; the same bits by any number of threads.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"
#include "kl_test.h"

#include "base/dense.h"
#include "base/mem.h"
#include "ci/cisector.h"

typedef struct space_case {
    const char *file, *space, *reference[2];
    int nref, ms2, nelec;
} space_case;

/* Long and short rows, both ways of a move, open shells, several references, unrestricted orbitals, no
   electron of one spin, full spaces. */
static const space_case cases[] = {
    {"h2o-sto3g.fcidump", "cisd", {NULL}, 0, 0, 0},
    {"h2o-sto3g.fcidump", "full", {NULL}, 0, 0, 0},
    {"h2o-631g-fc.fcidump", "cisdt", {NULL}, 0, 0, 0},
    {"h2o-631g-fc.fcidump", "cid", {NULL}, 0, 0, 0},
    {"h2o-631g-fc.fcidump", "level:3", {NULL}, 0, 0, 0},
    {"n2-sto3g.fcidump", "cisdtq", {"2222222000", "2222202200"}, 2, 0, 0},
    {"o2-triplet-sto3g.fcidump", "cisdt", {NULL}, 0, 2, 0},
    {"oh-uhf-sto3g.fcidump", "cisdt", {NULL}, 0, 1, 0},
    {"lih-sto3g.fcidump", "cisdtq", {NULL}, 0, 2, 2},
    {"h10-chain-sto6g.fcidump", "cisdtq", {NULL}, 0, 0, 0},
};
enum { NCASE = sizeof cases / sizeof *cases };

static kl_ci_opts ask_case(const space_case *c)
{
    kl_ci_opts o = ask(c->space, 1);
    o.ref = c->reference;
    o.nref = c->nref;
    o.have_ms2 = c->ms2 > 0;
    o.ms2 = c->ms2;
    o.nelec = c->nelec;
    return o;
}

/* y[2][n] = H x by a sector that was opened with these options. */
static void multiply(const kl_fcidump *f, kl_exec *on, const kl_ci_opts *o, int irrep, kl_ci_block *info,
                     int64_t *n, double **y)
{
    kl_err err;
    kl_ciorbitals l = {0};
    kl_cisector s = {.irrep = irrep};
    double *d = NULL, *x = NULL;
    kl_dptr there[2] = {{0}, {0}};
    uint64_t seed = 7;
    expect_ok(kl_ciorbitals_make(f, o, &l, &err), err);
    expect_ok(kl_cisector_open(&s, &l, on, o, NULL, info, &d, &err), err);
    *n = s.space->n;
    *y = calloc((size_t)(2 * *n + 1), sizeof **y);
    x = calloc((size_t)(2 * *n + 1), sizeof *x);
    for (int64_t i = 0; i < 2 * *n; i++) x[i] = i % 7 == 3 ? 0 : kl_test_uniform(&seed);
    for (int k = 0; k < 2 && *n > 0; k++) {
        expect_ok(on->vt.alloc(on, 2 * *n, &there[k], &err), err);
        expect_ok(on->vt.upload(on, there[k], x, 2 * *n, &err), err); /* y: to be written over */
    }
    if (*n > 0) {
        expect_ok(s.op.apply(&s.op, 2, there[0], *n, there[1], *n, &err), err);
        expect_ok(on->vt.download(on, *y, there[1], 2 * *n, &err), err);
    }
    for (int k = 0; k < 2 && *n > 0; k++) on->vt.release(on, &there[k]);
    free(x);
    kl_free(&d);
    kl_cisector_clear(&s, on);
    kl_ciorbitals_clear(&l);
}

/* Matrix, nothing stored, and a third of it stored. */
static void test_products(void **state)
{
    (void)state;
    kl_err err;
    kl_exec *three = NULL;
    expect_ok(kl_exec_open_host(3, &three, &err), err);
    for (int c = 0; c < NCASE; c++) {
        kl_fcidump *f = load(cases[c].file);
        kl_ci_opts o = ask_case(&cases[c]);
        for (int g = 0; g < f->nirrep; g++) {
            kl_ci_block whole = {0};
            double *wanted, *seen, *again;
            int64_t n, same;
            o.store = KL_CI_MATRIX;
            o.nthread = 1;
            o.memory_bytes = 0;
            multiply(f, ex, &o, g, &whole, &n, &wanted);
            for (int part = 0; part < 3 && n > 0; part++) {
                kl_ci_block info = {0};
                o.store = part == 0 ? KL_CI_DIRECT : KL_CI_MIXED;
                o.format.format = part == 2 ? KL_SP_SELL : KL_SP_CSR;
                o.memory_bytes = part == 1 ? 4 * whole.nnz : 9 * whole.nnz;
                kl_test_case("%s %s, irrep %d, part %d", cases[c].file, cases[c].space, g + 1, part);
                o.nthread = 1;
                multiply(f, ex, &o, g, &info, &same, &seen);
                assert_int_equal(same, n);
                double scale = 0;
                for (int64_t i = 0; i < 2 * n; i++) scale = fmax(scale, fabs(wanted[i]));
                for (int64_t i = 0; i < 2 * n; i++) expect_near(seen[i], wanted[i], 1e-13 * scale);
                if (part > 0) {
                    expect_true(12 * (info.nnz - 1) <= o.memory_bytes);
                    expect_true(info.rows_made <= n && (info.rows_made > 0 || n < 50));
                } else if (!o.full) expect_eq(info.rows_made, n);
                if (part > 0 && n > 1000) expect_true(info.nnz > whole.nnz / 5);
                o.nthread = 3;
                multiply(f, three, &o, g, &info, &same, &again);
                expect_true(memcmp(seen, again, (size_t)(2 * n) * sizeof *seen) == 0);
                free(again);
                free(seen);
                o.format.format = KL_SP_CSR;
            }
            free(wanted);
        }
        kl_fcidump_destroy(&f);
    }
    kl_exec_close(&three);
}

/* Whole runs, and what is refused. */
static void test_runs(void **state)
{
    (void)state;
    kl_err err;
    static const kl_ci_store stores[] = {KL_CI_DIRECT, KL_CI_MIXED, KL_CI_AUTO};
    kl_fcidump *f = load("h2o-631g-fc.fcidump");
    kl_ci_opts o = ask("cisdt", 3);
    kl_ci_result wanted, r;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &wanted, &err), err);
    for (int g = 0; g < 4; g++) expect_true(wanted.block[g].rows_made == 0 && wanted.block[g].nnz > 0);
    for (int k = 0; k < 3; k++) {
        o.store = stores[k];
        o.memory_bytes = 2000000;
        kl_test_case("store %d", (int)stores[k]);
        expect_ok(kl_ci_run(f, ex, &o, NULL, &r, &err), err);
        expect_eq(r.direct, k == 0);
        for (int i = 0; i < 3; i++) {
            expect_near(r.state[i].energy, wanted.state[i].energy, 1e-9);
            expect_near(r.state[i].s2, wanted.state[i].s2, 1e-5);
        }
        expect_true(r.block[0].rows_made > 0 && (k == 0 || r.block[0].nnz > 0));
        kl_ci_result_clear(&r);
    }
    kl_ci_result_clear(&wanted);
    o.store = KL_CI_MATRIX;
    expect_refused(kl_ci_run(f, ex, &o, NULL, &r, &err), KL_ENOMEM, err, "--store mixed");
    o.store = KL_CI_MIXED;
    o.half = 1;
    expect_refused(kl_ci_run(f, ex, &o, NULL, &r, &err), KL_EINPUT, err, "one half");
    kl_fcidump_destroy(&f);
}

static void test_allocations(void **state)
{
    (void)state;
    kl_fcidump *f = load("h2o-sto3g.fcidump");
    kl_ci_opts o = ask("cisd", 1);
    o.store = KL_CI_MIXED;
    o.memory_bytes = 6000;
    o.irrep = 0;
    ci_fail_allocations(f, &o, "cisd", INT64_MAX);
    kl_fcidump_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
