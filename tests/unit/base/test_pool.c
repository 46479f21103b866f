/* Memory of devices that waits: blocks come back to the next who wants as much, the largest go to the device
   first where too much waits, all of them where it has none left, and what may be taken has an end.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"
#include "kl_test.h"

#define GIB ((int64_t)1 << 30)

/* A device of so many bytes, whose blocks are addresses alone. */
typedef struct device {
    int64_t has, taken;
    uintptr_t next;
    int64_t size[64]; /* by address */
    int ngive;
    int64_t given; /* the last that came back */
} device;

static void *get(void *ctx, int64_t bytes)
{
    device *const d = ctx;
    if (d->taken + bytes > d->has) return NULL;
    d->taken += bytes;
    d->size[++d->next] = bytes;
    return (void *)d->next;
}

static void give(void *ctx, void *block)
{
    device *const d = ctx;
    d->given = d->size[(uintptr_t)block];
    d->taken -= d->given;
    d->ngive++;
}

static const int64_t no_limit = 0;

static void test_waiting(void **state)
{
    device d = {.has = 80 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit};
    (void)state;
    void *const a = kl_pool_take(&p, GIB), *const b = kl_pool_take(&p, 2 * GIB),
                *const c = kl_pool_take(&p, 600);
    expect_true(a && b && c && a != b);
    kl_pool_give(&p, a, GIB);
    kl_pool_give(&p, b, 2 * GIB);
    kl_pool_give(&p, c, 600);
    expect_eq(d.ngive, 0);
    expect_true(kl_pool_take(&p, GIB) == a); /* as much is wanted again */
    expect_true(kl_pool_take(&p, 2 * GIB - 5) == b);
    expect_eq(d.next, 3);
    kl_pool_give(&p, a, GIB);
    kl_pool_give(&p, b, 2 * GIB - 5);
    /* nothing is in use: 4 GiB may wait */
    void *const big = kl_pool_take(&p, 7 * GIB / 2);
    kl_pool_give(&p, big, 7 * GIB / 2);
    expect_eq(d.ngive, 2); /* those of 2 and 1 GiB make room, which the small one need not */
    expect_eq(d.given, GIB);
    expect_true(kl_pool_take(&p, 600) == c);
    kl_pool_give(&p, c, 600);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

/* Twice what is in use may wait besides. */
static void test_share(void **state)
{
    device d = {.has = 80 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit};
    (void)state;
    void *const used = kl_pool_take(&p, 4 * GIB);
    void *block[8];
    for (int i = 0; i < 8; i++) block[i] = kl_pool_take(&p, 2 * GIB);
    for (int i = 0; i < 8; i++) kl_pool_give(&p, block[i], 2 * GIB);
    expect_eq(d.ngive, 2); /* 12 of 16 GiB wait */
    expect_eq(d.taken, 16 * GIB);
    kl_pool_give(&p, used, 4 * GIB);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

/* What waits serves whoever wants another size, where the device has nothing else. */
static void test_full(void **state)
{
    device d = {.has = 5 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit};
    (void)state;
    void *const a = kl_pool_take(&p, 3 * GIB);
    kl_pool_give(&p, a, 3 * GIB);
    void *const b = kl_pool_take(&p, 4 * GIB);
    expect_true(b != NULL);
    expect_eq(d.ngive, 1);
    expect_true(kl_pool_take(&p, 2 * GIB) == NULL);
    kl_pool_give(&p, b, 4 * GIB);
    kl_pool_clear(&p);
    const int64_t most = 2 * GIB;
    p.most = &most;
    expect_true(kl_pool_take(&p, 3 * GIB) == NULL);
    void *const c = kl_pool_take(&p, GIB);
    expect_eq(kl_pool_room(&p), GIB);
    kl_pool_give(&p, c, GIB);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

/* Of what waits below a user's limit no more goes back than a new block needs. */
static void test_limit(void **state)
{
    const int64_t most = 8 * GIB;
    device d = {.has = 80 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &most};
    (void)state;
    void *block[4];
    for (int i = 0; i < 4; i++) block[i] = kl_pool_take(&p, GIB);
    for (int i = 0; i < 4; i++) kl_pool_give(&p, block[i], GIB); /* all 4 GiB may wait */
    void *const a = kl_pool_take(&p, 6 * GIB);
    expect_true(a != NULL);
    expect_eq(d.ngive, 2);
    expect_eq(d.taken, 8 * GIB);
    kl_pool_give(&p, a, 6 * GIB);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waiting), cmocka_unit_test(test_share),
                                       cmocka_unit_test(test_full), cmocka_unit_test(test_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
