/* The small eigenproblem of LOBPCG with one vector, for what an executor is compared with (contests of
   yamada2020's tables).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PENCIL_H
#define KL_PENCIL_H
#include <math.h>

/* Lowest pair of the 3 x 3 (or 2 x 2) problem A v = mu B v: B's factor, then Jacobi rotations. 0: B is not
   positive. */
static inline int kl_pencil_lowest(int n, double a[3][3], double b[3][3], double *mu, double v[3])
{
    double l[3][3] = {{0}}, m[3][3], q[3][3] = {{0}};
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) {
            double s = b[i][j];
            for (int k = 0; k < j; k++) s -= l[i][k] * l[j][k];
            if (i == j && !(s > 1e-14 * b[i][i])) return 0;
            l[i][j] = i == j ? sqrt(s) : s / l[j][j];
        }
    for (int j = 0; j < n; j++) { /* m = l^-1 a l^-T, by columns and then by rows */
        for (int i = 0; i < n; i++) {
            double s = a[i][j];
            for (int k = 0; k < i; k++) s -= l[i][k] * m[k][j];
            m[i][j] = s / l[i][i];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double s = m[i][j];
            for (int k = 0; k < j; k++) s -= l[j][k] * m[i][k];
            m[i][j] = s / l[j][j];
        }
    for (int i = 0; i < n; i++) q[i][i] = 1.0;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++) {
                if (m[i][j] == 0.0) continue;
                const double theta = (m[j][j] - m[i][i]) / (2 * m[i][j]),
                             t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(1 + theta * theta)),
                             cs = 1 / sqrt(1 + t * t), sn = t * cs;
                for (int k = 0; k < n; k++) {
                    const double x = m[k][i], y = m[k][j];
                    m[k][i] = cs * x - sn * y;
                    m[k][j] = sn * x + cs * y;
                }
                for (int k = 0; k < n; k++) {
                    const double x = m[i][k], y = m[j][k];
                    m[i][k] = cs * x - sn * y;
                    m[j][k] = sn * x + cs * y;
                }
                for (int k = 0; k < n; k++) {
                    const double x = q[k][i], y = q[k][j];
                    q[k][i] = cs * x - sn * y;
                    q[k][j] = sn * x + cs * y;
                }
            }
    int low = 0;
    for (int i = 1; i < n; i++)
        if (m[i][i] < m[low][low]) low = i;
    *mu = m[low][low];
    for (int i = n - 1; i >= 0; i--) { /* v = l^-T q */
        double s = q[i][low];
        for (int k = i + 1; k < n; k++) s -= l[k][i] * v[k];
        v[i] = s / l[i][i];
    }
    return 1;
}

#endif
