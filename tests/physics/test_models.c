/* DMRG is exact where nothing is truncated: every model, lattice and sector against the oracle's spectrum,
   both strategies, one and several states; and energies known from elsewhere.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"

static const char *const lattices[] = {"chain:2",      "chain:4",      "chain:6",    "ring:3",    "ring:5",
                                       "ladder:2x2",   "ladder:3x2",   "square:2x3", "torus:2x2", "torus:3x3",
                                       "cylinder:2x3", "cylinder:3x2", NULL};

/* Up to `most` sectors of a job, each with 1..4 states by either strategy. */
static void every_sector(const core_job *j, oracle *o, int most, uint64_t seed)
{
    kl_err err = {""};
    int n;
    kl_qn *q = core_sectors(j, most, &n);
    for (int i = 0; i < n; i++) {
        double w[5];
        int nstate = 1 + (int)(kl_test_bits(&seed) % 4);
        const int have = oracle_energies(o, core_of(q[i]).charge, nstate + 1, w, NULL);
        if (nstate > have) nstate = have;
        expect_true(have > 0);
        core_run r =
            core_exact(4096, q[i], nstate, kl_test_bits(&seed) % 2 ? KL_STRATEGY_LR : KL_STRATEGY_L11R);
        r.opts.solver = kl_test_bits(&seed) % 4 == 0 ? KL_SOLVER_LANCZOS : KL_SOLVER_DAVIDSON;
        char text[128];
        kl_test_case("%s, %s, %d states of %d, strategy %d, solver %d", j->name,
                     kl_qn_print(j->model, q[i], text, sizeof text), nstate, have, (int)r.opts.strategy,
                     (int)r.opts.solver);
        core_go(j, &r);
        double size = 1;
        for (int k = 0; k < nstate; k++) size = fmax(size, fabs(w[k]));
        for (int k = 0; k < nstate; k++) expect_near(r.res.energy[k], w[k], 1e-12 * size);
        core_drop(&r);
        if (have == nstate && have < 4) { /* one state more than there is */
            r = core_exact(4096, q[i], nstate + 1, KL_STRATEGY_AUTO);
            expect_refused(kl_dmrg_run(j->terms, j->ex, &r.opts, NULL, &r.state, &r.res, &err), KL_EINPUT,
                           err, "states");
            expect_true(strchr(err.text, '\n') == NULL);
            core_drop(&r);
        }
    }
    kl_free(&q);
}

enum { MOST = KL_TEST_WATCHED ? 300 : 800 }; /* states, so that all of H fits */

static void some_sectors(const core_job *j, uint64_t seed)
{
    oracle *o = oracle_create(j->model, j->lat, j->par);
    every_sector(j, o, KL_TEST_WATCHED ? 1 : 6, seed);
    oracle_destroy(&o);
}

static void test_shipped_models(void **state)
{
    (void)state;
    core_every_lattice(kl_models_builtin, kl_models_nbuiltin, lattices, MOST, CORE_ONE_ORDER, some_sectors);
}

static void test_own_models(void **state)
{
    (void)state;
    core_every_lattice(core_models, core_nmodel, lattices, MOST, CORE_ONE_ORDER, some_sectors);
}

/* Every admissible charge; defaults, so that multiplets are degenerate. */
static void test_all_sectors(void **state)
{
    static const struct {
        const char *model, *variant, *lattice;
    } cases[] = {
        {"heisenberg", "S=1/2", "ring:6"}, {"heisenberg", "S=1", "chain:4"}, {"hubbard", "F=1/2", "ring:4"},
        {"hubbard", "F=3/2", "chain:2"},   {"tj", NULL, "square:2x2"},       {"kondo", "S=1/2", "chain:3"},
        {"bose_hubbard", NULL, "ring:3"},  {"ising", NULL, "ring:8"},        {"pairing", NULL, "ring:8"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        core_job j;
        core_open(&j, core_model(cases[k].model, cases[k].variant), cases[k].lattice, NULL, NULL);
        oracle *o = oracle_create(j.model, j.lat, j.par);
        every_sector(&j, o, 1000, k);
        oracle_destroy(&o);
        core_close(&j);
    }
    core_no_memory();
}

static double band(int l, int n) /* n fermions in an open chain of l, t = 1 */
{
    double e = 0;
    for (int k = 1; k <= n; k++) e -= 2 * cos(M_PI * k / (l + 1));
    return e;
}

static const core_known short_list[] = {
    {"heisenberg", "S=1/2", "chain:16", NULL, NULL, NULL, -6.911737145575103, 1e-11, 0},
    {"heisenberg", "S=1/2", "chain:32", NULL, NULL, NULL, -13.997315618224327, 1e-10, 0},
    {"heisenberg", "S=1/2", "ring:4", NULL, NULL, NULL, -2.0, 1e-13, 64},
    {"hubbard", "F=1/2", "chain:8", NULL, "U=2", "N_up=4 N_dn=4", -6.225634144681335, 1e-12, 256},
    {"hubbard", "F=1/2", "chain:16", NULL, "U=4", "N_up=8 N_dn=8", -8.818767454811657, 1e-10, 0},
    {"hubbard", "F=1/2", "chain:16", NULL, "U=8", "N_up=8 N_dn=8", -5.037134091652217, 1e-10, 0},
    {"hubbard", "F=1/2", "ring:6", NULL, "U=4", "N_up=3 N_dn=3", -3.668706178873, 1e-12, 256},
    {"hubbard", "F=1/2", "ring:8", NULL, "U=4", "N_up=4 N_dn=4", -4.603526299989, 1e-11, 300},
    {"hubbard", "F=3/2", "chain:4", NULL, "U=2", "N_1=1 N_2=1 N_3=1 N_4=1", -3.968701041177016, 1e-12, 256},
    {"hubbard", "F=3/2", "chain:4", NULL, "U=4", "N_1=1 N_2=1 N_3=1 N_4=1", -2.627427009300165, 1e-12, 256},
    {"hubbard", "F=3/2", "chain:4", NULL, "U=8", "N_1=1 N_2=1 N_3=1 N_4=1", -1.452047576001611, 1e-12, 256},
    {"blbq", "S=1", "chain:20", NULL, NULL, NULL, -2.0 / 3.0 * 19, 1e-12, 0}, /* AKLT */
    {"blbq", "S=1", "ring:8", NULL, NULL, NULL, -2.0 / 3.0 * 8, 1e-12, 0},
    {"j1j2", "S=1/2", "chain:24", NULL, NULL, NULL, -3.0 / 8.0 * 24, 1e-12, 0}, /* Majumdar-Ghosh */
    {"j1j2", "S=1/2", "ring:12", NULL, NULL, NULL, -3.0 / 8.0 * 12, 1e-11, 0},
};

static void test_known(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof short_list / sizeof *short_list; k += KL_TEST_WATCHED ? 3 : 1)
        core_known_check(&short_list[k]);
}

static void test_formulas(void **state)
{
    (void)state;
    for (int l = 2; l <= 40; l += l < 8 ? 1 : 16) {
        char lattice[32];
        snprintf(lattice, sizeof lattice, "chain:%d", l);
        core_known_check(&(core_known){"ising", NULL, lattice, NULL, NULL, NULL,
                                       1 - 1 / sin(M_PI / (2 * (2 * l + 1))), 1e-11, 0});
    }
    core_known_check(&(core_known){"hubbard", "F=1/2", "chain:10", NULL, "U=0", "N_up=5 N_dn=4",
                                   band(10, 5) + band(10, 4), 1e-10, 0});
    core_known_check(&(core_known){"hubbard", "F=1", "chain:5", NULL, "U=0", "N_1=2 N_2=1 N_3=3",
                                   band(5, 2) + band(5, 1) + band(5, 3), 1e-11, 200});
    core_known_check(
        &(core_known){"heisenberg", "S=1/2", "chain:20", NULL, "Delta=0", NULL, band(20, 10) / 2, 1e-10, 0});
    for (int u = 0; u <= 8; u += 4) {
        char sets[16];
        snprintf(sets, sizeof sets, "U=%d", u);
        core_known_check(&(core_known){"hubbard", "F=1/2", "chain:2", NULL, sets, "N_up=1 N_dn=1",
                                       (u - sqrt(u * u + 16.0)) / 2, 1e-13, 16});
    }
}

/* The Kitaev chain at t = Delta, mu = 0: -t (L - 1) in both sectors of parity. */
static void test_kitaev(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++)
        core_known_check(&(core_known){"pairing", NULL, "chain:30", NULL, "Delta=1 mu=0", p ? "parity=1" : "",
                                       -29.0, 1e-12, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_models), cmocka_unit_test(test_own_models),
        cmocka_unit_test(test_all_sectors),    cmocka_unit_test(test_known),
        cmocka_unit_test(test_formulas),       cmocka_unit_test(test_kitaev)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
