/* Random numbers that stay on an executor.
   SPDX-License-Identifier: Apache-2.0 */
#include "kl_test.h"
#include "base/mem.h"
#include "base/random.h"
#include "dmrg/randoms.h"

/* Number i is the same however many were asked for, before or now, and by however many threads. */
static void test_same(void **state)
{
    static const int64_t asked[] = {5, 3, 100, 70000, 40, 90000};
    (void)state;
    for (int nthread = 1; nthread <= 3; nthread += 2) {
        kl_exec *ex;
        kl_err err = {""};
        kl_randoms r = {.n = 0};
        expect_ok(kl_exec_open_host(nthread, &ex, &err), err);
        for (uint64_t seed = 3; seed < 5; seed++)
            for (size_t c = 0; c < sizeof asked / sizeof *asked; c++) {
                kl_test_case("threads=%d seed=%d n=%d", nthread, (int)seed, (int)asked[c]);
                const kl_dptr was = r.data;
                const int there = r.seed == seed && r.n >= asked[c];
                expect_ok(kl_randoms_want(ex, &r, seed, asked[c], &err), err);
                expect_eq(r.n >= asked[c], 1);
                if (there) expect_eq(r.data.addr == was.addr, 1);
                const double *const x = (const double *)r.data.addr;
                double square = 0;
                for (int64_t i = 0; i < r.n; i++) {
                    expect_near(x[i], sqrt(3.0) * kl_random_at(seed, i), 0);
                    square += x[i] * x[i];
                }
                if (r.n > 50000) expect_near(square / (double)r.n, 1, 0.02);
            }
        kl_randoms_forget(ex, &r);
        kl_randoms_forget(ex, &r);
        kl_exec_close(&ex);
        expect_eq(kl_mem_live_total(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
