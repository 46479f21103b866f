/* Error bars of hard ground states hold: all of bars.h, at three accuracies, with seeds 1 to 10.
   Use: test_bars_long [FROM [TO]]: pairs of a case and a number of sites a step, from FROM to TO alone,
   counted from 0, so that many cores can share them.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include "bars.h"

static int first = 0, last = KL_NSITES * NBARS - 1;

static void test_all_bars_hold(void **state)
{
    (void)state;
    for (int i = first; i <= last; i++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            const int k = i / KL_NSITES;
            const kl_sites sites = (kl_sites)(i % KL_NSITES);
            bars_check(&bars[k], sites, 1e-8, seed);
            if (seed <= 3) bars_check(&bars[k], sites, 1e-6, seed);
            if (seed <= 2 && bars[k].digits < 1e-10) bars_check(&bars[k], sites, 1e-10, seed);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1) first = last = atoi(argv[1]);
    if (argc > 2) last = atoi(argv[2]);
    assert_true(first >= 0 && first <= last && last < KL_NSITES * NBARS);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_bars_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
