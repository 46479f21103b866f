/* Runs operation records on the host: groups side by side on threads, largest first, and a few groups that are too large for that one by one with
   all threads inside; the records of a group always in their fixed order, so that equal input gives equal bits whatever the timing. Small products
   by our own kernel, deep ones by BLAS.
   SPDX-License-Identifier: Apache-2.0 */
#include "batch_host.h"
#include "blas.h"
#include "gemm.h"
#include "mem.h"
#include "record.h"
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum {
    BLAS_DEPTH = 384, /* from this depth on packing pays and BLAS is ahead of the small kernel */
    PANEL = 128       /* columns of one call of BLAS */
};
#define THREAD_FLOP 4e6          /* less than this in a list is not worth waking threads for */

#define WIDE_FLOP 1e6            /* a record must be worth this much on average for threads to meet after each */

typedef struct prepared {
    kl_gemm_fn *gemm;
    int nthread;
    int nwide;     /* of the groups in order, so many are so large that all threads work inside of one */
    int64_t nwork; /* doubles per thread, a multiple of a cache line */
    double *work;
} prepared;

/* Columns that belong together: the bits of BLAS depend on the width of a call, so that its calls always have the same columns. */
static int unit_of(const kl_rec *r) { return r->kind == KL_REC_GEMM && r->k >= BLAS_DEPTH && r->m >= 64 && r->n >= 64 ? PANEL : 1; }

/* Threads of a list; of its groups in order, *nwide are so large that all threads work inside of one. */
static int threads_of(const kl_exec *ex, const kl_batch *b, int *nwide)
{
    const int nthread = b->flop > THREAD_FLOP ? ex->nthread : 1;
    *nwide = 0;
    while (nthread > 1 && *nwide < b->ngroup) {
        const kl_group *const k = &b->group[b->order[*nwide]];
        if (k->flop < 0.5 * b->flop / nthread || k->flop < WIDE_FLOP * (double)(k->last - k->first)) break;
        ++*nwide;
    }
    return nthread;
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
    snprintf(c->why, sizeof c->why, "%s kernel; BLAS for %d of %lld records (k >= %d); %d thread%s, %d of %d groups by all together", isa, nblas, (long long)b->nrec, (int)BLAS_DEPTH,
             nthread, nthread == 1 ? "" : "s", nwide, b->ngroup);
}

kl_status kl_host_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    prepared *p = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_RECORD, err));
    p->gemm = kl_gemm_choose(NULL);
    p->nthread = threads_of(ex, b, &p->nwide);
    p->nwork = (b->nwork + 7) / 8 * 8;
    KL_TRY(kl_alloc(&p->work, p->nwork * p->nthread, KL_MEM_WORK, err));
out:
    if (st != KL_OK) kl_free(&p);
    b->prepared = p;
    return st;
}

void kl_host_batch_release(kl_exec *ex, kl_batch *b)
{
    (void)ex;
    prepared *p = b->prepared;
    if (!p) return;
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
        add(r->m, n, r->ta, r->alpha, a + (r->ta ? from : (int64_t)from * r->lda), r->lda, r->beta, c, r->ldc);
        return;
    }
    const double *const b = base[r->at_b] + r->b + (r->tb ? from : (int64_t)from * r->ldb);
    if (unit_of(r) == 1) {
        p->gemm(r->ta, r->tb, r->m, n, r->k, r->alpha, a, r->lda, b, r->ldb, r->beta, c, r->ldc);
        return;
    }
    for (int j = 0; j < n; j += PANEL) {
        const int wide = n - j < PANEL ? n - j : PANEL;
        kl_dgemm(r->ta ? 'T' : 'N', r->tb ? 'T' : 'N', r->m, wide, r->k, r->alpha, a, r->lda, b + (r->tb ? j : (int64_t)j * r->ldb), r->ldb, r->beta,
                 c + (int64_t)j * r->ldc, r->ldc);
    }
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

/* One large group by all threads of the team: each takes columns of every record, and waits, since the next may read or add to them. */
static void run_group_by_team(const kl_batch *b, const prepared *p, const kl_group *g, double *const base[KL_NAT])
{
    const int t = omp_get_thread_num(), team = omp_get_num_threads();
    if (b->zero) {
        const int64_t from = g->ny * t / team, to = g->ny * (t + 1) / team;
        memset(base[KL_AT_Y] + g->y + from, 0, (size_t)(to - from) * sizeof(double));
#pragma omp barrier
    }
    for (const kl_rec *r = b->rec + g->first; r < b->rec + g->last; r++) {
        const int from = share(r, t, team), to = share(r, t + 1, team);
        if (to > from) run_columns(p, r, base, from, to - from);
#pragma omp barrier
    }
}

kl_status kl_host_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    (void)ex;
    (void)err;
    const prepared *const p = b->prepared;
    double *base[KL_NAT];
    for (int i = 0; i < KL_NAT; i++) base[i] = (double *)b->base[i].addr;
    base[KL_AT_X] = (double *)x.addr;
    base[KL_AT_Y] = (double *)y.addr;
    base[KL_AT_WORK] = p->work;
    if (p->nthread <= 1) {
        for (int g = 0; g < b->ngroup; g++) run_group(b, p, &b->group[g], base);
        return KL_OK;
    }
#pragma omp parallel num_threads(p->nthread) firstprivate(base)
    {
        for (int g = 0; g < p->nwide; g++) run_group_by_team(b, p, &b->group[b->order[g]], base);
        base[KL_AT_WORK] = p->work + p->nwork * omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
        for (int g = p->nwide; g < b->ngroup; g++) run_group(b, p, &b->group[b->order[g]], base);
    }
    return KL_OK;
}
