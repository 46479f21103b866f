/* Memory of devices that waits: blocks come back to the next who wants as much or a little less, those that
   have waited longest go to the device where too much waits, all of them where it has none left, and what
   may be taken has an end.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"
#include "kl_test.h"

#define GIB ((int64_t)1 << 30)

/* A device of so many bytes, whose blocks are addresses alone. */
typedef struct device {
    int64_t has, taken;
    uintptr_t next;
    uintptr_t step; /* between addresses; 0: 1 */
    int64_t size[512]; /* by address */
    int ngive;
    int64_t given; /* the last that came back */
} device;

static void *get(void *ctx, int64_t bytes)
{
    device *const d = ctx;
    if (d->taken + bytes > d->has) return NULL;
    d->taken += bytes;
    d->size[++d->next] = bytes;
    return (void *)(d->next * (d->step ? d->step : 1));
}

static void give(void *ctx, void *block)
{
    device *const d = ctx;
    d->given = d->size[(uintptr_t)block / (d->step ? d->step : 1)];
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
    expect_eq(d.ngive, 0); /* as much as was in use may wait */
    expect_true(kl_pool_take(&p, GIB) == a); /* as much is wanted again */
    expect_true(kl_pool_take(&p, 2 * GIB - 5) == b);
    expect_eq(d.next, 3);
    expect_true(kl_pool_take(&p, 600) == c);
    kl_pool_give(&p, b, 2 * GIB - 5);
    kl_pool_give(&p, a, GIB);
    /* more than ever was in use: a quarter of it and a bit may wait, what came back last */
    void *const big = kl_pool_take(&p, 7 * GIB / 2);
    expect_eq(d.ngive, 1);
    expect_eq(d.given, 2 * GIB);
    expect_eq(d.taken, 9 * GIB / 2 + 640);
    expect_true(kl_pool_take(&p, GIB) == a);
    kl_pool_give(&p, big, 7 * GIB / 2);
    kl_pool_give(&p, c, 600);
    kl_pool_give(&p, a, GIB);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

/* A block that waits serves who wants up to three steps less, and stays what it is. */
static void test_larger(void **state)
{
    device d = {.has = 80 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit};
    (void)state;
    void *const a = kl_pool_take(&p, GIB), *const b = kl_pool_take(&p, GIB);
    kl_pool_give(&p, a, GIB);
    void *const less = kl_pool_take(&p, GIB / 8 * 7);
    expect_true(less == a);
    expect_eq(p.live, 2 * GIB); /* what the device misses */
    kl_pool_give(&p, b, GIB);
    kl_pool_give(&p, less, GIB / 8 * 7);
    expect_true(kl_pool_take(&p, GIB) == a);
    expect_true(kl_pool_take(&p, GIB / 16 * 13) == b);
    expect_true(kl_pool_take(&p, GIB / 16 * 13) != b);
    expect_eq(d.next, 3);
    kl_pool_give(&p, b, GIB / 16 * 13);
    void *out = NULL;
    kl_err err;
    expect_ok(kl_pool_alloc(&p, GIB / 8 * 7, &out, &err), err);
    expect_true(out == b && kl_pool_has(&p, b));
    kl_pool_release(&p, out);
    expect_true(kl_pool_take(&p, GIB / 16 * 12) != b); /* too little for it */
    kl_pool_clear(&p);
}

/* Of the device no more is taken than a quarter above what was in use, and no block is given to two. */
static void test_ceiling(void **state)
{
    enum { MOST = 40 };
    device d = {.has = 80 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit};
    struct {
        void *block;
        int64_t bytes;
    } out[MOST];
    uint64_t seed = 5;
    int64_t live = 0, top = 0;
    int n = 0, nget = 0;
    (void)state;
    for (int round = 0; round < 400; round++) {
        const int64_t size = (int64_t)((2 + kl_test_uniform(&seed)) * (round % 7 ? 1e8 : 1e9));
        if (n < MOST && (n == 0 || kl_test_uniform(&seed) > 0)) {
            out[n].block = kl_pool_take(&p, size);
            out[n].bytes = size;
            expect_true(out[n].block && d.size[(uintptr_t)out[n].block] >= size);
            for (int i = 0; i < n; i++) expect_true(out[i].block != out[n].block);
            live += d.size[(uintptr_t)out[n++].block];
        } else {
            const int i = (int)((kl_test_uniform(&seed) + 1) / 2 * n);
            live -= d.size[(uintptr_t)out[i].block];
            kl_pool_give(&p, out[i].block, out[i].bytes);
            out[i] = out[--n];
        }
        if (live > top) top = live;
        nget = (int)d.next;
        expect_eq(p.live, live);
        expect_true(d.taken <= top + top / 4 + GIB / 4);
    }
    expect_true(nget < 150); /* of some 200 blocks many had waited */
    while (n > 0) n--, kl_pool_give(&p, out[n].block, out[n].bytes);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
    expect_eq(p.nlarger, 0);
}

/* Of the host's memory as much as is in use may wait, and 1 GiB. */
static void test_share(void **state)
{
    device d = {.has = 80 * GIB, .step = (uintptr_t)1 << 40};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit, .far = 1};
    (void)state;
    void *const used = kl_pool_take(&p, 4 * GIB);
    void *block[8];
    for (int i = 0; i < 8; i++) block[i] = kl_pool_take(&p, GIB);
    for (int i = 0; i < 8; i++) kl_pool_give(&p, block[i], GIB);
    expect_eq(d.ngive, 3); /* 5 of 8 GiB wait */
    expect_eq(d.taken, 9 * GIB);
    kl_pool_give(&p, used, 4 * GIB);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

/* The host's memory comes in regions that grow: blocks of all sizes are cut from them, none overlaps another,
   and what came back whole serves a larger one. */
static void test_regions(void **state)
{
    enum { MOST = 60 };
    device d = {.has = 80 * GIB, .step = (uintptr_t)1 << 40};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &no_limit, .far = 1};
    struct {
        char *block;
        int64_t bytes;
    } out[MOST];
    uint64_t seed = 7;
    int64_t live = 0, top = 0;
    int n = 0;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        const int64_t bytes = (int64_t)((2 + kl_test_uniform(&seed)) * (round % 9 ? 3e6 : 5e7));
        if (n < MOST && (n == 0 || kl_test_uniform(&seed) > -0.1)) {
            char *const at = kl_pool_take(&p, bytes);
            expect_true(at != NULL);
            const int64_t from = (intptr_t)at % ((int64_t)1 << 40);
            expect_true(from + bytes <= d.size[(uintptr_t)at >> 40]);
            for (int i = 0; i < n; i++)
                expect_true(at + bytes <= out[i].block || out[i].block + out[i].bytes <= at);
            out[n].block = at;
            out[n++].bytes = bytes;
            live += bytes;
        } else {
            const int i = (int)((kl_test_uniform(&seed) + 1) / 2 * n);
            kl_pool_give(&p, out[i].block, out[i].bytes);
            live -= out[i].bytes;
            out[i] = out[--n];
        }
        top = live > top ? live : top;
        expect_true(p.live >= live && p.live < live + n * 4096);
        expect_true(p.live + p.cached == d.taken && p.regions.bytes == d.taken);
    }
    print_message("%d regions for 1500 blocks, %.2f times what was in use\n", (int)d.next,
                  (double)d.taken / (double)top);
    expect_true(d.next < 30 && d.taken < 2 * top);
    while (n > 0) n--, kl_pool_give(&p, out[n].block, out[n].bytes);
    expect_eq(p.live, 0);
    expect_eq(p.regions.nhole, p.regions.nregion); /* all neighbours joined */
    const int before = (int)d.next;
    void *const all = kl_pool_take(&p, p.regions.region[p.regions.nregion - 1].bytes);
    expect_eq(d.next, before);
    kl_pool_give(&p, all, p.regions.region[p.regions.nregion - 1].bytes);
    /* a host that has no more: regions without blocks make room for a larger one */
    d.has = d.taken + 4 * 4096;
    void *const large = kl_pool_take(&p, d.taken);
    expect_true(large != NULL);
    expect_true(kl_pool_take(&p, GIB) == NULL);
    kl_pool_give(&p, large, p.live);
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
    enum { N = 60 };
    const int64_t most = 8 * GIB;
    device d = {.has = 80 * GIB};
    kl_pool p = {.ctx = &d, .get = get, .give = give, .most = &most};
    (void)state;
    void *block[N];
    for (int i = 0; i < N; i++) block[i] = kl_pool_take(&p, GIB / 8);
    for (int i = 20; i < N; i++) kl_pool_give(&p, block[i], GIB / 8); /* all 5 GiB may wait */
    expect_eq(d.ngive, 0);
    void *const a = kl_pool_take(&p, 4 * GIB);
    expect_true(a != NULL);
    expect_eq(d.ngive, 28);
    expect_eq(d.taken, 8 * GIB);
    kl_pool_give(&p, a, 4 * GIB);
    for (int i = 0; i < 20; i++) kl_pool_give(&p, block[i], GIB / 8);
    kl_pool_clear(&p);
    expect_eq(d.taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waiting), cmocka_unit_test(test_larger),
                                       cmocka_unit_test(test_ceiling), cmocka_unit_test(test_regions),
                                       cmocka_unit_test(test_share),   cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
