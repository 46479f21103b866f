/* DMRG runs: the discarded weight, small, empty and hard cases, couplings of any size, what converged means,
   little memory and every allocation failing in turn, growth of infinite lattices.
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

static void expect_exact(const char *model, const char *variant, const char *lattice, const char *sets,
                         const char *charge)
{
    core_job j;
    core_open(&j, core_model(model, variant), lattice, NULL, sets);
    const kl_qn target = core_charge(j.model, charge);
    const double e = exact(&j, target);
    double unit = fabs(e);
    for (int64_t i = 0; i < j.terms->nterm; i++) unit = fmax(unit, fabs(j.terms->term[i].coef));
    for (int k = 0; k < 4; k++) {
        core_run r = k < 2 ? core_exact(300, target, 1, k ? KL_STRATEGY_LR : KL_STRATEGY_L11R)
                           : core_auto(k == 2 ? 1e-9 : 1e-12, target, 1, KL_STRATEGY_AUTO);
        kl_test_case("%s %s %s, run %d", j.name, sets ? sets : "", charge ? charge : "", k);
        core_go(&j, &r);
        expect_near(r.res.energy[0], e, (k == 2 ? 1e-9 : 1e-12) * unit);
        /* an energy of 0 is reached too */
        if (k >= 2) expect_true(r.res.nrow <= 20 && r.res.stop == KL_STOP_CONVERGED);
        for (int c = 0; c + 1 < j.terms->nsite; c++)
            expect_true(r.res.entropy[c] >= -1e-12 && isfinite(r.res.entropy[c]));
        core_drop(&r);
    }
    core_close(&j);
    core_no_memory();
}

/* Attraction, easy axes and disorder: sweeps find eigenstates that are not the lowest, and levels so close
   that they look like one. Sectors as small as these are solved as a whole. */
static void test_hard_sectors(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
    } list[] = {{"heisenberg", "S=1/2", "chain:10", "Delta=-4 h=uniform(-1,1)", "Sz=0"},
                {"heisenberg", "S=1/2", "ladder:5x2", "J=-1 Delta=3", "Sz=1"},
                {"heisenberg", "S=1", "chain:6", "J=0 h=uniform(-1,1)", "Sz=0"},
                {"extended_hubbard", NULL, "chain:6", "U=-4 V=-2 mu=uniform(-2,2)", "N_up=3 N_dn=3"},
                {"extended_hubbard", NULL, "ladder:3x2", "U=-4 V=-2 t=0.3 mu=uniform(-5,5)", "N_up=3 N_dn=3"},
                {"bose_hubbard", NULL, "chain:5", "t=0.01 V=0.6 mu=uniform(-3,3)", "N=5"},
                {"blbq", "S=1", "chain:4", "beta=0.3333", "Sz=0"},
                {"hubbard", "F=1/2", "chain:6", "U=8 mu=uniform(-8,8)", "N_up=3 N_dn=3"}};
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 3)) {
        core_job j;
        double e[2];
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        const kl_qn target = core_charge(j.model, list[k].charge);
        oracle *o = oracle_create(j.model, j.lat, j.par);
        expect_eq(oracle_energies(o, core_of(target).charge, 2, e, NULL), 2);
        oracle_destroy(&o);
        for (uint64_t seed = 1; seed <= (uint64_t)kl_test_rounds(8); seed++)
            for (int nstate = 1; nstate <= 2; nstate++) {
                core_run r = core_auto(seed % 2 ? 1e-9 : 1e-6, target, nstate, KL_STRATEGY_AUTO);
                r.opts.seed = seed;
                kl_test_case("%s %s, %d states, seed %d", j.name, list[k].sets, nstate, (int)seed);
                core_go(&j, &r);
                expect_eq(r.res.stop, KL_STOP_CONVERGED);
                for (int i = 0; i < nstate; i++)
                    expect_near(r.res.energy[i], e[i], fmax(r.res.error_estimate, 1e-12 * fabs(e[0])));
                core_drop(&r);
            }
        core_close(&j);
    }
    core_no_memory();
}

static void test_edges(void **state)
{
    (void)state;
    expect_exact("heisenberg", "S=1/2", "chain:2", NULL, NULL);
    expect_exact("heisenberg", "S=1/2", "chain:3", NULL, "Sz=1/2");
    expect_exact("heisenberg", "S=1/2", "chain:8", NULL, "Sz=4"); /* one state */
    expect_exact("heisenberg", "S=1/2", "chain:8", "h=1", "Sz=-4");
    expect_exact("hubbard", "F=1/2", "chain:6", NULL, ""); /* nobody there */
    expect_exact("hubbard", "F=1/2", "chain:6", NULL, "N_up=6 N_dn=6");
    expect_exact("hubbard", "F=1/2", "chain:6", NULL, "N_up=1"); /* one electron */
    expect_exact("heisenberg", "S=1/2", "chain:6", "J=0", NULL); /* H = 0 */
    expect_exact("hubbard", "F=1/2", "chain:5", "t=0 U=0", "N_up=2 N_dn=3");
    expect_exact("hubbard", "F=1/2", "chain:5", "t=0", "N_up=2 N_dn=3"); /* sites on their own */
    expect_exact("heisenberg", "S=1/2", "chain:6", "J=0 h=normal(0,1)", "Sz=1");
    expect_exact("heisenberg", "S=1/2", "chain:6", "Delta=0", NULL);
    expect_exact("heisenberg", "S=1/2", "chain:8", "J=-1", NULL); /* a multiplet of 9 */
    expect_exact("heisenberg", "S=1/2", "chain:8", "h=normal(0,5)", NULL);
    expect_exact("heisenberg", "S=1/2", "ring:8", "Delta=-1 h=uniform(-1,1)", "Sz=2");
    expect_exact("hubbard", "F=1/2", "ring:4", "U=0 mu=-2", "N_up=1"); /* E = 0, not alone */
    expect_exact("pairing", NULL, "chain:8", "t=0 Delta=0 V=0 mu=0", NULL);
    expect_exact("ising", NULL, "chain:8", "J=0", NULL);
    expect_exact("ising", NULL, "chain:8", "h=0", "parity=1");
    expect_exact("bose_hubbard", NULL, "chain:5", "t=1e-6 U=1 mu=normal(0,1)", "N=5");
    expect_exact("j1j2", "S=1/2", "chain:8", "J1=0", NULL); /* two chains that do not meet */
    expect_exact("j1j2", "S=1/2", "ring:8", "J2=0 J1=1", "Sz=1");
    /* the largest m is reached at once, while there still is noise */
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:6", NULL, NULL);
    core_run r = core_auto(1e-9, core_charge(j.model, "Sz=3"), 1, KL_STRATEGY_AUTO);
    r.opts.m_max = 10;
    core_go(&j, &r);
    expect_true(r.res.stop == KL_STOP_CONVERGED && r.res.error_estimate < 1e-9);
    expect_near(r.res.energy[0], 1.25, 1e-12);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

static void test_scales(void **state)
{
    static const char *const sets[] = {
        "J=1e8", "J=1e-8", "J=1e8 h=normal(0,1)", "J=1e-8 h=uniform(-1e-8,1e-8)", "J=1e15", "J=1e-30"};
    (void)state;
    const int n = sizeof sets / sizeof *sets;
    for (int k = 0; k < n; k += kl_test_stride(n, 3))
        expect_exact("heisenberg", "S=1/2", "chain:8", sets[k], NULL);
    expect_exact("hubbard", "F=1/2", "chain:5", "U=1e8", "N_up=2 N_dn=2");
    expect_exact("hubbard", "F=1/2", "chain:5", "t=1e-8 U=4e-8", "N_up=2 N_dn=2");
    expect_exact("hubbard", "F=1/2", "chain:5", "t=1e8 U=4e8", "N_up=3 N_dn=2");
}

/* A device with less and less memory: operators go to the host and come back, l-1-1-r replaces LR, the
   basis is split; the energy stays, until one line says that it is too little. */
static void test_little_memory(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "chain:8", NULL, "U=4");
    kl_exec *const own = j.ex;
    for (int strategy = KL_STRATEGY_LR; strategy <= KL_STRATEGY_L11R; strategy++) {
        double first = 0;
        int went_far = 0, refused = 0;
        for (int64_t most = INT64_MAX; !refused; most = most == INT64_MAX ? 3000000
                                                        : KL_TEST_WATCHED ? most / 2
                                                                          : most * 3 / 4) {
            kl_err err = {""};
            core_run r = core_exact(40, core_charge(j.model, "N_up=4 N_dn=4"), 1, (kl_strategy)strategy);
            expect_ok(core_open_small(most, &j.ex, &err), err);
            if (most == INT64_MAX) j.ex->projection = KL_PROJECTION_NOSTORAGE; /* all of it */
            kl_test_case("%s, %lld bytes", strategy == KL_STRATEGY_LR ? "lr" : "l11r", (long long)most);
            const kl_status st = kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err);
            refused = st != KL_OK;
            if (refused) {
                expect_eq(st, KL_ENOMEM);
                expect_true(strstr(err.text, "bytes") != NULL || strstr(err.text, "vectors") != NULL);
            } else {
                if (most == INT64_MAX) first = r.res.energy[0];
                expect_near(r.res.energy[0], first, 1e-10 * fabs(first));
                went_far += core_small_far(j.ex) > 0;
            }
            core_drop(&r);
            kl_exec_close(&j.ex);
        }
        expect_true(went_far > 2); /* with room for some things, too */
    }
    j.ex = own;
    core_close(&j);
}

typedef struct departures {
    int n;
    char why[256];
} departures;

static void count_departure(void *self, const char *why)
{
    departures *const d = self;
    d->n++;
    snprintf(d->why, sizeof d->why, "%s", why);
}

/* Where that line would come, the host goes on: in the middle of a run, with one site or with two, or before
   it has begun. */
static void test_device_left(void **state)
{
    (void)state;
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), KL_TEST_WATCHED ? "chain:6" : "chain:8", NULL, "U=4");
    kl_exec *const own = j.ex;
    const char *const charge = KL_TEST_WATCHED ? "N_up=3 N_dn=3" : "N_up=4 N_dn=4";
    for (int sites = 1; sites <= 2; sites++) {
        double first = 0;
        int left = 0, stayed = 0, before = 0;
        for (int64_t most = 3000000; before < 2; most = KL_TEST_WATCHED ? most / 4 : most * 2 / 3) {
            kl_err err = {""};
            departures gone = {0};
            const kl_dmrg_monitor monitor = {.self = &gone, .left_device = count_departure};
            core_run r = core_exact(60, core_charge(j.model, charge), 1, KL_STRATEGY_L11R);
            r.opts.sweep[0].m = 20; /* so that later ones want more */
            r.opts.sites = sites == 1 ? KL_SITES_ONE : KL_SITES_TWO;
            r.opts.max_apply = 30; /* not the whole sector at once */
            expect_ok(core_open_small(most, &j.ex, &err), err);
            j.ex->space = KL_SPACE_DEVICE; /* which it is not, but says so */
            kl_test_case("%d sites, %lld bytes", sites, (long long)most);
            expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, &monitor, &r.state, &r.res, &err), err);
            if (most == 3000000) first = r.res.energy[0];
            expect_near(r.res.energy[0], first, 1e-8 * fabs(first));
            expect_true(gone.n <= 1);
            if (gone.n == 0) stayed++;
            else if (strncmp(gone.why, "sweep ", 6) == 0) left++;
            else if (strncmp(gone.why, "before the first sweep: ", 24) == 0) before++;
            else fail_msg("%s", gone.why);
            core_drop(&r);
            kl_exec_close(&j.ex);
        }
        expect_true(stayed > 1 && left > 1);
    }
    j.ex = own;
    core_close(&j);
}

/* Sectors filled up when asked for: what a device keeps, to rounding, for only the host chooses the signs of
   its states; else not. */
static void test_full(void **state)
{
    (void)state;
    core_job j;
    double energy[3];
    int odd[3] = {0};
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:16", NULL, NULL);
    for (int k = 0; k < 3; k++) { /* as it comes, asked for, a device's */
        core_run r = core_exact(76, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_L11R);
        r.opts.full = k == 1;
        j.ex->space = k == 2 ? KL_SPACE_DEVICE : KL_SPACE_HOST; /* which it is not, but says so */
        core_go(&j, &r);
        energy[k] = r.res.energy[0];
        const kl_isometry *const middle = r.state->left[7] ? r.state->left[7] : r.state->right[8];
        for (int c = 0; c < middle->basis.nsec; c++) odd[k] += middle->basis.dim[c] % 2;
        core_drop(&r);
    }
    j.ex->space = KL_SPACE_HOST;
    expect_true(fabs(energy[1] - energy[2]) < 1e-12 && fabs(energy[1] - energy[0]) < 1e-6);
    expect_true(odd[0] > 0 && odd[1] == odd[2] && odd[1] < odd[0]);
    core_close(&j);
}

/* Pieces without a bond between them, from a lattice that says so; a single bond; a site that no bond
   reaches. */
static void test_disconnected(void **state)
{
    static const int bonds[][3][2] = {{{0, 1}, {2, 3}, {4, 5}},
                                      {{0, 5}, {1, 4}, {2, 3}},
                                      {{2, 3}, {2, 3}, {2, 3}},
                                      {{0, 5}, {0, 5}, {0, 5}},
                                      {{0, 2}, {2, 4}, {1, 5}}};
    static const double wanted[] = {-2.25, -2.25, -0.75, -0.75, -1.75};
    kl_err err = {""};
    (void)state;
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        core_job j = {.model = core_model("heisenberg", "S=1/2")};
        const char *const classes[] = {"nn"};
        expect_ok(kl_lattice_create_empty("pieces", 6, &j.lat, &err), err);
        for (int b = 0; b < 3; b++) {
            if (b && !memcmp(bonds[k][b], bonds[k][b - 1], sizeof bonds[k][b])) continue;
            expect_ok(kl_lattice_add_bond(j.lat, bonds[k][b][0], bonds[k][b][1], 1.0, classes, 1, &err), err);
        }
        expect_ok(kl_lattice_finish(j.lat, &err), err);
        expect_ok(kl_params_create(j.model, j.lat, &j.par, &err), err);
        expect_ok(kl_exec_open_host(1, &j.ex, &err), err);
        expect_ok(kl_terms_create(j.model, j.lat, j.par, &j.terms, &err), err);
        for (int s = 0; s < 2; s++) {
            core_run r = s ? core_auto(1e-11, kl_qn_zero(), 1, KL_STRATEGY_LR)
                           : core_exact(64, kl_qn_zero(), 1, KL_STRATEGY_L11R);
            kl_test_case("pieces %d, run %d", (int)k, s);
            core_go(&j, &r);
            expect_near(r.res.energy[0], wanted[k], 1e-11);
            core_drop(&r);
        }
        core_close(&j);
    }
    core_no_memory();
}

static void test_refusals(void **state)
{
    kl_err err = {""};
    core_job j;
    (void)state;
    static const struct {
        const char *lattice, *charge;
        int nstate;
        const char *part;
    } cases[] = {{"chain:1", "Sz=1/2", 1, "two sites"}, {"chain:4", "Sz=3", 1, "Sz=3"},
                 {"chain:4", "Sz=-5/2", 1, "Sz=-5/2"},  {"chain:4", "Sz=2", 2, "2 states"},
                 {"chain:4", "Sz=1", 5, "5 states"},    {"chain:2", "", 3, "3 states"},
                 {"chain:4", "", 0, "states"},          {"chain:8", "", 17, "states"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        core_open(&j, core_model("heisenberg", "S=1/2"), cases[k].lattice, NULL, NULL);
        core_run r = core_exact(64, core_charge(j.model, cases[k].charge), cases[k].nstate, KL_STRATEGY_AUTO);
        kl_test_case("%s %s %d", cases[k].lattice, cases[k].charge, cases[k].nstate);
        expect_refused(kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err), KL_EINPUT, err,
                       cases[k].part);
        expect_true(strchr(err.text, '\n') == NULL && r.state == NULL);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* What the automatic schedule calls converged is: all states asked for, also where m grows into the full
   space before the sweeps have settled. */
static void test_converged(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
        int nstate;
    } list[] = {{"heisenberg", "S=1/2", "chain:10", NULL, "Sz=0", 2},
                {"heisenberg", "S=1/2", "chain:10", NULL, "Sz=0", 4},
                {"heisenberg", "S=1/2", "chain:10", NULL, "Sz=0", 8},
                {"tj", NULL, "ring:8", NULL, "N_up=2 N_dn=2", 1},
                {"tj", NULL, "ring:8", "J=0.4", "N_up=3 N_dn=2", 3},
                {"j1j2", "S=1/2", "cylinder:3x4", "J1=1/3 J2=2.7", "Sz=0", 1},
                {"hubbard", "F=1/2", "chain:6", "U=0", "N_up=3 N_dn=3", 1}};
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 2)) {
        core_job j;
        double w[KL_MAX_STATE];
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        const kl_qn q = core_charge(j.model, list[k].charge);
        oracle *o = oracle_create(j.model, j.lat, j.par);
        oracle_energies(o, core_of(q).charge, list[k].nstate, w, NULL);
        oracle_destroy(&o);
        core_run r = core_auto(1e-9, q, list[k].nstate, KL_STRATEGY_AUTO);
        kl_test_case("%s, %d states", j.name, list[k].nstate);
        core_go(&j, &r);
        expect_true(r.res.stop == KL_STOP_CONVERGED && r.res.error_estimate <= 1e-9 * fabs(w[0]));
        for (int i = 0; i < list[k].nstate; i++) expect_near(r.res.energy[i], w[i], 4e-9 * fabs(w[0]));
        core_drop(&r);
        core_close(&j);
    }
    /* one m only, so no line to extrapolate on: the error is told all the same, and not far too large */
    for (int m = 16; m <= 32; m += 8) {
        core_job j;
        core_open(&j, core_model("heisenberg", "S=1/2"), "chain:20", NULL, NULL);
        core_run r = core_auto(1e-9, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_AUTO);
        r.opts.m_max = m;
        kl_test_case("%s, m=%d", j.name, m);
        core_go(&j, &r);
        const double error = r.res.energy[0] + 8.682473334398966;
        expect_true(r.res.stop == KL_STOP_M_MAX && error > 1e-9 && r.res.error_estimate > 0.5 * error &&
                    r.res.error_estimate < 100 * error);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* Where a discarded weight decides, m grows in name only: two sweeps of it are no line, and the error is that
   of what is left out. A weight that is small enough converges. */
static void test_by_weight(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
        double energy, accuracy, discard;
        int converges;
    } list[] = {
        {"hubbard", "F=1/2", "chain:16", "U=4", "N_up=8 N_dn=8", -8.818767454811657, 1e-9, 3e-10, 0},
        {"heisenberg", "S=1/2", "chain:32", NULL, "Sz=0", -13.997315618224327, 1e-9, 1e-9, 0},
        {"heisenberg", "S=1/2", "chain:32", NULL, "Sz=0", -13.997315618224327, 1e-9, 1e-7, 0},
        {"heisenberg", "S=1/2", "chain:32", NULL, "Sz=0", -13.997315618224327, 1e-6, 1e-9, 1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        core_job j;
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        core_run r = core_auto(list[k].accuracy, core_charge(j.model, list[k].charge), 1, KL_STRATEGY_AUTO);
        r.opts.discard = list[k].discard;
        kl_test_case("%s, discard=%g", j.name, list[k].discard);
        core_go(&j, &r);
        const double error = r.res.energy[0] - list[k].energy;
        expect_eq(r.res.stop, list[k].converges ? KL_STOP_CONVERGED : KL_STOP_DISCARD);
        expect_true(error > 0 && r.res.error_estimate > 0.7 * error && r.res.nrow < 20);
        if (!list[k].converges) expect_true(r.res.error_estimate < 30 * error && error > list[k].accuracy);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* An m that is far too small: sweeps end when they no longer tell, and 20 more change next to nothing of the
   error. */
static void test_settled(void **state)
{
    (void)state;
    enum { M = KL_TEST_WATCHED ? 20 : 64 };
    kl_dmrg_sweep more[20];
    for (int k = 0; k < 20; k++) more[k] = (kl_dmrg_sweep){.m = M, .tol = 1e-8};
    for (int nstate = KL_TEST_WATCHED ? 2 : 1; nstate <= 2; nstate++) {
        core_job j;
        core_open(&j, core_model("hubbard", "F=1/2"), KL_TEST_WATCHED ? "cylinder:3x3" : "cylinder:3x4", NULL,
                  "U=8");
        core_run r =
            core_auto(1e-9, core_charge(j.model, KL_TEST_WATCHED ? "N_up=5 N_dn=4" : "N_up=6 N_dn=5"), nstate,
                      KL_STRATEGY_AUTO);
        r.opts.m_max = M;
        kl_test_case("%s, %d states", j.name, nstate);
        core_go(&j, &r);
        const double energy = r.res.energy[0], error = r.res.error_estimate;
        expect_true(r.res.stop == KL_STOP_M_MAX && r.res.nrow < 40 && error > 1e-4);
        r.opts.nsweep = 20, r.opts.sweep = more;
        core_go(&j, &r);
        r.opts.sweep = NULL; /* not from the heap */
        /* Two states together come to rest in one of several places, by rounding: 0.2e-3 to 2.8e-3 of the bar
           apart with seeds 1 to 6, sums in two orders. */
        expect_near(r.res.energy[0], energy, (nstate == 1 ? 1e-3 : 4e-3) * error);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* Several states where few are kept: more states asked for than a small m can tell apart at the ends of the
   chain. */
static void test_many_states(void **state)
{
    (void)state;
    for (int nstate = 1; nstate <= KL_MAX_STATE; nstate += KL_TEST_WATCHED ? 10 : 5) {
        core_job j;
        core_open(&j, core_model("heisenberg", "S=1/2"), "chain:8", NULL, "h=normal(0,1)");
        double w[KL_MAX_STATE];
        oracle *o = oracle_create(j.model, j.lat, j.par);
        oracle_energies(o, (int[KL_MAX_CHARGE]){0}, nstate, w, NULL);
        oracle_destroy(&o);
        core_run r = core_exact(100, kl_qn_zero(), nstate, KL_STRATEGY_AUTO);
        r.opts.max_apply = 100 * nstate, r.opts.max_basis = 20 + 3 * nstate;
        kl_test_case("%d states", nstate);
        core_go(&j, &r);
        for (int i = 0; i < nstate; i++) expect_near(r.res.energy[i], w[i], 1e-11);
        core_drop(&r);
        for (int m = 1; m <= 8; m += 2) { /* truncated: above, and in order */
            r = core_exact(m, kl_qn_zero(), nstate, KL_STRATEGY_AUTO);
            kl_test_case("%d states, m=%d", nstate, m);
            core_go(&j, &r);
            for (int i = 0; i < nstate; i++) expect_true(r.res.energy[i] >= w[i] - 1e-11);
            core_drop(&r);
        }
        core_close(&j);
    }
    core_no_memory();
}

/* m = 1 and 2: mean field. Never below the exact energy, never an error. */
static void test_tiny_m(void **state)
{
    static const char *const models[] = {"heisenberg", "hubbard", "ising", "pairing", "tj", "kondo"};
    static const char *const charges[] = {NULL, "N_up=2 N_dn=2", NULL, NULL, "N_up=2 N_dn=1", "N=4"};
    (void)state;
    for (int k = 0; k < 6; k++)
        for (int m = 1; m <= 4; m++) {
            core_job j;
            core_open(&j, core_model(models[k], NULL), k == 5 ? "chain:4" : "chain:5", NULL, NULL);
            kl_qn target = core_charge(j.model, charges[k]);
            if (k == 0) target.v[0] = 1;
            const double e = exact(&j, target);
            core_run r = core_exact(m, target, 1, KL_STRATEGY_AUTO);
            kl_test_case("%s m=%d", j.name, m);
            core_go(&j, &r);
            expect_true(r.res.energy[0] >= e - 1e-11 && r.res.energy[0] < 5);
            core_drop(&r);
            r = core_auto(1e-6, target, 1, KL_STRATEGY_AUTO);
            r.opts.m_max = m;
            core_go(&j, &r);
            expect_true(r.res.energy[0] >= e - 1e-11 && r.res.row[r.res.nrow - 1].m <= m);
            core_drop(&r);
            core_close(&j);
        }
    core_no_memory();
}

/* Discarded weight instead of m. */
static void test_discard(void **state)
{
    core_job j;
    (void)state;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:16", NULL, NULL);
    double last = 1;
    int m_last = 0;
    for (int k = 4; k <= 10; k += 3) {
        core_run r = core_exact(500, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
        r.opts.discard = pow(10, -k);
        r.opts.m_min = 4;
        core_go(&j, &r);
        kl_test_case("discard 1e-%d", k);
        const double off = r.res.energy[0] + 6.911737145575103;
        expect_true(r.res.discarded <= r.opts.discard && off > -1e-12 && off < 30 * r.opts.discard + 1e-11 &&
                    off <= last);
        expect_true(r.res.row[5].m_reached > m_last && r.res.row[5].m_reached < 200);
        last = off, m_last = r.res.row[5].m_reached;
        core_drop(&r);
    }
    core_close(&j);
    core_no_memory();
}

/* Every allocation fails in turn: an error each time, nothing left behind. */
static void run_out(const char *model, const char *lattice, const char *charge, int nstate,
                    kl_strategy strategy, int resume)
{
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model(model, NULL), lattice, NULL, NULL);
    const kl_qn target = core_charge(j.model, charge);
    int64_t count = 0;
    for (int64_t k = 1;; k += (k < 400 ? 1 : 7) * (KL_TEST_WATCHED ? 3 : 1)) {
        core_run r = core_exact(8, target, nstate, strategy);
        r.opts.nsweep = 3;
        r.opts.max_apply = 4;
        if (resume) core_go(&j, &r), kl_dmrg_result_clear(&r.res);
        kl_dense_release();
        err.text[0] = 0;
        kl_mem_fail_after(k);
        const kl_status st = kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err);
        kl_mem_fail_after(0);
        kl_test_case("%s: allocation %lld", j.name, (long long)k);
        expect_true(st == KL_OK || (st == KL_ENOMEM && err.text[0]));
        core_drop(&r);
        kl_dense_release();
        count = k;
        if (st == KL_OK) break;
    }
    expect_true(count > 100);
    core_close(&j);
    core_no_memory();
}

static void test_no_memory(void **state)
{
    (void)state;
    run_out("heisenberg", "chain:4", NULL, 1, KL_STRATEGY_L11R, 0);
    run_out("hubbard", "chain:3", "N_up=1 N_dn=2", 2, KL_STRATEGY_LR, 0);
    run_out("ising", "chain:4", NULL, 1, KL_STRATEGY_LR, 1);
}

static kl_status chain_terms(void *self, int nsite, kl_terms **out, kl_qn *target, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = self;
    kl_lattice *lat = NULL;
    kl_params *par = NULL;
    *target = kl_qn_zero();
    if (m->ncharge == 2) target->v[0] = target->v[1] = (int16_t)(nsite / 2);
    KL_TRY(kl_lattice_create("chain", nsite, 0, &lat, err));
    KL_TRY(kl_params_create(m, lat, &par, err));
    KL_TRY(kl_terms_create(m, lat, par, out, err));
out:
    kl_params_destroy(&par);
    kl_lattice_destroy(&lat);
    return st;
}

/* The infinite-lattice algorithm: exact while nothing is truncated, from above afterwards, the same by both
   strategies; no memory lost when it runs out. */
static void test_growth(void **state)
{
    kl_err err = {""};
    kl_exec *ex = NULL;
    (void)state;
    for (int k = 0; k < 4; k++) {
        const int hubbard = k / 2;
        kl_infinite_row row[9];
        const kl_infinite_opts o = {
            .nsite = hubbard ? 8 : 20,
            .m = hubbard ? 64 : 40,
            .strategy = k % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R,
            .tol = 1e-10,
            .seed = 3,
            .self = (void *)(uintptr_t)core_model(hubbard ? "hubbard" : "heisenberg", NULL),
            .make_terms = chain_terms};
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        expect_ok(kl_dmrg_infinite(&o, ex, row, &err), err);
        for (int i = 0; i < (o.nsite - 2) / 2; i++) {
            char lattice[32];
            core_job j;
            kl_test_case("growth %d to %d sites", k, row[i].nsite);
            expect_eq(row[i].nsite, 4 + 2 * i);
            const double block = (i ? row[i - 1].m : hubbard ? 4 : 2) * (hubbard ? 4 : 2);
            /* the other block may keep a state more, to cut no cluster of weights */
            expect_near(row[i].dim_all, block * block, 0.05 * block * block);
            expect_true((double)row[i].dim < row[i].dim_all);
            if (row[i].nsite > (hubbard ? 6 : 12)) continue;
            snprintf(lattice, sizeof lattice, "chain:%d", row[i].nsite);
            core_open(&j, o.self, lattice, NULL, NULL);
            kl_qn target = kl_qn_zero();
            if (hubbard) target.v[0] = target.v[1] = (int16_t)(row[i].nsite / 2);
            const double e = exact(&j, target), off = row[i].energy - e;
            expect_true(off > -1e-11 && off < (row[i].nsite <= 4 ? 1e-11 : hubbard ? 1e-2 : 1e-5));
            core_close(&j);
        }
        if (!hubbard) expect_near(row[8].energy, -8.682473334398966, 1e-4);
        kl_exec_close(&ex);
        core_no_memory();
    }
    for (int64_t k = 1;; k += k < 200 ? 1 : 37) {
        kl_infinite_row row[2];
        const kl_infinite_opts o = {.nsite = 6,
                                    .m = 6,
                                    .seed = 3,
                                    .tol = 1e-4,
                                    .self = (void *)(uintptr_t)core_model("heisenberg", NULL),
                                    .make_terms = chain_terms};
        expect_ok(kl_exec_open_host(1, &ex, &err), err);
        kl_mem_fail_after(k);
        const kl_status st = kl_dmrg_infinite(&o, ex, row, &err);
        kl_mem_fail_after(0);
        kl_exec_close(&ex);
        core_no_memory();
        if (st == KL_OK) break;
        expect_eq(st, KL_ENOMEM);
    }
}

/* Sweeps that go from one executor to another, and back, end where those of one executor do. */
typedef struct places {
    kl_exec *ex[2];
    int asked, moves, last;
} places;

static kl_exec *place_by_m(void *self, int m)
{
    places *const p = self;
    const int to = m >= 16 && m < 24;
    p->moves += p->asked++ > 0 && to != p->last;
    p->last = to;
    return p->ex[to];
}

static void test_places(void **state)
{
    kl_err err = {""};
    core_job j;
    double energy[2];
    int64_t napply[2];
    (void)state;
    core_open(&j, core_model("hubbard", NULL), "chain:8", NULL, "U=4");
    kl_dmrg_sweep sweep[] = {{.m = 8, .tol = 1e-6},
                             {.m = 16, .tol = 1e-6},
                             {.m = 20, .tol = 1e-6},
                             {.m = 24, .tol = 1e-8},
                             {.m = 24, .tol = 1e-8}};
    places p = {.ex = {j.ex, NULL}};
    expect_ok(kl_exec_open_host(2, &p.ex[1], &err), err);
    for (int moving = 0; moving < 2; moving++) {
        kl_dmrg_result found = {0};
        kl_state *s = NULL;
        kl_dmrg_opts o = {.nstate = 1,
                          .target = core_charge(j.model, "N_up=4 N_dn=4"),
                          .nsweep = 5,
                          .sweep = sweep,
                          .seed = 3,
                          .placer = &p,
                          .place = moving ? place_by_m : NULL};
        expect_ok(kl_dmrg_run(j.terms, j.ex, &o, NULL, &s, &found, &err), err);
        energy[moving] = found.energy[0];
        napply[moving] = found.napply;
        kl_state_destroy(&s);
        kl_dmrg_result_clear(&found);
    }
    expect_eq(p.asked, 6); /* by five sweeps, and for the probe at the end */
    expect_eq(p.moves, 2);
    expect_near(energy[0], energy[1], 1e-10);
    expect_true(10 * napply[1] > 9 * napply[0]); /* those of the executors left are counted */
    kl_exec_close(&p.ex[1]);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hard_sectors),  cmocka_unit_test(test_edges),
        cmocka_unit_test(test_scales),        cmocka_unit_test(test_disconnected),
        cmocka_unit_test(test_little_memory), cmocka_unit_test(test_device_left),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_converged),
        cmocka_unit_test(test_settled),       cmocka_unit_test(test_by_weight),
        cmocka_unit_test(test_many_states),   cmocka_unit_test(test_tiny_m),
        cmocka_unit_test(test_discard),       cmocka_unit_test(test_full),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_growth),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
