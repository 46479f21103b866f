/* Charges far from where they belong: states that sweeps have led to from products with a charge at the wrong
   place, in random fields, against the levels of the chain and sectors that are solved as a whole.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "base/mem.h"
#include "core.h"
#include "dmrg/products.h"
#include "dmrg/straycharges.h"
#include "kl_test.h"
#include <math.h>
#include <stdlib.h>

enum {
    MOST_SITES = 32,
    FEW = 2 /* states of sweeps that leave charges where they are */
};

static double between(double a, double b) { return a + (b - a) * (rand() % 10000) / 10000.0; }

/* "NAME=v,v,.."; returns where it ends. */
static char *write_values(char *to, const char *name, const double *v, int n)
{
    to += sprintf(to, "%s=", name);
    for (int i = 0; i < n; i++) to += sprintf(to, "%s%.5g", i > 0 ? "," : "", v[i]);
    return to;
}

/* The sum of the lowest levels of a chain. */
static double fermi_sea(const double *t, const double *h, int n, int filled)
{
    kl_err err = {""};
    double a[MOST_SITES * MOST_SITES] = {0}, w[MOST_SITES], sum = 0;
    for (int i = 0; i < n; i++) {
        a[i * (n + 1)] = h[i];
        if (i + 1 < n) a[i * (n + 1) + 1] = -t[i];
    }
    expect_ok(kl_dense_eig(n, a, n, w, &err), err);
    for (int i = 0; i < filled; i++) sum += w[i];
    return sum;
}

/* Two sites far apart, whose states differ by as much, exchange these. */
static void displace(const core_job *j, int *state)
{
    const int n = j->terms->nsite;
    for (int k = 0; k < 1000; k++) {
        const int p = rand() % n, q = rand() % n;
        if (abs(p - q) < n / 3 || state[p] == state[q] || j->terms->type[p] != j->terms->type[q]) continue;
        const int was = state[p];
        state[p] = state[q];
        state[q] = was;
        return;
    }
}

/* Four sweeps without noise from the product, the last two with `kept' states: *energy with the constant. */
static kl_state *sweep_from(const core_job *j, const kl_engine_opts *o, const int *product, int kept,
                            double *energy)
{
    kl_err err = {""};
    kl_engine *e = NULL;
    kl_state *state = NULL;
    expect_ok(kl_engine_create(j->terms, j->ex, o, &e, &err), err);
    expect_ok(kl_engine_start(e, FEW, 1, product, &err), err);
    for (int k = 0; k < 8; k++) {
        const kl_valley_pass pass = {
            .m = k < 4 ? FEW : kept, .max_apply = 4, .direction = k % 2 == 0 ? 1 : -1};
        expect_ok(kl_valleys_pass(e, &pass, energy, &err), err);
    }
    expect_ok(kl_engine_state(e, energy, &state, &err), err);
    *energy += j->terms->constant;
    kl_engine_destroy(&e);
    return state;
}

/* From the lowest product but for one charge. Returns how far above `exact` sweeps end; then the search has
   to end at `exact`, and nowhere below. */
static double check_search(const core_job *j, kl_qn target, int kept, double exact, uint64_t seed)
{
    kl_err err = {""};
    const kl_engine_opts o = {.target = target, .nstate = 1, .seed = seed};
    kl_engine *e = NULL;
    kl_products low = {0};
    kl_valley out = {0};
    double energy, flop = 0;
    int worth;
    expect_ok(kl_straycharges_worth(j->terms, &worth, &err), err);
    expect_true(worth);
    expect_ok(kl_engine_create(j->terms, j->ex, &o, &e, &err), err);
    expect_ok(kl_products_find(e, 1, &low, &err), err);
    kl_engine_destroy(&e);
    displace(j, low.state);
    kl_state *state = sweep_from(j, &o, low.state, kept, &energy);
    const kl_valley_here here = {.state = state, .energy = energy, .bar = 1e-9, .kept = kept};
    expect_ok(kl_straycharges_find(j->terms, j->ex, &o, NULL, &here, 1e10, &out, &flop, &err), err);
    /* no charge is elsewhere where there is no other state, but few states may have it a little too high */
    const double end = out.state ? out.energy : energy;
    expect_near(end, exact, out.state ? 1e-4 : 0.03);
    expect_true(flop > 0);
    kl_state_destroy(&out.state);
    kl_state_destroy(&state);
    kl_products_clear(&low);
    return energy - exact;
}

static void test_fermions(void **state)
{
    (void)state;
    int caught = 0;
    srand(5);
    for (int trial = 0; trial < (KL_TEST_WATCHED ? 2 : 8); trial++) {
        const int n = 20 + rand() % 12, filled = n / 3 + rand() % (n / 3);
        double t[MOST_SITES], h[MOST_SITES];
        char lattice[16], charge[16], sets[1024];
        for (int i = 0; i < n; i++) t[i] = between(0.5, 1.5), h[i] = between(-6, 6);
        char *const end = write_values(sets, "t", t, n - 1);
        write_values(end + sprintf(end, " "), "h", h, n);
        snprintf(lattice, sizeof lattice, "chain:%d", n);
        snprintf(charge, sizeof charge, "N=%d", filled);
        core_job j;
        core_open(&j, core_model("free_fermions", NULL), lattice, NULL, sets);
        kl_test_case("chain %d, %s %s", trial, sets, charge);
        caught +=
            check_search(&j, core_charge(j.model, charge), 24, fermi_sea(t, h, n, filled), 1 + trial) > 0.01;
        core_close(&j);
    }
    expect_true(caught > (KL_TEST_WATCHED ? 0 : 3));
    core_no_memory();
}

/* Models with interactions, in sectors that a run solves as a whole. */
static void test_interacting(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *field, *sets, *charge;
        double width;
    } of[] = {
        {"hubbard", NULL, "chain:8", "mu", "U=4", "N_up=4 N_dn=3", 8},
        {"hubbard", NULL, "chain:8", "mu", "U=-4", "N_up=4 N_dn=4", 6},
        {"heisenberg", "S=1/2", "chain:14", "h", "Delta=2", "Sz=0", 6},
        {"bose_hubbard", NULL, "chain:8", "mu", "U=5", "N=8", 10},
    };
    int caught = 0;
    srand(11);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        for (int trial = 0; trial < (KL_TEST_WATCHED ? 1 : 2); trial++) {
            double v[MOST_SITES];
            char sets[512];
            int n = atoi(strchr(of[k].lattice, ':') + 1);
            for (int i = 0; i < n; i++) v[i] = between(-of[k].width, of[k].width);
            char *const end = sets + sprintf(sets, "%s ", of[k].sets);
            write_values(end, of[k].field, v, n);
            core_job j;
            core_open(&j, core_model(of[k].model, of[k].variant), of[k].lattice, NULL, sets);
            kl_test_case("%s %s %s", of[k].model, sets, of[k].charge);
            const kl_qn target = core_charge(j.model, of[k].charge);
            core_run r = core_auto(1e-9, target, 1, KL_STRATEGY_AUTO);
            core_go(&j, &r);
            caught += check_search(&j, target, FEW, r.res.energy[0], 1 + trial) > 0.01;
            core_drop(&r);
            core_close(&j);
        }
    expect_true(caught > (KL_TEST_WATCHED ? 0 : 2));
    core_no_memory();
}

/* A run that ended 0.42 too high with a bar of 3e-9. */
static void test_run(void **state)
{
    (void)state;
    static const double t[26] = {1.441,  1.206, 0.9348, 1.016, 1.308,  0.8582, 0.7457, 0.7977, 1.175,
                                 0.5868, 1.355, 0.514,  1.378, 0.5702, 0.8201, 0.5225, 1.004,  1.243,
                                 1.497,  1.113, 0.6075, 0.944, 0.8848, 0.6912, 1.35,   1.319},
                        h[27] = {-1.107, 0.9289, 2.903,  1.253,     4.371,  -0.4159, -1.824, -4.3,   4.816,
                                 1.379,  1.119,  -4.894, 3.837,     -3.271, -2.105,  -4.391, -1.826, -1.113,
                                 3.727,  -1.895, -3.803, -0.009342, -4.81,  -1.345,  -4.833, 2.403,  -0.2774};
    char sets[1024];
    char *const end = write_values(sets, "t", t, 26);
    write_values(end + sprintf(end, " "), "h", h, 27);
    const double exact = fermi_sea(t, h, 27, 14);
    core_job j;
    core_open(&j, core_model("free_fermions", NULL), "chain:27", NULL, sets);
    for (int k = 0; k < 2; k++) {
        core_run r = core_auto(6.34e-8, core_charge(j.model, "N=14"), 1, KL_STRATEGY_AUTO);
        r.opts.seed = k == 0 ? 35 : 3;
        core_go(&j, &r);
        expect_near(r.res.energy[0], exact, r.res.error_estimate + 1e-10);
        expect_eq(r.res.stop, KL_STOP_CONVERGED);
        core_drop(&r);
    }
    core_close(&j);
    core_no_memory();
}

/* A ring of electrons in few states, which had lost what its joined ends lead to: 2e-6 too high at 2e-8. */
static void test_ring(void **state)
{
    (void)state;
    enum { N = 20 };
    const int up = 7, down = 12;
    static const double mu[N] = {1.36, -2.79, -3.77, 2.12, -1.94,  -0.435, 1.26,  -1.99, 5.24, 2.4,
                                 2.74, -3.97, 5.35,  5.42, -0.929, -3.98,  -5.38, -4.41, 4.46, 5.89};
    kl_err err = {""};
    double a[N * N] = {0}, w[N], exact = 0;
    char sets[512];
    if (KL_TEST_WATCHED) skip();
    for (int i = 0; i < N; i++) {
        a[i * (N + 1)] = -mu[i];
        a[i * N + (i + 1) % N] = a[(i + 1) % N * N + i] = -1;
    }
    expect_ok(kl_dense_eig(N, a, N, w, &err), err);
    for (int i = 0; i < up; i++) exact += w[i];
    for (int i = 0; i < down; i++) exact += w[i];
    write_values(sets + sprintf(sets, "U=0 "), "mu", mu, N);
    core_job j;
    core_open(&j, core_model("hubbard", NULL), "ring:20", NULL, sets);
    core_run r = core_auto(1e-8, core_charge(j.model, "N_up=7 N_dn=12"), 1, KL_STRATEGY_AUTO);
    r.opts.seed = 1;
    r.opts.m_max = 128;
    core_go(&j, &r);
    expect_near(r.res.energy[0], exact, r.res.error_estimate + 1e-10);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* Where it is worth a search: not where couplings repeat after a few sites, with a total spin or without
   charges. */
static void test_worth(void **state)
{
    (void)state;
    static const struct {
        const char *model, *variant, *lattice, *sets;
        int worth;
    } of[] = {
        {"free_fermions", NULL, "chain:16", "t=1", 0},
        {"free_fermions", NULL, "chain:8", "h=1,-1,1,-1,1,-1,1,-1", 0},
        {"free_fermions", NULL, "ladder:8x2", "t=1", 0},
        {"free_fermions", NULL, "chain:8", "h=1,-1,0.5,-0.2,1.2,-2,0.1,0.3", 1},
        {"free_fermions", NULL, "chain:8", "t=1,0.5,0.7,0.6,0.3,0.1,1.2", 1},
        {"hubbard", NULL, "cylinder:4x3", "U=4", 0},
        {"heisenberg", "S=1/2", "chain:8", "h=1,-1,0.5,-0.2,1.2,-2,0.1,0.3", 1},
        {"longrange", NULL, "chain:12", "", 0},
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        kl_err err = {""};
        int worth;
        core_job j;
        core_open(&j, core_model(of[k].model, of[k].variant), of[k].lattice, NULL, of[k].sets);
        expect_ok(kl_straycharges_worth(j.terms, &worth, &err), err);
        expect_eq(worth, of[k].worth);
        core_close(&j);
    }
    core_no_memory();
}

/* Every allocation fails in turn: there is a state, or none. */
static void test_no_memory(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("free_fermions", NULL), "chain:8", NULL, "h=-3,2,-1,3,1,-2,0,-4");
    const kl_engine_opts o = {.target = core_charge(j.model, "N=3"), .nstate = 1, .seed = 1};
    const int product[8] = {1, 0, 1, 0, 0, 1, 0, 0};
    double energy;
    kl_state *from = sweep_from(&j, &o, product, FEW, &energy);
    /* too high, so that some move is tried */
    const kl_valley_here here = {.state = from, .energy = energy, .bar = 1e-9, .kept = FEW};
    kl_status st = KL_ENOMEM;
    int64_t k = 1;
    for (; st != KL_OK; k += 1 + k / 4) {
        kl_valley out = {0};
        double flop = 0;
        int worth = 0;
        kl_test_case("allocation %lld", (long long)k);
        kl_dense_release();
        kl_mem_fail_after(k);
        st = kl_straycharges_worth(j.terms, &worth, &err);
        if (st == KL_OK) st = kl_straycharges_find(j.terms, j.ex, &o, NULL, &here, 1e10, &out, &flop, &err);
        kl_mem_fail_after(0);
        expect_true(st == KL_OK || (st == KL_ENOMEM && out.state == NULL));
        kl_state_destroy(&out.state);
    }
    expect_true(k > 300);
    kl_state_destroy(&from);
    kl_dense_release();
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worth), cmocka_unit_test(test_fermions), cmocka_unit_test(test_interacting),
        cmocka_unit_test(test_run),   cmocka_unit_test(test_ring),     cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
