/* When a run of DMRG is said to have converged: rows by hand.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "run/dmrgrun.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed), cmocka_unit_test(test_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
