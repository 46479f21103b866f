/* Couplings of 1e-300 to 1e300: every result is that of couplings of one, counted in the unit. Where the unit
   is a power of two, to the last bit.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "ci/ci.h"
#include "dmrg/measure.h"
#include "ed/edspectral.h"
#include "ed/edthermal.h"
#include "kl_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* exact to 12 digits: Heisenberg chain of 8 sites, Sz = 0 */
#define EXACT (-3.374932598688)

static const double units[] = {0x1p-996, 1e-300, 1e-165, 0x1p-540, 1e-20, 1e38, 0x1p+500, 1e150, 1e300};
enum { NUNIT = sizeof units / sizeof *units };

static int is_power(double unit)
{
    int e;
    return frexp(unit, &e) == 0.5;
}

static void open_in(core_job *j, double unit)
{
    char sets[64];
    snprintf(sets, sizeof sets, "J=%.17g", unit);
    core_open(j, core_model("heisenberg", "S=1/2"), "chain:8", NULL, sets);
}

/* x is want in that unit. */
static void expect_in(double x, double want, double unit, double allowed)
{
    if (is_power(unit)) expect_true(x == want * unit);
    expect_near(x / unit, want, allowed * fmax(1, fabs(want)));
}

static void test_dmrg(void **state)
{
    (void)state;
    core_job one;
    kl_err err = {""};
    open_in(&one, 1);
    core_run a = core_auto(1e-10, core_charge(one.model, "Sz=0"), 2, KL_STRATEGY_AUTO);
    core_go(&one, &a);
    expect_near(a.res.energy[0], EXACT, 1e-10);
    for (int u = 0; u < NUNIT; u++) {
        core_job j;
        open_in(&j, units[u]);
        kl_test_case("unit %g", units[u]);
        core_run b = core_auto(1e-10, core_charge(j.model, "Sz=0"), 2, KL_STRATEGY_AUTO);
        core_go(&j, &b);
        for (int i = 0; i < 2; i++) {
            expect_in(b.res.energy[i], a.res.energy[i], units[u], 1e-9);
            expect_in(b.state->energy[i], a.state->energy[i], units[u], 1e-9);
        }
        expect_true(b.res.error_estimate > 0 && b.res.error_estimate < fmax(1e-8 * units[u], 3e-308));
        expect_eq(b.res.stop, KL_STOP_CONVERGED);
        for (int k = 0; is_power(units[u]) && k < b.res.nrow; k++)
            expect_in(b.res.row[k].energy[0], a.res.row[k].energy[0], units[u], 1e-9);
        kl_measure *m = NULL;
        double energy;
        expect_ok(kl_measure_create(j.ex, b.state, 0, j.lat, &m, &err), err);
        expect_ok(kl_measure_energy(m, j.terms, &energy, NULL, &err), err);
        expect_near(energy / units[u], EXACT, 1e-8);
        kl_measure_destroy(&m);
        core_drop(&b);
        core_close(&j);
    }
    core_drop(&a);
    core_close(&one);
    core_no_memory();
}

static kl_status stop_soon(void *self, kl_state **s, const kl_dmrg_row *row, int nrow, int direction,
                           kl_err *err)
{
    (void)s, (void)direction, (void)err;
    /* what a checkpoint would keep is in the user's unit */
    for (int k = 0; k < nrow; k++) expect_near(row[k].energy[0] / *(double *)self, EXACT, 1e-3);
    return KL_OK;
}

/* A run that is interrupted and goes on from its rows ends with the bits of one that was not. */
static int stops;
static int after_sweeps(void *self)
{
    (void)self;
    return stops-- == 0;
}

static void test_resume(void **state)
{
    (void)state;
    double unit = 1e-200;
    kl_err err = {""};
    core_job j;
    open_in(&j, unit);
    core_run whole = core_exact(16, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_AUTO),
             part = core_exact(16, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_AUTO);
    core_go(&j, &whole);
    stops = 30; /* bonds: in the middle of the third sweep */
    const kl_dmrg_monitor mon = {.self = &unit, .interrupted = after_sweeps, .checkpoint = stop_soon};
    expect_ok(kl_dmrg_run(j.terms, j.ex, &part.opts, &mon, &part.state, &part.res, &err), err);
    expect_eq(part.res.stop, KL_STOP_INTERRUPTED);
    kl_dmrg_result first = part.res;
    part.res = (kl_dmrg_result){0};
    part.opts.ndone = first.nrow - 1;
    part.opts.done = first.row;
    part.opts.direction = first.direction;
    expect_ok(kl_dmrg_run(j.terms, j.ex, &part.opts, NULL, &part.state, &part.res, &err), err);
    expect_true(part.res.energy[0] == whole.res.energy[0]);
    expect_eq(part.res.nrow, whole.res.nrow);
    for (int k = 0; k < part.res.nrow; k++)
        expect_true(part.res.row[k].energy[0] == whole.res.row[k].energy[0]);
    kl_dmrg_result_clear(&first);
    core_drop(&part);
    core_drop(&whole);
    core_close(&j);
    core_no_memory();
}

static double told; /* to a monitor: the last energy */
static int watch(void *self, int napply, double energy, double residual)
{
    (void)self, (void)napply, (void)residual;
    told = energy;
    return 0;
}

/* Energies by one solver, and the spectral function of Sz at a site above the lowest. */
static void ed_in(double unit, kl_ed_solver solver, kl_ed_result *r, kl_ed_spectral *s)
{
    enum { NOMEGA = 20 };
    kl_err err = {""};
    core_job j;
    open_in(&j, unit);
    kl_ed *ed = NULL;
    kl_dptr x = {0};
    int64_t ld;
    kl_siteop *sz = NULL;
    double omega[NOMEGA], coef[8] = {0};
    const kl_ed_opts opts = {.solver = solver,
                             .nstate = solver == KL_ED_LANCZOS ? 1 : 3,
                             .accuracy = 1e-12,
                             .seed = 3,
                             .step = watch};
    expect_ok(kl_ed_create(j.terms, core_charge(j.model, "Sz=0"), KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
    expect_ok(kl_ed_run(ed, &opts, &x, &ld, r, &err), err);
    for (int i = 0; i < NOMEGA; i++) omega[i] = 0.25 * i * unit;
    coef[3] = 1;
    const kl_ed_spectral_opts so = {.broadening = 0.125 * unit, .nomega = NOMEGA, .omega = omega};
    expect_ok(kl_siteop_create(j.model, "Sz", &sz, &err), err);
    expect_ok(kl_ed_spectral_run(ed, j.terms, x, r->energy[0], sz, coef, &so, s, &err), err);
    kl_siteop_destroy(&sz);
    j.ex->vt.release(j.ex, &x);
    kl_ed_destroy(&ed);
    core_close(&j);
}

static void test_ed(void **state)
{
    (void)state;
    const kl_ed_solver solvers[] = {KL_ED_LANCZOS, KL_ED_DAVIDSON, KL_ED_LOBPCG, KL_ED_FULL};
    for (int k = 0; k < 4; k++) {
        kl_ed_result one, r;
        kl_ed_spectral s_one, s;
        ed_in(1, solvers[k], &one, &s_one);
        expect_near(one.energy[0], EXACT, 1e-10);
        /* what rounding allows is told, not what recurrences give */
        expect_true(one.residual[0] > 1e-16);
        for (int u = 0; u < NUNIT; u++) {
            kl_test_case("unit %g, solver %d", units[u], (int)solvers[k]);
            ed_in(units[u], solvers[k], &r, &s);
            expect_eq(r.stop, one.stop);
            for (int i = 0; i < one.nstate; i++) {
                expect_in(r.energy[i], one.energy[i], units[u], 1e-10);
                expect_true(r.error[i] > 0 && r.error[i] < fmax(1e-9 * units[u], 3e-308));
                expect_eq(r.multiplet[i], one.multiplet[i]);
            }
            if (solvers[k] != KL_ED_FULL) expect_near(told / units[u], EXACT, 1e-8);
            expect_true(s.converged);
            for (int i = 0; i < s.nomega; i++)
                expect_near(s.a[i] * units[u], s_one.a[i], 1e-5 * fmax(1, s_one.a[i]));
            expect_near(s.total, s_one.total, 1e-8);
            kl_ed_result_clear(&r);
            kl_ed_spectral_clear(&s);
        }
        kl_ed_result_clear(&one);
        kl_ed_spectral_clear(&s_one);
    }
    core_no_memory();
}

static kl_thermal_row thermal_in(double unit, int full)
{
    kl_err err = {""};
    core_job j;
    open_in(&j, unit);
    kl_thermal *sum = NULL;
    kl_thermal_row row;
    int nq, stopped;
    kl_qn *q = core_sectors(&j, INT32_MAX, &nq);
    const kl_thermal_opts opts = {.nsample = 4, .full = full, .seed = 11};
    expect_ok(kl_thermal_create(j.model, &opts, &sum, &err), err);
    for (int i = 0; i < nq; i++) {
        kl_ed *ed = NULL;
        expect_ok(kl_ed_create(j.terms, q[i], KL_BIPARTITION_AUTO, j.ex, &ed, &err), err);
        expect_ok(kl_thermal_add(sum, ed, &stopped, &err), err);
        kl_ed_destroy(&ed);
    }
    expect_ok(kl_thermal_evaluate(sum, 0.5 * unit, &row, &err), err);
    expect_near(kl_thermal_about(sum).lowest / unit, EXACT, 1e-8);
    kl_thermal_destroy(&sum);
    kl_free(&q);
    core_close(&j);
    return row;
}

static void test_thermal(void **state)
{
    (void)state;
    for (int full = 1; full < 1000; full += 900) {
        const kl_thermal_row one = thermal_in(1, full);
        for (int u = 0; u < NUNIT; u++) {
            kl_test_case("unit %g, full %d", units[u], full);
            const kl_thermal_row r = thermal_in(units[u], full);
            expect_true(r.temperature == 0.5 * units[u]);
            expect_near(r.energy / units[u], one.energy, 1e-9);
            expect_near(r.energy_error / units[u], one.energy_error, 1e-9);
            expect_near(r.heat, one.heat, 1e-9);
            expect_near(r.entropy, one.entropy, 1e-9);
            expect_near(r.chi[0] * units[u], one.chi[0], 1e-9);
        }
    }
    core_no_memory();
}

static void test_variance(void **state)
{
    (void)state;
    /* a variance of 1e-600 or 1e600 is no number; one of 1e-40 is */
    kl_err err = {""};
    core_job j;
    open_in(&j, 1e-20);
    core_run r = core_exact(4, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    kl_measure *m = NULL;
    double energy, variance;
    expect_ok(kl_measure_create(j.ex, r.state, 0, j.lat, &m, &err), err);
    expect_ok(kl_measure_energy(m, j.terms, &energy, &variance, &err), err);
    expect_true(variance > 1e-44 && variance < 1e-41);
    kl_measure_destroy(&m);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

static void scale_integrals(kl_fcidump *f, double by)
{
    f->core *= by;
    for (int64_t i = 0; i < (int64_t)f->norb * f->norb; i++) f->h[0][i] *= by;
    for (int64_t i = 0; i < f->npair * f->npair; i++) f->eri[0][i] *= by;
}

static void ci_in(double unit, const char *space, kl_ci_result *r)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    kl_fcidump *f = NULL;
    kl_ci_opts o = {.irrep = -1, .nroot = 2, .seed = 1};
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_fcidump_read(kl_test_data("h6-chain-sto6g.fcidump"), &f, &err), err);
    scale_integrals(f, unit);
    expect_ok(kl_ci_parse_space(space, &o, &err), err);
    expect_ok(kl_ci_run(f, ex, &o, NULL, r, &err), err);
    kl_fcidump_destroy(&f);
    kl_exec_close(&ex);
}

static void test_ci(void **state)
{
    (void)state;
    const char *const spaces[] = {"full", "cisd"};
    for (int k = 0; k < 2; k++) {
        kl_ci_result one, r;
        ci_in(1, spaces[k], &one);
        for (int u = 0; u < NUNIT; u++) {
            kl_test_case("unit %g, %s", units[u], spaces[k]);
            ci_in(units[u], spaces[k], &r);
            expect_true(r.converged);
            expect_eq(r.nstate, one.nstate);
            for (int i = 0; i < r.nstate; i++) {
                expect_near(r.state[i].energy / units[u], one.state[i].energy, 1e-8);
                expect_true(r.state[i].residual > 0 && r.state[i].residual < fmax(3e-6 * units[u], 3e-308));
                expect_near(r.state[i].s2, one.state[i].s2, 1e-5);
            }
            expect_near(r.reference_energy / units[u], one.reference_energy, 1e-9);
            kl_ci_result_clear(&r);
        }
        kl_ci_result_clear(&one);
    }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dmrg),    cmocka_unit_test(test_resume),   cmocka_unit_test(test_ed),
        cmocka_unit_test(test_thermal), cmocka_unit_test(test_variance), cmocka_unit_test(test_ci),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
