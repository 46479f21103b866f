/* Divide and conquer on all threads: see divide.h. The steps are those of LAPACK's dlaed1, dlaed2 and dlaed3,
   cut into pieces; the roots of the secular equation stay LAPACK's dlaed4.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/divide.h"
#include "base/blas.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/par.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Of LAPACK, though not among what lapack.h declares: root i of 1 + rho sum_j z_j^2 / (d_j - x), and how far
   it is from every d_j, in delta. */
void dlaed4_(const int *n, const int *i, const double *d, const double *z, double *delta, const double *rho,
             double *dlam, int *info);

enum {
    COLUMNS = 64, /* of a task */
    ROWS = 128, /* of a task */
};

/* Columns by their rows that are not zero; those that need no work come last. */
typedef enum kind { UPPER, BOTH, LOWER, DONE, NKIND } kind;

/* Columns x and y become c x + s y and c y - s x, in these rows. */
typedef struct rotation {
    int x, y;
    kind rows;
    double c, s;
} rotation;

/* A matrix while it is worked on. */
typedef struct matrix {
    kl_divided *out;
    const double *d, *e;
    double scale; /* what its elements are divided by */
    int ends; /* 1: no vectors are wanted, and of them a node has its first and its last row alone */
    int depth; /* how often it is halved */
    kl_status status; /* KL_ENOCONV: it is left to the method for whole matrices */
    /* [n] each: values so far; of the node whose rows these are: the change of rank one, and poles and
       weights of the secular equation */
    double *value, *z, *pole, *weight;
    int *sorted; /* [n] columns of the node by ascending values */
    /* [n] each: by kinds, column in front of the join, and which of the poles is its own */
    int *source, *nth;
    int *scratch; /* [3 n] */
    rotation *rotations; /* [n] */
    kl_status result; /* where it is a task */
    kl_err error;
} matrix;

/* Rows [row, row + n) of a matrix: its halves are to be joined. */
typedef struct node {
    matrix *of;
    int row, n, half, last; /* last: the matrix as a whole */
    int k, count[NKIND], nrotation; /* values that need work */
    double rho;
    kl_status status;
    kl_err error;
} node;

typedef struct piece {
    node *of;
    int first, count;
    kl_status status;
} piece;

static int row_of(const matrix *m, int depth, int nth) { return (int)((int64_t)m->out->n * nth >> depth); }

/* Where a node's vectors stand, column by column, ld its matrix' rows; and what they are made of, between two
   joins. */
static double *block_of(const node *a) { return a->of->out->z + a->row + (int64_t)a->row * a->of->out->n; }
static double *packed_of(const node *a) { return a->of->out->packed + (int64_t)a->row * a->of->out->n; }
/* Where only the ends are kept: packed numbers of the first row, of the last one, and of what is done, each
   of so many as the node has rows. */
static double *ends_of(const node *a) { return a->of->out->packed + 3 * (int64_t)a->row; }

/* Task: rows that are a matrix of their own once what couples them to their neighbours is taken off. */
static void solve_leaf(void *self, int64_t task, int thread)
{
    node *const leaf = (node *)self + task;
    matrix *const m = leaf->of;
    const int n = leaf->n, row = leaf->row;
    double *const d = m->z + row, *const e = m->pole + row;
    (void)thread;
    for (int i = 0; i < n; i++) d[i] = m->d[row + i] / m->scale;
    for (int i = 0; i + 1 < n; i++) e[i] = m->e[row + i] / m->scale;
    if (row > 0) d[0] -= fabs(m->e[row - 1] / m->scale);
    if (row + n < m->out->n) d[n - 1] -= fabs(m->e[row + n - 1] / m->scale);
    leaf->status = kl_dense_eig_tridiagonal(n, d, e, m->value + row, block_of(leaf), m->out->n, &leaf->error);
    for (int i = 0; i < n; i++) m->sorted[row + i] = i;
    for (int64_t i = row; i < row + n && !m->ends; i++) { /* so that columns can be transformed in any rows */
        double *const column = m->out->z + i * m->out->n;
        memset(column, 0, (size_t)row * sizeof *column);
        memset(column + row + n, 0, (size_t)(m->out->n - row - n) * sizeof *column);
    }
}

/* Of two lists of indices that give ascending values, one. */
static void merge(const double *value, int na, const int *a, int nb, const int *b, int *both)
{
    for (int i = 0, j = 0; i < na || j < nb;) {
        const int first = j == nb || (i < na && value[a[i]] <= value[b[j]]);
        both[i + j] = first ? a[i] : b[j];
        if (first) i++;
        else j++;
    }
}

/* Column x among those that need no work, place[at, n): their values fall. */
static void put_aside(int n, const double *d, int x, int at, int *place)
{
    for (; at + 1 < n && d[x] < d[place[at + 1]]; at++) place[at] = place[at + 1];
    place[at] = x;
}

/* Task: the secular equation of a node, without what is an eigenvector as it stands, or becomes one by a
   rotation that changes no other number: dlaed2, but columns stay where they are. */
static void start_joining(void *self, int64_t task, int thread)
{
    node *const a = (node *)self + task;
    matrix *const m = a->of;
    const int row = a->row, n = a->n, half = a->half, ld = m->out->n;
    const double *const q = block_of(a), coupling = m->e[row + half - 1] / m->scale;
    double *const d = m->value + row, *const z = m->z + row, *const pole = m->pole + row,
                  *const weight = m->weight + row, most_d = 0, most_z = 0;
    int *const sorted = m->sorted + row, *const order = m->scratch + 3 * row, *const place = order + n,
               *const type = place + n, k = 0, rest = n, last = -1;
    (void)thread;
    if (a->status != KL_OK) return;
    for (int i = 0; i < n; i++) {
        z[i] = sqrt(0.5) * q[(i < half ? half - 1 : half) + (int64_t)i * ld] *
               (i >= half && coupling < 0 ? -1 : 1);
        most_d = fmax(most_d, fabs(d[i])), most_z = fmax(most_z, fabs(z[i]));
        type[i] = i < half ? UPPER : LOWER;
        if (i >= half) sorted[i] += half;
    }
    for (int64_t i = 0; i < n && m->ends; i++) block_of(a)[(i < half ? n - 1 : 0) + i * ld] = 0;
    const double rho = 2 * fabs(coupling), small = 4 * DBL_EPSILON * fmax(most_d, most_z);
    merge(d, half, sorted, n - half, sorted + half, order);
    a->rho = rho;
    if (rho * most_z <= small) {
        memcpy(sorted, order, (size_t)n * sizeof *sorted);
        return;
    }
    for (int j = 0; j < n; j++) {
        const int now = order[j];
        if (rho * fabs(z[now]) <= small) {
            type[now] = DONE;
            put_aside(n, d, now, --rest, place);
            continue;
        }
        const double length = last < 0 ? 0 : hypot(z[last], z[now]), c = last < 0 ? 0 : z[now] / length,
                     s = last < 0 ? 0 : -z[last] / length;
        if (last >= 0 && fabs((d[now] - d[last]) * c * s) <= small) {
            const double before = d[last];
            z[now] = length;
            if (type[now] != type[last]) type[now] = BOTH;
            m->rotations[row + a->nrotation++] = (rotation){last, now, type[now], c, s};
            type[last] = DONE;
            d[last] = before * c * c + d[now] * s * s;
            d[now] = before * s * s + d[now] * c * c;
            put_aside(n, d, last, --rest, place);
        } else if (last >= 0) pole[k] = d[last], weight[k] = z[last], place[k++] = last;
        last = now;
    }
    pole[k] = d[last], weight[k] = z[last], place[k++] = last;
    a->k = k;
    int at[NKIND] = {0};
    for (int i = 0; i < n; i++) a->count[type[i]]++;
    for (int i = 1; i < NKIND; i++) at[i] = at[i - 1] + a->count[i - 1];
    for (int j = 0; j < n; j++) {
        const int to = at[type[place[j]]]++;
        m->source[row + to] = place[j], m->nth[row + to] = j;
        z[j] = d[place[j]];
    }
    memcpy(d + k, z + k, (size_t)(n - k) * sizeof *d); /* falling; roots come in front of them */
}

/* Rows [from, to) of one half: transformed; columns that are joined packed, by kinds; those that are done
   behind the others. */
static void move(const node *a, int lower, int from, int to)
{
    const matrix *const m = a->of;
    const int n = a->n, half = a->half,
              ld = m->out->n, *const source = m->source + a->row, *const count = a->count;
    const int skip = lower ? half : 0, height = lower ? n - half : half, first = lower ? count[UPPER] : 0,
              past = lower ? a->k : count[UPPER] + count[BOTH];
    const size_t bytes = from < to ? (size_t)(to - from) * sizeof(double) : 0;
    double *const q = block_of(a) + from, *const upper = packed_of(a),
                  *const below = upper + (int64_t)half * (count[UPPER] + count[BOTH]),
                  *const behind = below + (int64_t)(n - half) * (count[BOTH] + count[LOWER]) + from,
                  *const packed = (lower ? below : upper) + from - skip;
    for (int i = 0; i < a->nrotation; i++) {
        const rotation *const t = &m->rotations[a->row + i];
        double *const x = q + (int64_t)t->x * ld, *const y = q + (int64_t)t->y * ld, c = t->c, s = t->s;
        if (t->rows == (lower ? UPPER : LOWER)) continue;
        for (int r = 0; r < to - from; r++) {
            const double turned = c * x[r] + s * y[r];
            y[r] = c * y[r] - s * x[r];
            x[r] = turned;
        }
    }
    for (int i = first; i < past; i++)
        memcpy(packed + (int64_t)(i - first) * height, q + (int64_t)source[i] * ld, bytes);
    for (int i = a->k; i < n; i++)
        memcpy(behind + (int64_t)(i - a->k) * n, q + (int64_t)source[i] * ld, bytes);
    for (int i = a->k; i < n; i++) memcpy(q + (int64_t)i * ld, behind + (int64_t)(i - a->k) * n, bytes);
}

/* The same of the first and the last row. */
static void move_ends(const node *a)
{
    const matrix *const m = a->of;
    const int n = a->n, *const source = m->source + a->row, *const count = a->count;
    const int64_t ld = m->out->n;
    double *const behind = ends_of(a) + 2 * (int64_t)n;
    for (int lower = 0; lower < 2; lower++) {
        double *const q = block_of(a) + (lower ? n - 1 : 0), *const packed = ends_of(a) + lower * (int64_t)n;
        const int first = lower ? count[UPPER] : 0, past = lower ? a->k : count[UPPER] + count[BOTH];
        for (int i = 0; i < a->nrotation; i++) {
            const rotation *const t = &m->rotations[a->row + i];
            double *const x = q + t->x * ld, *const y = q + t->y * ld, turned = t->c * *x + t->s * *y;
            if (t->rows == (lower ? UPPER : LOWER)) continue;
            *y = t->c * *y - t->s * *x;
            *x = turned;
        }
        for (int i = first; i < past; i++) packed[i - first] = q[source[i] * ld];
        for (int i = a->k; i < n; i++) behind[i] = q[source[i] * ld];
        for (int i = a->k; i < n; i++) q[i * ld] = behind[i];
    }
}

/* Task: the same of any rows. */
static void move_rows(void *self, int64_t task, int thread)
{
    const piece *const p = (piece *)self + task;
    const int half = p->of->half, end = p->first + p->count;
    (void)thread;
    if (p->of->of->ends) {
        if (p->first == 0) move_ends(p->of);
        return;
    }
    if (p->first < half) move(p->of, 0, p->first, end < half ? end : half);
    if (end > half) move(p->of, 1, p->first > half ? p->first : half, end);
}

/* Task: roots of a node, and how far each is from every pole, into the columns of its block. */
static void find_roots(void *self, int64_t task, int thread)
{
    piece *const p = (piece *)self + task;
    const node *const a = p->of;
    const matrix *const m = a->of;
    const int row = a->row, values = a->last && m->ends;
    double *far = NULL;
    (void)thread;
    if (values) p->status = kl_realloc(&far, a->k, KL_MEM_WORK, NULL);
    for (int j = p->first; j < p->first + p->count && p->status == KL_OK; j++) {
        const int nth = j + 1;
        int info;
        dlaed4_(&a->k, &nth, m->pole + row, m->weight + row,
                values ? far : block_of(a) + (int64_t)j * m->out->n, &a->rho, m->value + row + j, &info);
        if (info != 0) p->status = KL_ENOCONV;
    }
    kl_free(&far);
}

/* Task: the change of rank one whose roots these are to all digits, so that vectors from it are orthogonal
   (Gu and Eisenstat's formula), row by row. */
static void refine_weights(void *self, int64_t task, int thread)
{
    piece *const p = (piece *)self + task;
    const node *const a = p->of;
    const matrix *const m = a->of;
    const int ld = m->out->n, from = p->first, to = p->first + p->count;
    const double *const pole = m->pole + a->row, *const q = block_of(a), *const weight = m->weight + a->row;
    double *const z = m->z + a->row;
    (void)thread;
    if (a->k <= 2) return; /* dlaed4 gives vectors */
    for (int i = from; i < to; i++) z[i] = q[i + (int64_t)i * ld];
    for (int j = 0; j < a->k; j++) {
        const double *const far = q + (int64_t)j * ld;
        for (int i = from; i < (to < j ? to : j); i++) z[i] *= far[i] / (pole[i] - pole[j]);
        for (int i = from > j ? from : j + 1; i < to; i++) z[i] *= far[i] / (pole[i] - pole[j]);
    }
    for (int i = from; i < to; i++) z[i] = copysign(sqrt(-z[i]), weight[i]);
}

/* The last product of columns [first, first + count) of a block, s having what they are made of. */
static void multiply(int ld, int n, int half, const int *count, const double *packed, const double *s,
                     int lds, int columns, double *to)
{
    const int upper = count[0] + count[1], lower = count[1] + count[2];
    kl_dgemm('N', 'N', half, columns, upper, 1.0, packed, half, s, lds, 0.0, to, ld);
    kl_dgemm('N', 'N', n - half, columns, lower, 1.0, packed + (int64_t)half * upper, n - half, s + count[0],
             lds, 0.0, to + half, ld);
}

static double dot(int n, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Task: vectors of the changed diagonal matrix, in the order of the packed columns; and of the block itself,
   unless it is the last. */
static void make_vectors(void *self, int64_t task, int thread)
{
    piece *const p = (piece *)self + task;
    const node *const a = p->of;
    const matrix *const m = a->of;
    const int ld = m->out->n, k = a->k, *const nth = m->nth + a->row;
    const double *const z = m->z + a->row;
    double *const q = block_of(a) + (int64_t)p->first * ld, *s = NULL;
    (void)thread;
    p->status = kl_realloc(&s, (int64_t)k * (p->count + 1), KL_MEM_WORK, NULL);
    if (p->status != KL_OK) return;
    double *const one = s + (int64_t)k * p->count;
    for (int j = 0; j < p->count; j++) {
        double *const column = q + (int64_t)j * ld, *const to = a->last ? column : s + (int64_t)j * k,
                      sum = 0;
        if (k > 2)
            for (int i = 0; i < k; i++) one[i] = z[i] / column[i], sum += one[i] * one[i];
        else
            for (int i = 0; i < k; i++) one[i] = column[i], sum = 1;
        if (!(sum > 0 && sum <= DBL_MAX)) p->status = KL_ENOCONV;
        const double norm = sqrt(sum), *const ends = ends_of(a);
        for (int i = 0; i < k; i++) to[i] = one[nth[i]] / norm;
        if (!m->ends) continue;
        column[0] = dot(a->count[UPPER] + a->count[BOTH], ends, to);
        column[a->n - 1] = dot(a->count[BOTH] + a->count[LOWER], ends + a->n, to + a->count[UPPER]);
    }
    if (!a->last && !m->ends) multiply(ld, a->n, a->half, a->count, packed_of(a), s, k, p->count, q);
    kl_free(&s);
}

/* The given task for every piece, of at most COLUMNS columns or ROWS rows, of what is joined. */
static kl_status in_pieces(int nthread, int nnode, node *all, int rows, kl_par_fn *task, kl_err *err)
{
    piece *p = NULL;
    int64_t count = 0;
    const int most = rows ? ROWS : COLUMNS;
    for (int i = 0; i < nnode; i++) count += (all[i].n + most - 1) / most;
    const kl_status st = kl_alloc(&p, count, KL_MEM_WORK, err);
    if (st != KL_OK) return st;
    count = 0;
    for (int i = 0; i < nnode; i++)
        for (int k = 0, end = !rows || all[i].k == 0 ? all[i].k : all[i].n; k < end && all[i].status == KL_OK;
             k += most) {
            if (all[i].last && all[i].of->ends && task != find_roots) break;
            p[count++] = (piece){.of = &all[i], .first = k, .count = end - k < most ? end - k : most};
        }
    kl_par_for(nthread, count, task, p);
    for (int64_t i = 0; i < count; i++)
        if (p[i].status != KL_OK) p[i].of->status = p[i].status;
    kl_free(&p);
    return KL_OK;
}

/* Joins the halves of all these. */
static kl_status join(int nthread, int nnode, node *all, kl_err *err)
{
    kl_status st = KL_OK;
    kl_par_for(nthread, nnode, start_joining, all);
    KL_TRY(in_pieces(nthread, nnode, all, 1, move_rows, err));
    KL_TRY(in_pieces(nthread, nnode, all, 0, find_roots, err));
    KL_TRY(in_pieces(nthread, nnode, all, 0, refine_weights, err));
    KL_TRY(in_pieces(nthread, nnode, all, 0, make_vectors, err));
    for (int i = 0; i < nnode; i++) {
        const node *const a = &all[i];
        int *const joined = a->of->scratch + 3 * a->row, *const done = joined + a->n;
        kl_divided *const out = a->of->out;
        if (a->status != KL_OK) continue;
        for (int k = 0; k < a->k; k++) joined[k] = k;
        for (int k = 0; k < a->n - a->k; k++) done[k] = a->n - 1 - k;
        if (a->k > 0) merge(a->of->value + a->row, a->k, joined, a->n - a->k, done, a->of->sorted + a->row);
        if (a->last) out->half = a->half, out->joined = a->k, memcpy(out->count, a->count, sizeof out->count);
    }
out:
    return st;
}

/* Nodes of the matrices whose rows are halved `height` times below; only counted where all is NULL. */
static int nodes(int nmat, matrix *m, int height, node *all)
{
    int count = 0;
    for (int i = 0; i < nmat; i++) {
        const int depth = m[i].depth - height;
        for (int k = 0; depth >= 0 && m[i].status == KL_OK && k < 1 << depth; k++, count++) {
            if (!all) continue;
            const int row = row_of(&m[i], depth, k);
            all[count] = (node){.of = &m[i],
                                .row = row,
                                .n = row_of(&m[i], depth, k + 1) - row,
                                .half = row_of(&m[i], depth + 1, 2 * k + 1) - row,
                                .last = depth == 0};
        }
    }
    return count;
}

/* All leaves, then what joins them, from the lowest halves up. A matrix where an iteration fails is left out
   from there on. */
static kl_status work_up(int nthread, int nmat, matrix *m, kl_err *err)
{
    kl_status st = KL_OK;
    node *all = NULL;
    int highest = 0;
    KL_TRY(kl_alloc(&all, nodes(nmat, m, 0, NULL), KL_MEM_WORK, err));
    for (int i = 0; i < nmat; i++) highest = m[i].depth > highest ? m[i].depth : highest;
    for (int height = 0; height <= highest; height++) {
        const int count = nodes(nmat, m, height, all);
        if (height == 0) kl_par_for(nthread, count, solve_leaf, all);
        else KL_TRY(join(nthread, count, all, err));
        for (int i = 0; i < count; i++) {
            const node *const a = &all[i];
            if (a->status != KL_OK) a->of->status = a->status;
            if (a->status == KL_OK || a->status == KL_ENOCONV) continue;
            st = a->error.text[0] ? kl_fail(err, a->status, "%s", a->error.text)
                                  : kl_fail(err, a->status, "eigenvectors: no memory to join %d rows", a->n);
            goto out;
        }
    }
out:
    kl_free(&all);
    return st;
}

/* INFINITY where something is not finite. */
static double largest_of(int n, const double *d, const double *e)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        const double here = fabs(d[i]), next = i + 1 < n ? fabs(e[i]) : 0;
        if (!(here <= DBL_MAX && next <= DBL_MAX)) return INFINITY;
        most = fmax(most, fmax(here, next));
    }
    return most;
}

/* These matrices, from the memory that is the caller's in the end to their values. */
static kl_status solve(int nthread, int nmat, matrix *m, kl_err *err)
{
    kl_status st = KL_OK;
    for (int i = 0; i < nmat; i++) {
        kl_divided *const o = m[i].out;
        while (o->n >> m[i].depth > KL_DIVIDE_WHOLE) m[i].depth++;
        m[i].scale = m[i].depth > 0 ? largest_of(o->n, m[i].d, m[i].e) : 1;
        if (m[i].scale == 0) m[i].depth = 0, m[i].scale = 1;
        KL_TRY(kl_realloc(&o->w, o->n, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&o->order, o->n, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&o->z, (int64_t)o->n * o->n, KL_MEM_WORK, err));
        if (m[i].depth > 0)
            KL_TRY(kl_realloc(&o->packed, (int64_t)o->n * (m[i].ends ? 3 : o->n), KL_MEM_WORK, err));
    }
    KL_TRY(work_up(nthread, nmat, m, err));
    for (int i = 0; i < nmat; i++) {
        kl_divided *const o = m[i].out;
        if (o->joined == 0) kl_free(&o->packed);
        for (int k = 0; k < o->n && m[i].status == KL_OK; k++)
            o->order[k] = m[i].sorted[k], o->w[k] = m[i].value[o->order[k]] * m[i].scale;
        if (m[i].status == KL_OK) continue;
        for (int k = 0; k < o->n; k++) o->order[k] = k;
        KL_TRY(kl_dense_eig_tridiagonal(o->n, m[i].d, m[i].e, o->w, o->z, o->n, err));
    }
out:
    return st;
}

/* Task: one matrix, which stays in this core's cache. */
static void solve_one(void *self, int64_t task, int thread)
{
    matrix *const m = (matrix *)self + task;
    (void)thread;
    m->result = solve(1, 1, m, &m->error);
}

static kl_status divide(int nthread, int nmat, const int *n, const double *const *d, const double *const *e,
                        int ends, kl_divided *out, kl_err *err)
{
    const double share = 0.25; /* of a thread's work: a matrix that is more of it is shared out */
    kl_status st = KL_OK;
    matrix *m = NULL;
    double *numbers = NULL, work = 0;
    int *integers = NULL, count = 0, shared = 0;
    rotation *rotations = NULL;
    int64_t total = 0, at = 0;
    for (int i = 0; i < nmat; total += n[i++]) {
        out[i] = (kl_divided){.n = n[i]};
        work += pow(n[i], 3);
    }
    for (int i = 0; i < nmat; i++) {
        if (n[i] >= 1 && isfinite(largest_of(n[i], d[i], e[i]))) continue;
        st = kl_fail(err, KL_EINPUT,
                     "eigenvectors of a tridiagonal matrix of %d rows; at least one is needed, and every "
                     "element must be finite",
                     n[i]);
        goto out;
    }
    KL_TRY(kl_alloc(&m, nmat, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&numbers, 4 * total, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&rotations, total, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&integers, 6 * total, KL_MEM_WORK, err));
    kl_blas_init();
    for (int small = 0; small < 2; small++) {
        for (int i = 0; i < nmat; i++) {
            double *const own = numbers + 4 * at;
            int *const index = integers + 6 * at, size = n[i];
            if ((nthread <= 1 || pow(size, 3) <= share * work / nthread) != small) continue;
            m[count++] = (matrix){.out = &out[i],
                                  .ends = ends,
                                  .d = d[i],
                                  .e = e[i],
                                  .value = own,
                                  .z = own + size,
                                  .pole = own + 2 * size,
                                  .weight = own + 3 * size,
                                  .sorted = index,
                                  .source = index + size,
                                  .nth = index + 2 * size,
                                  .scratch = index + 3 * size,
                                  .rotations = rotations + at};
            at += size;
        }
        if (!small) shared = count;
    }
    KL_TRY(solve(nthread, shared, m, err));
    kl_par_for(nthread, nmat - shared, solve_one, m + shared);
    for (int i = shared; i < nmat; i++) {
        if (m[i].result == KL_OK) continue;
        st = kl_fail(err, m[i].result, "%s", m[i].error.text);
        goto out;
    }
out:
    for (int i = 0; i < nmat && st != KL_OK; i++) kl_divided_clear(&out[i]);
    kl_free(&m);
    kl_free(&numbers);
    kl_free(&integers);
    kl_free(&rotations);
    return st;
}

kl_status kl_divide(int nthread, int nmat, const int *n, const double *const *d, const double *const *e,
                    kl_divided *out, kl_err *err)
{
    return divide(nthread, nmat, n, d, e, 0, out, err);
}

kl_status kl_divide_values(int nthread, int nmat, const int *n, const double *const *d,
                           const double *const *e, double *w, kl_err *err)
{
    kl_status st = KL_OK;
    kl_divided *out = NULL;
    int made = 0;
    KL_TRY(kl_alloc(&out, nmat, KL_MEM_WORK, err));
    KL_TRY(divide(nthread, nmat, n, d, e, 1, out, err));
    made = nmat;
    for (int i = 0; i < nmat; w += n[i++]) memcpy(w, out[i].w, (size_t)n[i] * sizeof *w);
out:
    for (int i = 0; i < made; i++) kl_divided_clear(&out[i]);
    kl_free(&out);
    return st;
}

void kl_divided_columns(const kl_divided *m, int first, int count, double *z)
{
    const int n = m->n;
    int from = 0, made = 0;
    /* joined columns come in the order of their values, so they are neighbours */
    for (int s = first; s < first + count; s++)
        if (m->order[s] < m->joined) from = made == 0 ? m->order[s] : from, made++;
    if (made > 0) multiply(n, n, m->half, m->count, m->packed, m->z + (int64_t)from * n, n, made, z);
    for (int s = count - 1; s >= 0; s--) {
        const int at = m->order[first + s];
        const double *const column = at < m->joined ? z + (int64_t)--made * n : m->z + (int64_t)at * n;
        if (column != z + (int64_t)s * n) memcpy(z + (int64_t)s * n, column, (size_t)n * sizeof *z);
    }
}

void kl_divided_clear(kl_divided *m)
{
    kl_free(&m->w);
    kl_free(&m->order);
    kl_free(&m->z);
    kl_free(&m->packed);
}
