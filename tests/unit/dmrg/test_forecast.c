/* What an automatic run has before it, from sweeps written by hand and from those of a real run.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/forecast.h"
#include "kl_test.h"

/* Energies that fall by half of what they fell by, each sweep twice as wide and eight times as long. */
static void test_geometric(void **state)
{
    kl_dmrg_row row[4] = {{.noise = 1e-4, .m_reached = 50, .energy = {10}}};
    kl_forecast f;
    (void)state;
    for (int k = 1; k < 4; k++) {
        row[k].m_reached = 100 << (k - 1);
        row[k].energy[0] = 4 * pow(0.5, k);
        row[k].seconds = pow(8, k);
    }
    expect_eq(kl_forecast_make(row, 3, 0.1, &f), 0); /* two sweeps without noise */
    expect_eq(kl_forecast_make(row, 4, 0.25, &f), 1);
    /* 0.5 is left, doubled: four times too much */
    expect_eq(f.sweeps, 2);
    expect_near(f.m, 1600, 1e-9);
    expect_near(f.seconds, 512 * (8 + 64.0), 1e-6);
    expect_eq(kl_forecast_make(row, 4, 2, &f), 1);
    expect_eq(f.sweeps, 1);
    expect_eq(kl_forecast_make(row, 4, 1e-15, &f), 0); /* beyond what anybody waits for */
    row[3].energy[0] = row[2].energy[0];
    expect_eq(kl_forecast_make(row, 4, 0.1, &f), 0);
}

/* A 4x4 Hubbard cylinder, U = 8, half filling, to 1e-3: it ended with 1648 states, 61 s after the eighth
   sweep (two busy cores, 2026-11-25). */
static void test_seen(void **state)
{
    static const struct {
        int m;
        double energy, seconds;
    } seen[] = {{96, -7.39552763861057, 0.28},  {152, -7.53262472145857, 1.20},
                {248, -7.61040510041637, 2.99}, {400, -7.64270373853985, 5.24},
                {640, -7.65611310897732, 12.1}, {1024, -7.66003811135242, 19.97}};
    enum { N = sizeof seen / sizeof *seen };
    kl_dmrg_row row[N] = {{.m = 0}};
    kl_forecast f;
    (void)state;
    for (int k = 0; k < N; k++)
        row[k] =
            (kl_dmrg_row){.m_reached = seen[k].m, .energy = {seen[k].energy}, .seconds = seen[k].seconds};
    for (int k = 4; k <= N; k++) { /* 3, 2, 1 sweeps were left */
        expect_eq(kl_forecast_make(row, k, 1e-3 * 7.66, &f), 1);
        expect_true(abs(f.sweeps - (7 - k)) <= 1);
        expect_true(f.m > 1000 && f.m < 2600);
    }
    expect_near(f.seconds, 29.55, 12);
}

/* Two sites, no noise but in the first row: the last m came alone, and no line before is as steep. */
static void test_lone(void **state)
{
    kl_dmrg_row row[4] = {{.noise = 1e-4, .m = 50, .energy = {10}, .discarded = 1e-2}};
    (void)state;
    for (int k = 1; k < 4; k++)
        row[k] = (kl_dmrg_row){.m = 50 << k, .energy = {1 + pow(0.5, k)}, .discarded = 1e-3 * pow(0.5, k)};
    expect_eq(kl_forecast_lone(row, 1), 0);
    expect_eq(kl_forecast_lone(row, 3), 1); /* one line */
    expect_eq(kl_forecast_lone(row, 4), 0); /* two alike */
    row[3].discarded = 2.2e-4;
    expect_eq(kl_forecast_lone(row, 4), 1);
    row[3].discarded = row[2].discarded;
    expect_eq(kl_forecast_lone(row, 4), 1);
    row[2].m = row[3].m;
    expect_eq(kl_forecast_lone(row, 4), 0); /* a second one at its m */
    row[2].m = 200;
    row[3].sites = 1;
    expect_eq(kl_forecast_lone(row, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_geometric), cmocka_unit_test(test_seen),
                                       cmocka_unit_test(test_lone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
