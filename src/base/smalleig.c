/* Householder's tridiagonal matrix, then implicit QL whose rotations are applied a sweep at a time: see
   smalleig.h. Columns begin at multiples of 8 rows, and loops run over whole eights.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/smalleig.h"
#include "base/clones.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    LANES = 8,
    MOST = 50, /* iterations a value */
};
#define NOTHING 1e-40 /* of a square, the largest element being 1 */

typedef double lanes __attribute__((vector_size(64), may_alias));

static int64_t padded(int n) { return (n + LANES - 1) / LANES * LANES; }

/* q, its transpose, and seven arrays of a number a row. */
int64_t kl_small_eig_work(int n) { return padded(n) * (2 * padded(n) + 7); }

/* Where everything is in the work space. */
typedef struct space {
    int n;
    int64_t ld;
    double *q, *t; /* [n][ld]: the matrix, later its vectors; reflections as rows, later Q^T */
    double *d, *e, *p, *f; /* the tridiagonal matrix; a vector of products; factors of the reflections */
    double *c, *s; /* rotations of a sweep */
} space;

/* Reflection k of the rows behind it, into row k of t; zeros before it. */
static void reflect(const space *x, int k)
{
    const double *const column = x->q + k * x->ld;
    double *const v = x->t + k * x->ld;
    double square = 0;
    memset(v, 0, (size_t)x->ld * sizeof *v);
    for (int i = k + 2; i < x->n; i++) square += column[i] * column[i];
    const double first = column[k + 1], norm = sqrt(first * first + square);
    x->f[k] = 0;
    x->e[k] = first;
    if (!(square > 0)) return;
    for (int i = k + 1; i < x->n; i++) v[i] = column[i];
    v[k + 1] = first > 0 ? first + norm : first - norm;
    x->e[k] = first > 0 ? -norm : norm;
    x->f[k] = 2 / (v[k + 1] * v[k + 1] + square);
}

/* q becomes tridiagonal: d, e, and the reflections in t. */
KL_CLONED static void reduce(const space *x)
{
    for (int k = 0; k + 2 < x->n; k++) {
        reflect(x, k);
        x->d[k] = x->q[k * (x->ld + 1)];
        if (!(x->f[k] > 0)) continue;
        const int64_t from = (k + 1) / LANES, to = x->ld / LANES;
        const double *const v = x->t + k * x->ld;
        const lanes *const vv = (const lanes *)(const void *)v;
        lanes *const p = (lanes *)(void *)x->p;
        lanes sum = {0};
        for (int64_t i = from; i < to; i++) p[i] = (lanes){0};
        for (int j = k + 1; j < x->n; j++) {
            const lanes *const column = (const lanes *)(const void *)(x->q + j * x->ld);
            const double factor = v[j] * x->f[k];
            for (int64_t i = from; i < to; i++) p[i] += factor * column[i];
        }
        for (int64_t i = from; i < to; i++) sum += p[i] * vv[i];
        double half = 0;
        for (int i = 0; i < LANES; i++) half += sum[i];
        half *= 0.5 * x->f[k];
        for (int64_t i = from; i < to; i++) p[i] -= half * vv[i];
        for (int j = k + 1; j < x->n; j++) {
            lanes *const column = (lanes *)(void *)(x->q + j * x->ld);
            const double a = v[j], b = x->p[j];
            for (int64_t i = from; i < to; i++) column[i] -= b * vv[i] + a * p[i];
        }
    }
    for (int k = x->n - 2; k < x->n; k++) x->d[k] = x->q[k * (x->ld + 1)];
    x->e[x->n - 2] = x->q[x->n - 1 + (x->n - 2) * x->ld];
    x->e[x->n - 1] = 0;
}

/* t = Q: the reflections, the last first, on rows of Q, which lie together until then. turned: its columns in
   the reverse order. */
KL_CLONED static void multiply_out(const space *x, int turned)
{
    const int64_t to = x->ld / LANES;
    double *const row = x->q; /* by rows while it is made */
    memset(row, 0, (size_t)(x->n * x->ld) * sizeof *row);
    for (int i = 0; i < x->n; i++) row[i * (x->ld + 1)] = 1;
    for (int k = x->n - 3; k >= 0; k--) {
        const double *const v = x->t + k * x->ld;
        const int64_t from = (k + 1) / LANES;
        lanes *const p = (lanes *)(void *)x->p;
        if (!(x->f[k] > 0)) continue;
        for (int64_t j = from; j < to; j++) p[j] = (lanes){0};
        for (int i = k + 1; i < x->n; i++) {
            const lanes *const r = (const lanes *)(const void *)(row + i * x->ld);
            for (int64_t j = from; j < to; j++) p[j] += v[i] * r[j];
        }
        for (int i = k + 1; i < x->n; i++) {
            lanes *const r = (lanes *)(void *)(row + i * x->ld);
            const double factor = v[i] * x->f[k];
            for (int64_t j = from; j < to; j++) r[j] -= factor * p[j];
        }
    }
    for (int j = 0; j < x->n; j++) {
        double *const column = x->t + (turned ? x->n - 1 - j : j) * x->ld;
        for (int i = 0; i < x->ld; i++) column[i] = i < x->n ? row[j + i * x->ld] : 0;
    }
}

/* The tridiagonal matrix from its other end. */
static void turn(const space *x)
{
    for (int i = 0, j = x->n - 1; i < j; i++, j--) {
        const double d = x->d[i];
        x->d[i] = x->d[j];
        x->d[j] = d;
    }
    for (int i = 0, j = x->n - 2; i < j; i++, j--) {
        const double e = x->e[i];
        x->e[i] = x->e[j];
        x->e[j] = e;
    }
}

/* Rotations m - 1 to l of neighbouring columns of t. What goes on from one to the next stays in registers. */
KL_CLONED static void rotate(const space *x, int l, int m)
{
    const int64_t step = x->ld / LANES;
    int64_t at = 0;
    for (; at + 2 <= step; at += 2) {
        lanes *column = (lanes *)(void *)(x->t + m * x->ld) + at;
        lanes a = column[0], b = column[1];
        for (int i = m - 1; i >= l; i--) {
            const double c = x->c[i], s = x->s[i];
            lanes *const before = column - step;
            const lanes u = before[0], v = before[1];
            column[0] = s * u + c * a;
            column[1] = s * v + c * b;
            a = c * u - s * a;
            b = c * v - s * b;
            column = before;
        }
        column[0] = a;
        column[1] = b;
    }
    for (; at < step; at++) {
        lanes *column = (lanes *)(void *)(x->t + m * x->ld) + at;
        lanes a = column[0];
        for (int i = m - 1; i >= l; i--) {
            lanes *const before = column - step;
            const lanes u = before[0];
            column[0] = x->s[i] * u + x->c[i] * a;
            a = x->c[i] * u - x->s[i] * a;
            column = before;
        }
        column[0] = a;
    }
}

/* One implicit QL sweep on rows l to m, as LAPACK's dsteqr does it. */
static void sweep(const space *x, int l, int m)
{
    double *const d = x->d, *const e = x->e;
    const double half = (d[l + 1] - d[l]) / (2 * e[l]), root = sqrt(half * half + 1);
    double g = d[m] - d[l] + e[l] / (half < 0 ? half - root : half + root), s = 1, c = 1, p = 0;
    for (int i = m - 1; i >= l; i--) {
        const double f = s * e[i], b = c * e[i], length = sqrt(f * f + g * g);
        c = length > 0 ? g / length : 1;
        s = length > 0 ? f / length : 0;
        if (i < m - 1) e[i + 1] = length;
        g = d[i + 1] - p;
        const double r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        x->c[i] = c;
        x->s[i] = s;
    }
    d[l] -= p;
    e[l] = g;
    rotate(x, l, m);
}

/* Small values are found to rounding of themselves where the matrix says them so well: a threshold of the
   largest one would make weights of what is none. */
static int is_small(const space *x, int i)
{
    return x->e[i] * x->e[i] <= DBL_EPSILON * DBL_EPSILON * fabs(x->d[i] * x->d[i + 1]) + NOTHING;
}

/* d: the eigenvalues; t: their vectors. 0: an iteration does not end. */
static int iterate(const space *x)
{
    for (int l = 0, count = 0; l < x->n;) {
        int m = l;
        while (m < x->n - 1 && !is_small(x, m)) m++;
        if (m < x->n - 1) x->e[m] = 0;
        if (m == l) {
            if (!isfinite(x->d[l++])) return 0;
            count = 0;
            continue;
        }
        if (count++ == MOST) return 0;
        sweep(x, l, m);
    }
    return 1;
}

int kl_small_eig(int n, double *a, int lda, double *w, double *work)
{
    const int64_t ld = padded(n);
    double *const row = work + 2 * n * ld;
    const space x = {.n = n,
                     .ld = ld,
                     .q = work,
                     .t = work + n * ld,
                     .d = row,
                     .e = row + ld,
                     .p = row + 2 * ld,
                     .f = row + 3 * ld,
                     .c = row + 4 * ld,
                     .s = row + 5 * ld};
    int order[KL_SMALL_EIG];
    double most = 0;
    memset(x.q, 0, (size_t)(n * ld) * sizeof *x.q);
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) most = fmax(most, fabs(a[i + (int64_t)j * lda]));
    const double scale = most > 0 ? 1 / most : 1;
    if (!isfinite(scale) || !(scale > DBL_MIN)) return 0;
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) x.q[i + j * ld] = x.q[j + i * ld] = scale * a[i + (int64_t)j * lda];
    reduce(&x);
    const int turned = fabs(x.d[0]) > fabs(x.d[n - 1]); /* QL wants the small ones first */
    multiply_out(&x, turned);
    if (turned) turn(&x);
    if (!iterate(&x)) return 0;
    for (int i = 0, k; i < n; i++) {
        for (k = i; k > 0 && x.d[order[k - 1]] > x.d[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (int k = 0; k < n; k++) {
        w[k] = x.d[order[k]] * most;
        memcpy(a + (int64_t)k * lda, x.t + order[k] * ld, (size_t)n * sizeof *a);
    }
    return 1;
}
