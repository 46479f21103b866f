/* See piece_host.h. Sums are taken in an order that depends on n and k alone.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/piece_host.h"
#include "base/clones.h"

#include <math.h>
#include <string.h>

/* ---- combinations: y = the sum of one to four columns, or added to y ---- */

KL_CLONED static void set_columns(int64_t n, int k, const double *c, const double *v, int64_t ldv, double *y)
{
    const double *const v0 = v, *const v1 = v + (k > 1) * ldv, *const v2 = v + 2 * (k > 2) * ldv,
                        *const v3 = v + 3 * (k > 3) * ldv;
    const double c0 = c[0], c1 = k > 1 ? c[1] : 0, c2 = k > 2 ? c[2] : 0, c3 = k > 3 ? c[3] : 0;
    if (k == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = c0 * v0[i];
    } else if (k == 2) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = c0 * v0[i] + c1 * v1[i];
    } else if (k == 3) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (c0 * v0[i] + c1 * v1[i]) + c2 * v2[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (c0 * v0[i] + c1 * v1[i]) + (c2 * v2[i] + c3 * v3[i]);
    }
}

KL_CLONED static void add_columns(int64_t n, int k, const double *c, const double *v, int64_t ldv, double *y)
{
    const double *const v0 = v, *const v1 = v + (k > 1) * ldv, *const v2 = v + 2 * (k > 2) * ldv,
                        *const v3 = v + 3 * (k > 3) * ldv;
    const double c0 = c[0], c1 = k > 1 ? c[1] : 0, c2 = k > 2 ? c[2] : 0, c3 = k > 3 ? c[3] : 0;
    if (k == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] += c0 * v0[i];
    } else if (k == 2) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] += c0 * v0[i] + c1 * v1[i];
    } else if (k == 3) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] += (c0 * v0[i] + c1 * v1[i]) + c2 * v2[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] += (c0 * v0[i] + c1 * v1[i]) + (c2 * v2[i] + c3 * v3[i]);
    }
}

KL_CLONED static void scale(int64_t n, double b, double *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] *= b;
}

/* Columns of the next pass of k that are left: five or six are three and the rest, not four and one. */
static int next_pass(int k) { return k > 4 && k < 7 ? 3 : k < 4 ? k : 4; }

void kl_piece_combine(int64_t n, int k, const double *c, const double *v, int64_t ldv, double b, double *y)
{
    if (k == 0 && b == 0.0) memset(y, 0, (size_t)n * sizeof *y);
    else if (b != 0.0 && b != 1.0) scale(n, b, y);
    for (int j = 0, some; j < k; j += some) {
        some = next_pass(k - j);
        if (j == 0 && b == 0.0) set_columns(n, some, c, v, ldv, y);
        else add_columns(n, some, c + j, v + j * ldv, ldv, y);
    }
}

/* ---- products ---- */

/* Four sums at a time, or the time between two additions to one sum is what counts. */
KL_CLONED static void dot_columns(int64_t n, int k, const double *v, int64_t ldv, const double *x,
                                  double *sum)
{
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    if (k == 1) {
        const int64_t q = n / 4;
        const double *const v1 = v + q, *const v2 = v + 2 * q, *const v3 = v + 3 * q, *const x1 = x + q,
                            *const x2 = x + 2 * q, *const x3 = x + 3 * q;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < q; i++) {
            s0 += v[i] * x[i];
            s1 += v1[i] * x1[i];
            s2 += v2[i] * x2[i];
            s3 += v3[i] * x3[i];
        }
        for (int64_t i = 4 * q; i < n; i++) s3 += v[i] * x[i];
        sum[0] += (s0 + s1) + (s2 + s3);
    } else if (k == 2) {
        const int64_t q = n / 2;
        const double *const w = v + ldv, *const v1 = v + q, *const w1 = w + q, *const x1 = x + q;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < q; i++) {
            s0 += v[i] * x[i];
            s1 += v1[i] * x1[i];
            s2 += w[i] * x[i];
            s3 += w1[i] * x1[i];
        }
        for (int64_t i = 2 * q; i < n; i++) {
            s1 += v[i] * x[i];
            s3 += w[i] * x[i];
        }
        sum[0] += s0 + s1;
        sum[1] += s2 + s3;
    } else if (k == 3) {
        const double *const v1 = v + ldv, *const v2 = v + 2 * ldv;
#pragma omp simd reduction(+ : s0, s1, s2)
        for (int64_t i = 0; i < n; i++) {
            s0 += v[i] * x[i];
            s1 += v1[i] * x[i];
            s2 += v2[i] * x[i];
        }
        sum[0] += s0;
        sum[1] += s1;
        sum[2] += s2;
    } else {
        const double *const v1 = v + ldv, *const v2 = v + 2 * ldv, *const v3 = v + 3 * ldv;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < n; i++) {
            s0 += v[i] * x[i];
            s1 += v1[i] * x[i];
            s2 += v2[i] * x[i];
            s3 += v3[i] * x[i];
        }
        sum[0] += s0;
        sum[1] += s1;
        sum[2] += s2;
        sum[3] += s3;
    }
}

void kl_piece_dots(int64_t n, int k, const double *v, int64_t ldv, const double *x, double *sum)
{
    for (int j = 0, some; j < k; j += some) {
        some = next_pass(k - j);
        dot_columns(n, some, v + j * ldv, ldv, x, sum + j);
    }
}

/* ---- Davidson's step ---- */

KL_CLONED static double residual(int64_t n, double theta, const double *x, double *r)
{
    double s = 0.0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) {
        const double a = r[i] - theta * x[i];
        r[i] = a;
        s += a * a;
    }
    return s;
}

KL_CLONED static void correct(int64_t n, const double *d, double theta, double floor, const double *r,
                              double e, const double *x, double *t)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double gap = d[i] - theta;
        const double size = fabs(gap) < floor ? floor : fabs(gap);
        t[i] = (r[i] - e * x[i]) / copysign(size, gap);
    }
}

KL_CLONED static void correct_dots(int64_t n, const double *d, double theta, double floor, const double *r,
                                   const double *x, double *sum)
{
    double s0 = 0.0, s1 = 0.0;
#pragma omp simd reduction(+ : s0, s1)
    for (int64_t i = 0; i < n; i++) {
        const double gap = d[i] - theta;
        const double size = fabs(gap) < floor ? floor : fabs(gap);
        const double u = x[i] / copysign(size, gap);
        s0 += r[i] * u;
        s1 += x[i] * u;
    }
    sum[0] += s0;
    sum[1] += s1;
}

double kl_piece_residual(int64_t n, double theta, const double *x, double *r)
{
    return residual(n, theta, x, r);
}

void kl_piece_correct(int64_t n, const double *d, double theta, double floor, const double *r, double e,
                      const double *x, double *t)
{
    correct(n, d, theta, floor, r, e, x, t);
}

void kl_piece_correct_dots(int64_t n, const double *d, double theta, double floor, const double *r,
                           const double *x, double *sum)
{
    correct_dots(n, d, theta, floor, r, x, sum);
}
