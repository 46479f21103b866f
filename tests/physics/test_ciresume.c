/* Configuration interaction that is stopped and goes on: with the vectors it had, and with irreps that were
   done.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci_kit.h"
#include "kl_test.h"

#include "base/mem.h"
#include "ci/ci.h"

typedef struct interrupted {
    int nstep, stop_at, nsave;
    int64_t n;
    int nvec;
    double *x;
} interrupted;

static int count_step(void *self, int irrep, int napply, double energy, double residual)
{
    interrupted *const k = self;
    (void)irrep, (void)napply, (void)energy, (void)residual;
    return ++k->nstep >= k->stop_at;
}

static int always_due(void *self) { return self != NULL; }

static kl_status save_here(void *self, int irrep, int nvec, int64_t n, const double *x, kl_err *err)
{
    interrupted *const k = self;
    expect_eq(irrep, 0);
    k->nvec = nvec;
    k->n = n;
    k->nsave++;
    const kl_status st = kl_realloc(&k->x, n * nvec, KL_MEM_VECTOR, err);
    if (st == KL_OK) memcpy(k->x, x, (size_t)(n * nvec) * sizeof(double));
    return st;
}

static kl_status load_here(void *self, int irrep, int most, int64_t n, int *nvec, double *x, kl_err *err)
{
    interrupted *const k = self;
    (void)irrep, (void)err;
    *nvec = k->x == NULL ? 0 : k->nvec < most ? k->nvec : most;
    expect_true(k->x == NULL || n == k->n);
    if (k->x != NULL) memcpy(x, k->x, (size_t)(n * *nvec) * sizeof(double));
    return KL_OK;
}

/* A run that is stopped and goes on comes to the same energies, with fewer products than one from the
   beginning. */
static void test_stop_and_go_on(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("n2-sto3g.fcidump");
    kl_ci_opts o = ask("cisdtq", 2);
    kl_ci_result whole, part, rest;
    interrupted k = {.stop_at = 9};
    const kl_ci_monitor m = {
        .self = &k, .step = count_step, .due = always_due, .save = save_here, .load = load_here};
    o.irrep = 0;
    o.tol = 1e-8;
    o.max_basis = 6;
    expect_ok(kl_ci_run(f, ex, &o, NULL, &whole, &err), err);
    expect_ok(kl_ci_run(f, ex, &o, &m, &part, &err), err);
    expect_true(part.stopped && part.nstate == 0 && k.nsave > 0 && k.x != NULL);
    k.stop_at = 1000000;
    expect_ok(kl_ci_run(f, ex, &o, &m, &rest, &err), err);
    expect_true(!rest.stopped && rest.converged);
    for (int i = 0; i < 2; i++) expect_near(rest.state[i].energy, whole.state[i].energy, 1e-11);
    expect_true(rest.block[0].napply < whole.block[0].napply);
    kl_free(&k.x);
    kl_ci_result_clear(&whole);
    kl_ci_result_clear(&part);
    kl_ci_result_clear(&rest);
    kl_fcidump_destroy(&f);
}

typedef struct kept_irreps {
    int stop_at, nstep;
    int nvec[8];
    int64_t n[8];
    double *x[8];
} kept_irreps;

static int stop_irreps(void *self, int irrep, int napply, double energy, double residual)
{
    kept_irreps *const k = self;
    (void)irrep, (void)napply, (void)energy, (void)residual;
    return ++k->nstep >= k->stop_at;
}

static int never_due(void *self)
{
    (void)self;
    return 0;
}

static kl_status save_irrep(void *self, int irrep, int nvec, int64_t n, const double *x, kl_err *err)
{
    kept_irreps *const k = self;
    k->nvec[irrep] = nvec;
    k->n[irrep] = n;
    const kl_status st = kl_realloc(&k->x[irrep], n * nvec, KL_MEM_VECTOR, err);
    if (st == KL_OK) memcpy(k->x[irrep], x, (size_t)(n * nvec) * sizeof(double));
    return st;
}

static kl_status load_irrep(void *self, int irrep, int most, int64_t n, int *nvec, double *x, kl_err *err)
{
    const kept_irreps *const k = self;
    (void)err;
    *nvec = k->nvec[irrep] < most ? k->nvec[irrep] : most;
    expect_true(*nvec == 0 || n == k->n[irrep]);
    if (*nvec > 0) memcpy(x, k->x[irrep], (size_t)(n * *nvec) * sizeof(double));
    return KL_OK;
}

static int products(const kl_ci_result *r)
{
    int sum = 0;
    for (int g = 0; g < 8; g++) sum += r->block[g].napply;
    return sum;
}

/* Irreps that were solved before a stop are not solved again; a run that is stopped again and again
   arrives. */
static void test_go_on_with_irreps(void **state)
{
    (void)state;
    kl_err err;
    kl_fcidump *f = load("n2-sto3g.fcidump");
    kl_ci_opts o = ask("full", 2);
    kl_ci_result whole, r;
    kept_irreps count = {.stop_at = 1000000}, k = {0};
    const kl_ci_monitor counting = {.self = &count, .step = stop_irreps}, m = {.self = &k,
                                                                               .step = stop_irreps,
                                                                               .due = never_due,
                                                                               .save = save_irrep,
                                                                               .load = load_irrep};
    o.pspace = 10;
    expect_ok(kl_ci_run(f, ex, &o, &counting, &whole, &err), err);
    /* Close to the end: what is left costs a block of products for each irrep, in each stage, and little
       more. */
    k.stop_at = count.nstep - 3;
    expect_ok(kl_ci_run(f, ex, &o, &m, &r, &err), err);
    expect_true(r.stopped);
    int nvec = 0;
    for (int g = 0; g < 8; g++) {
        expect_true(k.nvec[g] >= 2); /* every irrep, and what the coarse stage had of it */
        nvec += k.nvec[g];
    }
    kl_ci_result_clear(&r);
    k.stop_at = 1000000;
    expect_ok(kl_ci_run(f, ex, &o, &m, &r, &err), err);
    expect_true(r.converged && products(&r) < 2 * nvec && 2 * products(&r) < products(&whole));
    for (int i = 0; i < 2; i++) expect_near(r.state[i].energy, whole.state[i].energy, 1e-11);
    kl_ci_result_clear(&r);
    for (int g = 0; g < 8; g++) k.nvec[g] = 0;
    /* Each leg is shorter than the run, and too short for all irreps at once. */
    int legs = 0;
    for (k.stop_at = count.nstep / 2; legs < 10; legs++) {
        k.nstep = 0;
        expect_ok(kl_ci_run(f, ex, &o, &m, &r, &err), err);
        if (!r.stopped) break;
        kl_ci_result_clear(&r);
    }
    expect_true(legs >= 1 && legs < 5 && r.converged);
    for (int i = 0; i < 2; i++) expect_near(r.state[i].energy, whole.state[i].energy, 1e-11);
    for (int g = 0; g < 8; g++) kl_free(&k.x[g]);
    kl_ci_result_clear(&r);
    kl_ci_result_clear(&whole);
    kl_fcidump_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stop_and_go_on),
                                       cmocka_unit_test(test_go_on_with_irreps)};
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
