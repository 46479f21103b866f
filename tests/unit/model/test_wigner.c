/* Wigner's symbols: closed forms, sums that are 1 or 0, 9j with a zero, spins to 100.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/wigner.h"
#include "kl_test.h"

/* {a b c; 0 c b} = (-1)^(a+b+c) / sqrt((2b+1)(2c+1)) */
static void test_closed_forms(void **unused)
{
    (void)unused;
    for (int a = 0; a <= 200; a += 7)
        for (int b = a % 5; b <= 200; b += 9)
            for (int c = a > b ? a - b : b - a; c <= a + b && c <= 200; c += 2) {
                const double want = ((a + b + c) / 2 % 2 ? -1 : 1) / sqrt((b + 1.0) * (c + 1.0));
                kl_test_case("%d %d %d", a, b, c);
                expect_near(kl_wigner_6j(a, b, c, 0, c, b), want, 2e-14 * fabs(want));
            }
    expect_near(kl_wigner_6j(2, 2, 2, 2, 2, 2), 1.0 / 6, 1e-16);
    expect_near(kl_wigner_6j(1, 1, 2, 1, 1, 2), 1.0 / 6, 1e-16);
    expect_near(kl_wigner_6j(1, 1, 0, 1, 1, 2), 0.5, 1e-16);
    expect_near(kl_wigner_6j(4, 4, 4, 4, 4, 4), -3.0 / 70, 1e-16);
    expect_near(kl_wigner_6j(2, 2, 2, 2, 2, 7), 0, 0);
}

/* sum over x of (2x+1)(2y+1) {a b x; c d y} {a b x; c d z} = 1 where y = z */
static void check_orthogonal(int a, int b, int c, int d)
{
    for (int y = abs(a - d); y <= a + d; y += 2)
        for (int z = y; z <= a + d && z <= y + 4; z += 2) {
            double sum = 0;
            for (int x = abs(a - b); x <= a + b; x += 2)
                sum += (x + 1.0) * kl_wigner_6j(a, b, x, c, d, y) * kl_wigner_6j(a, b, x, c, d, z);
            kl_test_case("%d %d %d %d: %d %d", a, b, c, d, y, z);
            if (!kl_triangle(b, c, y) || !kl_triangle(b, c, z)) continue;
            expect_near(sum * sqrt((y + 1.0) * (z + 1.0)), y == z, 1e-11);
        }
}

static void test_orthogonal(void **unused)
{
    (void)unused;
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++)
            for (int c = 0; c < 6; c++) check_orthogonal(a, b, c, (a + b + c) % 2 + 2);
    check_orthogonal(40, 41, 39, 40);
    check_orthogonal(200, 2, 199, 3);
}

/* {a b c; d e f; g h 0} is a 6j; a 9j is the same but for a sign when two rows are exchanged. */
static void test_nine(void **unused)
{
    (void)unused;
    uint64_t seed = 5;
    int seen = 0;
    for (int round = 0; round < 20000; round++) {
        int j[9];
        for (int k = 0; k < 9; k++) j[k] = (int)(kl_test_bits(&seed) % 7);
        const double nine = kl_wigner_9j(j[0], j[1], j[2], j[3], j[4], j[5], j[6], j[7], j[8]);
        const double other = kl_wigner_9j(j[3], j[4], j[5], j[0], j[1], j[2], j[6], j[7], j[8]);
        int sum = 0;
        for (int k = 0; k < 9; k++) sum += j[k];
        seen += nine != 0;
        kl_test_case("round %d", round);
        expect_near(nine, (sum / 2 % 2 ? -1 : 1) * other, 1e-15);
        const double zero = kl_wigner_9j(j[0], j[1], j[2], j[3], j[4], j[2], j[6], j[6], 0);
        const double sign = (j[1] + j[2] + j[3] + j[6]) / 2 % 2 ? -1 : 1;
        const double root = sqrt((j[2] + 1.0) * (j[6] + 1.0));
        const double want = sign / root * kl_wigner_6j(j[0], j[1], j[2], j[4], j[3], j[6]);
        expect_near(zero, want, 1e-15);
    }
    expect_true(seen > 50);
}

/* An operator that passes over a spectator is the 9j with a rank 0; reversed twice it is itself. */
static void test_couplings(void **unused)
{
    (void)unused;
    for (int i = 0; i < 5 * 5 * 5 * 5 * 5; i++) {
        const int j1 = i % 5, i1 = i / 5 % 5, j2 = i / 25 % 5, J = i / 125 % 5, I = i / 625;
        const int k = j1 + i1 >= 2 ? 2 : 1;
        const kl_leg a = {j1, k, i1}, one = {j2, 0, j2}, all = {J, k, I};
        if (!kl_triangle(j1, j2, J) || !kl_triangle(i1, j2, I) || !kl_triangle(j1, k, i1)) continue;
        const double nine = sqrt((i1 + 1.0) * (j2 + 1.0) * (k + 1.0) * (J + 1.0)) *
                            kl_wigner_9j(j1, j2, J, k, 0, k, i1, j2, I);
        const double other = sqrt((i1 + 1.0) * (j2 + 1.0) * (k + 1.0) * (J + 1.0)) *
                             kl_wigner_9j(j2, j1, J, 0, k, k, j2, i1, I);
        kl_test_case("%d %d %d %d %d", j1, i1, j2, J, I);
        expect_near(kl_couple(a, one, all), nine, 1e-14);
        expect_near(kl_couple(one, a, all), other, 1e-14);
        expect_near(kl_tilde(i1, j1, k) * kl_tilde(j1, i1, k), k % 2 ? -1 : 1, 1e-15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_closed_forms), cmocka_unit_test(test_orthogonal),
                                       cmocka_unit_test(test_nine), cmocka_unit_test(test_couplings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
