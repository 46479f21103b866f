/* Steps that truncate nothing: the wavefunction stays as it is, its basis is orthonormal and no larger than
   it was, weights are those of all of it; where factors are made by the executor and where not. Runs whose
   last half-sweep is of such steps: the kept state is the one that its energy was told of, and broken runs go
   on to the same bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "comm/ranks.h"
#include "dmrg/measure.h"
#include "dmrg/onesite.h"
#include "dmrg/plantime.h"
#include "dmrg/settle.h"
#include "exec/roots.h"
#include "kl_test.h"

static kl_err err;

/* ---- one step, in the full space ---- */

/* An executor's factors, by the host. */
static kl_status roots_here(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, kl_dptr t,
                            char *good, kl_err *e)
{
    (void)ex, (void)nmat, (void)n, (void)off, (void)a, (void)t, (void)good;
    return kl_fail(e, KL_EABSENT, "none");
}

static void check_columns(kl_exec *ex, const kl_isometry *iso, kl_dptr data)
{
    double *const a = malloc((size_t)iso->ndata * sizeof *a);
    core_download(ex, iso->ndata, data, a);
    for (int k = 0; k < iso->basis.nsec; k++) {
        const int rows = iso->enlarged->basis.dim[iso->sec[k]], cols = iso->basis.dim[k];
        const double *const x = a + iso->off[k];
        expect_true(cols > 0 && cols <= rows);
        for (int c = 0; c < cols; c++)
            for (int d = 0; d <= c; d++)
                expect_near(core_dot(rows, x + (int64_t)c * rows, x + (int64_t)d * rows), c == d, 1e-13);
    }
    free(a);
}

/* The entropy of the weights of all states of the same step. */
static double entropy_of_all(kl_engine *e, kl_side side)
{
    const kl_trunc_opts all = {.m = 1 << 20,
                               .nstate = 1,
                               .precise = 1,
                               .narrow = e->one != NULL,
                               .target = e->target,
                               .spectrum = 1,
                               .way = KL_TRUNCATION_EXACT};
    const kl_wave wave = kl_engine_wave(e);
    kl_isometry *iso = NULL;
    kl_dptr data;
    kl_trunc_info info;
    expect_ok(kl_engine_make_operators(e, &err), err);
    expect_ok(kl_truncate(e->ex, side, &wave, side == KL_LEFT ? e->row_op : e->col_op, &all, &iso, &data,
                          &info, &err),
              err);
    kl_isometry_destroy(&iso);
    e->ex->vt.release(e->ex, &data);
    return info.entropy;
}

typedef struct step_case {
    const char *model, *variant, *lattice, *sets, *charge;
    int m;
} step_case;

/* Some sweeps with expansions and truncations, then some there and back without. */
static void check_steps(const step_case *t, int roots, uint64_t seed)
{
    core_job j;
    kl_engine *e = NULL;
    core_open(&j, core_model(t->model, t->variant), t->lattice, NULL, t->sets);
    if (roots) j.ex->vt.roots = roots_here; /* those of roots.h, then */
    core_full full = core_full_open(&j);
    const int64_t dim = full.o->dim;
    const kl_engine_opts o = {.target = core_charge(j.model, t->charge),
                              .nstate = 1,
                              .strategy = KL_STRATEGY_AUTO,
                              .max_basis = 20,
                              .seed = seed};
    expect_ok(kl_engine_create(j.terms, j.ex, &o, &e, &err), err);
    expect_ok(kl_engine_start(e, t->m, 0, NULL, &err), err);
    const int n = e->nsite;
    int direction = 1, most = 0, settled = 0;
    double lowest = INFINITY;
    for (int move = 0; move < 6 * (n - 2); move++) {
        const int settles = move >= 4 * (n - 2);
        const kl_solve_opts so = {.tol = 1e-9, .max_apply = 10};
        kl_trunc_opts to = {.m = t->m, .nstate = 1, .settle = settles, .spectrum = settles};
        kl_eig_stats stats;
        kl_trunc_info info;
        kl_expand_info grown;
        double energy[KL_MAX_STATE];
        kl_test_case("%s m=%d roots %d move %d to %+d from %d", j.name, t->m, roots, move, direction,
                     e->centre);
        double *const before = core_engine_vectors(e, dim);
        if (settles) expect_ok(kl_onesite_absorb_known(e, direction, &err), err);
        else expect_ok(kl_onesite_absorb(e, direction, t->m, 1, seed + (uint64_t)move, &grown, &err), err);
        double *const after = core_engine_vectors(e, dim);
        expect_near(core_dot(dim, before, after), core_dot(dim, before, before), 1e-12);
        expect_near(core_dot(dim, after, after), core_dot(dim, before, before), 1e-12);
        expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
        if (settles && settled > 0) expect_true(energy[0] < lowest + 1e-11 * full.norm);
        if (settles) lowest = energy[0];
        double *const solved = core_engine_vectors(e, dim);
        if (e->centre == 0) direction = 1;
        if (e->centre == n - 2) direction = -1;
        const kl_side side = direction > 0 ? KL_LEFT : KL_RIGHT;
        const int pos = direction > 0 ? e->centre : e->centre + 1, narrow = e->one != NULL;
        const double entropy = settles ? entropy_of_all(e, side) : 0;
        expect_ok(kl_engine_move(e, direction, &to, &info, &err), err);
        double *const moved = core_engine_vectors(e, dim);
        check_columns(e->ex, side == KL_LEFT ? e->left[pos] : e->right[pos],
                      side == KL_LEFT ? e->left_data[pos] : e->right_data[pos]);
        if (!settles && info.m > most) most = info.m;
        if (settles) {
            expect_near(core_dot(dim, solved, moved), 1, 1e-12);
            expect_near(core_dot(dim, moved, moved), 1, 1e-12);
            expect_near(info.discarded, 0, 1e-14);
            expect_near(info.entropy, entropy, 1e-9);
            expect_true(info.m <= most && info.states >= info.m);
            settled += narrow;
        }
        free(before);
        free(after);
        free(solved);
        free(moved);
    }
    expect_true(n < 4 || settled >= n - 3);
    kl_engine_destroy(&e);
    core_full_close(&full);
    core_close(&j);
}

/* 1: the absorbed site has every state that its block has. */
static int is_whole(const kl_engine *e)
{
    const kl_isometry *const iso = e->one->iso;
    for (int k = 0; k < iso->basis.nsec; k++)
        if (iso->basis.dim[k] < iso->enlarged->basis.dim[iso->sec[k]]) return 0;
    return 1;
}

/* Each sweep has twice as many states as the one before: on its way there bases are taken whole, without a
   sketch, and nothing is truncated where all of that is wanted. */
static void check_doubling(const step_case *t, int roots, uint64_t seed)
{
    core_job j;
    kl_engine *e = NULL;
    core_open(&j, core_model(t->model, t->variant), t->lattice, NULL, t->sets);
    if (roots) j.ex->vt.roots = roots_here;
    core_full full = core_full_open(&j);
    const int64_t dim = full.o->dim;
    const kl_engine_opts o = {.target = core_charge(j.model, t->charge),
                              .nstate = 1,
                              .strategy = KL_STRATEGY_AUTO,
                              .max_basis = 20,
                              .seed = seed};
    expect_ok(kl_engine_create(j.terms, j.ex, &o, &e, &err), err);
    expect_ok(kl_engine_start(e, t->m, 0, NULL, &err), err);
    const int n = e->nsite;
    int direction = 1, whole = 0, kept = 0;
    for (int move = 0; move < 8 * (n - 2); move++) {
        const kl_solve_opts so = {.tol = 1e-9, .max_apply = 6};
        const kl_trunc_opts to = {.m = t->m << move / (2 * (n - 2)), .nstate = 1};
        kl_eig_stats stats;
        kl_trunc_info info;
        kl_expand_info grown;
        double energy[KL_MAX_STATE];
        kl_test_case("%s m=%d roots %d move %d to %+d from %d", j.name, to.m, roots, move, direction,
                     e->centre);
        double *const before = core_engine_vectors(e, dim);
        expect_ok(kl_onesite_absorb(e, direction, to.m, direction < 0, seed + (uint64_t)move, &grown, &err),
                  err);
        double *const after = core_engine_vectors(e, dim);
        expect_near(core_dot(dim, before, after), core_dot(dim, before, before), 1e-12);
        expect_near(core_dot(dim, after, after), core_dot(dim, before, before), 1e-12);
        if (e->one) check_columns(e->ex, e->one->iso, e->one->data);
        if (e->one && is_whole(e) && direction > 0) {
            expect_true(grown.residual == 0);
            whole++;
        }
        expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
        double *const solved = core_engine_vectors(e, dim);
        if (e->centre == 0) direction = 1;
        if (e->centre == n - 2) direction = -1;
        const int keeps = kl_onesite_keeps_all(e, &to);
        expect_true(!keeps || is_whole(e));
        expect_ok(kl_engine_move(e, direction, &to, &info, &err), err);
        double *const moved = core_engine_vectors(e, dim);
        if (keeps) {
            expect_near(core_dot(dim, solved, moved), 1, 1e-12);
            expect_near(info.discarded, 0, 1e-14);
            expect_true(info.m <= to.m);
            kept++;
        }
        free(before);
        free(after);
        free(solved);
        free(moved);
    }
    expect_true(whole > 0 && kept > 0);
    kl_engine_destroy(&e);
    core_full_close(&full);
    core_close(&j);
}

static void test_doubling(void **state)
{
    static const step_case list[] = {
        {"heisenberg", "S=1/2", "chain:12", NULL, "Sz=0", 4},
        {"heisenberg", "S=1/2", "ladder:5x2", "h=normal(0,1)", "Sz=1", 3},
        {"free_fermions", NULL, "ring:10", NULL, "N=5", 4},
    };
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int roots = 0; roots < 2; roots++) check_doubling(&list[k], roots, 1 + (uint64_t)k);
    core_no_memory();
}

static void test_steps(void **state)
{
    static const step_case list[] = {
        {"heisenberg", "S=1/2", "chain:10", "h=normal(0,1)", NULL, 6},
        {"heisenberg", "S=1", "ladder:3x2", NULL, "Sz=1", 9},
        {"hubbard", "F=1/2", "ring:6", "mu=normal(0,2)", "N_up=1 N_dn=4", 8},
        {"hubbard", "F=1/2", "chain:6", NULL, "N_up=6 N_dn=1", 2},
        {"tj", NULL, "chain:7", NULL, "N_up=3 N_dn=1", 9},
        {"strange", NULL, "ring:5", NULL, "parity=1", 10},
        {"pairing", NULL, "ring:9", NULL, NULL, 4},
        {"majorana", NULL, "ring:10", NULL, NULL, 7},
        {"heisenberg", "S=1/2", "chain:3", NULL, "Sz=1/2", 2},
    };
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 4)) check_steps(&list[k], k % 2, 1 + (uint64_t)k);
    core_no_memory();
}

/* ---- whole runs ---- */

static double energy_of(const core_job *j, const kl_state *s)
{
    kl_measure *measure = NULL;
    double energy, variance;
    expect_ok(kl_measure_create(j->ex, s, 0, j->lat, &measure, &err), err);
    expect_ok(kl_measure_energy(measure, j->terms, &energy, &variance, &err), err);
    kl_measure_destroy(&measure);
    return energy;
}

/* The state kept has the energy told of it; a run of two sites a step, whose state is truncated once more at
   every bond, keeps one that is no lower. */
static void test_kept(void **state)
{
    static const struct {
        const char *model, *lattice, *sets, *charge;
        int m;
    } list[] = {{"heisenberg", "cylinder:5x4", NULL, "Sz=0", 24},
                {"hubbard", "ladder:6x2", "U=6", "N_up=5 N_dn=5", 40},
                {"j1j2", "ladder:10x2", "J2=0.5", "Sz=0", 16}};
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 2)) {
        const int m = list[k].m;
        kl_dmrg_sweep sweep[] = {{m, 1e-4, 1e-6}, {m, 0, 1e-8}, {m, 0, 1e-8}};
        core_job j;
        core_open(&j, core_model(list[k].model, NULL), list[k].lattice, NULL, list[k].sets);
        core_run r = {.opts = {.target = core_charge(j.model, list[k].charge),
                               .sites = KL_SITES_AUTO,
                               .full = k == 1,
                               .nstate = 1,
                               .nsweep = 3,
                               .sweep = sweep,
                               .seed = 1}};
        core_go(&j, &r);
        kl_test_case("%s: energy of what is kept", j.name);
        const kl_dmrg_row *const last = &r.res.row[r.res.nrow - 1];
        expect_near(energy_of(&j, r.state), r.res.energy_kept[0], 1e-9 * fabs(r.res.energy[0]));
        expect_true(last->variance > 0 && last->discarded > 0 && last->kept >= 0);
        expect_true(r.res.error_estimate >= last->kept && r.res.error_estimate > fabs(last->change));
        expect_true(r.res.energy_kept[0] < last[-1].energy[0] + last[-1].kept);
        r.opts.sweep = NULL; /* not from the heap */
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

static void test_to_the_bit(void **state)
{
    (void)state;
    kl_dmrg_sweep sweep[] = {{20, 1e-4, 1e-6}, {20, 0, 1e-8}, {20, 0, 1e-8}};
    core_job j;
    core_open(&j, core_model("heisenberg", NULL), "ladder:7x2", NULL, NULL);
    core_watcher w = {.stop_after = 1000000};
    kl_dmrg_monitor mon = core_watch(&w);
    core_run whole = {.opts = {.target = core_charge(j.model, "Sz=0"),
                               .sites = KL_SITES_AUTO,
                               .nstate = 1,
                               .nsweep = 3,
                               .sweep = sweep,
                               .max_apply = 4,
                               .seed = 1}};
    expect_ok(kl_dmrg_run(j.terms, j.ex, &whole.opts, &mon, &whole.state, &whole.res, &err), err);
    for (int stop = 1; stop < w.step; stop += w.step - stop > 16 ? 11 : 2) {
        core_watcher v = {.stop_after = stop};
        mon.self = &v;
        core_run b = {.opts = whole.opts};
        kl_dmrg_row rows[8];
        kl_test_case("interrupted after %d of %d steps", stop, w.step);
        expect_ok(kl_dmrg_run(j.terms, j.ex, &b.opts, &mon, &b.state, &b.res, &err), err);
        expect_true(b.res.direction != 0 && b.res.nrow <= 8);
        memcpy(rows, b.res.row, sizeof *rows * (size_t)b.res.nrow);
        b.opts.direction = b.res.direction, b.opts.ndone = b.res.nrow - 1, b.opts.done = rows;
        core_go(&j, &b);
        const kl_dmrg_row *const x = &b.res.row[2], *const y = &whole.res.row[2];
        expect_eq(b.res.nrow, 3);
        expect_true(x->m == y->m && x->napply == y->napply && x->discarded == y->discarded);
        expect_true(x->energy[0] == y->energy[0] && x->variance == y->variance);
        expect_true(b.res.energy_kept[0] == whole.res.energy_kept[0]);
        b.opts.sweep = NULL;
        core_drop(&b);
    }
    whole.opts.sweep = NULL;
    core_drop(&whole);
    core_close(&j);
    core_no_memory();
}

/* ---- which sweeps ---- */

static void test_wanted(void **state)
{
    (void)state;
    kl_dmrg_row row[4] = {{.m = 10, .sites = 2, .noise = 1e-4, .energy = {-8}},
                          {.m = 20, .sites = 1, .energy = {-9}, .variance = 1e-2},
                          {.m = 20, .sites = 1, .energy = {-9.0001}, .variance = 1e-2},
                          {.m = 20, .sites = 1, .energy = {-9.0002}, .variance = 1e-2}};
    kl_dmrg_opts o = {.nsweep = 3, .nstate = 1};
    const kl_schedule s = {
        .opts = &o, .unit = {.joint = 1, .gap = 1, .all = 10}, .nsite = 20, .site_most = 2, .sector = 1e6};
    kl_stage g = {.m = 20, .sites = 1, .held = 1};
    kl_dmrg_result r = {.row = row, .nrow = 2};
    expect_true(kl_settle_wanted(&s, &g, &r));
    r.nrow = 1; /* more states than before */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    r.nrow = 3; /* one more behind it */
    expect_true(kl_settle_wanted(&s, &g, &r));
    o.nsweep = 5; /* some more, whose changes are small beside what truncation leaves */
    expect_true(kl_settle_wanted(&s, &g, &r));
    r.nrow = 2; /* nobody knows */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    r.nrow = 3;
    row[2].energy[0] = -9.2; /* or large */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    o.nsweep = 4;
    expect_true(!kl_settle_wanted(&s, &g, &r));
    row[2].energy[0] = -9.0001;
    row[1].variance = row[2].variance = 1e-16; /* or as good as it is to be */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    row[1].variance = row[2].variance = 1e-2;
    r.nrow = 2;
    o.nsweep = 0; /* automatic */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    o.nsweep = 3;
    g.m = 24; /* nothing would tell the variance */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    g.m = 20;
    g.sites = 2;
    expect_true(!kl_settle_wanted(&s, &g, &r));
    g.sites = 1;
    g.held = 2; /* mixtures of several have more states than one of them */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    g.held = 1;
    g.noise = 1e-6;
    expect_true(!kl_settle_wanted(&s, &g, &r));
    g.noise = 0;
    row[1].again = 1; /* it begins from another state */
    expect_true(!kl_settle_wanted(&s, &g, &r));
    row[1].again = 0;
    row[1].noise = 1e-6;
    expect_true(!kl_settle_wanted(&s, &g, &r));
    row[1].noise = 0;
    row[1].sites = 2;
    expect_true(!kl_settle_wanted(&s, &g, &r));
    r.nrow = 0;
    o.nsweep = 1;
    expect_true(!kl_settle_wanted(&s, &g, &r));
}

/* Plans know which schedules have one, and that it takes less. */
static void test_planned(void **state)
{
    (void)state;
    kl_dmrg_sweep sweep[] = {{10, 1e-4, 1e-8}, {20, 0, 1e-8}, {20, 0, 1e-8}, {20, 1e-5, 1e-8}};
    kl_dmrg_opts o = {.nsweep = 3, .nstate = 1, .sites = KL_SITES_AUTO, .sweep = sweep};
    expect_true(kl_settle_planned(&o, 20) && !kl_settle_planned(&o, 10));
    o.nsweep = 2;
    expect_true(!kl_settle_planned(&o, 20));
    o.nsweep = 0;
    expect_true(!kl_settle_planned(&o, 20));
    o.nsweep = 4; /* before noise */
    expect_true(kl_settle_planned(&o, 20));
    sweep[1].noise = 1e-6;
    expect_true(!kl_settle_planned(&o, 20));
    sweep[1].noise = 0;
    o.nstate = 2;
    expect_true(!kl_settle_planned(&o, 20));
    o.nstate = 1;
    o.sites = KL_SITES_TWO;
    expect_true(!kl_settle_planned(&o, 20));
    const double seconds[KL_NPLAN] = {[KL_PLAN_PRODUCTS] = 3, [KL_PLAN_TRUNCATION] = 2, [KL_PLAN_GROWTH] = 1},
                 settled = kl_plan_settled(seconds);
    expect_true(settled < 6 && settled > 3 + 1 + 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wanted),   cmocka_unit_test(test_planned), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_doubling), cmocka_unit_test(test_kept),    cmocka_unit_test(test_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
