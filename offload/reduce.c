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
#include "device/tridiagonal.h"

enum {
    COLUMNS = KL_TRIDIAGONAL_COLUMNS,
    BLOCK_COLUMNS = KL_BLOCK / 32 * COLUMNS,
    TOLD = 2,
    STRIPS = KL_TRIDIAGONAL_STRIPS,
    MOST_ROWS = 8192 /* three vectors in shared memory */
};

/* Row r of a matrix, by one thread, for any target. */
static inline void row(int r, int j, const kl_tridiagonal_matrix *m, double *all,
                       const kl_tridiagonal_vectors *u)
{
    const int n = m->n, at = m->at;
    double *const a = all + m->off, *const column = a + (int64_t)j * n;
    const double *const v = u->v + at, *const p = u->p + at;
    if (j > 0) a[r + (int64_t)(j - 1) * n] = r < j ? 0.0 : v[r];
    if (r < j) return;
    double pv = 0.0, vv = 0.0, share, squares = 0.0, scale, below = 0.0;
    for (int q = j; q < n && j > 0; q++) pv += p[q] * v[q], vv += v[q] * v[q];
    const double tau = kl_tridiagonal_factors(pv, vv, &share), vj = j > 0 ? v[j] : 0.0,
                 wj = j > 0 ? tau * p[j] - share * vj : 0.0;
#define W(q) (j > 0 ? tau * p[q] - share * v[q] : 0.0)
#define V(q) (j > 0 ? v[q] : 0.0)
#define X(q) (column[q] - V(q) * wj - W(q) * vj)
    for (int q = j + 2; q < n; q++) squares += X(q) * X(q);
    if (j + 1 < n) below = X(j + 1);
    const double element = kl_tridiagonal_reflected(below, squares, &scale);
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
static inline __attribute__((always_inline)) void
columns(int j, const kl_tridiagonal_matrix *all, const int *owner, double *elements, kl_tridiagonal_vectors u)
{
    const double *v = u.v, *p = u.p;
    double *next_v = u.next_v, *next_p = u.next_p, *const d = u.d, *const e = u.e;
    const int me = (int)__nvvm_read_ptx_sreg_tid_x(), lane = me % 32,
              block = (int)__nvvm_read_ptx_sreg_ctaid_x();
    const kl_tridiagonal_matrix m = all[owner[block]];
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
    const double tau = kl_tridiagonal_factors(s[0], s[1], &share), vj = vs[0], wj = tau * ws[0] - share * vj;
    kl_block_sync(); /* ws[0] is read */
    s[0] = 0.0;
    for (int q = me; q < rows; q += KL_BLOCK) {
        const double w = tau * ws[q] - share * vs[q], x = column[q] - vs[q] * wj - w * vj;
        ws[q] = w, us[q] = x;
        if (q > 1) s[0] += x * x;
    }
    add_up(1, s, told + TOLD);
    const double diagonal = us[0],
                 element = rows > 1 ? kl_tridiagonal_reflected(us[1], s[0], &scale) : (scale = 0.0);
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
static inline void columns(int j, const kl_tridiagonal_matrix *all, const int *owner, double *elements,
                           kl_tridiagonal_vectors u)
{
    (void)j, (void)all, (void)owner, (void)elements, (void)u;
}
#endif
#endif

static void step(const kl_offload *self, int j, int largest, int work, const kl_tridiagonal_matrix *all,
                 const int *owner, double *a, const kl_tridiagonal_vectors *u)
{
    const double *const v = u->v, *const p = u->p;
    double *const next_v = u->next_v, *const next_p = u->next_p, *const d = u->d, *const e = u->e;
#if KL_OFFLOAD_BARE
    if (self->bare) {
        const int bytes = (KL_REDUCE + 2 * TOLD + 3 * largest) * (int)sizeof(double);
        KL_BARE(work, KL_BLOCK, bytes,
                is_device_ptr(all, owner, a, v, p, next_v, next_p, d, e) firstprivate(j))
        {
            columns(j, all, owner, a, (kl_tridiagonal_vectors){v, p, next_v, next_p, d, e});
        }
        return;
    }
#endif
    (void)largest;
    const int teams = kl_teams_of(self, (work + KL_BLOCK - 1) / KL_BLOCK);
    KL_FLAT(teams, is_device_ptr(all, owner, a, v, p, next_v, next_p, d, e) firstprivate(j, work))
    for (int t = 0; t < work; t++) {
        const kl_tridiagonal_matrix *const m = &all[owner[t]];
        const kl_tridiagonal_vectors here = {v, p, next_v, next_p, d, e};
        row(t - m->first, j, m, a, &here);
    }
}

kl_status kl_offload_tridiagonal(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a,
                                 double *d, double *e, kl_err *err)
{
    kl_status st = KL_OK;
    kl_offload *const self = ex->self;
    kl_tridiagonal_matrix *table = NULL;
    int *order = NULL, *owner = NULL;
    void *place = NULL, *block = NULL;
    int64_t total = 0;
    for (int i = 0; i < nmat; i++) total += n[i];
    if (total == 0) return KL_OK;
    KL_TRY(kl_alloc(&order, 2 * (int64_t)nmat, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&table, nmat, KL_MEM_WORK, err));
    const int64_t work =
        kl_tridiagonal_lay_out(nmat, n, off, self->nsm, self->bare ? BLOCK_COLUMNS : 0, order, table);
    if (table[0].n > MOST_ROWS)
        KL_TRY(kl_fail(err, KL_ENOMEM,
                       "--exec offload: a matrix of %d rows; at most %d are reduced on the device",
                       table[0].n, MOST_ROWS));
    KL_TRY(kl_alloc(&owner, work, KL_MEM_WORK, err));
    kl_tridiagonal_owners(nmat, table, owner);
    const int64_t doubles = KL_TRIDIAGONAL_VECTORS * total * (int64_t)sizeof(double),
                  tables = nmat * (int64_t)sizeof *table, owners = work * (int64_t)sizeof *owner;
    KL_TRY(kl_pool_alloc(&self->pool, doubles + tables + owners, &block, err));
    place = block;
    double *const vector = place;
    kl_tridiagonal_matrix *const there = (kl_tridiagonal_matrix *)((char *)place + doubles);
    int *const owner_there = (int *)((char *)place + doubles + tables);
    if (kl_offload_put(self, there, table, tables) != 0 ||
        kl_offload_put(self, owner_there, owner, owners) != 0) {
        st = kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied to the device",
                     (long long)(tables + owners));
        goto out;
    }
    int active = nmat;
    for (int j = 0; j < table[0].n; j++) {
        const int blocks = kl_tridiagonal_blocks(table, j, &active);
        const kl_tridiagonal_vectors u = kl_tridiagonal_turn(vector, total, j);
        step(self, j, table[0].n, blocks, there, owner_there, kl_device(a), &u);
    }
    if (kl_offload_get(self, d, vector + 4 * total, total * (int64_t)sizeof(double)) != 0 ||
        kl_offload_get(self, e, vector + 5 * total, total * (int64_t)sizeof(double)) != 0) {
        st = kl_fail(err, KL_EBROKEN, "%lld bytes could not be copied from the device",
                     (long long)(2 * total * (int64_t)sizeof(double)));
        goto out;
    }
    const int broken = kl_tridiagonal_broken(nmat, n, d, e);
    if (broken >= 0)
        st = kl_fail(err, KL_EINPUT, "eigenvectors: a matrix of %d rows has elements that are not finite",
                     n[broken]);
out:
    kl_pool_release(&self->pool, block);
    kl_free(&order);
    kl_free(&table);
    kl_free(&owner);
    return st;
}
