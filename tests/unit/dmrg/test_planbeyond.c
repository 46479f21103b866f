/* What a device with less memory than a sweep wants costs: rows by hand, and runs that were measured.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/planbeyond.h"
#include "kl_test.h"

enum {
    N = 5,
    MIDDLE = 2,
};

/* Five bonds: 1, 10 and 100 bytes of operators, and a tenth of the work at each step from the middle. */
static void five(kl_plan_bond bond[N])
{
    static const double size[N] = {1, 10, 100, 10, 1};
    for (int i = 0; i < N; i++)
        bond[i] = (kl_plan_bond){.work = size[i] / 100,
                                 .operator_bytes = size[i],
                                 .least_bytes = 3 * size[i],
                                 .vector_bytes = 20 * size[i],
                                 .kept_bytes = 1000,
                                 .block_bytes = 200};
}

static void test_rows(void **state)
{
    kl_plan_bond bond[N];
    (void)state;
    five(bond);
    kl_plan_rates r = {.room = 4000, .up = 10, .down = 5, .seconds = 2, .moved_bytes = 100, .nproduct = 3};
    /* 9/8 of 1000 and 2000 of vectors fit */
    kl_plan_beyond e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_eq(e.nstreamed, 0);
    expect_near(e.carried_bytes, 0, 0);
    expect_near(e.seconds, 0, 0);
    expect_near(e.apply_seconds, 2, 0);
    /* at the middle they do not: its block goes out and comes back in each half of a sweep */
    r.room = 1500;
    e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_eq(e.nstreamed, 0);
    expect_near(e.carried_bytes, 400, 1e-9);
    expect_near(e.seconds, 400 * (1 / 10.0 + 1 / 5.0), 1e-9);
    /* no more than what is too much: 1125 + 2000 of 3100 */
    r.room = 3100;
    expect_near(kl_plan_beyond_of(N, bond, MIDDLE, &r).carried_bytes, 50, 1e-9);
    /* operators and the least of vectors, 412.5, at the middle alone: 10 s of copies, 2 s of products */
    r.room = 412;
    for (int i = 0; i < N; i++) bond[i].kept_bytes = 0, bond[i].vector_bytes = 0;
    e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_eq(e.nstreamed, 1);
    expect_near(e.apply_seconds, 10, 1e-9);
    expect_near(e.seconds, 2 * 3 * 8, 1e-9);
    r.room = 413;
    expect_eq(kl_plan_beyond_of(N, bond, MIDDLE, &r).nstreamed, 0);
    /* three bonds: copies of the outer two take a tenth, and so do their products */
    r.room = 40;
    e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_eq(e.nstreamed, 3);
    expect_near(e.seconds, 2 * 3 * (8 + 0.8 + 0.8), 1e-9);
    /* products that take longer hide them, so do lists of two chunks, which stay */
    r.seconds = 11;
    e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_near(e.seconds, 0, 0);
    expect_near(e.apply_seconds, 11, 0);
    r.seconds = 2, r.moved_bytes = 0;
    expect_near(kl_plan_beyond_of(N, bond, MIDDLE, &r).seconds, 0, 0);
    /* what waits at a time, 100 of operators, is made ready once: 1.36 times as much */
    r.lock = 17, r.moved_bytes = 0;
    e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_near(e.locked_bytes, 136, 1e-9);
    expect_near(e.lock_seconds, 8, 1e-9);
    expect_near(e.seconds, 8, 1e-9);
    /* and what is kept beside it: 9/8 of 200, of which 40 are there */
    for (int i = 0; i < N; i++) bond[i].kept_bytes = 200, bond[i].block_bytes = 0;
    e = kl_plan_beyond_of(N, bond, MIDDLE, &r);
    expect_near(e.locked_bytes, 1.36 * (100 + 185), 1e-9);
    r.lock = 0;
    expect_near(kl_plan_beyond_of(N, bond, MIDDLE, &r).lock_seconds, 0, 0);
    /* a bus that was not measured says nothing */
    r.moved_bytes = 100, r.up = 0;
    expect_eq(kl_plan_beyond_of(N, bond, MIDDLE, &r).nstreamed, 0);
}

/* H x of iteration 14 of the Heisenberg run of nemes2014, m = 4096, on an H200: 341 Gflop at 54.4 TFLOP/s,
   and at 30.8 with the operators on the host, of which 0.61 GB cross the bus; iteration 12, whose two chunks
   stay, 51.6 and 48.9 (docs/performance/nemes.csv). The rate of that card's bus is that of PCIe 5, 55 GB/s;
   what other cards were measured at is 45. */
static void test_measured(void **state)
{
    (void)state;
    static const double bus[] = {55e9, 45e9};
    for (size_t k = 0; k < sizeof bus / sizeof *bus; k++) {
        const kl_plan_bond bond = {.work = 1, .operator_bytes = 0.61e9, .least_bytes = 0.5e9};
        kl_plan_rates r = {.room = 1e9,
                           .up = bus[k],
                           .down = bus[k],
                           .seconds = 341e9 / 54.4e12,
                           .moved_bytes = 0.61e9,
                           .nproduct = 42};
        kl_test_case("%.0f GB/s", bus[k] / 1e9);
        kl_plan_beyond e = kl_plan_beyond_of(1, &bond, 0, &r);
        const double slower = e.apply_seconds / r.seconds;
        expect_eq(e.nstreamed, 1);
        expect_near(slower / (54.4 / 30.8), 1, k == 0 ? 0.02 : 0.3);
        r.moved_bytes = 0;
        e = kl_plan_beyond_of(1, &bond, 0, &r);
        expect_near(e.apply_seconds / r.seconds / (51.6 / 48.9), 1, 0.1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
