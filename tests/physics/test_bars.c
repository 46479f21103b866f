/* Error bars of hard ground states hold; the quick part of bars.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "bars.h"
#include "base/dense.h"
#include "dmrg/measure.h"

static void test_bars_hold(void **state)
{
    (void)state;
    for (int k = 0; k < NBARS; k += kl_test_stride(NBARS, 13))
        if (bars[k].quick) bars_check(&bars[k], KL_SITES_TWO, 1e-8, 1 + (uint64_t)k % 3);
}

/* A sector that is solved as a whole at the middle bond: "converged" is said of the state that is kept, whose
   energy those sweeps do not show. */
static void test_kept_state(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *order, *sets, *charge;
        double energy, accuracy;
        uint64_t seed;
    } list[] = {
        {"kondo", "S=1/2", "chain:4", "0,3,1,2", "J=1.5", "N=4", -5.943568145445, 1e-11, 1},
        {"hubbard", "F=1/2", "chain:6", "3,1,0,5,4,2", "U=4", "N_up=3 N_dn=3", -3.092565319505, 1e-9, 1},
        {"hubbard", "F=1/2", "chain:6", "3,1,0,5,4,2", "U=4", "N_up=3 N_dn=3", -3.092565319505, 1e-11, 1},
        {"kondo", "S=1/2", "chain:6", NULL, "J=0.4", "N=5 Sz=1/2", -6.7409867657415, 1e-9, 2},
        {"kondo", "S=1/2", "chain:6", NULL, "J=0.4", "N=5 Sz=1/2", -6.7409867657415, 1e-7, 2},
        {"hubbard", "F=1/2", "torus:5x2", NULL, "U=6", "N_up=4 N_dn=5", -6.8682742242685, 1e-9, 1},
    };
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 4)) {
        core_job j;
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, list[k].order,
                  list[k].sets);
        core_run r = core_auto(list[k].accuracy, core_charge(j.model, list[k].charge), 1, KL_STRATEGY_AUTO);
        r.opts.seed = list[k].seed;
        core_go(&j, &r);
        kl_test_case("%s to %g", j.name, list[k].accuracy);
        const double wanted = list[k].accuracy * fabs(list[k].energy);
        expect_eq(r.res.stop, KL_STOP_CONVERGED);
        expect_near(r.res.energy[0], list[k].energy, wanted + 1e-11);
        expect_near(r.res.energy_kept[0], list[k].energy, 2 * wanted + 1e-11);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* The guard of a sector that is solved as a whole, and those of larger ones: the gap, and with it how good
   the state is. Gaps: `kronlat ed`, and free fermions; 0 where two states agree to rounding. */
static void test_whole_gap(void **state)
{
    static const struct {
        const char *model, *variant, *lattice, *sets, *charge;
        double gap;
    } list[] = {
        {"heisenberg", "S=1", "chain:10", NULL, "Sz=0", 0.1383309352945},
        {"kondo", "S=1/2", "chain:6", "J=0.4", "N=5 Sz=1/2", 3.94503618e-3},
        {"plain_ising", NULL, "chain:12", "g=0.3", NULL, 9.67222e-7},
        {"plain_ising", NULL, "chain:12", "g=0.05", NULL, 0},
        {"hubbard", "F=1/2", "ring:6", "U=6", "N_up=2 N_dn=3", 0},
        /* larger ones, whose guards are still carried at the end */
        {"plain_ising", NULL, "chain:18", "g=0.5", NULL, 5.7220459e-6},
        {"plain_ising", NULL, "chain:18", "g=0.05", NULL, 0},
    };
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, 2)) {
        core_job j;
        core_open(&j, core_model(list[k].model, list[k].variant), list[k].lattice, NULL, list[k].sets);
        core_run r = core_auto(1e-9, core_charge(j.model, list[k].charge), 1, KL_STRATEGY_AUTO);
        core_go(&j, &r);
        kl_test_case("%s %s", j.name, list[k].sets ? list[k].sets : "");
        expect_eq(r.res.stop, KL_STOP_CONVERGED);
        if (list[k].gap > 0) {
            expect_near(r.res.gap, list[k].gap, 1e-6 * list[k].gap + 1e-11);
            expect_true(r.res.distance > 0 && r.res.distance < 0.1);
            expect_true(r.res.unresolved == 0);
        } else {
            expect_true(r.res.distance == 1);
            expect_true(r.res.unresolved < 1e-11 && r.res.error_estimate >= r.res.unresolved);
        }
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* The ordered Ising chain above and below a whole sector, to 1e-9: its two states lie 5.7e-6 apart. */
static void test_near_degenerate(void **state)
{
    (void)state;
    if (KL_TEST_WATCHED) skip(); /* test_whole_gap has this chain, too */
    for (int k = 0; k < NBARS; k++)
        if (strcmp(bars[k].model, "plain_ising") == 0 && bars[k].sets && strcmp(bars[k].sets, "g=0.5") == 0)
            for (uint64_t seed = 1; seed <= (uint64_t)kl_test_rounds(2); seed++)
                bars_check(&bars[k], KL_SITES_TWO, 1e-9, seed);
}

/* A schedule of one's own ends in a mixture of two states; the probe at its end sees the other one, and the
   bar spans both. */
static void test_schedule_of_ones_own(void **state)
{
    static const struct {
        const char *lattice;
        double energy, gap;
    } list[] = {{"chain:40", -54.85176339098, 9.6e-4}, {"chain:64", -88.48667423515, 1.8e-5}};
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, n)) {
        kl_dmrg_sweep sweep[] = {{24, 1e-4, 1e-6}, {48, 1e-6, 1e-6}, {64, 0, 1e-8}, {64, 0, 1e-8}};
        core_job j;
        core_open(&j, core_model("heisenberg", "S=1"), list[k].lattice, NULL, NULL);
        core_run r = {.opts = {.nstate = 1, .nsweep = 4, .sweep = sweep, .seed = 1}};
        core_go(&j, &r);
        kl_test_case("%s by a schedule", j.name);
        const double off = fabs(r.res.energy[0] - list[k].energy);
        expect_true(off <= r.res.error_estimate);
        expect_true(r.res.unresolved >= list[k].gap && r.res.error_estimate >= r.res.unresolved);
        expect_eq(r.res.wait == KL_WAIT_NOTHING, 0);
        expect_eq(r.state->nstate, 1);
        r.opts.sweep = NULL; /* not from the heap */
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* A state in wide blocks is carried into narrow ones before it is probed: a ladder whose next state is 0.018
   above (`kronlat ed`). The state kept is the one found. */
static void test_probe_of_many(void **state)
{
    (void)state;
    if (KL_TEST_WATCHED) skip();
    kl_dmrg_sweep sweep[] = {{32, 1e-4, 1e-3}, {530, 0, 1e-3}};
    core_job j;
    core_open(&j, core_model("hubbard", "F=1/2"), "ladder:6x2", NULL, "U=8");
    core_run r = {.opts = {.nstate = 1, .nsweep = 2, .sweep = sweep, .seed = 1, .sites = KL_SITES_TWO}};
    r.opts.target = core_charge(j.model, "N_up=6 N_dn=5");
    core_go(&j, &r);
    kl_test_case("%s in wide blocks", j.name);
    expect_true(r.res.row[1].m_reached > 512 && r.res.row[1].probed);
    expect_near(r.res.gap, 1.8e-2, 1e-2); /* by 48 states */
    expect_near(r.res.energy_kept[0], r.res.energy[0], 1e-3);
    expect_eq(kl_state_widest(r.state), r.res.row[1].m_reached);
    r.opts.sweep = NULL; /* not from the heap */
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* From a saved state the automatic schedule carries no guards at first; the probe sees the second state, and
   the run goes on with both. */
static void test_from_a_mixture(void **state)
{
    (void)state;
    /* Sweeps of so long a chain take half a minute there, and are what other tests make, too. */
    if (KL_TEST_WATCHED) skip();
    kl_dmrg_sweep sweep[] = {{24, 1e-4, 1e-6}, {48, 1e-6, 1e-6}, {96, 0, 1e-8}};
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1"), "chain:40", NULL, NULL);
    core_run r = {.opts = {.nstate = 1, .nsweep = 3, .sweep = sweep, .seed = 2}};
    core_go(&j, &r);
    expect_true(r.res.energy[0] > -54.85176339098 + 1e-6);
    r.opts.nsweep = 0, r.opts.sweep = NULL, r.opts.accuracy = 1e-8;
    kl_err err = {""};
    kl_dmrg_result_clear(&r.res);
    expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, NULL, &r.state, &r.res, &err), err);
    kl_test_case("from a mixture");
    expect_eq(r.res.stop, KL_STOP_CONVERGED);
    expect_true(fabs(r.res.energy[0] + 54.85176339098) <= r.res.error_estimate);
    int carried = 0;
    for (int i = 0; i < r.res.nrow; i++) carried |= r.res.row[i].held > 1;
    expect_true(carried && r.res.row[0].held == 1);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* A ferromagnet with an easy axis and its wall at a place that Sz says, on either side: two states, with the
   energy of the bonds and of the wall, sqrt(Delta^2 - 1) / 2. Random starts lead to three domains or miss the
   mirror image; and where states are close to products, what a bond could be expanded by is rounding. */
static void test_domain_wall(void **state)
{
    static const struct {
        const char *sets, *charge;
        double delta;
    } list[] = {{"J=-1 Delta=3", "Sz=0", 3}, {"J=-1 Delta=1.8", "Sz=0", 1.8}, {"J=-1 Delta=3", "Sz=3", 3}};
    (void)state;
    const int n = sizeof list / sizeof *list;
    for (int k = 0; k < n; k += kl_test_stride(n, n))
        for (uint64_t seed = 1; seed <= (uint64_t)kl_test_rounds(2); seed++) {
            core_job j;
            core_open(&j, core_model("heisenberg", "S=1/2"), "chain:30", NULL, list[k].sets);
            core_run r = core_auto(1e-8, core_charge(j.model, list[k].charge), 1, KL_STRATEGY_AUTO);
            r.opts.seed = seed;
            core_go(&j, &r);
            kl_test_case("%s %s, seed %d", list[k].sets, list[k].charge, (int)seed);
            const double d = list[k].delta, energy = -29 * d / 4 + sqrt(d * d - 1) / 2;
            expect_true(fabs(r.res.energy[0] - energy) <= r.res.error_estimate + 1e-11);
            expect_true(r.res.error_estimate < 1e-7 && r.res.unresolved > 0 && r.res.unresolved < 1e-8);
            for (int i = 0; i < r.res.nrow; i++) expect_true(r.res.row[i].energy[0] > energy - 1e-9);
            core_drop(&r);
            core_close(&j);
        }
    core_no_memory();
}

/* Next to Delta = 1 walls are wide, products lie high above them, and guards may lie below these without
   being the mirror image. Energies by `kronlat ed`, both states within 1e-12. */
static void test_wide_wall(void **state)
{
    static const struct {
        const char *charge;
        double energy;
    } list[] = {{"Sz=0", -4.996000313834211}, {"Sz=3", -4.996795154766631}};
    (void)state;
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:20", NULL, "J=-1 Delta=1.1");
    for (int k = 0; k < 2; k++)
        for (uint64_t seed = 1; seed <= (uint64_t)kl_test_rounds(8); seed++) {
            core_run r = core_auto(1e-8, core_charge(j.model, list[k].charge), 1, KL_STRATEGY_AUTO);
            r.opts.seed = seed;
            core_go(&j, &r);
            kl_test_case("wide wall, %s, seed %d", list[k].charge, (int)seed);
            expect_true(fabs(r.res.energy[0] - list[k].energy) <= r.res.error_estimate + 1e-12);
            expect_true(r.res.stop == KL_STOP_CONVERGED && r.res.error_estimate < 5e-8);
            expect_true(r.res.unresolved > 0 && r.res.unresolved <= r.res.error_estimate);
            core_drop(&r);
        }
    core_close(&j);
    core_no_memory();
}

/* Edge spins 128 sites apart: triplet and singlet lie 5e-8 apart, and of some seeds no guard meets the other
   one. One edge up and one down is a mixture of both, which the spin of the first site tells. */
static void test_far_edges(void **state)
{
    const double energy = -178.18163922349;
    int met = 0;
    (void)state;
    if (KL_TEST_WATCHED) skip(); /* shorter chains go the same ways */
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1"), "chain:128", NULL, NULL);
    for (uint64_t seed = 1; seed <= (uint64_t)kl_test_rounds(3); seed++) {
        core_run r = core_auto(1e-8, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
        r.opts.seed = seed;
        core_go(&j, &r);
        kl_test_case("far edges, seed %d", (int)seed);
        met += r.res.row[3].gap[0] < 0.1;
        expect_true(fabs(r.res.energy[0] - energy) <= r.res.error_estimate);
        expect_true(r.res.unresolved > 0 && r.res.distance == 1 && r.res.stop == KL_STOP_CONVERGED);
        core_drop(&r);
    }
    expect_true(met < 3); /* or the seeds no longer show it */
    core_close(&j);
    core_no_memory();
}

/* Singlets on the rungs or a chain of spins 1: the two cross where the coupling of rungs is Jr = -E / 20 of
   that chain, and nothing local leads from one to the other. Sweeps end in singlets, 0.4 too high to the left
   of it; next to it the chain lies 0.004 lower, less than few states can tell. */
static void test_valleys(void **state)
{
    const double chain = -26.839978650172, crossing = -chain / 20;
    static const double beside[] = {-0.02, -0.0002, 0, 0.05};
    int left = 0;
    (void)state;
    for (int k = 0; k < 4; k += KL_TEST_WATCHED ? 2 : 1) {
        const double jr = crossing + beside[k], energy = fmin(-0.75 * 20 * jr, chain + 0.25 * 20 * jr);
        char sets[80];
        snprintf(sets, sizeof sets, "Jx=1 Jr=%.16g", jr);
        core_job j;
        core_open(&j, core_model("coupled_chains", NULL), "ladder:20x2", NULL, sets);
        core_run r = core_auto(1e-7, core_charge(j.model, "Sz=0"), 1, KL_STRATEGY_AUTO);
        core_go(&j, &r);
        kl_test_case("valleys, Jr beside the crossing by %g", beside[k]);
        expect_true(fabs(r.res.energy[0] - energy) <= r.res.error_estimate + 1e-10);
        expect_eq(r.res.stop, KL_STOP_CONVERGED);
        expect_true(r.res.error_estimate < 5e-6);
        expect_eq(r.res.unresolved > 0, beside[k] == 0);
        left += r.res.row[0].energy[0] > energy + 0.001;
        core_drop(&r);
        core_close(&j);
    }
    expect_true(left > 0); /* or sweeps find the way by themselves, and nothing is tested */
    core_no_memory();
}

/* Values in a sector of 40 million states, to 1e-9 for an accuracy of 1e-10: free fermions, t = 1/2, in a
   random potential. */
static void test_values(void **state)
{
    enum { N = 28 };
    kl_err err = {""};
    kl_measure *m = NULL;
    kl_siteop *sz = NULL;
    double a[N * N] = {0}, level[N], local[N], off = 0;
    char sets[N * 8 + 20] = "Delta=0 h=";
    (void)state;
    for (int i = 0; i < N; i++) {
        const double h = (i * 37 % 11 - 5) / 16.0;
        snprintf(sets + strlen(sets), 12, "%s%.4f", i > 0 ? "," : "", h);
        a[i * (N + 1)] = -h;
        if (i + 1 < N) a[i * (N + 1) + 1] = 0.5;
    }
    expect_ok(kl_dense_eig(N, a, N, level, &err), err);
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:28", NULL, sets);
    core_run r = core_auto(1e-10, kl_qn_zero(), 1, KL_STRATEGY_AUTO);
    r.opts.sites = KL_SITES_AUTO;
    r.opts.measured = 1;
    core_go(&j, &r);
    expect_ok(kl_measure_create(j.ex, r.state, 0, j.lat, &m, &err), err);
    expect_ok(kl_siteop_create(j.model, "Sz", &sz, &err), err);
    expect_ok(kl_measure_local(m, sz, local, &err), err);
    for (int i = 0; i < N; i++) {
        double n = 0;
        for (int k = 0; k < N / 2; k++) n += a[i + k * N] * a[i + k * N];
        off = fmax(off, fabs(local[i] - (n - 0.5)));
    }
    kl_test_case("values off by %g, told %g", off, r.res.distance);
    expect_true(off < 1e-9 && off <= r.res.distance && r.res.distance < 1e-6);
    kl_siteop_destroy(&sz);
    kl_measure_destroy(&m);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

static void count(void *self) { ++*(int *)self; }

/* Starts that the caller chose, as products and as saved states: with walls too many they are traps and given
   up, and the energy is that of one wall; a saved state with one wall is kept. Its mirror
   image is told of all the same. */
static void test_from_a_trap(void **state)
{
    static const struct {
        int nwall, wall[3]; /* spins from there on point the other way */
    } list[] = {{3, {13, 27, 28}}, {2, {14, 29}}, {2, {7, 22}}, {3, {5, 15, 25}}, {1, {15}}};
    const double energy = -29 * 3.0 / 4 + sqrt(8.0) / 2;
    int traps = 0;
    (void)state;
    core_job j;
    core_open(&j, core_model("heisenberg", "S=1/2"), "chain:30", NULL, "J=-1 Delta=3");
    for (int i = 0; i < 2 * (int)(sizeof list / sizeof *list); i += KL_TEST_WATCHED ? 3 : 1) {
        const int k = i / 2, saved = i % 2;
        kl_err err = {""};
        int start[30], again = 0;
        kl_qn target = kl_qn_zero();
        for (int p = 0, s = 0; p < 30; p++) {
            for (int w = 0; w < list[k].nwall; w++) s ^= list[k].wall[w] == p;
            start[p] = s;
            target = kl_qn_add(j.model, target, kl_qn_of(j.model, j.terms->type[p]->state_charge[s]));
        }
        const kl_dmrg_monitor mon = {.self = &again, .given_up = count};
        core_run r = core_auto(1e-8, target, 1, KL_STRATEGY_AUTO);
        r.opts.start = start;
        kl_test_case("%d walls, the first at %d%s", list[k].nwall, list[k].wall[0], saved ? ", saved" : "");
        if (saved) {
            kl_dmrg_sweep sweep[] = {{1, 0, 1e-6}};
            core_run first = r;
            first.opts.nsweep = 1;
            first.opts.sweep = sweep;
            core_go(&j, &first);
            expect_true(list[k].nwall == 1 || first.res.energy[0] > energy + 0.5);
            r.state = first.state;
            r.opts.start = NULL;
            kl_dmrg_result_clear(&first.res);
        }
        expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, &mon, &r.state, &r.res, &err), err);
        /* of a product the first sweep may find the way out */
        expect_true(saved ? again == (list[k].nwall > 1) : again <= (list[k].nwall > 1));
        traps += again;
        expect_true(fabs(r.res.energy[0] - energy) <= r.res.error_estimate + 1e-11);
        expect_true(r.res.error_estimate < 1e-7 && r.res.stop == KL_STOP_CONVERGED);
        expect_true(r.res.unresolved > 0 && (again == 0 || r.res.row[0].m_start == 0));
        core_drop(&r);
    }
    expect_true(traps > (KL_TEST_WATCHED ? 0 : 4)); /* the saved ones, and not these alone */
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bars_hold),
        cmocka_unit_test(test_kept_state),
        cmocka_unit_test(test_whole_gap),
        cmocka_unit_test(test_near_degenerate),
        cmocka_unit_test(test_schedule_of_ones_own),
        cmocka_unit_test(test_probe_of_many),
        cmocka_unit_test(test_from_a_mixture),
        cmocka_unit_test(test_domain_wall),
        cmocka_unit_test(test_wide_wall),
        cmocka_unit_test(test_far_edges),
        cmocka_unit_test(test_from_a_trap),
        cmocka_unit_test(test_valleys),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
