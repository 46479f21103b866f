/* When a launch ends, in whole rounds and by bounds, against a plain simulation of every tile: equal to the
   last bit, wherever it is told at all.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tilespan.h"
#include "kl_test.h"
#include <math.h>
#include <stdlib.h>

enum {
    MOST_BLOCKS = 300,
    MOST_KINDS = 60,
};

static double part(uint64_t *seed) { return (kl_test_uniform(seed) + 1) / 2; } /* of 1 */

static int costliest_first(const void *pa, const void *pb)
{
    const double a = ((const kl_tile_load *)pa)->cost, b = ((const kl_tile_load *)pb)->cost;
    return a == b ? 0 : a > b ? -1 : 1;
}

/* Each tile by the block that gets free first, which is looked for among all. */
static double plain_span(const kl_tile_load *l, int64_t n, int nblock)
{
    double until[MOST_BLOCKS] = {0}, last = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < l[i].n; k++) {
            int first = 0;
            for (int b = 1; b < nblock; b++)
                if (until[b] < until[first]) first = b;
            until[first] += l[i].cost;
            last = fmax(last, until[first]);
        }
    return last;
}

static void check(const kl_tile_load *l, int64_t n, int nblock)
{
    static const double share[] = {0.5, 0.9, 0.99, 1, 1.01, 2};
    const double span = plain_span(l, n, nblock);
    expect_true(kl_tile_span(l, n, nblock, INFINITY) == span);
    for (size_t k = 0; k < sizeof share / sizeof *share; k++) {
        const double limit = share[k] * span, told = kl_tile_span(l, n, nblock, limit);
        if (span < limit) expect_true(told == span);
        else expect_true(told >= limit && told <= span);
    }
}

static void test_random(void **state)
{
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < kl_test_rounds(400); round++) {
        kl_tile_load l[MOST_KINDS];
        const int nblock = 1 + (int)(part(&seed) * (MOST_BLOCKS - 1)),
                  n = 1 + (int)(part(&seed) * (MOST_KINDS - 1)),
                  many = round % 4 == 0 ? 5 * nblock : 1 + round % 30;
        const double spread = round % 3 == 0 ? 0.02 : 5; /* of costs that are alike, or not */
        kl_test_case("round %d blocks %d kinds %d", round, nblock, n);
        for (int i = 0; i < n; i++) {
            l[i].cost = 1000.1 * (1 + spread * part(&seed));
            if (round % 5 == 0) l[i].cost = floor(l[i].cost / 500) * 500;
            l[i].n = 1 + (int64_t)(part(&seed) * many);
        }
        qsort(l, (size_t)n, sizeof *l, costliest_first);
        check(l, n, nblock);
    }
}

static void test_few(void **state)
{
    const kl_tile_load two[] = {{3, 2}, {2, 3}};
    (void)state;
    expect_near(kl_tile_span(NULL, 0, 4, INFINITY), 0, 0);
    expect_near(kl_tile_span(two, 1, 4, INFINITY), 3, 0);
    expect_near(kl_tile_span(two, 2, 1, INFINITY), 12, 0);
    expect_near(kl_tile_span(two, 2, 2, INFINITY), 7, 0); /* 3 2 2 and 3 2 */
    expect_near(kl_tile_span(two, 2, 5, INFINITY), 3, 0);
    check(two, 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
