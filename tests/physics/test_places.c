/* Labels of sites that H keeps: which there are, energies within a placement, and runs of models whose ground
   state lies in one placement of many, against all placements and the levels of free electrons in each.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "core.h"
#include "dmrg/places.h"
#include "dmrg/signstrings.h"
#include "kl_test.h"
#include "run/dmrgrun.h"

enum { MOST = 16 };

static void test_labels(void **state)
{
    static const struct {
        const char *model, *variant, *lattice;
        int n, worth;
    } list[] = {
        {"heisenberg", "S=1/2", "chain:6", 1, 0},   {"hubbard", "F=1/2", "chain:5", 1, 0},
        {"falicov_kimball", NULL, "chain:6", 2, 1}, {"electrons_ising", NULL, "chain:6", 2, 1},
        {"compass", NULL, "square:3x2", 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kl_err err = {""};
        kl_labels l;
        core_job j;
        core_open(&j, core_model(list[i].model, list[i].variant), list[i].lattice, NULL, NULL);
        kl_test_case("%s", j.name);
        expect_ok(kl_labels_find(j.terms, &l, &err), err);
        for (int p = 0; p < l.nsite; p++) expect_eq(l.n[p], list[i].n);
        expect_eq(kl_places_worth(&l), list[i].worth);
        kl_labels_clear(&l);
        core_close(&j);
    }
    core_no_memory();
}

/* ---------------------------------------------------------------- free electrons in a placement */

typedef struct hard {
    const char *model, *lattice, *charge, *sets;
    int length, width, electrons, placed; /* placed -1: any number */
    double there, without,
        pair; /* potential on a site with a label and without, energy of neighbours alike */
    uint64_t seeds;
    int many; /* 1: more placements than are all asked for */
} hard;

static int joined(const hard *h, int p, int q)
{
    return q - p == h->width || (q - p == 1 && q % h->width != 0);
}

static double energy_of(const hard *h, unsigned label)
{
    kl_err err = {""};
    double a[MOST * MOST], w[MOST], e = 0;
    const int n = h->length * h->width;
    memset(a, 0, sizeof a);
    for (int p = 0; p < n; p++) {
        a[p + p * n] = label >> p & 1 ? h->there : h->without;
        for (int q = p + 1; q < n; q++) {
            if (!joined(h, p, q)) continue;
            a[q + p * n] = a[p + q * n] = -1;
            e += (label >> p & 1) == (label >> q & 1) ? h->pair : -h->pair;
        }
    }
    expect_ok(kl_dense_eig(n, a, n, w, &err), err);
    for (int k = 0; k < h->electrons; k++) e += w[k];
    return e;
}

/* Of all placements; *second: the next one's. */
static double lowest(const hard *h, double *second)
{
    double first = INFINITY;
    *second = INFINITY;
    for (unsigned label = 0; label < 1u << h->length * h->width; label++) {
        if (h->placed >= 0 && __builtin_popcount(label) != h->placed) continue;
        const double e = energy_of(h, label);
        if (e < first) *second = first, first = e;
        else if (e < *second) *second = e;
    }
    return first;
}

/* Trials in other sectors of strings ended 0.56, 2e-3, 4e-4, 5e-2 and 4e-7 too high at some seed of the first
   six of these, or told one of a pair as converged. */
static void test_ground_states(void **state)
{
    static const hard list[] = {
        {"falicov_kimball", "ladder:6x2", "Nc=6 Nf=6", "U=4", 6, 2, 6, 6, 4, 0, 0, 1, 0},
        {"falicov_kimball", "ladder:6x2", "Nc=5 Nf=6", "U=4", 6, 2, 5, 6, 4, 0, 0, 1, 0},
        {"falicov_kimball", "chain:12", "Nc=3 Nf=4", "U=4", 12, 1, 3, 4, 4, 0, 0, 1, 0},
        {"falicov_kimball", "chain:12", "Nc=3 Nf=4", "U=8", 12, 1, 3, 4, 8, 0, 0, 1, 0},
        {"falicov_kimball", "chain:13", "Nc=7 Nf=10", "U=-4", 13, 1, 7, 10, -4, 0, 0, 1, 0},
        {"falicov_kimball", "chain:12", "Nc=9 Nf=6", "U=16", 12, 1, 9, 6, 16, 0, 0, 1, 0},
        {"falicov_kimball", "chain:12", "Nc=5 Nf=6", "U=8", 12, 1, 5, 6, 8, 0, 0, 1, 0},
        {"falicov_kimball", "chain:12", "Nc=3 Nf=4", "U=-4", 12, 1, 3, 4, -4, 0, 0, 1, 0},
        {"falicov_kimball", "chain:13", "Nc=5 Nf=6", "U=4", 13, 1, 5, 6, 4, 0, 0, 1, 1},
        {"electrons_ising", "chain:11", "Nc=4", "V=2 K=0.5", 11, 1, 4, -1, 1, -1, 0.125, 1, 1},
    };
    const size_t n = KL_TEST_WATCHED ? 1 : sizeof list / sizeof *list;
    (void)state;
    for (size_t i = 0; i < n; i++) {
        core_job j;
        double second;
        const double exact = lowest(&list[i], &second);
        core_open(&j, core_model(list[i].model, NULL), list[i].lattice, NULL, list[i].sets);
        for (uint64_t seed = 1; seed <= (KL_TEST_WATCHED ? 1 : list[i].seeds); seed++) {
            core_run r = core_auto(1e-9, core_charge(j.model, list[i].charge), 1, KL_STRATEGY_AUTO);
            r.opts.seed = seed;
            core_go(&j, &r);
            kl_test_case("%s, seed %d", j.name, (int)seed);
            expect_near(r.res.energy[0], exact, r.res.error_estimate + 1e-11);
            expect_true(r.res.error_estimate < 1e-7);
            if (second - exact < 1e-10) expect_true(r.res.unresolved > 0 && r.res.distance == 1);
            else expect_true(r.res.unresolved == 0);
            expect_eq(r.res.searched, !list[i].many);
            expect_eq(r.res.wait == KL_WAIT_SECTORS, list[i].many);
            expect_eq(kl_dmrgrun_energy_converged(&r.res), !list[i].many);
            expect_eq(kl_dmrgrun_converged(&r.res), !list[i].many && r.res.unresolved == 0);
            core_drop(&r);
        }
        core_close(&j);
    }
    core_no_memory();
}

/* A state within a placement, as one of all, has its energy there, the labels, and no sweep changes it. */
static void test_embed(void **state)
{
    static const hard h = {"falicov_kimball", "chain:7", "Nc=3 Nf=3", "U=4", 7, 1, 3, 3, 4, 0, 0, 1, 0};
    static const char label[] = {1, 0, 0, 1, 0, 1, 0};
    (void)state;
    kl_err err = {""};
    core_job j;
    kl_labels l;
    kl_placed x;
    kl_state *whole = NULL;
    core_open(&j, core_model(h.model, NULL), h.lattice, NULL, h.sets);
    const kl_qn target = core_charge(j.model, h.charge);
    const kl_engine_opts same = {.target = target, .nstate = 1, .max_basis = 20, .seed = 1};
    expect_ok(kl_labels_find(j.terms, &l, &err), err);
    expect_ok(kl_placed_create(j.terms, &l, label, &x, &err), err);
    kl_terms *const own = j.terms;
    j.terms = &x.terms;
    core_run r = core_auto(1e-10, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    const double exact = energy_of(&h, 1 | 8 | 32);
    expect_near(r.res.energy[0], exact, 1e-9);
    j.terms = own;
    expect_ok(kl_placed_embed(&x, j.terms, j.ex, &same, r.state, &whole, &err), err);
    kl_dmrg_result res;
    r.opts.alone = 1;
    expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &whole, &res, &err), err);
    expect_near(res.energy[0], exact, 1e-9);
    expect_near(res.row[0].energy[0], exact, 1e-9);
    kl_dmrg_result_clear(&res);
    kl_state_destroy(&whole);
    core_drop(&r);
    kl_placed_clear(&x);
    kl_labels_clear(&l);
    core_close(&j);
    core_no_memory();
}

/* Every allocation fails in turn: from a state that is told too high, so that another one is found. */
static void test_run_out(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("falicov_kimball", NULL), "chain:5", NULL, "U=8");
    const kl_qn target = core_charge(j.model, "Nc=2 Nf=2");
    core_run r = core_auto(1e-9, target, 1, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    r.opts.alone = 1;
    const kl_engine_opts same = {.target = target, .nstate = 1, .max_basis = 20, .seed = 1};
    for (int high = 0; high < 2; high++) {
        const kl_valley_here here = {
            .state = r.state, .energy = r.res.energy[0] + high, .bar = 1e-8, .flop = 1e12};
        kl_status st = KL_ENOMEM;
        int64_t k = 1;
        for (; st != KL_OK; k += 1 + k / 5) {
            kl_valley lower;
            kl_valley_settled settled = {0};
            kl_dense_release();
            kl_mem_fail_after(k);
            st = kl_places_compare(j.terms, j.ex, &same, &r.opts, NULL, &here, &lower, &settled, &err);
            kl_mem_fail_after(0);
            kl_test_case("%s, allocation %lld", high ? "told too high" : "found", (long long)k);
            expect_true(st == KL_OK || (st == KL_ENOMEM && lower.state == NULL));
            if (st != KL_OK) continue;
            expect_eq(settled.strings, 0);
            expect_eq(settled.cut, 0);
            expect_eq(lower.state != NULL, high);
            expect_eq(settled.known, high);
            if (high) expect_near(lower.energy, r.res.energy[0], 1e-8);
            kl_state_destroy(&lower.state);
        }
        expect_true(k > 1000);
    }
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

enum { SITES = 30 };

/* A chain of free electrons, and its lowest energy. */
typedef struct free_chain {
    char lattice[16], charge[16], sets[2048];
    double energy;
} free_chain;

static free_chain chain_of(int n, const double *t, const double *h, int electrons)
{
    kl_err err = {""};
    double a[SITES * SITES] = {0}, w[SITES];
    free_chain c = {.sets = "t="};
    for (int k = 0; k + 1 < n; k++) {
        snprintf(c.sets + strlen(c.sets), 28, "%s%g", k > 0 ? "," : "", t[k]);
        a[k * (n + 1) + 1] = -t[k];
    }
    for (int k = 0; k < n; k++) {
        snprintf(c.sets + strlen(c.sets), 28, "%s%g", k > 0 ? "," : " h=", h[k]);
        a[k * (n + 1)] = h[k];
    }
    expect_ok(kl_dense_eig(n, a, n, w, &err), err);
    for (int k = 0; k < electrons; k++) c.energy += w[k];
    snprintf(c.lattice, sizeof c.lattice, "chain:%d", n);
    snprintf(c.charge, sizeof c.charge, "N=%d", electrons);
    return c;
}

/* Chains whose parts nothing joins, or couplings a fiftieth of the largest and less: sweeps leave each part
   the electrons that they began with. Ended 0.6, 0.5, 4e-2, 2e-2 and 0.1 too high, as converged. */
static void test_loose_parts(void **state)
{
    static const struct {
        int n, electrons;
        uint64_t seed;
        double discard;
        double t[SITES - 1], h[SITES];
    } list[] = {
        {24,
         8,
         6,
         0,
         {0.0024, -0.3833, -8.19,  -1.361, -38.24, 0.00027, -0.01727, 0.1965,
          0.2406, 6.026,   5.397,  0.2618, 6e-10,  67.38,   -0.00099, -0.01487,
          -5.224, -0.2435, 0.8862, 0.0005, 16.42,  6.611,   -2.756},
         {0}},
        {18,
         6,
         9,
         0,
         {-0.7029, 0.02299, -0.6643, 0, 0.5961, -0.4645, -0.1557, 0, -1.475, -2.414, -0.8047, 0, -0.5483,
          0.954, 0.6931, 0, 2.353},
         {-0.7894, -0.567, 1.282, 1.499, -0.9479, 0.02573, -0.3639, -1.009, -1.259, 0.07691, 0.4436, 2.315,
          1.237, -2.035, 1.222, -1.769, 1.6, 0.2368}},
        {24,
         2,
         1,
         1e-4,
         {0.5, 0.6,  0, 0.5, 0.6, 0, 0.55, 0.6, 0, 0.5, 0.6, 0,
          0.5, 0.65, 0, 0.5, 0.7, 0, 0.5,  0.6, 0, 0.5, 0.6},
         {0}},
        {24,
         12,
         1,
         0,
         {0.002849,  0.872,   -0.0004081, 0.0001439,  -2.18,      -0.05697,   -2.992,    -0.002361,
          0.003502,  0.03766, 0.0042,     -3.609e-05, -4.355e-06, -9.347e-05, 0.0006589, 0.02076,
          3.895e-06, -0.2798, -0.1137,    3.874e-05,  -0.3416,    -0.0006329, 0.02322},
         {-0.01786,   0.003134, 5.467,      -0.8935, 32.79,      7.126,    -14.81,  18.02,
          -13.05,     -0.3158,  40.41,      0.4071,  -0.0002214, -0.1234,  16.15,   -0.1729,
          -0.0001235, -9.129,   -0.0001264, 74.28,   0.0009436,  -0.03164, 0.00189, 1.601}},
        {30,
         15,
         5,
         0,
         {0.5677,  0, 0.4265,  0, 0.8658, 0, -0.5649, 0, -0.6224, 0, 0.08352, 0, -0.5801,  0, -0.315, 0,
          -0.3676, 0, 0.03572, 0, 0.6216, 0, 0.5274,  0, -0.3249, 0, -0.436,  0, -0.005636},
         {-0.4506, -0.9988, -0.7574, -0.3298, 0.55,    0.196,   -0.7068, 0.5626,  -0.8118, 0.8025,
          0.5598,  0.8363,  -0.1659, 0.414,   -0.3249, -0.8111, 0.9286,  -0.1998, 0.5556,  0.3505,
          -0.7334, -0.4735, -0.5811, 0.547,   0.7108,  0.4322,  -0.2927, 0.04279, 0.5805,  -0.1527}},
    };
    (void)state;
    for (size_t i = 0; i < (KL_TEST_WATCHED ? 3 : sizeof list / sizeof *list); i++) {
        const free_chain c = chain_of(list[i].n, list[i].t, list[i].h, list[i].electrons);
        core_job j;
        core_open(&j, core_model("free_fermions", NULL), c.lattice, NULL, c.sets);
        core_run r = core_auto(1e-9, core_charge(j.model, c.charge), 1, KL_STRATEGY_AUTO);
        r.opts.seed = list[i].seed;
        r.opts.discard = list[i].discard;
        core_go(&j, &r);
        kl_test_case("chain %d of %d sites", (int)i, list[i].n);
        expect_near(r.res.energy[0], c.energy, r.res.error_estimate + 1e-12 * fabs(c.energy));
        expect_true(r.res.error_estimate < 1e-8 * fabs(c.energy));
        expect_eq(r.res.wait, KL_WAIT_NOTHING);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* The same where a schedule, the number of states or the discarded weight ends the run: 1.6, 0.6 and 0.4 too
   high at bars of 9e-13, 1e-7 and 3e-14 by schedules, 6.5 at 0.2 by m = 16 and 0.1 at 0.02 by m = 4. Of two
   states nobody looks for charges, which is said. */
static void test_loose_ends(void **state)
{
    static const struct {
        int n, electrons, nstate;
        uint64_t seed;
        double discard;
        int m[5]; /* of sweeps, the first two with noise; or of the automatic schedule at most */
        int sites;
        double allowed; /* of the bar */
        double t[SITES - 1], h[SITES];
    } list[] = {
        {19,
         15,
         1,
         29,
         0,
         {12, 12, 12, 12},
         2,
         1e-10,
         {4.992, -0.6953, 0.0006331, 1.166, -3.626e-05, -0.009653, 5.653e-06, -5.615e-06, 51.99, 0.000713,
          -0.07323, -0.02024, -7.773, 0.0004916, -8.26, 4.916, -9.415, -0.0001073},
         {0}},
        {24,
         18,
         1,
         25,
         0,
         {2, 2, 4, 4, 4},
         1,
         1e-10,
         {0, -1.318, 0,     0, 1.483,   1.041,   -1.37,  0, 1.093, 0.662, 0,     0.4426,
          0, 1.084,  0.318, 0, -0.8296, -0.6908, -1.181, 0, 0,     0,     -1.356},
         {0}},
        {24,
         18,
         1,
         97,
         1.525e-08,
         {0},
         2,
         1e-3,
         {-1.509e-06, -0.1441,   1.388e-06, -0.02504, -0.0003558, 2.957,   -0.549,     0.08496,
          0.00223,    -2.222,    0.4085,    0.009848, -1.218e-05, -0.6452, -0.0001272, 0.002952,
          -1.475,     -0.000337, 0.1782,    -24.29,   1.271,      -91.09,  21.65},
         {-0.02639,   0.1902, 1.552,    0.0331, 0.01274, -0.003942,  0.006484,  0.09746,
          -0.0008576, -23.02, 0.003977, 0.5746, 0.2959,  -32.3,      -0.02476,  -2.165,
          1.491,      -63.72, -30.74,   -2.072, 0.06128, -0.0009894, 0.0006107, 7.059}},
        {22,
         17,
         2,
         82,
         1.783e-05,
         {16},
         2,
         1,
         {-1.128, -0.3183, 0,      -0.5495, 1.411, -1.087, 0,      0,      1.076, 0, 0,
          0,      0,       -1.008, -1.037,  0.923, 0.3685, -1.072, 0.8394, 0,     0},
         {0}},
    };
    (void)state;
    for (size_t i = 0; i < (KL_TEST_WATCHED ? 2 : sizeof list / sizeof *list); i++) {
        const free_chain c = chain_of(list[i].n, list[i].t, list[i].h, list[i].electrons);
        kl_dmrg_sweep sweep[5] = {{0}};
        core_job j;
        core_open(&j, core_model("free_fermions", NULL), c.lattice, NULL, c.sets);
        core_run r = core_auto(1e-9, core_charge(j.model, c.charge), list[i].nstate, KL_STRATEGY_AUTO);
        r.opts.seed = list[i].seed;
        r.opts.discard = list[i].discard;
        r.opts.sites = list[i].sites == 1 ? KL_SITES_ONE : KL_SITES_TWO;
        r.opts.m_max = list[i].m[1] == 0 ? list[i].m[0] : 0;
        while (r.opts.m_max == 0 && r.opts.nsweep < 5 && list[i].m[r.opts.nsweep] > 0) {
            const int k = r.opts.nsweep++;
            sweep[k] = (kl_dmrg_sweep){.m = list[i].m[k], .noise = k < 2 ? 1e-4 : 0};
        }
        r.opts.sweep = sweep;
        core_go(&j, &r);
        r.opts.sweep = NULL; /* not core_drop's */
        kl_test_case("chain %d of %d sites", (int)i, list[i].n);
        /* two states of 16 may be as good as is asked for */
        expect_true(r.res.stop != KL_STOP_CONVERGED || list[i].nstate > 1);
        if (list[i].nstate == 1 || r.res.stop == KL_STOP_CONVERGED) {
            expect_near(r.res.energy[0], c.energy, r.res.error_estimate + 1e-12 * fabs(c.energy));
            expect_true(r.res.error_estimate < list[i].allowed);
        }
        expect_eq(r.res.wait == KL_WAIT_SECTORS, list[i].nstate > 1);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* Two states of such a chain are not looked for elsewhere: nobody is told that they are the lowest. */
static void test_loose_states(void **state)
{
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        core_job j;
        core_open(&j, core_model("free_fermions", NULL), "chain:24", NULL,
                  joined
                      ? "t=1 h=0"
                      : "t=1,1,1,1,1,1,1,0,1,1,1,1,1,1,1,0,1,1,1,1,1,1,1 h=0,0,0,0,0,0,0,0,-3,-3,-3,-3,-3,-3,"
                        "-3,-3,1,1,1,1,1,1,1,1");
        core_run r = core_auto(1e-6, core_charge(j.model, "N=9"), 2, KL_STRATEGY_AUTO);
        core_go(&j, &r);
        expect_eq(r.res.stop, KL_STOP_CONVERGED);
        expect_eq(r.res.wait, joined ? KL_WAIT_NOTHING : KL_WAIT_SECTORS);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),       cmocka_unit_test(test_ground_states),
        cmocka_unit_test(test_loose_parts),  cmocka_unit_test(test_loose_ends),
        cmocka_unit_test(test_loose_states), cmocka_unit_test(test_embed),
        cmocka_unit_test(test_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
