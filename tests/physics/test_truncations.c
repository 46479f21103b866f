/* Every truncation of whole runs as users start them, two sites and one, against the best possible of the
   same wavefunctions for as many states: what is left out, and what is said to be.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "tally.h"

static const struct {
    const char *model, *variant, *lattice, *sets, *charge;
    double accuracy;
    int nstate;
    kl_sites sites;
} runs[] = {
    {"heisenberg", NULL, "chain:40", NULL, "Sz=0", 1e-9, 1, KL_SITES_AUTO},
    {"heisenberg", NULL, "chain:24", NULL, "Sz=0", 1e-8, 1, KL_SITES_TWO},
    {"heisenberg", "S=1", "chain:16", NULL, "Sz=1", 1e-7, 2, KL_SITES_AUTO},
    {"heisenberg", NULL, "cylinder:4x4", NULL, "Sz=0", 1e-6, 1, KL_SITES_AUTO},
    {"hubbard", NULL, "chain:12", "U=4", "N_up=6 N_dn=5", 1e-9, 1, KL_SITES_TWO},
    {"hubbard", NULL, "chain:16", "U=8", "N_up=8 N_dn=8", 1e-9, 1, KL_SITES_AUTO},
    {"hubbard", NULL, "cylinder:4x3", "U=8", "N_up=6 N_dn=6", 1e-5, 1, KL_SITES_AUTO},
    {"free_spins", NULL, "chain:14", "hx=0.7", NULL, 1e-9, 1, KL_SITES_AUTO},
};

static void test_runs(void **state)
{
    kl_err err = {""};
    int tried = 0;
    (void)state;
    /* of those that are watched one by two sites, one of two flavours and one without charges */
    for (size_t c = KL_TEST_WATCHED; c < sizeof runs / sizeof *runs; c += KL_TEST_WATCHED ? 3 : 1)
        for (kl_truncation way = KL_TRUNCATION_AUTO; way < KL_NTRUNCATION; way++) {
            tally sum = {0};
            core_job j;
            core_open(&j, core_model(runs[c].model, runs[c].variant), runs[c].lattice, NULL, runs[c].sets);
            const kl_qn target = core_charge(j.model, runs[c].charge);
            core_run r = core_auto(runs[c].accuracy, target, runs[c].nstate, KL_STRATEGY_AUTO);
            const kl_trunc_watch watch = {&sum, tally_look};
            const kl_dmrg_monitor monitor = {.truncations = &watch};
            r.opts.truncation = way;
            r.opts.sites = runs[c].sites;
            kl_test_case("%s %s, %s", runs[c].model, runs[c].lattice, kl_truncation_name[way]);
            expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, &monitor, &r.state, &r.res, &err), err);
            print_message("%s: %d truncations, %d by products, %.6f of the best, %.6f at most\n",
                          kl_test_text, sum.nlooked, sum.ntried, sum.found / sum.best, sum.worst);
            expect_true(sum.nlooked > 0);
            tried += sum.ntried;
            core_drop(&r);
            core_close(&j);
        }
    expect_true(tried > (KL_TEST_WATCHED ? 10 : 100));
    core_no_memory();
}

/* Sectors that lose few columns, in sweeps to a fixed m: weights of all states are known where they are asked
   for, and both ways leave out as little. */
static void test_least(void **state)
{
    static const struct {
        const char *model, *lattice, *sets, *charge;
        int m;
    } cases[] = {{"heisenberg", "cylinder:8x4", NULL, "Sz=0", 300},
                 {"hubbard", "cylinder:5x4", "U=6", "N_up=10 N_dn=9", 700}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c += KL_TEST_WATCHED ? 2 : 1) {
        const int m = cases[c].m;
        tally sum = {.narrow = 1};
        kl_err err = {""};
        core_job j;
        core_open(&j, core_model(cases[c].model, NULL), cases[c].lattice, NULL, cases[c].sets);
        core_run r = core_auto(1e-6, core_charge(j.model, cases[c].charge), 1, KL_STRATEGY_AUTO);
        const kl_trunc_watch watch = {&sum, tally_look};
        const kl_dmrg_monitor monitor = {.truncations = &watch};
        r.opts.truncation = KL_TRUNCATION_PRODUCTS;
        r.opts.nsweep = 4;
        r.opts.sweep = malloc(sizeof *r.opts.sweep * 4);
        for (int k = 0; k < 4; k++)
            r.opts.sweep[k] = (kl_dmrg_sweep){.m = k < 2 ? m / (4 - 2 * k) : m, .tol = 1e-5};
        r.opts.sweep[0].noise = 1e-4;
        r.opts.max_apply = 3;
        r.opts.sites = KL_SITES_ONE;
        kl_test_case("%s %s", cases[c].model, cases[c].lattice);
        expect_ok(kl_dmrg_run(j.terms, j.ex, &r.opts, &monitor, &r.state, &r.res, &err), err);
        print_message("%s: %d truncations, %d sectors by what goes, %.6f of the best, %.6f at most\n",
                      kl_test_text, sum.nlooked, sum.nleast, sum.found / sum.best, sum.worst);
        expect_true(sum.nleast > 20);
        for (int cut = 1; cut < j.terms->nsite; cut++) expect_true(r.res.entropy[cut - 1] >= 0);
        core_drop(&r);
        core_close(&j);
    }
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_least)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
