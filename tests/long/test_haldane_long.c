/* The spin-1 chain of 100 sites, whose two lowest states are all but degenerate.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"

/* Spin 1, N = 100: the triplet lies 4.6e-8 above the singlet, and one root alone stops between the two. */
static void test_haldane(void **state)
{
    core_job j;
    (void)state;
    core_open(&j, core_model("heisenberg", "S=1"), "chain:100", NULL, NULL);
    core_run r = core_auto(1e-11, kl_qn_zero(), 2, KL_STRATEGY_AUTO);
    core_go(&j, &r);
    expect_near(r.res.energy[0], -138.940086166525, 3e-9);
    expect_near(r.res.energy[1] - r.res.energy[0], 4.6e-8, 3e-9);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_haldane)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
