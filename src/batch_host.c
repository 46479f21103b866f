/* Runs operation records on the host: groups side by side on threads, largest first, the records of a group in their fixed order, so that
   equal input gives equal bits whatever the timing. Small products by our own kernel, large ones by BLAS.
   SPDX-License-Identifier: Apache-2.0 */
#include "batch_host.h"
#include "blas.h"
#include "gemm.h"
#include "mem.h"
#include "record.h"
#include <omp.h>
#include <string.h>

enum { BLAS_DEPTH = 384 };       /* from this depth on packing pays and BLAS is ahead of the small kernel */
#define THREAD_FLOP 4e6          /* less than this in a list is not worth waking threads for */

typedef struct prepared {
    kl_gemm_fn *gemm;
    int nthread;
    int64_t nwork; /* doubles per thread, a multiple of a cache line */
    double *work;
} prepared;

kl_status kl_host_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    prepared *p = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_RECORD, err));
    p->gemm = kl_gemm_choose(NULL);
    p->nthread = b->ngroup > 1 && b->flop > THREAD_FLOP ? ex->nthread : 1;
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

static void run_group(const kl_batch *b, const prepared *p, const kl_group *g, double *const base[KL_NAT])
{
    if (b->zero) memset(base[KL_AT_Y] + g->y, 0, (size_t)g->ny * sizeof(double));
    for (const kl_rec *r = b->rec + g->first; r < b->rec + g->last; r++) {
        double *const c = base[r->at_c] + r->c;
        if (r->kind == KL_REC_FILL) {
            fill(r->m, r->n, r->alpha, r->beta, c, r->ldc);
            continue;
        }
        const double *const a = base[r->at_a] + r->a;
        if (r->kind == KL_REC_ADD) {
            add(r->m, r->n, r->ta, r->alpha, a, r->lda, r->beta, c, r->ldc);
            continue;
        }
        const double *const bb = base[r->at_b] + r->b;
        if (r->k >= BLAS_DEPTH && r->m >= 64 && r->n >= 64)
            kl_dgemm(r->ta ? 'T' : 'N', r->tb ? 'T' : 'N', r->m, r->n, r->k, r->alpha, a, r->lda, bb, r->ldb, r->beta, c, r->ldc);
        else
            p->gemm(r->ta, r->tb, r->m, r->n, r->k, r->alpha, a, r->lda, bb, r->ldb, r->beta, c, r->ldc);
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
    if (p->nthread <= 1) {
        base[KL_AT_WORK] = p->work;
        for (int g = 0; g < b->ngroup; g++) run_group(b, p, &b->group[g], base);
        return KL_OK;
    }
#pragma omp parallel num_threads(p->nthread) firstprivate(base)
    {
        base[KL_AT_WORK] = p->work + p->nwork * omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
        for (int g = 0; g < b->ngroup; g++) run_group(b, p, &b->group[b->order[g]], base);
    }
    return KL_OK;
}
