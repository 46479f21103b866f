/* What of a problem waits on the host for a device of some size: rows by hand.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "run/beyond.h"

static void test_rows(void **state)
{
    static const struct {
        kl_timed what;
        double bytes, tables, least, room;
        kl_beyond wanted;
    } rows[] = {
        /* all fits, with an eighth for the pool's steps */
        {KL_TIMED_KRON, 800, 10, 300, 1000, KL_BEYOND_NOTHING},
        {KL_TIMED_SPMV, 800, 10, 300, 901, KL_BEYOND_NOTHING},
        /* a basis that the solver divides by itself */
        {KL_TIMED_KRON, 2000, 10, 300, 1000, KL_BEYOND_NOTHING},
        {KL_TIMED_SIGMA, 2000, 0, 300, 1000, KL_BEYOND_NOTHING},
        /* three vectors of Lanczos, and no room for them and the tables */
        {KL_TIMED_KRON, 310, 10, 300, 100, KL_BEYOND_VECTORS},
        {KL_TIMED_KRON, 1010, 700, 300, 1000, KL_BEYOND_VECTORS},
        {KL_TIMED_SIGMA, 2000, 0, 700, 1000, KL_BEYOND_VECTORS},
        /* the matrix alone is too much; vectors and a quarter for its rows fit, or do not */
        {KL_TIMED_SPMV, 9000, 0, 600, 1000, KL_BEYOND_MATRIX},
        {KL_TIMED_SPMV, 9000, 0, 700, 1000, KL_BEYOND_VECTORS},
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const kl_work w = {
            .what = rows[k].what, .bytes = rows[k].bytes, .tables = rows[k].tables, .least = rows[k].least};
        kl_test_case("row %d", (int)k);
        expect_true(kl_beyond_what(1, &w, rows[k].room) == rows[k].wanted);
    }
    /* of several parts the one that wants most */
    const kl_work both[2] = {{.what = KL_TIMED_KRON, .bytes = 10, .least = 10},
                             {.what = KL_TIMED_KRON, .bytes = 500, .least = 500}};
    expect_true(kl_beyond_what(2, both, 100) == KL_BEYOND_VECTORS);
    expect_true(kl_beyond_what(1, both, 100) == KL_BEYOND_NOTHING);
    expect_true(kl_beyond_what(0, NULL, 0) == KL_BEYOND_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
