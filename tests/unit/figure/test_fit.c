/* Fits of figures on numbers whose answer is known.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "figure/fit.h"
#include "core.h"
#include "kl_test.h"

static void test_linear(void **state)
{
    (void)state;
    double a[6][KL_FIT_TERMS], y[6], coef[KL_FIT_TERMS], rms;
    for (int i = 0; i < 6; i++) {
        a[i][0] = 1;
        a[i][1] = i;
        a[i][2] = i * i;
        y[i] = 2 - 0.5 * i + 0.125 * i * i;
    }
    assert_true(kl_fit_linear(6, 3, (const double (*)[KL_FIT_TERMS])a, y, coef, &rms));
    expect_near(coef[0], 2, 1e-12);
    expect_near(coef[1], -0.5, 1e-12);
    expect_near(coef[2], 0.125, 1e-12);
    expect_near(rms, 0, 1e-12);
    for (int i = 0; i < 6; i++) a[i][2] = 2 * a[i][1]; /* the same column twice */
    assert_false(kl_fit_linear(6, 3, (const double (*)[KL_FIT_TERMS])a, y, coef, &rms));
    assert_false(kl_fit_linear(2, 3, (const double (*)[KL_FIT_TERMS])a, y, coef, &rms));
}

/* Entropy of the first l of n sites hopping freely at half filling, open or closed: a matrix of correlations,
   whose eigenvalues are occupations (Peschel 2003). */
static void free_fermions(int n, int closed, double *s)
{
    enum { MOST = 64 };
    static double c[MOST * MOST], w[MOST];
    kl_err err;
    for (int l = 1; l < n; l++) {
        for (int i = 0; i < l; i++)
            for (int j = 0; j < l; j++) {
                double sum = 0;
                for (int k = 0; k < n / 2; k++) {
                    if (closed) sum += cos(2 * M_PI * (k - (n / 2 - 1) / 2) * (i - j) / n) / n;
                    else
                        sum += 2.0 / (n + 1) * sin(M_PI * (k + 1) * (i + 1) / (n + 1)) *
                               sin(M_PI * (k + 1) * (j + 1) / (n + 1));
                }
                c[i * l + j] = sum;
            }
        expect_ok(kl_dense_eig(l, c, l, w, &err), err);
        s[l - 1] = 0;
        for (int k = 0; k < l; k++)
            for (int hole = 0; hole < 2; hole++) {
                const double p = hole ? 1 - w[k] : w[k];
                if (p > 1e-15) s[l - 1] -= p * log(p);
            }
    }
}

/* c = 1 of free fermions, open and closed, within 0.002 and within its own error but for that. */
static void test_charge(void **state)
{
    (void)state;
    double s[64], curve[64], c, error;
    int marginal;
    for (int closed = 0; closed < 2; closed++) {
        const int n = closed ? 50 : 64; /* 25 fermions fill a shell of a ring of 50 */
        free_fermions(n, closed, s);
        assert_true(kl_fit_charge(n, closed, s, &c, &error, &marginal, curve));
        if (fabs(c - 1) > fmax(2e-3, error) || fabs(c - 1) > 0.01)
            fail_msg("closed %d: c = %g +- %g", closed, c, error);
        expect_eq(marginal, 0);
        expect_near(curve[n / 2 - 1], s[n / 2 - 1], 0.05);
    }
    assert_false(kl_fit_charge(8, 0, s, &c, &error, &marginal, NULL));
    for (int l = 0; l < 63; l++) s[l] = 0.7; /* a gapped chain */
    assert_true(kl_fit_charge(64, 0, s, &c, &error, &marginal, NULL));
    expect_near(c, 0, 1e-9);
}

static void test_decay(void **state)
{
    (void)state;
    double r[40], c[40];
    kl_decay d;
    for (int i = 0; i < 40; i++) {
        r[i] = i + 1;
        c[i] = (i % 2 ? -0.3 : 0.3) * pow(r[i], -1.5);
    }
    assert_true(kl_fit_decay(40, r, c, 1e-9, &d));
    expect_near(d.power, 1.5, 1e-10);
    expect_near(exp(d.power_log), 0.3, 1e-10);
    assert_true(d.power_error < 1e-9 && d.power_rms < d.length_rms);
    for (int i = 0; i < 40; i++) c[i] = i < 30 ? exp(-r[i] / 2.5) : 1e-15;
    assert_true(kl_fit_decay(40, r, c, 1e-9, &d));
    expect_near(d.length, 2.5, 1e-10);
    assert_true(d.length_rms < d.power_rms);
    for (int i = 0; i < 40; i++) c[i] = 1;
    assert_false(kl_fit_decay(40, r, c, 1e-9, &d));
    assert_false(kl_fit_decay(3, r, c, 1e-9, &d));
}

/* The gap of a particle of mass 0.41 in a box, sqrt(0.41^2 + (2.5 pi / L)^2): the limit to 1e-4 and within
   its error. */
static void test_limit(void **state)
{
    static const double l[] = {24, 32, 48, 64, 96, 128};
    (void)state;
    double y[6];
    kl_limit to;
    for (int i = 0; i < 6; i++) y[i] = sqrt(0.41 * 0.41 + pow(2.5 * M_PI / l[i], 2));
    assert_true(kl_fit_limit(6, l, y, &to));
    expect_near(to.value, 0.41, 1e-3);
    assert_true(fabs(to.value - 0.41) <= to.error);
    for (int i = 0; i < 6; i++) y[i] = 1 + 2 / l[i];
    assert_true(kl_fit_limit(6, l, y, &to));
    expect_near(to.value, 1, 1e-12);
    assert_true(to.error < 1e-6);
    assert_false(kl_fit_limit(2, l, y, &to));
    /* Three sizes leave one point to a line: spins 1 with both end spins up, whose limit is -1.401484. */
    static const double few[] = {16, 24, 32}, e[] = {-21.2006011, -32.4237415, -43.6382537};
    for (int i = 0; i < 3; i++) y[i] = e[i] / few[i];
    assert_true(kl_fit_limit(3, few, y, &to));
    if (fabs(to.value + 1.401484) > to.error || to.error > 3e-3)
        fail_msg("limit %g +- %g of three sizes", to.value, to.error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear), cmocka_unit_test(test_charge),
                                       cmocka_unit_test(test_decay), cmocka_unit_test(test_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
