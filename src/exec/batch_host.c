/* Runs operation records on the host: groups side by side on threads, largest first, those that others would
   wait for in strips, and a few with records of much work one by one with all threads inside; the records of
   a group always in their fixed order, so that equal input gives equal bits whatever the timing. Small
   products by our own kernel, deep ones by BLAS.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/batch_host.h"
#include "base/blas.h"
#include "base/gemm.h"
#include "base/mem.h"
#include "record/record.h"
#include "record/strips.h"
#include "base/par.h"
#include <stdio.h>
#include <string.h>

enum {
    BLAS_DEPTH = 384, /* from this depth on packing pays and BLAS is ahead of the small kernel */
    PANEL = 128,      /* columns of one call of BLAS */
    TASKS = 4,        /* of a list for each thread, at least, where groups can be taken apart */
    STRIP = 24        /* rows or columns of a strip at least: as many as a tile of the small kernel has */
};
/* what a thread must have to do of a list: several times what it takes to call one that waits */
#define THREAD_FLOP 1e5

/* a record must be worth this much on average for threads to meet after each */
#define WIDE_FLOP 1e6

/* A group, or a strip of it. */
typedef struct piece {
    const kl_group *group;
    kl_strip_way way;
    int ld, from, to; /* rows of its segment; the strip's rows or columns of it */
    const int32_t *place; /* of its records: see strips.h */
} piece;

typedef struct prepared {
    kl_gemm_fn *gemm;
    int nthread;
    int nwide; /* groups, the first in order, that are so large that all threads work inside of one */
    int64_t npiece;
    piece *piece; /* of the other groups; NULL for one thread */
    int32_t *place;
    int64_t nwork; /* doubles per thread, a multiple of a cache line */
    double *work;
} prepared;

/* Columns that belong together: the bits of BLAS depend on the width of a call, so that its calls always have
   the same columns. */
static int unit_of(const kl_rec *r)
{
    return r->kind == KL_REC_GEMM && r->k >= BLAS_DEPTH && r->m >= 64 && r->n >= 64 ? PANEL : 1;
}

/* Threads of a list; of its groups in order, *nwide are so large that all threads work inside of one. */
static int threads_of(const kl_exec *ex, const kl_batch *b, int *nwide)
{
    const int nthread = b->flop < THREAD_FLOP * ex->nthread ? (int)(b->flop / THREAD_FLOP) : ex->nthread;
    *nwide = 0;
    while (nthread > 1 && *nwide < b->ngroup) {
        const kl_group *const k = &b->group[b->order[*nwide]];
        if (k->flop < 0.5 * b->flop / nthread || k->flop < WIDE_FLOP * (double)(k->last - k->first)) break;
        ++*nwide;
    }
    return nthread > 1 ? nthread : 1;
}

void kl_host_batch_choice(kl_exec *ex, const kl_batch *b, kl_choice *c)
{
    const char *isa = NULL;
    int nwide, nblas = 0;
    const int nthread = threads_of(ex, b, &nwide);
    (void)kl_gemm_choose(&isa);
    for (int64_t i = 0; i < b->nrec; i++) nblas += unit_of(&b->rec[i]) > 1;
    c->kernel = nblas > 0 ? "small products, BLAS" : "small products";
    c->memory_bytes = nthread * b->nwork * (int64_t)sizeof(double);
    snprintf(c->why, sizeof c->why,
             "%s kernel; BLAS for %d of %lld records (k >= %d); %d thread%s, %d of %d groups by all together",
             isa, nblas, (long long)b->nrec, (int)BLAS_DEPTH, nthread, nthread == 1 ? "" : "s", nwide,
             b->ngroup);
}

/* A group as pieces of which one has about `flop` to do, or as one piece. */
static void add_pieces(prepared *p, const kl_batch *b, const kl_group *g, double flop)
{
    int32_t *const place = p->place + g->first;
    kl_strips s = {.way = KL_STRIPS_NONE};
    int count = 1, deep = 0;
    if (g->flop >= 2 * flop) {
        for (int64_t i = g->first; i < g->last; i++) deep |= unit_of(&b->rec[i]) > 1;
        if (!deep) s = kl_group_strips(b, g, place);
        if (s.n >= 2 * STRIP) count = g->flop < s.n / STRIP * flop ? (int)(g->flop / flop) : s.n / STRIP;
    }
    if (count == 1) s.way = KL_STRIPS_NONE;
    for (int k = 0; k < count; k++)
        p->piece[p->npiece++] = (piece){.group = g,
                                        .way = s.way,
                                        .ld = s.ld,
                                        .from = (int)((int64_t)s.n * k / count),
                                        .to = (int)((int64_t)s.n * (k + 1) / count),
                                        .place = place};
}

kl_status kl_host_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    prepared *p = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_RECORD, err));
    b->prepared = p;
    p->gemm = kl_gemm_choose(NULL);
    p->nthread = threads_of(ex, b, &p->nwide);
    p->nwork = (b->nwork + 7) / 8 * 8;
    KL_TRY(kl_realloc(&p->work, p->nwork * p->nthread, KL_MEM_WORK, err)); /* written before it is read */
    if (p->nthread == 1) goto out;
    KL_TRY(kl_realloc(&p->place, b->nrec, KL_MEM_RECORD, err));
    KL_TRY(kl_realloc(&p->piece, b->ngroup + TASKS * p->nthread, KL_MEM_RECORD, err));
    for (int i = p->nwide; i < b->ngroup; i++)
        add_pieces(p, b, &b->group[b->order[i]], b->flop / (TASKS * p->nthread));
out:
    if (st != KL_OK) kl_host_batch_release(ex, b);
    return st;
}

void kl_host_batch_release(kl_exec *ex, kl_batch *b)
{
    (void)ex;
    prepared *p = b->prepared;
    if (!p) return;
    kl_free(&p->piece);
    kl_free(&p->place);
    kl_free(&p->work);
    kl_free(&p);
    b->prepared = NULL;
}

static void add(int m, int n, int ta, double alpha, const double *a, int lda, int beta, double *c, int ldc)
{
    if (ta || m == 1) { /* rows of op(A) are strided, or there is only one */
        const int64_t si = ta ? lda : 1, sj = ta ? 1 : lda;
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) {
                double *const to = c + i + (int64_t)j * ldc;
                *to = alpha * a[i * si + j * sj] + (beta ? *to : 0.0);
            }
        return;
    }
    for (int j = 0; j < n; j++, a += lda, c += ldc) {
        if (beta)
            for (int i = 0; i < m; i++) c[i] += alpha * a[i];
        else
            for (int i = 0; i < m; i++) c[i] = alpha * a[i];
    }
}

static void fill(int m, int n, double alpha, int beta, double *c, int ldc)
{
    for (int j = 0; j < n; j++, c += ldc)
        for (int i = 0; i < m; i++) c[i] = alpha + (beta ? c[i] : 0.0);
}

/* Columns [from, from + n) of one record's result; from is a multiple of the record's unit. */
static void run_columns(const prepared *p, const kl_rec *r, double *const base[KL_NAT], int from, int n)
{
    double *const c = base[r->at_c] + r->c + (int64_t)from * r->ldc;
    if (r->kind == KL_REC_FILL) {
        fill(r->m, n, r->alpha, r->beta, c, r->ldc);
        return;
    }
    const double *const a = base[r->at_a] + r->a;
    if (r->kind == KL_REC_ADD) {
        add(r->m, n, r->ta, r->alpha, a + (r->ta ? from : (int64_t)from * r->lda), r->lda, r->beta, c,
            r->ldc);
        return;
    }
    const double *const b = base[r->at_b] + r->b + (r->tb ? from : (int64_t)from * r->ldb);
    if (unit_of(r) == 1) {
        p->gemm(r->ta, r->tb, r->m, n, r->k, r->alpha, a, r->lda, b, r->ldb, r->beta, c, r->ldc);
        return;
    }
    for (int j = 0; j < n; j += PANEL) {
        const int wide = n - j < PANEL ? n - j : PANEL;
        kl_dgemm(r->ta ? 'T' : 'N', r->tb ? 'T' : 'N', r->m, wide, r->k, r->alpha, a, r->lda,
                 b + (r->tb ? j : (int64_t)j * r->ldb), r->ldb, r->beta, c + (int64_t)j * r->ldc, r->ldc);
    }
}

/* Of a record, the rows or columns that fall on a strip. */
static void run_strip_record(const prepared *p, kl_rec r, const piece *t, int place,
                             double *const base[KL_NAT])
{
    const int all = t->way == KL_STRIPS_ROWS ? r.m : r.n, from = t->from > place ? t->from - place : 0,
              to = t->to - place < all ? t->to - place : all;
    if (to <= from) return;
    if (t->way == KL_STRIPS_COLUMNS) {
        run_columns(p, &r, base, from, to - from);
        return;
    }
    r.m = to - from;
    r.c += from;
    if (r.kind != KL_REC_FILL) r.a += r.ta ? (int64_t)from * r.lda : from;
    run_columns(p, &r, base, 0, r.n);
}

static void run_strip(const kl_batch *b, const prepared *p, const piece *t, double *const base[KL_NAT])
{
    const kl_group *const g = t->group;
    const int64_t ld = t->ld;
    double *const y = base[KL_AT_Y] + g->y;
    if (b->zero && t->way == KL_STRIPS_COLUMNS)
        memset(y + t->from * ld, 0, (size_t)((t->to - t->from) * ld) * sizeof(double));
    if (b->zero && t->way == KL_STRIPS_ROWS)
        for (int64_t j = 0; j < g->ny / ld; j++)
            memset(y + j * ld + t->from, 0, (size_t)(t->to - t->from) * sizeof(double));
    for (int64_t i = g->first; i < g->last; i++)
        run_strip_record(p, b->rec[i], t, t->place[i - g->first], base);
}

static void run_group(const kl_batch *b, const prepared *p, const kl_group *g, double *const base[KL_NAT])
{
    if (b->zero) memset(base[KL_AT_Y] + g->y, 0, (size_t)g->ny * sizeof(double));
    for (const kl_rec *r = b->rec + g->first; r < b->rec + g->last; r++) run_columns(p, r, base, 0, r->n);
}

/* First column of a part of them, in whole units. */
static int share(const kl_rec *r, int part, int parts)
{
    const int unit = unit_of(r), units = (r->n + unit - 1) / unit;
    const int64_t at = (int64_t)units * part / parts * unit;
    return at < r->n ? (int)at : r->n;
}

typedef struct batch_job {
    const kl_batch *b;
    const prepared *p;
    double *base[KL_NAT]; /* WORK: of thread 0 */
    const kl_group *group;
    const kl_rec *rec;
} batch_job;

static void zero_task(void *self, int64_t part, int thread)
{
    const batch_job *const j = self;
    const int parts = j->p->nthread;
    const int64_t from = j->group->ny * part / parts, to = j->group->ny * (part + 1) / parts;
    (void)thread;
    memset(j->base[KL_AT_Y] + j->group->y + from, 0, (size_t)(to - from) * sizeof(double));
}

static void columns_task(void *self, int64_t part, int thread)
{
    const batch_job *const j = self;
    const int parts = j->p->nthread, from = share(j->rec, (int)part, parts),
              to = share(j->rec, (int)part + 1, parts);
    (void)thread;
    if (to > from) run_columns(j->p, j->rec, j->base, from, to - from);
}

/* One large group by all threads: each takes columns of a record, and all are waited for, since the next
   record may read or add to them. */
static void run_wide_group(batch_job *j, const kl_group *g)
{
    j->group = g;
    if (j->b->zero) kl_par_split(j->p->nthread, j->p->nthread, zero_task, j);
    for (j->rec = j->b->rec + g->first; j->rec < j->b->rec + g->last; j->rec++)
        kl_par_split(j->p->nthread, j->p->nthread, columns_task, j);
}

static void piece_task(void *self, int64_t i, int thread)
{
    const batch_job *const j = self;
    const piece *const t = &j->p->piece[i];
    double *base[KL_NAT];
    memcpy(base, j->base, sizeof base);
    base[KL_AT_WORK] += j->p->nwork * thread;
    if (t->way == KL_STRIPS_NONE) run_group(j->b, j->p, t->group, base);
    else run_strip(j->b, j->p, t, base);
}

kl_status kl_host_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    (void)ex;
    (void)err;
    const prepared *const p = b->prepared;
    batch_job job = {.b = b, .p = p};
    for (int i = 0; i < KL_NAT; i++) job.base[i] = (double *)b->base[i].addr;
    job.base[KL_AT_X] = (double *)x.addr;
    job.base[KL_AT_Y] = (double *)y.addr;
    job.base[KL_AT_WORK] = p->work;
    if (p->nthread <= 1) {
        for (int g = 0; g < b->ngroup; g++) run_group(b, p, &b->group[g], job.base);
        return KL_OK;
    }
    for (int g = 0; g < p->nwide; g++) run_wide_group(&job, &b->group[b->order[g]]);
    kl_par_for(p->nthread, p->npiece, piece_task, &job);
    return KL_OK;
}
