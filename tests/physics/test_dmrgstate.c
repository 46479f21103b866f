/* The state of DMRG runs: its transformation from bond to bond in the full space, starts from product states
   and from other states, equal bits, interrupted and resumed runs.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "base/dense.h"
#include "kl_test.h"

static double exact(const core_job *j, kl_qn target)
{
    double w = NAN;
    oracle *o = oracle_create(j->model, j->lat, j->par);
    expect_eq(oracle_energies(o, core_of(target).charge, 1, &w, NULL), 1);
    oracle_destroy(&o);
    return w;
}

static kl_engine *engine(const core_job *j, kl_qn target, int nstate, kl_strategy strategy, uint64_t seed)
{
    kl_err err = {""};
    kl_engine *e = NULL;
    const kl_engine_opts o = {.target = target,
                              .nstate = nstate,
                              .strategy = strategy,
                              .solver = KL_SOLVER_DAVIDSON,
                              .max_basis = 20,
                              .seed = seed};
    expect_ok(kl_engine_create(j->terms, j->ex, &o, &e, &err), err);
    return e;
}

/* Orthonormal columns, sectors ascending, dimensions within those of the enlarged basis. */
static void check_isometry(const kl_isometry *o)
{
    int64_t total = 0;
    for (int k = 0; k < o->basis.nsec; k++) {
        const int rows = o->enlarged->basis.dim[o->sec[k]], cols = o->basis.dim[k];
        expect_true(cols > 0 && cols <= rows);
        expect_true(k == 0 || kl_qn_cmp(o->basis.q[k - 1], o->basis.q[k]) < 0);
        total += cols;
        for (int a = 0; a < cols; a++)
            for (int b = 0; b <= a; b++)
                expect_near(core_dot(rows, o->data + o->off[k] + (int64_t)a * rows,
                                     o->data + o->off[k] + (int64_t)b * rows),
                            a == b, 1e-12);
    }
    expect_eq(total, o->basis.total);
}

typedef struct turn_case {
    const char *model, *variant, *lattice, *sets, *charge;
    int nstate, m, precise;
    double noise, discard;
    int nwanted; /* the others are guards, of less weight; 0: there are none */
} turn_case;

/* Sweeps by hand. At every move, in the full space: the norm that is lost is the discarded weight, what stays
   is the projection of what was, the energy told is <H>, and blocks and isometries fit. At both ends too. */
static void check_turns(const turn_case *t, uint64_t seed)
{
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model(t->model, t->variant), t->lattice, NULL, t->sets);
    core_full full = core_full_open(&j);
    const int64_t dim = full.o->dim;
    kl_engine *e = engine(&j, core_charge(j.model, t->charge), t->nstate,
                          seed % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R, seed);
    expect_ok(kl_engine_start(e, t->m < 24 ? t->m : 24, 0, NULL, &err), err);
    double *const h = malloc((size_t)dim * sizeof *h), energy[KL_MAX_STATE];
    const int n = e->nsite;
    int direction = 1;
    for (int move = 0; move < 4 * n; move++) {
        const kl_solve_opts so = {.tol = move < n ? 1e-2 : 1e-9, .max_apply = 10};
        const kl_trunc_opts to = {.m = t->m,
                                  .m_min = 1,
                                  .discard = t->discard,
                                  .noise = move < n ? t->noise : 0,
                                  .nstate = t->nstate,
                                  .precise = t->precise && move >= n};
        kl_eig_stats stats;
        kl_trunc_info info;
        kl_test_case("%s m=%d nstate=%d move %d to %+d from %d", j.name, t->m, t->nstate, move, direction,
                     e->centre);
        expect_ok(kl_engine_solve(e, &so, energy, &stats, &err), err);
        if (t->nwanted) kl_engine_weigh(e, t->nwanted);
        double *const before = core_engine_vectors(e, dim);
        if (n == 2) {
            free(before);
            break;
        }
        if (e->centre == 0) direction = 1;
        if (e->centre == n - 2) direction = -1;
        expect_ok(kl_engine_move(e, direction, &to, &info, &err), err);
        expect_true(info.m <= t->m || t->noise > 0 || info.m <= 2 * t->m + 4); /* a multiplet may overshoot */
        expect_true(info.discarded >= 0 && info.discarded <= 1);
        if (t->discard > 0 && info.m < t->m && to.noise == 0) expect_true(info.discarded <= t->discard);
        kl_state *now = NULL;
        expect_ok(kl_engine_state(e, energy, &now, &err), err);
        for (int p = 0; p < e->centre; p++) check_isometry(now->left[p]);
        for (int p = e->centre + 2; p < n; p++) check_isometry(now->right[p]);
        kl_state_destroy(&now);
        double *const after = core_engine_vectors(e, dim);
        double kept = 0, was = 0;
        for (int s = 0; s < t->nstate; s++) {
            const double *const x = before + s * dim, *const y = after + s * dim;
            const double xx = core_dot(dim, x, x), xy = core_dot(dim, x, y), yy = core_dot(dim, y, y);
            if (t->nwanted)
                expect_near(xx, 16.0 * t->nstate / (15 * t->nwanted + t->nstate) / (s < t->nwanted ? 1 : 16),
                            1e-12);
            else expect_near(xx, 1.0, 1e-12);
            expect_near(xy, yy, 1e-12); /* y = P x */
            if (to.noise == 0 && t->nstate == 1)
                expect_true(xy / sqrt(xx * yy) >= 1 - 2 * info.discarded - 1e-13);
            kept += yy / t->nstate, was += xx / t->nstate;
        }
        expect_near(was, 1.0, 1e-12);
        if (to.noise == 0) expect_near(was - kept, info.discarded, 1e-12);
        if (to.noise == 0 && info.discarded < 1e-14) expect_near(kept, 1.0, 1e-12);
        double after_energy[KL_MAX_STATE];
        expect_ok(kl_engine_energy(e, after_energy, &err), err);
        for (int s = 0; s < t->nstate; s++) {
            const double *const y = after + s * dim;
            const double yy = core_dot(dim, y, y);
            if (yy < 1e-8) continue;
            oracle_apply(full.s, y, h);
            expect_near(after_energy[s] + j.terms->constant, core_dot(dim, y, h) / yy, 1e-12 * full.norm);
            if (to.noise == 0 && t->nstate == 1) /* |E' - E| <= what the part left out can change it by */
                expect_true(fabs(after_energy[s] - energy[s]) <=
                            4 * full.norm * sqrt(info.discarded + 1e-24) + 1e-12 * full.norm);
        }
        free(before);
        free(after);
    }
    free(h);
    kl_engine_destroy(&e);
    core_full_close(&full);
    core_close(&j);
}

static const turn_case turns[] = {
    {"heisenberg", "S=1/2", "chain:8", NULL, NULL, 1, 1000, 0, 0, 0, 0},
    {"heisenberg", "S=1/2", "chain:8", NULL, NULL, 1, 1000, 1, 0, 0, 0},
    {"heisenberg", "S=1/2", "chain:10", "h=normal(0,1)", NULL, 1, 6, 0, 0, 0, 0},
    {"heisenberg", "S=1/2", "chain:10", "h=normal(0,1)", NULL, 1, 6, 1, 0, 0, 0},
    {"heisenberg", "S=1/2", "ring:10", NULL, "Sz=3", 1, 3, 1, 1e-3, 0, 0},
    {"heisenberg", "S=1/2", "ring:10", NULL, "Sz=-4", 3, 3, 0, 0, 0, 0}, /* sectors missing on both sides */
    {"heisenberg", "S=1/2", "chain:9", NULL, "Sz=1/2", 4, 12, 0, 1e-4, 0, 0},
    {"heisenberg", "S=1/2", "chain:10", NULL, NULL, 1, 64, 0, 0, 1e-4, 0},
    {"heisenberg", "S=1/2", "chain:10", NULL, NULL, 1, 64, 1, 0, 1e-6, 0},
    {"hubbard", "F=1/2", "ring:6", NULL, "N_up=3 N_dn=2", 1, 8, 1, 1e-3, 0, 0},
    {"hubbard", "F=1/2", "ring:6", "mu=normal(0,2)", "N_up=1 N_dn=5", 2, 8, 0, 1e-4, 0, 0},
    {"hubbard", "F=1/2", "chain:6", NULL, "N_up=6 N_dn=1", 1, 2, 0, 0, 0, 0},
    {"hubbard", "F=1/2", "chain:5", NULL, "N_up=5 N_dn=5", 1, 8, 1, 0, 0, 0},
    {"tj", NULL, "chain:7", NULL, "N_up=3 N_dn=1", 1, 9, 0, 0, 0, 0},
    {"strange", NULL, "ring:5", NULL, "parity=1", 1, 10, 0, 1e-3, 0, 0},
    {"pairing", NULL, "ring:10", NULL, NULL, 2, 4, 0, 0, 0, 0},
    {"free_spins", NULL, "ring:9", NULL, NULL, 1, 5, 1, 0, 0, 0},
    {"majorana", NULL, "ring:10", NULL, NULL, 1, 7, 0, 0, 0, 0},
    {"kondo", "S=1/2", "chain:4", NULL, "N=3 Sz=-1/2", 1, 5, 0, 1e-3, 0, 0},
    {"holstein", "n_max=1", "chain:3", NULL, "N_up=1 N_dn=2", 1, 4, 1, 0, 0, 0},
    {"heisenberg", "S=1/2", "chain:3", NULL, "Sz=1/2", 1, 2, 0, 0, 0, 0},
    {"heisenberg", "S=1/2", "chain:2", NULL, NULL, 1, 2, 0, 0, 0, 0},
    {"heisenberg", "S=1/2", "chain:10", "h=normal(0,1)", NULL, 3, 12, 1, 1e-4, 0, 1},
    {"hubbard", "F=1/2", "ring:6", NULL, "N_up=3 N_dn=2", 4, 10, 0, 0, 0, 2},
};

static void test_turns(void **state)
{
    (void)state;
    const int n = sizeof turns / sizeof *turns;
    for (int k = 0; k < n; k += kl_test_stride(n, 2))
        for (int seed = 1; seed <= kl_test_rounds(3); seed++)
            check_turns(&turns[k], (uint64_t)(seed + 10 * k));
    core_no_memory();
}

/* Clusters of equal weight stay together: a triplet's three states, on a chain whose cuts carry half-integer
   and integer spins. */
static void test_multiplets(void **state)
{
    kl_err err = {""};
    core_job j;
    (void)state;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:12", NULL, NULL);
    core_run r = core_exact(200, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    for (int m = 1; m <= 30; m += kl_test_stride(30, 5)) {
        kl_engine *e = engine(&j, kl_qn_zero(), 1, KL_STRATEGY_AUTO, 1);
        kl_state *copy = NULL;
        kl_trunc_info info;
        core_run again = core_exact(200, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
        again.opts.nsweep = 3;
        core_go(&j, &again);
        copy = again.state, again.state = NULL;
        core_drop(&again);
        expect_ok(kl_engine_resume_take(e, &copy, &err), err);
        for (int c = 0; c < 7; c++) {
            const kl_trunc_opts big = {.m = 200, .nstate = 1, .precise = 1},
                                small = {.m = m, .nstate = 1, .precise = 1};
            expect_ok(kl_engine_move(e, 1, c < 5 ? &big : &small, &info, &err), err);
            if (c < 5) continue;
            kl_test_case("m=%d cut %d kept %d", m, c + 1, info.m);
            const kl_basis *const b = &e->left[c]->basis;
            for (int k = 0; k < b->nsec; k++) { /* as many states with Sz as with -Sz */
                kl_qn minus = kl_qn_zero();
                minus.v[0] = (int16_t)-b->q[k].v[0];
                const int i = kl_basis_find(b, minus);
                expect_true(i >= 0);
                expect_eq(b->dim[i], b->dim[k]);
            }
            break;
        }
        kl_engine_destroy(&e);
    }
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* Product starts: the state is what was asked for, to the mixed-in 1e-3, whatever m. */
static void test_product_start(void **state)
{
    static const int neel[] = {0, 1, 0, 1, 0, 1, 0, 1}, wall[] = {0, 0, 0, 0, 1, 1, 1, 1},
                     electrons[] = {3, 0, 1, 2, 1, 0};
    kl_err err = {""};
    core_job j;
    (void)state;
    for (int k = 0; k < 3; k++) {
        const int *const start = k == 0 ? neel : k == 1 ? wall : electrons;
        core_open(&j, core_model(k < 2 ? "heisenberg" : "hubbard", k < 2 ? "S=1/2" : "F=1/2"),
                  k < 2 ? "chain:8" : "chain:6", NULL, NULL);
        int64_t dim = 1, at = 0;
        kl_qn target = kl_qn_zero();
        for (int p = 0; p < j.terms->nsite; p++) {
            dim *= j.terms->type[p]->dim;
            at = at * j.terms->type[p]->dim + start[p];
            target = kl_qn_add(j.model, target, kl_qn_of(j.model, j.terms->type[p]->state_charge[start[p]]));
        }
        for (int m = 1; m <= 40; m += 13) {
            kl_engine *e = engine(&j, target, 1, KL_STRATEGY_AUTO, 5);
            expect_ok(kl_engine_start(e, m, 1, start, &err), err);
            double *const x = core_engine_vectors(e, dim);
            expect_true(fabs(x[at]) / sqrt(core_dot(dim, x, x)) > 0.98);
            free(x);
            kl_engine_destroy(&e);
        }
        core_run r = core_exact(100, target, 1, KL_STRATEGY_AUTO);
        r.opts.start = start;
        core_go(&j, &r);
        kl_test_case("%s from a product", j.name);
        expect_near(r.res.energy[0], exact(&j, target), 1e-11);
        core_drop(&r);
        r = core_exact(100, core_charge(j.model, k < 2 ? "Sz=1" : "N_up=2 N_dn=3"), 1, KL_STRATEGY_AUTO);
        r.opts.start = start;
        if (k < 2)
            expect_refused(kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err), KL_EINPUT, err,
                           "start");
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

static void expect_same(const kl_state *a, const kl_state *b)
{
    expect_eq(a->npsi, b->npsi);
    expect_eq(a->centre, b->centre);
    expect_eq(memcmp(a->psi, b->psi, (size_t)(a->npsi * a->nstate) * sizeof *a->psi), 0);
    for (int p = 0; p < a->nsite; p++)
        for (int side = 0; side < 2; side++) {
            const kl_isometry *const x = side ? a->right[p] : a->left[p], *const y =
                                                                              side ? b->right[p] : b->left[p];
            expect_eq(x == NULL, y == NULL);
            if (!x) continue;
            expect_eq(x->ndata, y->ndata);
            expect_eq(memcmp(x->data, y->data, (size_t)x->ndata * sizeof *x->data), 0);
        }
}

/* Equal input, equal bits: once more, and on two threads. */
static void test_equal_bits(void **state)
{
    kl_err err = {""};
    (void)state;
    for (int k = 0; k < 6; k += kl_test_stride(6, 5)) {
        const int less = KL_TEST_WATCHED || k >= 3; /* two states of the larger ones take half a minute */
        core_job j;
        if (k % 2) core_open(&j, core_model("hubbard", NULL), less ? "chain:8" : "chain:10", NULL, NULL);
        else core_open(&j, core_model("heisenberg", NULL), less ? "ladder:5x2" : "ladder:6x2", NULL, NULL);
        const kl_qn target = core_charge(j.model, k % 2 == 0 ? NULL
                                                  : less     ? "N_up=4 N_dn=4"
                                                             : "N_up=5 N_dn=5");
        const kl_strategy strategy = k % 3 ? KL_STRATEGY_LR : KL_STRATEGY_L11R;
        core_run a = core_auto(1e-6, target, 1 + k / 3, strategy), b = a, c = a;
        core_go(&j, &a);
        core_go(&j, &b);
        kl_exec_close(&j.ex);
        expect_ok(kl_exec_open_host(2, &j.ex, &err), err);
        core_go(&j, &c);
        kl_test_case("%s, strategy %d", j.name, (int)strategy);
        expect_eq(memcmp(a.res.energy, b.res.energy, sizeof(double) * (size_t)a.res.nstate), 0);
        expect_eq(memcmp(a.res.energy, c.res.energy, sizeof(double) * (size_t)a.res.nstate), 0);
        expect_same(a.state, b.state);
        expect_same(a.state, c.state);
        core_drop(&a);
        core_drop(&b);
        core_drop(&c);
        core_close(&j);
    }
    core_no_memory();
}

/* Another m, another parameter, more and fewer states, the other strategy: all from the state of a run
   before. */
static void test_warm_start(void **state)
{
    (void)state;
    core_job j, k;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:6", NULL, "U=4");
    const kl_qn target = core_charge(j.model, "N_up=3 N_dn=3");
    core_run a = core_exact(6, target, 1, KL_STRATEGY_L11R);
    core_go(&j, &a);
    kl_state *s = a.state;
    a.state = NULL;
    const double rough = a.res.energy[0];
    core_drop(&a);
    double w[3];
    oracle *o = oracle_create(j.model, j.lat, j.par);
    oracle_energies(o, (int[KL_MAX_CHARGE]){3, 3}, 3, w, NULL);
    oracle_destroy(&o);
    expect_true(rough > w[0] + 1e-6);
    for (int round = 0; round < 4; round++) { /* 1 state, 3 states, 1 again, 2 */
        a = core_exact(500, target,
                       round == 1   ? 3
                       : round == 3 ? 2
                                    : 1,
                       round % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R);
        a.opts.sweep[0].noise = a.opts.sweep[1].noise = 0;
        a.state = s;
        core_go(&j, &a);
        kl_test_case("warm start, round %d", round);
        for (int i = 0; i < a.opts.nstate; i++) expect_near(a.res.energy[i], w[i], 1e-12 * fabs(w[0]));
        s = a.state, a.state = NULL;
        core_drop(&a);
    }
    core_open(&k, core_model("hubbard", "F=1/2"), "chain:6", NULL, "U=-3 t=0.5 mu=normal(0,1)");
    a = core_exact(500, target, 1, KL_STRATEGY_AUTO);
    a.state = s;
    core_go(&k, &a);
    kl_test_case("warm start at another parameter");
    expect_near(a.res.energy[0], exact(&k, target), 1e-12 * 10);
    core_drop(&a);
    core_close(&k);
    core_close(&j);
    core_no_memory();
}

/* States that do not fit are refused in one line, and freed. */
static void test_wrong_state(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *charge;
    } cases[] = {{"heisenberg", "S=1/2", "chain:8", NULL},
                 {"heisenberg", "S=1/2", "chain:6", "Sz=1"},
                 {"j1j2", "S=1/2", "chain:6", NULL},
                 {"heisenberg", "S=1", "chain:6", NULL},
                 {"hubbard", "F=1/2", "chain:6", NULL}};
    kl_err err = {""};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        core_job j, other;
        core_open(&j, core_model("heisenberg", "S=1/2"), "chain:6", NULL, NULL);
        core_run a = core_exact(20, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
        core_go(&j, &a);
        core_open(&other, core_model(cases[k].model, cases[k].variant), cases[k].lattice, NULL, NULL);
        a.opts.target = core_charge(other.model, cases[k].charge);
        kl_dmrg_result_clear(&a.res);
        expect_refused(kl_dmrg_run(other.terms, j.ex, &a.opts, NULL, &a.state, &a.res, &err), KL_EINPUT, err,
                       "saved state");
        expect_true(strchr(err.text, '\n') == NULL);
        core_drop(&a);
        core_close(&other);
        core_close(&j);
    }
    core_no_memory();
}

/* A monitor that stops after some steps and copies the state at each. */
typedef struct watcher {
    core_watcher at;
    int sweeps, checks, due;
} watcher;

static void count_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    watcher *const w = self;
    w->sweeps++;
    expect_true(row[nrow - 1].m_reached >= 1);
}
static int is_due(void *self, int at_end) { return at_end || ((watcher *)self)->due; }
static kl_status check_point(void *self, kl_state **s, const kl_dmrg_row *row, int nrow, int direction,
                             kl_err *err)
{
    (void)err;
    ((watcher *)self)->checks++;
    expect_true((*s)->npsi > 0 && nrow >= 1 && direction >= -1 && direction <= 1 && row[nrow - 1].napply > 0);
    return KL_OK;
}

static kl_dmrg_monitor watch(watcher *w)
{
    kl_dmrg_monitor mon = core_watch(&w->at);
    mon.sweep = count_sweep;
    mon.checkpoint = check_point;
    mon.due = is_due;
    return mon;
}

/* Interrupted after any number of steps, and gone on from there: the same energy as from a start. */
static void test_interrupted(void **state)
{
    kl_err err = {""};
    core_job j;
    (void)state;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:6", NULL, "U=6 mu=normal(0,1)");
    const kl_qn target = core_charge(j.model, "N_up=3 N_dn=2");
    core_run whole = core_exact(300, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &whole);
    expect_near(whole.res.energy[0], exact(&j, target), 1e-12 * fabs(whole.res.energy[0]));
    for (int stop = 1; stop < 25; stop += kl_test_stride(24, 6)) {
        watcher w = {.at.stop_after = stop, .due = stop % 5 == 0};
        const kl_dmrg_monitor mon = watch(&w);
        core_run a = core_exact(300, target, 1, KL_STRATEGY_AUTO);
        kl_test_case("interrupted after %d steps", stop);
        expect_ok(kl_dmrg_run(j.terms, j.ex, &a.opts, &mon, &a.state, &a.res, &err), err);
        expect_eq(a.res.stop, KL_STOP_INTERRUPTED);
        expect_eq(w.at.step, stop);
        expect_true(w.checks >= w.sweeps - 1 && (!w.due || w.checks >= stop));
        expect_true(a.res.direction != 0 && a.res.nrow >= 1);
        core_go(&j, &a); /* from the state that came back, in the middle of a sweep */
        expect_near(a.res.energy[0], whole.res.energy[0], 1e-12 * fabs(whole.res.energy[0]));
        core_drop(&a);
    }
    core_drop(&whole);
    core_close(&j);
    core_no_memory();
}

enum { LOOKED = 4 }; /* sweeps */
static int behind_sweeps(void *self) { return ((const watcher *)self)->sweeps >= LOOKED; }

/* Trap: interrupted behind its sweeps, while it looks for states that lie close, a schedule had finished with
   a bar that knew nothing of them. */
static void test_interrupted_look(void **state)
{
    kl_err err = {""};
    core_job j;
    kl_dmrg_sweep sweep[LOOKED] = {{20, 1e-4, 0}, {20, 1e-6, 0}, {20, 0, 0}, {20, 0, 0}};
    kl_dmrg_row rows[LOOKED];
    (void)state;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:12", NULL, "U=4");
    const kl_dmrg_opts opts = {.target = core_charge(j.model, "N_up=6 N_dn=6"),
                               .nstate = 1,
                               .nsweep = LOOKED,
                               .sweep = sweep,
                               .seed = 1};
    core_run whole = {.opts = opts}, part = {.opts = opts};
    core_go(&j, &whole);
    expect_true(whole.res.row[LOOKED - 1].probed);
    watcher w = {.at.stop_after = 0};
    const kl_dmrg_monitor mon = {.self = &w, .sweep = count_sweep, .interrupted = behind_sweeps};
    expect_ok(kl_dmrg_run(j.terms, j.ex, &part.opts, &mon, &part.state, &part.res, &err), err);
    expect_eq(part.res.stop, KL_STOP_INTERRUPTED);
    expect_true(part.res.nrow == LOOKED && part.res.direction == 0 && !part.res.row[LOOKED - 1].probed);
    memcpy(rows, part.res.row, sizeof rows);
    part.opts.ndone = LOOKED, part.opts.done = rows;
    core_go(&j, &part);
    expect_eq(part.res.stop, KL_STOP_SCHEDULE);
    expect_eq(part.res.nrow, LOOKED);
    expect_near(part.res.energy[0], whole.res.energy[0], 0);
    expect_near(part.res.gap, whole.res.gap, 1e-6);
    expect_near(part.res.error_estimate, whole.res.error_estimate, 1e-6 * whole.res.error_estimate);
    whole.opts.sweep = part.opts.sweep = NULL; /* not from the heap */
    core_drop(&whole);
    core_drop(&part);
    core_close(&j);
    core_no_memory();
}

typedef struct bit_case {
    const char *model, *lattice, *sets, *charge;
    double accuracy;
    int nstate, every; /* interrupted after every so manyth step */
    kl_strategy strategy;
    kl_sites sites;
    const int *start; /* NULL: none */
} bit_case;

/* With the rest of the broken sweep made: the same bits as if nothing had been. */
static void to_the_bit(const bit_case *c)
{
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model(c->model, NULL), c->lattice, NULL, c->sets);
    const kl_qn target = core_charge(j.model, c->charge);
    watcher w = {.at.stop_after = 1000000};
    const kl_dmrg_monitor count = watch(&w);
    core_run whole = core_auto(c->accuracy, target, c->nstate, c->strategy);
    whole.opts.sites = c->sites;
    whole.opts.start = c->start;
    expect_ok(kl_dmrg_run(j.terms, j.ex, &whole.opts, &count, &whole.state, &whole.res, &err), err);
    const int wanted = KL_TEST_WATCHED ? 6 * c->every : c->every;
    const int least = kl_test_step(w.at.step), every = wanted > least ? wanted : least;
    /* the last step too */
    for (int stop = 1; stop <= w.at.step;
         stop += stop + every > w.at.step && stop < w.at.step ? w.at.step - stop : every) {
        watcher v = {.at.stop_after = stop};
        const kl_dmrg_monitor mon = watch(&v);
        core_run b = core_auto(c->accuracy, target, c->nstate, c->strategy);
        b.opts.sites = c->sites;
        b.opts.start = c->start;
        kl_test_case("%s, strategy %d, sites %s, interrupted after %d of %d steps", j.name, (int)c->strategy,
                     kl_sites_name[c->sites], stop, w.at.step);
        expect_ok(kl_dmrg_run(j.terms, j.ex, &b.opts, &mon, &b.state, &b.res, &err), err);
        expect_true((b.res.direction != 0) == (stop < w.at.step) && b.res.nrow >= 1 && b.res.nrow <= 16);
        kl_dmrg_row rows[16];
        memcpy(rows, b.res.row, sizeof *rows * (size_t)b.res.nrow);
        b.opts.direction = b.res.direction, b.opts.ndone = b.res.nrow - 1, b.opts.done = rows;
        if (stop < w.at.step) core_go(&j, &b);
        expect_eq(b.res.stop, whole.res.stop); /* asked to stop at its last step, it has ended */
        expect_eq(b.res.nrow, whole.res.nrow);
        expect_eq(memcmp(b.res.energy, whole.res.energy, sizeof(double) * (size_t)b.res.nstate), 0);
        expect_eq(memcmp(b.res.energy_kept, whole.res.energy_kept, sizeof(double) * (size_t)b.res.nstate), 0);
        expect_near(b.res.error_estimate, whole.res.error_estimate, 0);
        for (int k = 0; k < b.res.nrow; k++) {
            const kl_dmrg_row *const x = &b.res.row[k], *const y = &whole.res.row[k];
            expect_true(x->m == y->m && x->m_reached == y->m_reached && x->napply == y->napply &&
                        x->dim_max == y->dim_max && x->discarded == y->discarded &&
                        x->energy[0] == y->energy[0]);
            expect_near(x->flop, y->flop, 1e-12 * y->flop);
        }
        core_drop(&b);
    }
    core_drop(&whole);
    core_close(&j);
}

static void test_to_the_bit(void **state)
{
    static const int trap[20] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    static const bit_case list[] = {
        {"hubbard", "chain:6", "U=6 mu=normal(0,1)", "N_up=3 N_dn=2", 1e-8, 1, 1, KL_STRATEGY_AUTO,
         KL_SITES_TWO, NULL},
        {"heisenberg", "chain:2", NULL, NULL, 1e-8, 1, 1, KL_STRATEGY_AUTO, KL_SITES_TWO, NULL},
        /* far enough that m follows from the estimates of the sweeps before */
        {"heisenberg", "chain:32", NULL, NULL, 1e-10, 1, 17, KL_STRATEGY_AUTO, KL_SITES_TWO, NULL},
        {"heisenberg", "chain:12", "Delta=0.5", "Sz=1", 1e-10, 2, 7, KL_STRATEGY_AUTO, KL_SITES_TWO, NULL},
        {"hubbard", "chain:8", "U=4", "N_up=4 N_dn=3", 1e-9, 1, 11, KL_STRATEGY_LR, KL_SITES_TWO, NULL},
        {"heisenberg", "chain:16", NULL, NULL, 1e-9, 2, 19, KL_STRATEGY_LR, KL_SITES_AUTO, NULL},
        /* squares of such energies are no numbers */
        {"heisenberg", "chain:24", "J=1e-200", NULL, 1e-9, 1, 29, KL_STRATEGY_AUTO, KL_SITES_AUTO, NULL},
        /* a start that is given up after the first sweep */
        {"heisenberg", "chain:20", "J=-1 Delta=3", NULL, 1e-9, 1, 7, KL_STRATEGY_AUTO, KL_SITES_AUTO, trap},
    };
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 3)) to_the_bit(&list[k]);
    core_no_memory();
}

/* Behind the sweeps of a checkpoint: the rows before stay, the schedule goes on; nothing left to do is no
   harm. */
static void test_go_on(void **state)
{
    core_job j;
    (void)state;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:8", NULL, "h=normal(0,1)");
    core_run whole = core_exact(12, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
    core_go(&j, &whole);
    for (int done = 1; done <= 6; done += KL_TEST_WATCHED ? 4 : 1) {
        core_run a = core_exact(12, kl_qn_zero(), 1, KL_STRATEGY_AUTO),
                 b = core_exact(12, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
        a.opts.nsweep = done;
        core_go(&j, &a);
        b.state = a.state, a.state = NULL;
        b.opts.ndone = a.res.nrow, b.opts.done = a.res.row;
        core_go(&j, &b);
        kl_test_case("%d of 6 sweeps done", done);
        expect_true(b.res.nrow >= 6 && b.res.nrow <= 7);
        expect_eq(memcmp(b.res.row, a.res.row, (size_t)done * sizeof *a.res.row), 0);
        expect_near(b.res.energy[0], whole.res.energy[0], 1e-12 * fabs(whole.res.energy[0]));
        core_drop(&a);
        core_drop(&b);
    }
    core_drop(&whole);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),         cmocka_unit_test(test_multiplets),
        cmocka_unit_test(test_product_start), cmocka_unit_test(test_equal_bits),
        cmocka_unit_test(test_warm_start),    cmocka_unit_test(test_wrong_state),
        cmocka_unit_test(test_interrupted),   cmocka_unit_test(test_interrupted_look),
        cmocka_unit_test(test_to_the_bit),    cmocka_unit_test(test_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
