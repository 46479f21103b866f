/* Error bars of hard ground states hold: all of bars.h, at three accuracies, with seeds 1 to 10.
   SPDX-License-Identifier: Apache-2.0 */
#include "bars.h"

static void test_all_bars_hold(void **state)
{
    (void)state;
    for (int i = 0; i < KL_NSITES * NBARS; i++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            const int k = i / KL_NSITES;
            const kl_sites sites = (kl_sites)(i % KL_NSITES);
            bars_check(&bars[k], sites, 1e-8, seed);
            if (seed <= 3) bars_check(&bars[k], sites, 1e-6, seed);
            if (seed <= 2 && bars[k].digits < 1e-10) bars_check(&bars[k], sites, 1e-10, seed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_bars_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
