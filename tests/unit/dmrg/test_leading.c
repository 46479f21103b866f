/* Which sectors a truncation does by products, and with how many columns.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/leading.h"
#include "kl_test.h"

static const kl_sector_case usual = {.rows = 400, .wide = 300, .known = 80, .growth = 1.5};

static kl_sector_way choose(kl_sector_case c) { return kl_sector_choose(&c); }

static void test_tried(void **state)
{
    (void)state;
    kl_sector_case c = usual;
    kl_sector_way w = choose(c);
    expect_eq(w.products, 1);
    expect_eq(w.mode, KL_RANGE_TRIED);
    expect_eq(w.width, 144); /* 80 * 1.5, 15 % more, in steps of 8 */
    c.growth = 3;
    expect_eq(choose(c).width, 184); /* no more than twice as many are expected */
    c.growth = 0.5;
    expect_eq(choose(c).width, 96); /* nor fewer than there were */
    c.growth = 1;
    expect_eq(choose(c).width, 96);
    c.known = 3;
    expect_eq(choose(c).width, 16); /* twelve more at least */
    c.known = 0;
    expect_eq(choose(c).width, 16);
    c.least = 100;
    expect_eq(choose(c).width, 104);
}

/* States may be rounded up to whole tiles: columns for these have to be there. */
static void test_tiles(void **state)
{
    (void)state;
    for (int known = 0; known < 150; known += 7) {
        kl_sector_case c = usual;
        c.known = known;
        c.full = 1;
        c.growth = 1.1;
        const kl_sector_way w = choose(c);
        expect_true(w.width >= ceil(1.1 * known) + (known > 103 ? 32 : known > 44 ? 16 : known > 22 ? 8 : 2));
    }
}

static void test_whole(void **state)
{
    (void)state;
    kl_sector_case c = usual;
    c.known = 160; /* 272 of 300: a full decomposition is as good */
    expect_eq(choose(c).products, 0);
    c.wide = 200;
    expect_eq(choose(c).products, 1);
    expect_eq(choose(c).mode, KL_RANGE_COLUMNS);
    expect_eq(choose(c).width, 200);
    c.there = 1; /* small matrices stay where they are */
    expect_eq(choose(c).mode, KL_RANGE_DUAL);
    expect_eq(choose(c).width, 200);
    c.wide = 300;
    c.precise = 1;
    expect_eq(choose(c).mode, KL_RANGE_COLUMNS);
    c.wide = 500;
    c.known = 200;
    expect_eq(choose(c).mode, KL_RANGE_ROWS);
    expect_eq(choose(c).width, 400);
}

static void test_exact(void **state)
{
    (void)state;
    kl_sector_case c = usual;
    c.way = KL_TRUNCATION_EXACT;
    expect_eq(choose(c).products, 0);
    c = usual;
    c.known = -1;
    expect_eq(choose(c).products, 0); /* nothing to begin with */
    c = usual;
    c.wide = 0;
    expect_eq(choose(c).products, 0);
    c = (kl_sector_case){.rows = 47, .wide = 47, .known = 5, .growth = 1};
    expect_eq(choose(c).products, 0); /* small */
    c.rows = 48;
    expect_eq(choose(c).products, 1);
    c.rows = 20;
    c.wide = 40;
    c.known = 0;
    c.way = KL_TRUNCATION_PRODUCTS;
    expect_eq(choose(c).products, 1);
}

static void test_narrow(void **state)
{
    int next;
    (void)state;
    expect_eq(kl_sector_narrow(64, 62, 0, &next), 0);
    expect_eq(kl_sector_narrow(64, 63, 0, &next), 1);
    expect_eq(next, 104);
    expect_eq(kl_sector_narrow(8, 8, 0, &next), 1);
    expect_eq(next, 20);
    expect_eq(kl_sector_narrow(64, 58, 1, &next), 0);
    expect_eq(kl_sector_narrow(64, 59, 1, &next), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tried), cmocka_unit_test(test_tiles),
                                       cmocka_unit_test(test_whole), cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_narrow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
