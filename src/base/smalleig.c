/* Householder's tridiagonal matrix, then implicit QL whose rotations are applied a sweep at a time: see
   smalleig.h. Columns begin at multiples of 8 rows, and loops run over whole eights. The rotations of a sweep
   wait for each other, a square root and a quotient each, so that up to four matrices go through theirs
   together, each in its lane: what is found does not depend on the others.
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
enum { TOGETHER = KL_SMALL_EIG_TOGETHER };
typedef double four __attribute__((vector_size(8 * TOGETHER), may_alias));
typedef int64_t marks __attribute__((vector_size(8 * TOGETHER), may_alias));

static int64_t padded(int n) { return (n + LANES - 1) / LANES * LANES; }

/* q, its transpose, and four arrays of a number a row. */
int64_t kl_small_eig_work(int n) { return padded(n) * (2 * padded(n) + 4); }

/* Where everything of a matrix is in its work space. */
typedef struct space {
    int n;
    int64_t ld;
    double *q, *t; /* [n][ld]: the matrix, later its vectors; reflections as rows, later Q^T */
    double *d, *e, *p, *f; /* the tridiagonal matrix; a vector of products; factors of the reflections */
} space;

/* The tridiagonal matrices side by side, and the rotations of a sweep. */
typedef struct party {
    four d[KL_SMALL_EIG], e[KL_SMALL_EIG + 1], c[KL_SMALL_EIG], s[KL_SMALL_EIG];
} party;

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

/* p of `wide` eights of rows of columns j to n: what goes on from one to the next stays in registers. */
static inline __attribute__((always_inline)) void
sum_of(int wide, const double *column, int64_t ld, const double *v, double factor, int j, int n, lanes *p)
{
    lanes sum[4] = {{0}};
    for (; j < n; j++) {
        const lanes *const c = (const lanes *)(const void *)(column + j * ld);
        const double a = v[j] * factor;
        for (int i = 0; i < wide; i++) sum[i] += a * c[i];
    }
    for (int i = 0; i < wide; i++) p[i] = sum[i];
}

/* p = sum_j factor v_j column_j, of eights [from, to) of rows, j going from k to n. */
static inline __attribute__((always_inline)) void
sum_columns(const space *x, const double *columns, const double *v, double factor, int k, int64_t from)
{
    const int64_t to = x->ld / LANES;
    lanes *const p = (lanes *)(void *)x->p;
    int64_t i = from;
    for (; i + 4 <= to; i += 4) sum_of(4, columns + i * LANES, x->ld, v, factor, k, x->n, p + i);
    if (i + 2 <= to) {
        sum_of(2, columns + i * LANES, x->ld, v, factor, k, x->n, p + i);
        i += 2;
    }
    if (i < to) sum_of(1, columns + i * LANES, x->ld, v, factor, k, x->n, p + i);
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
        sum_columns(x, x->q, v, x->f[k], k + 1, from);
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
        sum_columns(x, row, v, 1, k + 1, from);
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

/* Rotations m - 1 to l of neighbouring columns of t, those of a lane. What goes on from one to the next stays
   in registers. */
KL_CLONED static void rotate(const space *x, const party *y, int lane, int l, int m)
{
    const int64_t step = x->ld / LANES;
    const double *const cos = (const double *)(const void *)y->c + lane, *const sin =
                                                                             (const double *)(const void *)
                                                                                 y->s +
                                                                             lane;
    int64_t at = 0;
    for (; at + 2 <= step; at += 2) {
        lanes *column = (lanes *)(void *)(x->t + m * x->ld) + at;
        lanes a = column[0], b = column[1];
        for (int64_t i = m - 1; i >= l; i--) {
            const double c = cos[i * TOGETHER], s = sin[i * TOGETHER];
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
        for (int64_t i = m - 1; i >= l; i--) {
            const double c = cos[i * TOGETHER], s = sin[i * TOGETHER];
            lanes *const before = column - step;
            const lanes u = before[0];
            column[0] = s * u + c * a;
            a = c * u - s * a;
            column = before;
        }
        column[0] = a;
    }
}

#define CHOSEN(on, a, b) ((four)(((on) & (marks)(a)) | (~(on) & (marks)(b))))

/* One implicit QL sweep of each matrix on rows l to m, as LAPACK's dsteqr does it; none where l = m. */
KL_CLONED static void sweep(party *y, const int l[TOGETHER], const int m[TOGETHER])
{
    const four zero = {0};
    four g = zero, s = zero + 1, c = s, p = zero;
    marks low, high;
    int from = 0, to = KL_SMALL_EIG;
    for (int k = 0; k < TOGETHER; k++) {
        low[k] = l[k];
        high[k] = m[k];
        if (l[k] == m[k]) continue;
        const double d = y->d[l[k]][k], e = y->e[l[k]][k];
        const double half = (y->d[l[k] + 1][k] - d) / (2 * e), length = sqrt(half * half + 1);
        g[k] = y->d[m[k]][k] - d + e / (half < 0 ? half - length : half + length);
        from = m[k] > from ? m[k] : from;
        to = l[k] < to ? l[k] : to;
    }
    for (int64_t i = from - 1; i >= to; i--) {
        const marks row = (marks){0} + i, on = (row >= low) & (row < high), begun = on & (row + 1 < high);
        const four f = s * y->e[i], b = c * y->e[i];
        four length = f * f + g * g;
        for (int k = 0; k < TOGETHER; k++) length[k] = sqrt(length[k]);
        const marks some = length > zero;
        const four cos = CHOSEN(some, g / length, zero + 1), sin = CHOSEN(some, f / length, zero);
        const four h = y->d[i + 1] - p, r = (y->d[i] - h) * sin + 2 * cos * b, next = sin * r;
        y->e[i + 1] = CHOSEN(begun, length, y->e[i + 1]);
        y->d[i + 1] = CHOSEN(on, h + next, y->d[i + 1]);
        y->c[i] = cos;
        y->s[i] = sin;
        g = CHOSEN(on, cos * r - b, g);
        c = CHOSEN(on, cos, c);
        s = CHOSEN(on, sin, s);
        p = CHOSEN(on, next, p);
    }
    for (int k = 0; k < TOGETHER; k++) {
        if (l[k] == m[k]) continue;
        y->d[l[k]][k] -= p[k];
        y->e[l[k]][k] = g[k];
    }
}

/* Small values are found to rounding of themselves where the matrix says them so well: a threshold of the
   largest one would make weights of what is none. */
static int is_small(const party *y, int k, int i)
{
    const double e = y->e[i][k];
    return e * e <= DBL_EPSILON * DBL_EPSILON * fabs(y->d[i][k] * y->d[i + 1][k]) + NOTHING;
}

/* One matrix among those that are iterated: rows l to m are next, `count` times so far; l = n: it is done;
   -1: its iteration does not end. */
typedef struct course {
    int l, count;
} course;

/* What is next of lane k; returns m, which is l where nothing is. */
static int look(party *y, int k, int n, course *c)
{
    while (c->l >= 0 && c->l < n) {
        int m = c->l;
        while (m < n - 1 && !is_small(y, k, m)) m++;
        if (m < n - 1) y->e[m][k] = 0;
        if (m > c->l) {
            if (c->count++ < MOST) return m;
            c->l = -1;
        } else if (!isfinite(y->d[c->l][k])) c->l = -1;
        else {
            c->l++;
            c->count = 0;
        }
    }
    return c->l;
}

/* d of the party: the eigenvalues; t of each: their vectors. */
static void iterate(int count, const space *x, party *y, course *c)
{
    for (;;) {
        int l[TOGETHER] = {0}, m[TOGETHER] = {0}, any = 0;
        for (int k = 0; k < count; k++) {
            m[k] = look(y, k, x[k].n, &c[k]);
            l[k] = c[k].l;
            any |= m[k] > l[k];
        }
        if (!any) return;
        sweep(y, l, m);
        for (int k = 0; k < count; k++)
            if (m[k] > l[k]) rotate(&x[k], y, k, l[k], m[k]);
    }
}

/* The tridiagonal matrix and t; *most: what all was divided by. 0: it leaves the range of numbers. */
static int prepare(const kl_small_matrix *a, space *x, double *most)
{
    const int n = a->n;
    const int64_t ld = padded(n);
    double *const row = a->work + 2 * n * ld;
    *x = (space){.n = n,
                 .ld = ld,
                 .q = a->work,
                 .t = a->work + n * ld,
                 .d = row,
                 .e = row + ld,
                 .p = row + 2 * ld,
                 .f = row + 3 * ld};
    double largest = 0;
    memset(x->q, 0, (size_t)(n * ld) * sizeof *x->q);
    for (int j = 0; j < n; j++) {
        const double *const column = a->a + (int64_t)j * a->lda;
        for (int i = j; i < n; i++) largest = fabs(column[i]) > largest ? fabs(column[i]) : largest;
    }
    *most = largest;
    const double scale = largest > 0 ? 1 / largest : 1;
    if (!isfinite(scale) || !(scale > DBL_MIN)) return 0;
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++)
            x->q[i + j * ld] = x->q[j + i * ld] = scale * a->a[i + (int64_t)j * a->lda];
    reduce(x);
    const int turned = fabs(x->d[0]) > fabs(x->d[n - 1]); /* QL wants the small ones first */
    multiply_out(x, turned);
    if (turned) turn(x);
    return 1;
}

static void sort_out(const space *x, const party *y, int lane, double most, const kl_small_matrix *a)
{
    int order[KL_SMALL_EIG];
    for (int i = 0, k; i < x->n; i++) {
        for (k = i; k > 0 && y->d[order[k - 1]][lane] > y->d[i][lane]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (int k = 0; k < x->n; k++) {
        a->w[k] = y->d[order[k]][lane] * most;
        memcpy(a->a + (int64_t)k * a->lda, x->t + order[k] * x->ld, (size_t)x->n * sizeof *a->a);
    }
}

void kl_small_eig(int count, kl_small_matrix *a)
{
    space x[TOGETHER];
    party y;
    course c[TOGETHER];
    double most[TOGETHER];
    int rows = 0;
    for (int k = 0; k < count; k++) rows = a[k].n > rows ? a[k].n : rows;
    for (int i = 0; i < rows; i++) y.d[i] = y.e[i] = (four){0}; /* lanes without a matrix go along */
    y.e[rows] = (four){0};
    for (int k = 0; k < count; k++) {
        c[k] = (course){prepare(&a[k], &x[k], &most[k]) ? 0 : -1, 0};
        for (int i = 0; i < x[k].n && c[k].l == 0; i++) {
            y.d[i][k] = x[k].d[i];
            y.e[i][k] = x[k].e[i];
        }
    }
    iterate(count, x, &y, c);
    for (int k = 0; k < count; k++) {
        a[k].done = c[k].l >= 0;
        if (a[k].done) sort_out(&x[k], &y, k, most[k], &a[k]);
    }
}
