/* Who does what of work that ranks divide, by hand.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/share.h"
#include "kl_test.h"

enum { MOST = 8 };

static const double even[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};

static void test_ranges_of_equal_work(void **state)
{
    (void)state;
    const double cost[] = {1, 1, 4, 2, 2, 1, 1};
    int64_t first[MOST];
    kl_share_cut(7, cost, 2, even, first);
    expect_eq(first[1], 3);
    expect_eq(first[2], 7);
    kl_share_cut(7, cost, 1, even, first);
    expect_eq(first[1], 7);
    kl_share_cut(7, cost, 3, even, first); /* 1 1 4 | 2 2 1 1, or 1 1 | 4 | 2 2 1 1: no more than 6 */
    for (int r = 0; r < 3; r++) {
        double sum = 0;
        for (int64_t i = first[r]; i < first[r + 1]; i++) sum += cost[i];
        expect_true(sum <= 6);
    }
}

static void test_more_ranks_than_work(void **state)
{
    (void)state;
    const double cost[] = {5, 3};
    int64_t first[MOST];
    int given = 0;
    kl_share_cut(2, cost, 4, even, first);
    for (int r = 0; r < 4; r++) {
        expect_true(first[r + 1] - first[r] <= 1);
        given += first[r + 1] > first[r];
    }
    expect_eq(given, 2);
    kl_share_cut(0, cost, 3, even, first);
    for (int r = 0; r <= 3; r++) expect_eq(first[r], 0);
}

static void test_a_rank_of_three_threads_gets_three_times_the_work(void **state)
{
    (void)state;
    const double cost[] = {1, 1, 1, 1, 1, 1, 1, 1}, speed[] = {3, 1};
    int64_t first[MOST];
    int owner[8], n = 0;
    kl_err err;
    kl_share_cut(8, cost, 2, speed, first);
    expect_eq(first[1], 6);
    expect_ok(kl_share_tasks(8, cost, 2, speed, owner, &err), err);
    for (int i = 0; i < 8; i++) n += owner[i] == 0;
    expect_eq(n, 6);
}

/* 7 | 5 2, for the two that begin with the largest */
static void test_costly_tasks_go_first(void **state)
{
    (void)state;
    const double cost[] = {2, 5, 7};
    int owner[3];
    kl_err err;
    expect_ok(kl_share_tasks(3, cost, 2, even, owner, &err), err);
    expect_eq(owner[2], 0);
    expect_eq(owner[1], 1);
    expect_eq(owner[0], 1);
}

static void test_small_lists_are_not_worth_a_message(void **state)
{
    (void)state;
    kl_comm two = {.size = 2};
    kl_ranks ranks = {.comm = &two};
    kl_exec host = {.space = KL_SPACE_HOST, .ranks = &ranks},
            device = {.space = KL_SPACE_DEVICE, .ranks = &ranks};
    expect_true(!kl_share_worth(&host, 1e4, 10));
    expect_true(!kl_share_worth(&host, 1e7, 1000000)); /* as many numbers to send as there is to do */
    expect_true(kl_share_worth(&host, 1e8, 10000));
    expect_true(!kl_share_worth(&device, 1e8, 10000)); /* which is done with it before a message comes */
    expect_true(!kl_share_worth(&device, 1e10, 1000000));
    ranks.linked = 1;
    expect_true(kl_share_worth(&device, 1e10, 1000000));
    two.size = 1;
    expect_true(!kl_share_worth(&host, 1e12, 10000));
}

/* What the twins of an executor learn stays theirs; what the executor itself is told meanwhile they get. */
static void test_twins_keep_what_they_have_learned(void **state)
{
    (void)state;
    kl_exec alone = {.space = KL_SPACE_HOST}, solver = alone;
    kl_ranks ranks = {.alone = &alone, .solver = &solver}, spread = {.spread = 1};
    kl_exec ex = {.space = KL_SPACE_HOST, .ranks = &ranks, .nthread = 3};
    solver.ranks = &spread;
    expect_true(kl_share_alone(&ex) == &alone && alone.ranks == NULL && alone.nthread == 3);
    alone.eigen.factored = 1e9;
    alone.eigen.saved = 0.5;
    ex.nthread = 2;
    (void)kl_share_alone(&ex);
    expect_true(alone.eigen.factored == 1e9 && alone.eigen.saved == 0.5 && alone.nthread == 2);
    expect_true(kl_share_solver(&ex) == &solver && solver.ranks == &spread && solver.eigen.factored == 0);
    ex.ranks = NULL;
    expect_true(kl_share_alone(&ex) == &ex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_of_equal_work),
        cmocka_unit_test(test_more_ranks_than_work),
        cmocka_unit_test(test_a_rank_of_three_threads_gets_three_times_the_work),
        cmocka_unit_test(test_costly_tasks_go_first),
        cmocka_unit_test(test_small_lists_are_not_worth_a_message),
        cmocka_unit_test(test_twins_keep_what_they_have_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
