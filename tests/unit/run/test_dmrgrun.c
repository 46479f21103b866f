/* When a run of DMRG is said to have converged: rows by hand; and which runs could have the total spin.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "run/dmrgrun.h"

#include "base/mem.h"
#include "cli/commandline.h"

static void test_mixed(void **state)
{
    static const struct {
        kl_dmrg_stop stop;
        double before, bar, unresolved;
        int energy, converged;
    } rows[] = {
        /* <S^2> is that of a spin: the bar stays */
        {KL_STOP_CONVERGED, 4e-9, 4e-9, 0, 1, 1},
        /* larger, and small enough */
        {KL_STOP_CONVERGED, 4e-9, 9e-9, 0, 1, 1},
        {KL_STOP_CONVERGED, 4e-9, 9e-9, 1e-9, 1, 0},
        /* larger than 1e-8, or no number */
        {KL_STOP_CONVERGED, 4e-9, 2e-8, 0, 0, 0},
        {KL_STOP_CONVERGED, 4e-9, INFINITY, 0, 0, 0},
        {KL_STOP_M_MAX, 4e-9, 2e-8, 0, 0, 0},
    };
    (void)state;
    const kl_dmrg_result untried = {.stop = KL_STOP_CONVERGED, .wait = KL_WAIT_SECTORS};
    expect_true(!kl_dmrgrun_energy_converged(&untried) && !kl_dmrgrun_converged(&untried));
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        kl_dmrg_result d = {
            .stop = rows[k].stop, .error_estimate = rows[k].bar, .unresolved = rows[k].unresolved};
        kl_dmrgrun_mixed(&d, rows[k].before, 1e-8);
        expect_true(kl_dmrgrun_energy_converged(&d) == rows[k].energy);
        expect_true(kl_dmrgrun_converged(&d) == rows[k].converged);
        expect_true((d.wait == KL_WAIT_SPIN) == (rows[k].stop == KL_STOP_CONVERGED && !rows[k].energy));
    }
}

static void test_said(void **state)
{
    (void)state;
    expect_true(strcmp(kl_said(-NAN).text, "not a number") == 0);
    expect_true(strcmp(kl_said(-INFINITY).text, "minus infinite") == 0);
    expect_true(strcmp(kl_said(INFINITY).text, "infinite") == 0);
    expect_true(strcmp(kl_said(-2.5e-7).text, "-2.5e-07") == 0);
}

/* The options that a run with the total spin would have, as the user would give them. */
static void test_spin_instead(void **state)
{
    static const struct {
        const char *words, *take; /* NULL: there is no such run */
    } row[] = {
        {"dmrg heisenberg --sites 8 --charge Sz=0", "--charge S=0"},
        {"dmrg heisenberg --sites 9 --charge Sz=-3/2", "--charge S=3/2"},
        {"dmrg hubbard --sites 6 -p U=4 --charge N_up=2 --charge N_dn=3", "--charge N=5 --charge S=1/2"},
        {"dmrg hubbard --sites 6 -p U=uniform(1,4) --charge N_up=2 --charge N_dn=2",
         "--charge N=4 --charge S=0"},
        {"dmrg kondo --sites 6 --charge N=6 --charge Sz=1", "--charge N=6 --charge S=1"},
        {"dmrg FCIDUMP --ms2 2", "--charge S=1"}, /* with the charges of irreps */
        {"dmrg heisenberg --sites 8 -p Delta=1.1 --charge Sz=0", NULL},
        {"dmrg heisenberg --sites 8 -p h=0.1 --charge Sz=0", NULL},
        {"dmrg heisenberg --sites 8 --charge S=0", NULL},
        {"dmrg heisenberg --sites 8 --charge Sz=0 --pin Sz@0=-0.5", NULL},
        {"dmrg heisenberg --sites 8 --charge Sz=0 --start neel", NULL},
        {"dmrg ising --sites 8 --charge parity=0", NULL},
        {"dmrg bose_hubbard --sites 6 --charge N=6", NULL},
    };
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char words[512], file[512], take[160], *word[16];
        int n = 0;
        kl_err err = {""};
        kl_options *o = NULL;
        kl_task *t = NULL;
        kl_test_case("%s", row[k].words);
        snprintf(words, sizeof words, "%s", row[k].words);
        for (char *w = strtok(words, " "); w != NULL; w = strtok(NULL, " ")) word[n++] = w;
        word[n] = NULL;
        if (strcmp(word[1], "FCIDUMP") == 0) {
            snprintf(file, sizeof file, "%s", kl_test_data("h10-chain-sto6g.fcidump"));
            word[1] = file;
        }
        expect_ok(kl_commandline_parse(n, word, &o, &err), err);
        expect_ok(kl_dmrgrun_prepare(o, NULL, &t, &err), err);
        expect_ok(kl_task_aim(t, t->target, &err), err);
        expect_eq(kl_task_spin_instead(t, take, sizeof take), row[k].take != NULL);
        if (row[k].take != NULL) assert_string_equal(take, row[k].take);
        kl_task_destroy(&t);
        kl_options_destroy(&o);
    }
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed), cmocka_unit_test(test_said),
                                       cmocka_unit_test(test_spin_instead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
