/* The least eigenvectors of Gram matrices and a basis of the others' images, against full eigenproblems: of
   spectra that fall fast and slowly, in a basis that is nearly the eigenvectors' and in any; columns of no
   weight, and matrices that lose too much, which are left to others.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "dmrg/leastcolumns.h"
#include "kl_test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NPART = 5,
    ROOM = 200000,
};
static const struct {
    int n, none; /* columns; of them of no weight */
    double orders, turned; /* ten's powers that the spectrum spans; how far the basis is from eigenvectors */
} cases[NPART] = {{120, 0, 9, 0.02}, {200, 0, 6, 0.05}, {160, 3, 9, 0.02}, {150, 0, 7, 10}, {60, 0, 1, 0.02}};

static double *gram_of(int which, uint64_t *seed)
{
    const int n = cases[which].n;
    kl_err err;
    double *const q = calloc((size_t)n * (size_t)n, sizeof *q);
    double *const g = calloc((size_t)n * (size_t)n, sizeof *g);
    for (int c = 0; c < n; c++)
        for (int r = 0; r < n; r++)
            q[r + c * n] = (r == c) + cases[which].turned * kl_test_uniform(seed) / sqrt(n);
    expect_ok(kl_dense_qr(n, n, q, n, NULL, 0, &err), err);
    /* A = diag(s) Q^T, its small columns turned little by the large ones */
    for (int c = 0; c < n; c++)
        for (int r = 0; r < n; r++) {
            double sum = 0;
            for (int k = 0; k < n; k++) {
                const double s = pow(10, -cases[which].orders * k / n);
                sum += q[r + k * n] * s * q[c + k * n];
            }
            g[r + c * n] = sum;
        }
    /* graded rows and columns, as of a basis sorted by weight */
    for (int c = 0; c < n && cases[which].turned < 1; c++)
        for (int r = 0; r < n; r++)
            g[r + c * n] = ((r == c) + cases[which].turned * (q[r + c * n] + q[c + r * n]) / 4) *
                           pow(10, -cases[which].orders * (r + c) / 2 / n);
    for (int k = 0; k < cases[which].none; k++)
        for (int r = 0; r < n; r++) g[r + (7 + k) * n] = g[7 + k + r * n] = 0;
    for (int k = 0; k < n * n && which == 4; k++) g[k] *= 1e-9; /* all of it goes */
    free(q);
    return g;
}

/* Z^T G Z = 1, and nothing of what is dropped, whose vectors are the first of v. */
static void check_rest(int n, const double *g, int drop, const double *v, int stay, const double *z)
{
    double *const gz = malloc(sizeof *gz * (size_t)n * (size_t)stay);
    for (int c = 0; c < stay; c++)
        for (int r = 0; r < n; r++) {
            double sum = 0;
            for (int k = 0; k < n; k++) sum += g[r + k * n] * z[k + c * n];
            gz[r + c * n] = sum;
        }
    double far = 0, across = 0;
    for (int c = 0; c < stay; c++) {
        for (int d = 0; d <= c; d++) {
            double sum = 0;
            for (int k = 0; k < n; k++) sum += z[k + d * n] * gz[k + c * n];
            far = fmax(far, fabs(sum - (c == d)));
        }
        for (int d = 0; d < drop; d++) {
            double sum = 0, square = 0;
            for (int k = 0; k < n; k++) sum += v[k + d * n] * gz[k + c * n];
            for (int k = 0; k < n; k++)
                for (int i = 0; i < n; i++) square += v[k + d * n] * g[k + i * n] * v[i + d * n];
            if (square > 1e-14) across = fmax(across, fabs(sum) / sqrt(square));
        }
    }
    expect_near(far, 0, 1e-3); /* the shift; who uses it makes the images orthonormal */
    expect_near(across, 0, 0.1);
    free(gz);
}

static void test_find(void **state)
{
    (void)state;
    for (int nthread = 1; nthread <= 3; nthread += 2) {
        kl_err err;
        kl_exec *ex = NULL;
        kl_least_part part[NPART] = {{0}};
        double *g[NPART], *const all = calloc(ROOM, sizeof *all), *const out = calloc(ROOM, sizeof *out);
        int64_t at = 0, to[NPART];
        int drop[NPART];
        uint64_t seed = 3;
        kl_dptr gram = {0}, z = {0};
        expect_ok(kl_exec_open_host(nthread, &ex, &err), err);
        for (int i = 0; i < NPART; i++) {
            const int n = cases[i].n;
            g[i] = gram_of(i, &seed);
            part[i] = (kl_least_part){.n = n, .gram = at};
            memcpy(all + at, g[i], sizeof *all * (size_t)n * (size_t)n);
            to[i] = at;
            at += (int64_t)n * n;
        }
        expect_true(at <= ROOM);
        expect_ok(kl_exec_copy_in(ex, all, at, &gram, &err), err);
        expect_ok(kl_exec_copy_in(ex, out, at, &z, &err), err);
        kl_least l = {.ex = ex, .npart = NPART, .part = part, .stay = 0.93};
        expect_ok(kl_least_find(&l, gram, &err), err);
        for (int i = 0; i < NPART; i++) {
            const int n = cases[i].n, sure = part[i].tried > 0 ? (int)((part[i].tried - 12) / 1.375) - 1 : 0;
            double *const v = malloc(sizeof *v * (size_t)n * (size_t)n);
            double *const w = malloc(sizeof *w * (size_t)n);
            double known = 0, least = 0;
            kl_test_case("%d threads, matrix %d, %d tried", nthread, i, part[i].tried);
            memcpy(v, g[i], sizeof *v * (size_t)n * (size_t)n);
            expect_ok(kl_dense_eig(n, v, n, w, &err), err);
            expect_eq(part[i].tried > 0, i < 3); /* in any basis diagonal elements do not tell the cut */
            drop[i] = sure > 0 && i != 1 ? sure / 2 : 0;
            expect_true(kl_least_sure(part[i].tried, drop[i]));
            expect_true(!part[i].tried || !kl_least_sure(part[i].tried, part[i].tried - 2));
            for (int k = 0; k < drop[i]; k++) {
                known += part[i].value[k];
                least += fmax(w[k], 0);
                if (k > 0) expect_true(part[i].value[k] >= part[i].value[k - 1]);
            }
            expect_true(known >= least * (1 - 1e-6) - 1e-16);
            expect_true(known <= 1.001 * least + 1e-16);
            free(v);
            free(w);
        }
        expect_ok(kl_least_rest(&l, drop, to, at, z, &err), err);
        expect_ok(ex->vt.download(ex, out, z, at, &err), err);
        for (int i = 0; i < NPART; i++) {
            const int n = cases[i].n;
            double *const v = malloc(sizeof *v * (size_t)n * (size_t)n);
            double *const w = malloc(sizeof *w * (size_t)n);
            memcpy(v, g[i], sizeof *v * (size_t)n * (size_t)n);
            expect_ok(kl_dense_eig(n, v, n, w, &err), err);
            kl_test_case("%d threads, matrix %d, %d of %d dropped", nthread, i, drop[i], n);
            const int stay = n - drop[i] - cases[i].none * (drop[i] == 0);
            if (part[i].tried > 0) check_rest(n, g[i], drop[i], v, stay, out + to[i]);
            free(v);
            free(w);
            free(g[i]);
        }
        kl_least_clear(&l);
        ex->vt.release(ex, &gram);
        ex->vt.release(ex, &z);
        kl_exec_close(&ex);
        free(all);
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
