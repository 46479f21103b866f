/* Symmetric matrices to tridiagonal ones by Householder reflections, all matrices of a call side by side, a
   launch a row. Each launch ends the step before: what a block wants of the last reflection, and the next
   one, every block works out for itself, so that none waits for another. Then it updates its columns and
   multiplies them with the new reflection in the same pass, reading and writing what is left of the matrices
   once.

   Step j, of v and p = A v of step j - 1, A without it: tau = 2 / v.v, w = tau p - tau^2 / 2 (p.v) v, A' = A
   - v w^T - w v^T; column j of A' has the diagonal's element and the new v, 1 at row j + 1; p = A' v.
   (LAPACK's sytd2.) v replaces column j a step later, when nobody reads that any more.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "offload.h"
#include "target.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A matrix: n rows, elements from off on, vectors from at on; number of blocks. */
typedef struct matrix {
    int64_t off;
    int32_t n, at, first, blocks;
} matrix;

/* What a step reads and writes: vectors of all matrices, one after the other. */
typedef struct vectors {
    const double *v, *p; /* of the step before */
    double *next_v, *next_p, *d, *e;
} vectors;

enum {
    COLUMNS = 4 /* a warp has at a time */,
    BLOCK_COLUMNS = KL_BLOCK / 32 * COLUMNS,
    TOLD = 2,
    STRIPS = 4 /* of 32 rows in flight */,
    MOST_ROWS = 8192 /* three vectors in shared memory */
};

/* tau, and what w = tau p - share v takes of v. */
static inline double factors(double pv, double vv, double *share)
{
    const double tau = vv > 0.0 ? 2.0 / vv : 0.0;
    *share = 0.5 * tau * tau * pv;
    return tau;
}

/* Of a column with the element x below the diagonal and the squares of all under it: the tridiagonal matrix'
   element, and the factor of the new v, 0 where there is nothing to be done. */
static inline double reflected(double x, double squares, double *scale)
{
    if (!(squares > 0.0) && squares == squares) {
        *scale = 0.0;
        return x;
    }
    const double alpha = -__builtin_copysign(__builtin_sqrt(x * x + squares), x);
    *scale = 1.0 / (x - alpha);
    return alpha;
}

/* Row r of a matrix, by one thread, for any target. */
static inline void row(int r, int j, const matrix *m, double *all, const vectors *u)
{
    const int n = m->n, at = m->at;
    double *const a = all + m->off, *const column = a + (int64_t)j * n;
    const double *const v = u->v + at, *const p = u->p + at;
    if (j > 0) a[r + (int64_t)(j - 1) * n] = r < j ? 0.0 : v[r];
    if (r < j) return;
    double pv = 0.0, vv = 0.0, share, squares = 0.0, scale, below = 0.0;
    for (int q = j; q < n && j > 0; q++) pv += p[q] * v[q], vv += v[q] * v[q];
    const double tau = factors(pv, vv, &share), vj = j > 0 ? v[j] : 0.0,
                 wj = j > 0 ? tau * p[j] - share * vj : 0.0;
#define W(q) (j > 0 ? tau * p[q] - share * v[q] : 0.0)
#define V(q) (j > 0 ? v[q] : 0.0)
#define X(q) (column[q] - V(q) * wj - W(q) * vj)
    for (int q = j + 2; q < n; q++) squares += X(q) * X(q);
    if (j + 1 < n) below = X(j + 1);
    const double element = reflected(below, squares, &scale);
    if (r == j) {
        u->d[at + j] = X(j);
        u->e[at + j] = j + 1 < n ? element : 0.0;
        u->next_v[at + j] = 0.0;
        return;
    }
    const double vr = V(r), wr = W(r);
    double sum = 0.0;
    for (int c = j + 1; c < n; c++) {
        const double now = a[r + (int64_t)c * n] - vr * W(c) - wr * V(c);
        a[r + (int64_t)c * n] = now;
        sum += now * (c > j + 1 ? X(c) * scale : scale != 0.0 ? 1.0 : 0.0);
    }
    u->next_v[at + r] = r > j + 1 ? X(r) * scale : scale != 0.0 ? 1.0 : 0.0;
    u->next_p[at + r] = sum;
#undef W
#undef V
#undef X
}

#if KL_OFFLOAD_BARE
#ifdef __NVPTX__
/* s[2] of all threads added up, for all of them. */
static inline __attribute__((always_inline)) void add_up(const int count, double *s, double *told)
{
    const int me = (int)__nvvm_read_ptx_sreg_tid_x();
    const double sum = kl_block_sums(count, s);
    if (me < count) told[me] = sum;
    kl_block_sync();
    for (int k = 0; k < count; k++) s[k] = told[k];
}

/* Rows q, q + 32, ... of a warp's columns: all is read before anything is written, which would hold the next
   reads up. */
static inline __attribute__((always_inline)) void update(const int strips, int q, double *const *own,
                                                         const double *vs, const double *ws, const double *us,
                                                         const double *vc, const double *wc, double *sum)
{
    double x[STRIPS][COLUMNS];
    _Pragma("clang loop unroll(full)") for (int s = 0; s < strips; s++)
        _Pragma("clang loop unroll(full)") for (int k = 0; k < COLUMNS; k++) x[s][k] = own[k][q + 32 * s];
    _Pragma("clang loop unroll(full)") for (int s = 0; s < strips; s++)
    {
        const double vq = vs[q + 32 * s], wq = ws[q + 32 * s], uq = us[q + 32 * s];
        _Pragma("clang loop unroll(full)") for (int k = 0; k < COLUMNS; k++)
        {
            const double now = x[s][k] - vq * wc[k] - wq * vc[k];
            own[k][q + 32 * s] = now;
            sum[k] += now * uq;
        }
    }
}

/* A block's columns of a matrix. */
static inline __attribute__((always_inline)) void columns(int j, const matrix *all, const int *owner,
                                                          double *elements, vectors u)
{
    const double *v = u.v, *p = u.p;
    double *next_v = u.next_v, *next_p = u.next_p, *const d = u.d, *const e = u.e;
    const int me = (int)__nvvm_read_ptx_sreg_tid_x(), lane = me % 32,
              block = (int)__nvvm_read_ptx_sreg_ctaid_x();
    const matrix m = all[owner[block]];
    const int part = block - m.first, n = m.n, rows = n - j;
    if (part > 0 && (part * BLOCK_COLUMNS + 1 >= rows || rows <= 0)) return;
    /* from row j on */
    double *const told = (double *)llvm_omp_target_dynamic_shared_alloc() + KL_REDUCE,
                  *const vs = told + TOLD * 2, *const ws = vs + n, *const us = ws + n;
    double *const column = elements + m.off + j + (int64_t)j * n; /* j, from row j on */
    double s[2] = {0.0, 0.0}, share, scale;
    v += m.at + j, p += m.at + j, next_v += m.at + j, next_p += m.at + j;
    for (int q = me; q < rows; q += KL_BLOCK) {
        const double x = j > 0 ? v[q] : 0.0, y = j > 0 ? p[q] : 0.0;
        vs[q] = x, ws[q] = y;
        s[0] += y * x, s[1] += x * x;
    }
    add_up(2, s, told);
    const double tau = factors(s[0], s[1], &share), vj = vs[0], wj = tau * ws[0] - share * vj;
    kl_block_sync(); /* ws[0] is read */
    s[0] = 0.0;
    for (int q = me; q < rows; q += KL_BLOCK) {
        const double w = tau * ws[q] - share * vs[q], x = column[q] - vs[q] * wj - w * vj;
        ws[q] = w, us[q] = x;
        if (q > 1) s[0] += x * x;
    }
    add_up(1, s, told + TOLD);
    const double diagonal = us[0], element = rows > 1 ? reflected(us[1], s[0], &scale) : (scale = 0.0);
    kl_block_sync(); /* us[0] and us[1] are read */
    for (int q = me; q < rows; q += KL_BLOCK) {
        const double u = q > 1 ? us[q] * scale : q == 1 && scale != 0.0 ? 1.0 : 0.0;
        us[q] = u;
        if (part == 0) next_v[q] = u;
        if (part == 0 && j > 0) column[q - n] = vs[q]; /* in column j - 1 */
    }
    if (part == 0 && me == 0) d[m.at + j] = diagonal, e[m.at + j] = element;
    for (int q = me; part == 0 && j > 0 && q < j; q += KL_BLOCK) column[q - j - n] = 0.0;
    kl_block_sync();
    for (int c = 1 + (part * (KL_BLOCK / 32) + me / 32) * COLUMNS; c < rows; c += m.blocks * BLOCK_COLUMNS) {
        double sum[COLUMNS], vc[COLUMNS], wc[COLUMNS], *own[COLUMNS];
        _Pragma("clang loop unroll(full)") for (int k = 0; k < COLUMNS; k++)
        { /* those beyond the last are the first once more */
            const int here = c + k < rows ? c + k : c;
            sum[k] = 0.0, vc[k] = vs[here], wc[k] = ws[here], own[k] = column + (int64_t)here * n;
        }
        int q = 1 + lane;
        for (; q + 32 * (STRIPS - 1) < rows; q += 32 * STRIPS)
            update(STRIPS, q, own, vs, ws, us, vc, wc, sum);
        for (; q < rows; q += 32) update(1, q, own, vs, ws, us, vc, wc, sum);
        const double product = kl_warp_sums(COLUMNS, sum);
        if (lane < COLUMNS && c + lane < rows) next_p[c + lane] = product;
    }
}
#else
/* Never run: every pass of the compiler must see the region use the same variables in the same order. */
static inline void columns(int j, const matrix *all, const int *owner, double *elements, vectors u)
{
    (void)j, (void)all, (void)owner, (void)elements, (void)u;
}
#endif
#endif

static void step(const kl_offload *self, int j, int largest, int work, const matrix *all, const int *owner,
                 double *a, const vectors *u)
{
    const double *const v = u->v, *const p = u->p;
    double *const next_v = u->next_v, *const next_p = u->next_p, *const d = u->d, *const e = u->e;
#if KL_OFFLOAD_BARE
    if (self->bare) {
        const int bytes = (KL_REDUCE + 2 * TOLD + 3 * largest) * (int)sizeof(double);
        KL_BARE(work, KL_BLOCK, bytes,
                is_device_ptr(all, owner, a, v, p, next_v, next_p, d, e) firstprivate(j))
        {
            columns(j, all, owner, a, (vectors){v, p, next_v, next_p, d, e});
        }
        return;
    }
#endif
    (void)largest;
    const int teams = kl_teams_of(self, (work + KL_BLOCK - 1) / KL_BLOCK);
    KL_FLAT(teams, is_device_ptr(all, owner, a, v, p, next_v, next_p, d, e) firstprivate(j, work))
    for (int t = 0; t < work; t++) {
        const matrix *const m = &all[owner[t]];
        const vectors here = {v, p, next_v, next_p, d, e};
        row(t - m->first, j, m, a, &here);
    }
}

typedef struct keyed {
    int n, nth;
} keyed;

static int by_rows(const void *pa, const void *pb)
{
    const keyed *const a = pa, *const b = pb;
    return a->n != b->n ? b->n - a->n : a->nth - b->nth;
}

kl_status kl_offload_tridiagonal(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a,
                                 double *d, double *e, kl_err *err)
{
    kl_status st = KL_OK;
    kl_offload *const self = ex->self;
    keyed *order = NULL;
    matrix *table = NULL;
    int *owner = NULL;
    void *place = NULL, *block = NULL;
    int64_t total = 0, work = 0;
    double squares = 0;
    KL_TRY(kl_alloc(&order, nmat, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&table, nmat, KL_MEM_WORK, err));
    for (int i = 0; i < nmat; i++) {
        order[i] = (keyed){n[i], i};
        total += n[i];
        squares += (double)n[i] * n[i];
    }
    if (total == 0) goto out;
    qsort(order, (size_t)nmat, sizeof *order, by_rows); /* those that are done first come last */
    if (order[0].n > MOST_ROWS) {
        st = kl_fail(err, KL_ENOMEM,
                     "--exec offload: a matrix of %d rows; at most %d are reduced on the device", order[0].n,
                     MOST_ROWS);
        goto out;
    }
    for (int i = 0; i < nmat; i++) {
        const int rows = order[i].n, most = (rows + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
        const int share = (int)ceil(2.0 * self->nsm * rows * rows / squares);
        table[i] = (matrix){.off = off[order[i].nth],
                            .n = rows,
                            .first = (int)work,
                            .blocks = self->bare ? share < most ? share : most : rows};
        for (int k = 0; k < order[i].nth; k++) table[i].at += n[k];
        work += table[i].blocks;
    }
    KL_TRY(kl_alloc(&owner, work, KL_MEM_WORK, err));
    for (int i = 0; i < nmat; i++)
        for (int k = 0; k < table[i].blocks; k++) owner[table[i].first + k] = i;
    const int64_t doubles = 6 * total * (int64_t)sizeof(double), tables = nmat * (int64_t)sizeof *table,
                  owners = work * (int64_t)sizeof *owner;
    KL_TRY(kl_pool_alloc(&self->pool, doubles + tables + owners, &block, err));
    place = block;
    double *const vector = place;
    matrix *const there = (matrix *)((char *)place + doubles);
    int *const owner_there = (int *)((char *)place + doubles + tables);
    if (kl_offload_put(self, there, table, tables) != 0 ||
        kl_offload_put(self, owner_there, owner, owners) != 0) {
        st = kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied to the device",
                     (long long)(tables + owners));
        goto out;
    }
    int active = nmat;
    for (int j = 0; j < order[0].n; j++) {
        while (active > 0 && table[active - 1].n <= j) active--;
        const int odd = j & 1;
        const vectors u = {.v = vector + (odd ? 0 : total),
                           .p = vector + (odd ? 2 * total : 3 * total),
                           .next_v = vector + (odd ? total : 0),
                           .next_p = vector + (odd ? 3 * total : 2 * total),
                           .d = vector + 4 * total,
                           .e = vector + 5 * total};
        step(self, j, order[0].n, table[active - 1].first + table[active - 1].blocks, there, owner_there,
             kl_device(a), &u);
    }
    if (kl_offload_get(self, d, vector + 4 * total, total * (int64_t)sizeof(double)) != 0 ||
        kl_offload_get(self, e, vector + 5 * total, total * (int64_t)sizeof(double)) != 0) {
        st = kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied from the device",
                     (long long)(2 * total * (int64_t)sizeof(double)));
        goto out;
    }
    for (int64_t i = 0, at = 0; i < nmat; at += n[i++])
        for (int k = 0; k < n[i]; k++)
            if (!isfinite(d[at + k]) || !isfinite(e[at + k])) {
                st = kl_fail(err, KL_EINPUT,
                             "eigenvectors: a matrix of %d rows has elements that are not finite", n[i]);
                goto out;
            }
out:
    kl_pool_release(&self->pool, block);
    kl_free(&order);
    kl_free(&table);
    kl_free(&owner);
    return st;
}
