/* How long a sweep on the host would take: rows by hand.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/plantime.h"
#include "kl_test.h"

static void test_rows(void **state)
{
    static const int width[] = {100, 10};
    kl_plan_middle mid = {.nsector = 2,
                          .nstate = 2,
                          .nproduct = 5,
                          .flop = 1e9,
                          .growth_flop = 4e8,
                          .dim = 1000000,
                          .nstep = 10,
                          .nlike = 7};
    const kl_plan_host host = {.rate = 1e11, .eigen = 1e-9, .pass = 1e-9, .flop = 3e9, .width = width};
    double seconds[KL_NPLAN] = {0};
    (void)state;
    /* a product with H: 0.01 s, and eight passes over two vectors: 0.016; a step: 0.0002 */
    kl_plan_host_of(&mid, &host, 1, seconds);
    expect_near(seconds[KL_PLAN_PRODUCTS], 7 * 5 * 0.026 + 10 * 2e-4, 1e-12);
    /* cubes: 1001000; products: 3 */
    expect_near(seconds[KL_PLAN_TRUNCATION], 7 * (1.001e-3 + 0.03), 1e-12);
    expect_near(seconds[KL_PLAN_GROWTH], 7 * 0.004, 1e-12);
    /* a fifth of it is one thread's */
    kl_plan_host_of(&mid, &host, 4, seconds);
    expect_near(seconds[KL_PLAN_PRODUCTS], 0.4 * 7 * 5 * 0.026 + 10 * 2e-4, 1e-12);
    expect_near(seconds[KL_PLAN_TRUNCATION], 0.4 * 7 * (1.001e-3 + 0.03), 1e-12);
    /* with one site at a time expanding bases is five times growth */
    mid.narrow = 1;
    kl_plan_host_of(&mid, &host, 4, seconds);
    expect_near(seconds[KL_PLAN_GROWTH], 0.4 * 7 * 6 * 0.004, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
