/* One site at a time: a site is absorbed without a change of the wavefunctions, its basis stays orthonormal,
   what is measured meanwhile is the two-site variance, wrong starts find the ground state, error bars hold,
   broken runs go on to the same bits, and every allocation fails in turn.
   SPDX-License-Identifier: Apache-2.0 */
#include "bars.h"
#include "base/dense.h"
#include "dmrg/engineroom.h"
#include "dmrg/measure.h"
#include "dmrg/noisecolumns.h"
#include "dmrg/onesite.h"
#include "dmrg/truncate.h"

static kl_err err;

/* ---- one step, in the full space ---- */

typedef struct step_case {
    const char *model, *variant, *lattice, *sets, *charge;
    int nstate, m;
    double noise;
} step_case;

/* The absorbed site's states are orthonormal. */
static void check_basis(const kl_engine *e)
{
    const kl_isometry *const o = e->one->iso;
    double *const a = malloc((size_t)o->ndata * sizeof *a);
    core_download(e->ex, o->ndata, e->one->data, a);
    for (int k = 0; k < o->basis.nsec; k++) {
        const int rows = o->enlarged->basis.dim[o->sec[k]], cols = o->basis.dim[k];
        expect_true(cols > 0 && cols <= rows);
        for (int c = 0; c < cols; c++)
            for (int d = 0; d <= c; d++)
                expect_near(
                    core_dot(rows, a + o->off[k] + (int64_t)c * rows, a + o->off[k] + (int64_t)d * rows),
                    c == d, 1e-12);
    }
    free(a);
}

/* Two sites at the centre are no higher than the vectors there, and leave them and what waits for them. */
static void check_look(kl_engine *e, const kl_solve_opts *so, const core_full *full, double constant,
                       const double *before)
{
    const int64_t dim = full->o->dim, n = dim * e->nstate;
    const uintptr_t ahead = e->ahead.psi.addr;
    double energy[KL_MAX_STATE];
    int64_t napply = 7;
    for (int s = 0; s < KL_MAX_STATE; s++) energy[s] = INFINITY;
    expect_ok(kl_onesite_look(e, so, constant, energy, &napply, &err), err);
    expect_true(napply > 7 && e->max_basis == 20 && e->ahead.psi.addr == ahead);
    double *const after = core_engine_vectors(e, dim), *const h = malloc((size_t)dim * sizeof *h);
    expect_true(memcmp(before, after, (size_t)n * sizeof *before) == 0);
    oracle_apply(full->s, before, h);
    const double above = energy[0] * core_dot(dim, before, before) - core_dot(dim, before, h);
    if (e->nstate == 1) expect_true(above < 1e-11 * full->norm);
    expect_true(isfinite(energy[e->nstate - 1]) && isinf(energy[e->nstate]));
    const double lowest = energy[0] - 1;
    energy[0] = lowest;
    expect_ok(kl_onesite_look(e, so, constant, energy, &napply, &err), err);
    expect_true(energy[0] == lowest);
    free(after);
    free(h);
}

/* Absorbing leaves the vectors as they are; the energies told are <H> of the vectors then. */
static void check_steps(const step_case *t, kl_strategy strategy, uint64_t seed)
{
    core_job j;
    kl_engine *e = NULL;
    core_open(&j, core_model(t->model, t->variant), t->lattice, NULL, t->sets);
    core_full full = core_full_open(&j);
    const int64_t dim = full.o->dim;
    double *const h = malloc((size_t)dim * sizeof *h), energy[KL_MAX_STATE];
    const kl_engine_opts o = {.target = core_charge(j.model, t->charge),
                              .nstate = t->nstate,
                              .strategy = strategy,
                              .max_basis = 20,
                              .seed = seed};
    expect_ok(kl_engine_create(j.terms, j.ex, &o, &e, &err), err);
    expect_ok(kl_engine_start(e, t->m, 0, NULL, &err), err);
    const int n = e->nsite;
    int direction = 1, absorbed = 0, added = 0;
    for (int move = 0; move < 4 * n; move++) {
        const kl_solve_opts so = {.tol = move < n ? 1e-2 : 1e-9, .max_apply = 10};
        const kl_trunc_opts to = {.m = t->m,
                                  .m_min = 1,
                                  .noise = move < n ? t->noise : 0,
                                  .nstate = t->nstate,
                                  .precise = move >= n};
        kl_eig_stats stats;
        kl_trunc_info info;
        kl_expand_info grown;
        kl_test_case("%s m=%d nstate=%d move %d to %+d from %d", j.name, t->m, t->nstate, move, direction,
                     e->centre);
        double *const before = core_engine_vectors(e, dim);
        if (move % 3 == 0) check_look(e, &so, &full, j.terms->constant, before);
        const int measure = move % 2;
        expect_ok(kl_onesite_absorb(e, direction, t->m, measure, seed + (uint64_t)move, &grown, &err), err);
        expect_true(isfinite(grown.residual) && grown.residual >= 0 && grown.added >= 0);
        double *const after = core_engine_vectors(e, dim);
        expect_near(core_dot(dim * t->nstate, before, before), core_dot(dim * t->nstate, before, after),
                    1e-12);
        expect_near(core_dot(dim * t->nstate, after, after), core_dot(dim * t->nstate, before, after), 1e-12);
        absorbed += e->one != NULL;
        added += grown.added;
        if (e->one) check_basis(e);
        expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
        double *const solved = core_engine_vectors(e, dim);
        for (int s = 0; s < t->nstate; s++) {
            const double *const y = solved + s * dim;
            expect_near(core_dot(dim, y, y), 1, 1e-12);
            oracle_apply(full.s, y, h);
            expect_near(energy[s] + j.terms->constant, core_dot(dim, y, h), 1e-11 * full.norm);
        }
        if (e->centre == 0) direction = 1;
        if (e->centre == n - 2) direction = -1;
        expect_ok(kl_engine_move(e, direction, &to, &info, &err), err);
        double *const moved = core_engine_vectors(e, dim);
        double lost = 0;
        for (int s = 0; s < t->nstate; s++) {
            const double *const x = solved + s * dim, *const y = moved + s * dim;
            expect_near(core_dot(dim, x, y), core_dot(dim, y, y), 1e-12); /* y = P x */
            lost += (1 - core_dot(dim, y, y)) / t->nstate;
        }
        if (to.noise == 0) expect_near(lost, info.discarded, 1e-12);
        free(before);
        free(after);
        free(solved);
        free(moved);
    }
    expect_true(n < 4 || absorbed > n); /* the first and the last bond have no site to absorb */
    expect_true(n < 6 || added > 0);
    free(h);
    kl_engine_destroy(&e);
    core_full_close(&full);
    core_close(&j);
}

static void test_steps(void **state)
{
    static const step_case list[] = {
        {"heisenberg", "S=1/2", "chain:10", "h=normal(0,1)", NULL, 1, 6, 0},
        {"heisenberg", "S=1/2", "ring:10", NULL, "Sz=-4", 3, 3, 0},
        {"heisenberg", "S=1", "ladder:3x2", NULL, "Sz=1", 2, 9, 1e-4},
        {"hubbard", "F=1/2", "ring:6", "mu=normal(0,2)", "N_up=1 N_dn=4", 1, 8, 1e-3},
        {"hubbard", "F=1/2", "chain:6", NULL, "N_up=6 N_dn=1", 1, 2, 0},
        {"tj", NULL, "chain:7", NULL, "N_up=3 N_dn=1", 2, 9, 0},
        {"strange", NULL, "ring:5", NULL, "parity=1", 1, 10, 0},
        {"pairing", NULL, "ring:9", NULL, NULL, 2, 4, 0},
        {"majorana", NULL, "ring:10", NULL, NULL, 1, 7, 0},
        {"holstein", "n_max=1", "chain:4", NULL, "N_up=1 N_dn=2", 1, 4, 0},
        {"heisenberg", "S=1/2", "chain:3", NULL, "Sz=1/2", 1, 2, 0},
    };
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 3))
        check_steps(&list[k], k % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R, 1 + (uint64_t)k);
    core_no_memory();
}

/* ---- noise ---- */

/* The matrices of all sectors of d's side, `length` numbers; noise as a share of the weight. */
static double *matrices(kl_exec *ex, const kl_density *d, double noise, int64_t length)
{
    kl_dptr rho;
    double *const out = malloc((size_t)length * sizeof *out);
    expect_ok(ex->vt.alloc(ex, length, &rho, &err), err);
    expect_ok(kl_density_make(ex, d, rho, &err), err);
    if (noise > 0) expect_ok(kl_density_add_noise(ex, d, noise, rho, &err), err);
    core_download(ex, length, rho, out);
    ex->vt.release(ex, &rho);
    return out;
}

static double trace(const kl_basis *b, const double *rho)
{
    double sum = 0;
    for (int c = 0; c < b->nsec; rho += (int64_t)b->dim[c] * b->dim[c], c++)
        for (int r = 0; r < b->dim[c]; r++) sum += rho[(int64_t)r * (b->dim[c] + 1)];
    return sum;
}

/* What samples have in common with all of the noise, and that with itself. */
typedef struct likeness {
    double sampled, all;
    int opened; /* sectors that the wavefunctions are not in */
} likeness;

/* Columns of noise have the share of the weight that all of it would have, where it would be, and on average
   what it is. */
static void check_sample(kl_engine *e, int direction, likeness *sum)
{
    const double share = 0.01;
    const kl_density d = {.side = direction > 0 ? KL_LEFT : KL_RIGHT,
                          .wave = kl_engine_wave(e),
                          .nstate = e->nstate,
                          .grown = direction > 0 ? e->row_op : e->col_op};
    const kl_basis *const mine = kl_density_mine(&d);
    kl_noise_columns with;
    int64_t length = 0;
    for (int c = 0; c < mine->nsec; c++) length += (int64_t)mine->dim[c] * mine->dim[c];
    expect_ok(kl_noise_columns_create(e->ex, &d, e->target, share, &with, &err), err);
    kl_density wide = d;
    wide.wave = with.wave;
    expect_true(kl_density_mine(&wide) == mine &&
                kl_density_other(&wide)->nsec >= kl_density_other(&d)->nsec);
    double *const bare = matrices(e->ex, &d, 0, length), *const noisy = matrices(e->ex, &d, share, length);
    double *const sampled = matrices(e->ex, &wide, 0, length);
    const double weight = trace(mine, bare), added = trace(mine, noisy) - weight;
    expect_near(trace(mine, sampled) - weight, added, 1e-13);
    expect_true(added == 0 || fabs(added - share * weight) < 1e-13);
    const double *a = bare, *b = noisy, *x = sampled;
    for (int c = 0; c < mine->nsec; c++) {
        const int64_t n = (int64_t)mine->dim[c] * mine->dim[c];
        double all = 0, there = 0, both = 0, before = 0;
        for (int64_t i = 0; i < n; i++) {
            all += (b[i] - a[i]) * (b[i] - a[i]);
            there += (x[i] - a[i]) * (x[i] - a[i]);
            both += (x[i] - a[i]) * (b[i] - a[i]);
            before += a[i] * a[i];
        }
        if (all < 1e-28) expect_true(there < 1e-28);
        else expect_true(there > 0);
        sum->opened += before == 0 && there > 0;
        sum->sampled += both;
        sum->all += all;
        a += n, b += n, x += n;
    }
    free(bare);
    free(noisy);
    free(sampled);
    kl_noise_columns_clear(e->ex, &with);
}

/* Columns of noise for which there is no memory are none. */
static void check_memory(kl_engine *e, int direction)
{
    const kl_density d = {.side = direction > 0 ? KL_LEFT : KL_RIGHT,
                          .wave = kl_engine_wave(e),
                          .nstate = e->nstate,
                          .grown = direction > 0 ? e->row_op : e->col_op};
    kl_noise_columns with;
    kl_status st = KL_ENOMEM;
    for (int64_t k = 1; st == KL_ENOMEM; k++) {
        err.text[0] = 0;
        kl_mem_fail_after(k);
        st = kl_noise_columns_create(e->ex, &d, e->target, 0.01, &with, &err);
        kl_mem_fail_after(0);
        expect_true(st == KL_OK || (st == KL_ENOMEM && err.text[0] && with.other == NULL && k < 1000));
    }
    expect_eq(st, KL_OK);
    kl_noise_columns_clear(e->ex, &with);
}

/* By products no more of them is left out than exactly. */
static void check_sampled_products(kl_engine *e, int direction, int m, int *tried)
{
    const kl_side side = direction > 0 ? KL_LEFT : KL_RIGHT;
    const kl_wave wave = kl_engine_wave(e);
    kl_trunc_info info[2];
    for (int k = 0; k < 2; k++) {
        const kl_trunc_opts o = {.m = m,
                                 .noise = 1e-4,
                                 .nstate = e->nstate,
                                 .narrow = 1,
                                 .target = e->target,
                                 .way = k ? KL_TRUNCATION_PRODUCTS : KL_TRUNCATION_EXACT};
        kl_isometry *iso = NULL;
        kl_dptr data;
        expect_ok(kl_truncate(e->ex, side, &wave, direction > 0 ? e->row_op : e->col_op, &o, &iso, &data,
                              &info[k], &err),
                  err);
        kl_isometry_destroy(&iso);
        e->ex->vt.release(e->ex, &data);
    }
    if (info[0].m >= m) expect_near(info[1].m, info[0].m, 2); /* others keep all that is not rounding */
    if (info[1].m == info[0].m || info[0].m < m)
        expect_true(info[1].discarded <= 1.001 * info[0].discarded + 1e-13);
    *tried += info[1].nleast;
}

static void test_sampled(void **state)
{
    static const step_case list[] = {
        {"heisenberg", "S=1/2", "cylinder:6x4", NULL, "Sz=0", 1, 300, 1e-4},
        {"hubbard", NULL, "ladder:5x2", "U=4", "N_up=5 N_dn=4", 2, 60, 1e-4},
        {"majorana", NULL, "ring:10", NULL, NULL, 1, 7, 1e-4},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        const step_case *const t = &list[k];
        core_job j;
        kl_engine *e = NULL;
        likeness like = {0};
        int direction = 1, tried = 0, sampled = 0;
        core_open(&j, core_model(t->model, t->variant), t->lattice, NULL, t->sets);
        const kl_engine_opts o = {
            .target = core_charge(j.model, t->charge), .nstate = t->nstate, .max_basis = 20, .seed = 1};
        expect_ok(kl_engine_create(j.terms, j.ex, &o, &e, &err), err);
        expect_ok(kl_engine_start(e, t->m / 4 + 2, 0, NULL, &err), err);
        const int n = e->nsite;
        for (int move = 0; move < 4 * n; move++) {
            const kl_solve_opts so = {.tol = 1e-4, .max_apply = 4, .trust_start = move > 0};
            const kl_trunc_opts to = {.m = t->m, .m_min = 1, .noise = t->noise, .nstate = t->nstate};
            double energy[KL_MAX_STATE];
            kl_eig_stats stats;
            kl_trunc_info info;
            kl_expand_info grown;
            kl_test_case("%s move %d to %+d from %d", j.name, move, direction, e->centre);
            if (move >= n)
                expect_ok(kl_onesite_absorb(e, direction, t->m, 1, (uint64_t)move, &grown, &err), err);
            expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
            if (e->centre == 0) direction = 1;
            if (e->centre == n - 2) direction = -1;
            expect_ok(kl_engine_make_operators(e, &err), err);
            if (e->one) {
                if (sampled++ == 3) check_memory(e, direction);
                check_sample(e, direction, &like);
                check_sampled_products(e, direction, t->m, &tried);
            }
            expect_ok(kl_engine_move(e, direction, &to, &info, &err), err);
        }
        kl_test_case("%s: %d times, %g of %g", j.name, sampled, like.sampled, like.all);
        expect_true(sampled > n && (k > 0 || tried > 0) && (k == 2 || like.opened > 0));
        expect_true(fabs(like.sampled / like.all - 1) < 0.1);
        kl_engine_destroy(&e);
        core_close(&j);
    }
    core_no_memory();
}

/* ---- the two-site variance ---- */

static void test_variance(void **state)
{
    static const struct {
        const char *model, *lattice, *sets, *charge;
        int m;
    } list[] = {{"heisenberg", "chain:30", NULL, "Sz=0", 24},
                {"hubbard", "ladder:6x2", "U=6", "N_up=5 N_dn=5", 40},
                {"plain_ising", "chain:40", "g=1", NULL, 12}};
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 2)) {
        const int m = list[k].m;
        kl_dmrg_sweep sweep[] = {{m, 1e-4, 1e-6}, {m, 0, 1e-8}, {m, 0, 1e-8}, {m, 0, 1e-8}};
        core_job j;
        kl_measure *measure = NULL;
        double energy, variance;
        core_open(&j, core_model(list[k].model, NULL), list[k].lattice, NULL, list[k].sets);
        core_run r = {.opts = {.target = core_charge(j.model, list[k].charge),
                               .sites = KL_SITES_ONE,
                               .full = k == 1,
                               .nstate = 1,
                               .nsweep = 4,
                               .sweep = sweep,
                               .seed = 1}};
        core_go(&j, &r);
        kl_test_case("%s: variance of a sweep against the state's", j.name);
        expect_ok(kl_measure_create(j.ex, r.state, 0, j.lat, &measure, &err), err);
        expect_ok(kl_measure_energy(measure, j.terms, &energy, &variance, &err), err);
        expect_true(variance > 1e-10);
        expect_near(r.res.row[3].variance, variance, 0.25 * variance);
        kl_measure_destroy(&measure);
        r.opts.sweep = NULL; /* not from the heap */
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* ---- whole runs ---- */

static void test_bars_hold(void **state)
{
    (void)state;
    for (int k = 0, i = 0; k < NBARS; k++)
        if (bars[k].quick && i++ % (KL_TEST_WATCHED ? 16 : 6) == 1)
            bars_check(&bars[k], KL_SITES_ONE, 1e-8, 1 + (uint64_t)k % 3);
    core_no_memory();
}

/* Domain walls, all electrons at one end, and any seed: H opens the sectors that are missing. */
static void test_wrong_starts(void **state)
{
    enum { N = 20 };
    static const struct {
        const char *model, *sets, *charge;
        int first, second; /* states of the two halves */
    } list[] = {{"heisenberg", NULL, "Sz=0", 0, 1},
                {"hubbard", "U=8", "N_up=10 N_dn=10", 3, 0},
                {"hubbard", "U=8", "N_up=10 N_dn=10", 1, 2},
                {"tj", NULL, "N_up=10 N_dn=0", 1, 0}};
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 3)) {
        core_job j;
        int start[N];
        double energy = NAN;
        core_open(&j, core_model(list[k].model, NULL), "chain:20", NULL, list[k].sets);
        for (int p = 0; p < N; p++) start[p] = p < N / 2 ? list[k].first : list[k].second;
        for (int seed = 0; seed <= (k == 0 && !KL_TEST_WATCHED ? 12 : 2); seed++) {
            core_run r = core_auto(1e-7, core_charge(j.model, list[k].charge), 1, KL_STRATEGY_AUTO);
            r.opts.start = seed == 1 ? start : NULL;
            r.opts.seed = (uint64_t)seed;
            r.opts.sites = seed == 0 ? KL_SITES_TWO : seed % 4 == 3 ? KL_SITES_AUTO : KL_SITES_ONE;
            kl_test_case("%s, start %d", j.name, seed);
            core_go(&j, &r);
            expect_eq(r.res.stop, KL_STOP_CONVERGED);
            if (seed == 0) energy = r.res.energy[0] - r.res.error_estimate;
            expect_true(fabs(r.res.energy[0] - energy) <= 2e-7 * fabs(energy));
            core_drop(&r);
        }
        core_close(&j);
    }
    core_no_memory();
}

/* A sector as large as this one is not solved as a whole; every block keeps all of its states. */
static void test_exact(void **state)
{
    static const struct {
        const char *model, *lattice, *sets, *charge;
    } list[] = {{"heisenberg", "ring:10", "h=normal(0,1)", "Sz=0"},
                {"hubbard", "chain:6", "U=6 mu=normal(0,1)", "N_up=3 N_dn=2"},
                {"extended_hubbard", "ladder:3x2", "U=4 V=1", "N_up=3 N_dn=3"},
                {"blbq", "chain:6", "beta=0.2", "Sz=0"}};
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 2))
        for (int nstate = 1; nstate <= 2; nstate++) {
            core_job j;
            double w[2];
            core_open(&j, core_model(list[k].model, NULL), list[k].lattice, NULL, list[k].sets);
            const kl_qn target = core_charge(j.model, list[k].charge);
            oracle *o = oracle_create(j.model, j.lat, j.par);
            expect_eq(oracle_energies(o, core_of(target).charge, 2, w, NULL), 2);
            oracle_destroy(&o);
            core_run r = core_exact(300, target, nstate, nstate == 1 ? KL_STRATEGY_LR : KL_STRATEGY_L11R);
            r.opts.sites = KL_SITES_ONE;
            core_go(&j, &r);
            kl_test_case("%s, %d states", j.name, nstate);
            expect_eq(r.res.row[3].sites, 1);
            for (int i = 0; i < nstate; i++) expect_near(r.res.energy[i], w[i], 1e-11 * (1 + fabs(w[i])));
            core_drop(&r);
            core_close(&j);
        }
    core_no_memory();
}

/* ---- broken runs ---- */

static void to_the_bit(const char *model, const char *lattice, const char *charge, double accuracy,
                       int nstate, int every)
{
    core_job j;
    core_open(&j, core_model(model, NULL), lattice, NULL, NULL);
    core_watcher w = {.stop_after = 1000000};
    kl_dmrg_monitor mon = core_watch(&w);
    core_run whole = core_auto(accuracy, core_charge(j.model, charge), nstate, KL_STRATEGY_AUTO);
    whole.opts.sites = KL_SITES_ONE;
    expect_ok(kl_dmrg_run(j.terms, j.ex, &whole.opts, &mon, &whole.state, &whole.res, &err), err);
    for (int stop = 1; stop < w.step; stop += every) {
        core_watcher v = {.stop_after = stop};
        mon.self = &v;
        core_run b = {.opts = whole.opts};
        kl_dmrg_row rows[32];
        kl_test_case("%s interrupted after %d of %d steps", j.name, stop, w.step);
        expect_ok(kl_dmrg_run(j.terms, j.ex, &b.opts, &mon, &b.state, &b.res, &err), err);
        expect_true(b.res.direction != 0 && b.res.nrow <= 32);
        memcpy(rows, b.res.row, sizeof *rows * (size_t)b.res.nrow);
        b.opts.direction = b.res.direction, b.opts.ndone = b.res.nrow - 1, b.opts.done = rows;
        core_go(&j, &b);
        expect_eq(b.res.nrow, whole.res.nrow);
        for (int k = 0; k < b.res.nrow; k++) {
            const kl_dmrg_row *const x = &b.res.row[k], *const y = &whole.res.row[k];
            expect_true(x->m == y->m && x->napply == y->napply && x->discarded == y->discarded);
            expect_eq(memcmp(x->energy, y->energy, sizeof(double) * (size_t)nstate), 0);
            expect_eq(memcmp(&x->variance, &y->variance, sizeof(double)), 0);
        }
        core_drop(&b);
    }
    core_drop(&whole);
    core_close(&j);
}

static void test_to_the_bit(void **state)
{
    (void)state;
    to_the_bit("heisenberg", "chain:26", "Sz=0", 1e-7, 1, KL_TEST_WATCHED ? 197 : 83);
    to_the_bit("tj", "ladder:7x2", "N_up=5 N_dn=5", 1e-3, 2, KL_TEST_WATCHED ? 151 : 83);
    core_no_memory();
}

static void test_no_memory(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:5", NULL, NULL);
    int64_t count = 0;
    for (int64_t k = 1;; k += (k < 100 ? 7 : 23) * (KL_TEST_WATCHED ? 3 : 1)) {
        core_run r = core_exact(8, core_charge(j.model, "N_up=2 N_dn=2"), 1, KL_STRATEGY_LR);
        r.opts.sites = KL_SITES_ONE;
        r.opts.nsweep = 2;
        r.opts.max_apply = 3;
        kl_dense_release();
        err.text[0] = 0;
        kl_mem_fail_after(k);
        const kl_status st = kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err);
        kl_mem_fail_after(0);
        kl_test_case("allocation %lld", (long long)k);
        expect_true(st == KL_OK || (st == KL_ENOMEM && err.text[0]));
        core_drop(&r);
        kl_dense_release();
        count = k;
        if (st == KL_OK) break;
    }
    expect_true(count > 1000);
    core_close(&j);
    core_no_memory();
}

/* ---- where two sites are tried in the end ---- */

static void test_look_at(void **state)
{
    static const struct {
        const char *lattice;
        int centre;
    } list[] = {{"chain:10", 4}, {"ring:9", 3}, {"cylinder:4x3", 4}, {"cylinder:8x4", 14}, {"chain:2", 0}};
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        core_job j;
        int centre = -1;
        core_open(&j, core_model("heisenberg", "S=1/2"), list[k].lattice, NULL, NULL);
        expect_ok(kl_onesite_look_at(j.terms, j.terms->nsite - 2, &centre, &err), err);
        kl_test_case("%s", list[k].lattice);
        expect_eq(centre, list[k].centre);
        core_close(&j);
    }
    core_no_memory();
}

/* ---- how many states are added ---- */

static void test_more(void **state)
{
    (void)state;
    expect_eq(kl_onesite_more(400, 400), 40);
    expect_eq(kl_onesite_more(24, 24), 8);  /* a few at least */
    expect_eq(kl_onesite_more(400, 250), 190); /* m grows */
    expect_eq(kl_onesite_more(4000, 100), 124); /* no more than twice what there is, or so */
    expect_eq(kl_onesite_more(100, 160), 10);
}

/* A plan with one site: the list of a step that a run makes, and less of everything. */
static void test_plan(void **state)
{
    (void)state;
    core_job j;
    kl_dmrg_plan two, one;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:40", NULL, "U=8");
    for (int lr = 0; lr < 2; lr++) {
        kl_dmrg_opts o = {.strategy = lr ? KL_STRATEGY_LR : KL_STRATEGY_L11R,
                          .nstate = 1,
                          .target = core_charge(j.model, "N_up=20 N_dn=20"),
                          .seed = 1};
        expect_ok(kl_dmrg_make_plan(j.terms, j.ex, &o, 200, &two, &err), err);
        o.sites = KL_SITES_ONE;
        expect_ok(kl_dmrg_make_plan(j.terms, j.ex, &o, 200, &one, &err), err);
        kl_test_case("plans, strategy %d", lr);
        expect_true(two.sites == 2 && two.absorbed == 0 && one.sites == 1 && one.absorbed > 200);
        expect_true(2 * one.dim < two.dim && 2 * one.flop_apply < two.flop_apply);
        expect_true(one.memory_bytes < two.memory_bytes && one.apply.nx == one.dim);
        kl_dmrg_plan_clear(&two);
        kl_dmrg_plan_clear(&one);
    }
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more),    cmocka_unit_test(test_steps),        cmocka_unit_test(test_variance),
        cmocka_unit_test(test_exact),   cmocka_unit_test(test_wrong_starts), cmocka_unit_test(test_bars_hold),
        cmocka_unit_test(test_plan),    cmocka_unit_test(test_to_the_bit),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_look_at), cmocka_unit_test(test_sampled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
