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
    MANY = 4,         /* vectors that a small list multiplies side by side, at most */
    ROWS = 24,        /* of a strip at least: as many as a tile of the small kernel has, */
    COLUMNS = 8       /* and columns */
};
/* what a thread must have to do of a list: several times what it takes to call one that waits */
#define THREAD_FLOP 1e5

/* what a list for one thread must have to do, or vectors are not worth a thread each */
#define VECTOR_FLOP 1e4

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
    int nroom; /* threads that have work space: more than nthread where several vectors are multiplied */
    int64_t nwork; /* doubles per thread, a multiple of a cache line */
    double *work;
} prepared;

/* Columns that belong together: the bits of BLAS depend on the width of a call, so that its calls always have
   the same columns. */
static int unit_of(const kl_rec *r)
{
    return r->kind == KL_REC_GEMM && r->k >= BLAS_DEPTH && r->m >= 64 && r->n >= 64 ? PANEL : 1;
}

/* Strips that a group can be taken apart into, at most, and how; place: see strips.h. */
static int most_strips(const kl_batch *b, const kl_group *g, int32_t *place, kl_strips *s)
{
    int deep = 0;
    for (int64_t i = g->first; i < g->last; i++) deep |= unit_of(&b->rec[i]) > 1;
    *s = deep ? (kl_strips){.way = KL_STRIPS_NONE} : kl_group_strips(b, g, place);
    const int most = s->way == KL_STRIPS_NONE ? 1 : s->n / (s->way == KL_STRIPS_ROWS ? ROWS : COLUMNS);
    return most > 1 ? most : 1;
}

/* Threads of a list. */
static int threads_of(const kl_exec *ex, const kl_batch *b)
{
    const int nthread = b->flop < THREAD_FLOP * ex->nthread ? (int)(b->flop / THREAD_FLOP) : ex->nthread;
    return nthread > 1 ? nthread : 1;
}

/* Of the groups in order, how many are so large that all threads work inside of one: half of what a thread
   has to do at least, and no strips of half of that. place[records] is overwritten. */
static int wide_of(const kl_batch *b, int nthread, int32_t *place)
{
    int nwide = 0;
    kl_strips s;
    for (; nthread > 1 && nwide < b->ngroup; nwide++) {
        const kl_group *const k = &b->group[b->order[nwide]];
        const double shares = k->flop / (b->flop / nthread);
        if (shares < 0.5 || k->flop < WIDE_FLOP * (double)(k->last - k->first)) break;
        if (most_strips(b, k, place, &s) >= 2 * shares) break;
    }
    return nwide;
}

void kl_host_batch_choice(kl_exec *ex, const kl_batch *b, kl_choice *c)
{
    const char *isa = NULL;
    int nwide = 0, nblas = 0;
    int32_t *place = NULL;
    kl_err ignored;
    const int nthread = threads_of(ex, b);
    if (kl_realloc(&place, b->nrec, KL_MEM_RECORD, &ignored) == KL_OK) nwide = wide_of(b, nthread, place);
    kl_free(&place);
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
    int count = 1;
    if (g->flop >= 1.5 * flop) {
        const int most = most_strips(b, g, place, &s);
        count = g->flop < most * flop ? (int)(g->flop / flop + 0.5) : most;
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
    p->nthread = threads_of(ex, b);
    p->nroom = p->nthread;
    if (b->lasting && p->nthread == 1 && b->flop > VECTOR_FLOP)
        p->nroom = ex->nthread < MANY ? ex->nthread : MANY;
    p->nwork = (b->nwork + 7) / 8 * 8;
    KL_TRY(kl_realloc(&p->work, p->nwork * p->nroom, KL_MEM_WORK, err)); /* written before it is read */
    if (p->nthread == 1) goto out;
    KL_TRY(kl_realloc(&p->place, b->nrec, KL_MEM_RECORD, err));
    p->nwide = wide_of(b, p->nthread, p->place);
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

/* The first record of a group to write y, if it writes the whole segment: nothing has to be zero before it.
   NULL: it has, or zeros are nobody's wish. */
static const kl_rec *opener(const kl_batch *b, const kl_group *g)
{
    if (!b->zero) return NULL;
    for (const kl_rec *r = b->rec + g->first; r < b->rec + g->last; r++)
        if (r->at_c == KL_AT_Y)
            return r->at_a != KL_AT_Y && r->at_b != KL_AT_Y && r->c == g->y && r->ldc == r->m &&
                           (int64_t)r->m * r->n == g->ny
                       ? r
                       : NULL;
    return NULL;
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
    const kl_rec *const open = opener(b, g);
    const int zero = b->zero && !open;
    if (zero && t->way == KL_STRIPS_COLUMNS)
        memset(y + t->from * ld, 0, (size_t)((t->to - t->from) * ld) * sizeof(double));
    if (zero && t->way == KL_STRIPS_ROWS)
        for (int64_t j = 0; j < g->ny / ld; j++)
            memset(y + j * ld + t->from, 0, (size_t)(t->to - t->from) * sizeof(double));
    for (int64_t i = g->first; i < g->last; i++) {
        kl_rec r = b->rec[i];
        if (&b->rec[i] == open) r.beta = 0;
        run_strip_record(p, r, t, t->place[i - g->first], base);
    }
}

static void run_group(const kl_batch *b, const prepared *p, const kl_group *g, double *const base[KL_NAT])
{
    const kl_rec *const open = opener(b, g), *r = b->rec + g->first;
    if (b->zero && !open) memset(base[KL_AT_Y] + g->y, 0, (size_t)g->ny * sizeof(double));
    for (; open && r <= open; r++) {
        kl_rec first = *r;
        if (r == open) first.beta = 0;
        run_columns(p, &first, base, 0, r->n);
    }
    for (; r < b->rec + g->last; r++) run_columns(p, r, base, 0, r->n);
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
    double *base[KL_NAT]; /* WORK: of thread 0; X and Y: of vector 0 */
    int nvec;
    int64_t ldx, ldy; /* numbers from a vector to the next */
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

/* Where a thread finds what a list of vector v reads and writes. */
static void place_vector(const batch_job *j, int64_t v, int thread, double *base[KL_NAT])
{
    memcpy(base, j->base, sizeof j->base);
    base[KL_AT_WORK] += j->p->nwork * thread;
    base[KL_AT_X] += v * j->ldx;
    base[KL_AT_Y] += v * j->ldy;
}

/* Vectors of a piece follow each other, so that the largest pieces still come first. */
static void piece_task(void *self, int64_t i, int thread)
{
    const batch_job *const j = self;
    const piece *const t = &j->p->piece[i / j->nvec];
    double *base[KL_NAT];
    place_vector(j, i % j->nvec, thread, base);
    if (t->way == KL_STRIPS_NONE) run_group(j->b, j->p, t->group, base);
    else run_strip(j->b, j->p, t, base);
}

static void vector_task(void *self, int64_t v, int thread)
{
    const batch_job *const j = self;
    double *base[KL_NAT];
    place_vector(j, v, thread, base);
    for (int g = 0; g < j->b->ngroup; g++) run_group(j->b, j->p, &j->b->group[g], base);
}

kl_status kl_host_batch_apply_many(kl_exec *ex, const kl_batch *b, int nvec, kl_dptr x, int64_t ldx,
                                   kl_dptr y, int64_t ldy, kl_err *err)
{
    (void)ex;
    (void)err;
    const prepared *const p = b->prepared;
    batch_job job = {.b = b, .p = p, .nvec = nvec, .ldx = ldx, .ldy = ldy};
    for (int i = 0; i < KL_NAT; i++) job.base[i] = (double *)b->base[i].addr;
    job.base[KL_AT_X] = (double *)x.addr;
    job.base[KL_AT_Y] = (double *)y.addr;
    job.base[KL_AT_WORK] = p->work;
    if (p->nthread <= 1) {
        kl_par_for(p->nroom, nvec, vector_task, &job);
        return KL_OK;
    }
    for (int v = 0; p->nwide > 0 && v < nvec; v++) {
        batch_job one = job;
        one.base[KL_AT_X] += v * ldx;
        one.base[KL_AT_Y] += v * ldy;
        for (int g = 0; g < p->nwide; g++) run_wide_group(&one, &b->group[b->order[g]]);
    }
    kl_par_for(p->nthread, p->npiece * nvec, piece_task, &job);
    return KL_OK;
}

kl_status kl_host_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    return kl_host_batch_apply_many(ex, b, 1, x, 0, y, 0, err);
}
