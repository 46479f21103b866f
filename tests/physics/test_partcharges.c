/* Charges of loosely joined parts: where a search puts the electrons of chains that fall into parts, against
   the levels of the chain.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "base/mem.h"
#include "core.h"
#include "dmrg/partcharges.h"
#include "dmrg/stringtrials.h"
#include "kl_test.h"
#include <math.h>
#include <stdlib.h>

enum { SITES = 16 };

typedef struct chain {
    int n;
    double t[SITES - 1], h[SITES];
} chain;

/* The lowest levels of each part, and what is joined weakly left out: electrons[part]. Returns whether two
   levels next to the last filled one lie too close for that. */
static int fill_parts(const chain *c, const int *of, int filled, int *electrons)
{
    kl_err err = {""};
    double a[SITES * SITES] = {0}, w[SITES], level[SITES];
    int part[SITES], n = 0, most = 0;
    for (int p = 0; p < c->n; p++) most = of[p] > most ? of[p] : most;
    for (int k = 0; k <= most; k++) {
        int at[SITES], m = 0;
        electrons[k] = 0;
        for (int p = 0; p < c->n; p++)
            if (of[p] == k) at[m++] = p;
        for (int i = 0; i < m * m; i++) a[i] = 0;
        for (int i = 0; i < m; i++) {
            a[i * (m + 1)] = c->h[at[i]];
            if (i + 1 < m && at[i + 1] == at[i] + 1) a[i * (m + 1) + 1] = -c->t[at[i]];
        }
        expect_ok(kl_dense_eig(m, a, m, w, &err), err);
        for (int i = 0; i < m; i++, n++) {
            int to = n;
            for (; to > 0 && level[to - 1] > w[i]; to--) level[to] = level[to - 1], part[to] = part[to - 1];
            level[to] = w[i];
            part[to] = k;
        }
    }
    for (int i = 0; i < filled; i++) electrons[part[i]]++;
    return filled > 0 && filled < n && level[filled] - level[filled - 1] < 1e-3;
}

/* Random chains, a third of whose couplings are weak or nothing. */
static void test_charges(void **state)
{
    (void)state;
    srand(3);
    for (int trial = 0; trial < (KL_TEST_WATCHED ? 4 : 24); trial++) {
        chain c = {.n = 8 + trial % 9};
        char lattice[16], charge[16], sets[1024] = "t=";
        for (int k = 0; k + 1 < c.n; k++) {
            const int kind = rand() % 6;
            c.t[k] = kind == 0 ? 0 : kind == 1 ? 1e-3 : 0.5 + rand() % 100 / 100.0;
            if (k == 0) c.t[k] = 1.5;
            snprintf(sets + strlen(sets), 28, "%s%g", k > 0 ? "," : "", c.t[k]);
        }
        for (int k = 0; k < c.n; k++) {
            c.h[k] = rand() % 1000 / 200.0 - 2.5;
            snprintf(sets + strlen(sets), 28, "%s%g", k > 0 ? "," : " h=", c.h[k]);
        }
        const int filled = 1 + rand() % (c.n - 1);
        snprintf(lattice, sizeof lattice, "chain:%d", c.n);
        snprintf(charge, sizeof charge, "N=%d", filled);
        core_job j;
        core_open(&j, core_model("free_fermions", NULL), lattice, NULL, sets);
        kl_test_case("chain %d, %s %s", trial, sets, charge);
        kl_err err = {""};
        int of[SITES], n, *product = NULL, want[SITES], have[SITES] = {0};
        double flop = 0;
        core_run r = core_auto(1e-9, core_charge(j.model, charge), 1, KL_STRATEGY_AUTO);
        const kl_engine_opts e = {.target = r.opts.target, .nstate = 1, .seed = 1};
        expect_ok(kl_stringtrials_parts(j.terms, of, &n, &err), err);
        expect_ok(kl_partcharges_find(j.terms, j.ex, &e, &r.opts, NULL, 1e9, &product, &flop, &err), err);
        expect_eq(product != NULL, n > 1);
        if (product && !fill_parts(&c, of, filled, want)) {
            for (int p = 0; p < c.n; p++) have[of[p]] += j.terms->type[p]->state_charge[product[p]][0];
            for (int k = 0; k < n; k++) expect_eq(have[k], want[k]);
        }
        kl_free(&product);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

/* No charges, no exchanges; and a total spin has no products. */
static void test_none(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    int *product = NULL;
    double flop = 0;
    core_open(&j, core_model("free_fermions", NULL), "chain:6", NULL, "t=1,1,1,1,1");
    core_run r = core_auto(1e-9, core_charge(j.model, "N=3"), 1, KL_STRATEGY_AUTO);
    const kl_engine_opts e = {.target = r.opts.target, .nstate = 1, .seed = 1};
    expect_ok(kl_partcharges_find(j.terms, j.ex, &e, &r.opts, NULL, 1e9, &product, &flop, &err), err);
    expect_true(product == NULL && flop == 0);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

/* Every allocation fails in turn: what is found is all there, or nothing is. */
static void test_no_memory(void **state)
{
    (void)state;
    kl_err err = {""};
    core_job j;
    core_open(&j, core_model("free_fermions", NULL), "chain:6", NULL, "t=1,1,0,1,1 h=0,1,0,-1,0,0.5");
    core_run r = core_auto(1e-9, core_charge(j.model, "N=2"), 1, KL_STRATEGY_AUTO);
    const kl_engine_opts e = {.target = r.opts.target, .nstate = 1, .seed = 1};
    kl_status st = KL_ENOMEM;
    int64_t k = 1;
    for (; st != KL_OK; k += 1 + k / 6) {
        int *product = NULL, loose = 0;
        double flop = 0;
        kl_test_case("allocation %lld", (long long)k);
        kl_dense_release();
        kl_mem_fail_after(k);
        st = kl_stringtrials_loose(j.terms, &loose, &err);
        if (st == KL_OK)
            st = kl_partcharges_find(j.terms, j.ex, &e, &r.opts, NULL, 1e9, &product, &flop, &err);
        kl_mem_fail_after(0);
        expect_true(st == KL_OK || (st == KL_ENOMEM && product == NULL));
        expect_true(st != KL_OK || (loose && product != NULL));
        kl_free(&product);
    }
    expect_true(k > 300);
    kl_dense_release();
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_charges),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
