/* The strategies of nemes2014 by library calls. 4Streams: four outputs are worked on at a time, each on a
   stream with a WORK of its own; their calls are issued breadth first (Alg. 6, 7), so that no stream's next
   call waits for another's. NoStreams: the same with one. Vectors are on the device for the whole
   solve, so that nothing is left of the paper's transfers of X, and records need no order by their inputs;
   outputs come largest first.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

typedef struct lanes {
    int nlane;
    void *work;
    int64_t work_bytes, nwork; /* nwork: doubles of a lane */
    int64_t ncall;
} lanes;

kl_status kl_cuda_streams_prepare(kl_cuda *self, kl_batch *b, int nlane, kl_err *err)
{
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    kl_cublas *blas;
    lanes *p = NULL;
    KL_TRY(kl_cuda_blas(self, &blas, err));
    KL_TRY(host->alloc_bytes((void **)&p, 1, sizeof *p, KL_MEM_RECORD, err));
    p->nlane = nlane;
    p->nwork = (b->nwork + 15) / 16 * 16;
    p->work_bytes = p->nwork * nlane * (int64_t)sizeof(double);
    p->ncall = b->nrec;
    if (p->work_bytes > 0) {
        p->work = host->pool_take(&self->pool, p->work_bytes);
        if (!p->work) {
            st =
                host->fail(err, KL_ENOMEM, "the device has no %lld bytes for the intermediates of %d streams",
                           (long long)p->work_bytes, nlane);
            host->free_ptr((void **)&p);
            goto out;
        }
    }
    b->prepared = p;
out:
    return st;
}

void kl_cuda_streams_release(kl_cuda *self, kl_batch *b)
{
    lanes *p = b->prepared;
    if (!p) return;
    self->host->pool_give(&self->pool, p->work, p->work_bytes);
    self->host->free_ptr((void **)&p);
    b->prepared = NULL;
}

void kl_cuda_streams_explain(const kl_batch *b, kl_batch_plan *plan)
{
    const lanes *const p = b->prepared;
    if (!p) return;
    plan->nlaunch = (int)p->ncall;
    plan->nround = 1;
    plan->npiece = p->ncall;
    plan->work_bytes = p->work_bytes;
    plan->padded = 1;
}

static int call(kl_cublas *blas, int lane, const kl_rec *r, const double *a, const double *b, double *c)
{
    const double beta = r->beta;
    if (r->m == 0 || r->n == 0) return 1;
    if (r->kind != KL_REC_GEMM) {
        kl_cuda_sum_record(blas->lane[lane], r, a, c);
        return 1;
    }
    if (r->k == 0 && r->beta) return 1;
    return blas->dgemm(blas->handle[lane], r->ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                       r->tb ? CUBLAS_OP_T : CUBLAS_OP_N, r->m, r->n, r->k, &r->alpha, a, r->lda, b, r->ldb,
                       &beta, c, r->ldc) == CUBLAS_STATUS_SUCCESS;
}

kl_status kl_cuda_streams_apply(kl_cuda *self, const kl_batch *b, const double *x, double *y, kl_err *err)
{
    const lanes *const p = b->prepared;
    kl_cublas *const blas = self->blas;
    struct {
        int64_t next, last;
    } own[KL_NLANE] = {{0, 0}};
    int taken = 0, busy = 1, good = 1;
    cudaEventRecord(blas->here, self->stream);
    for (int i = 1; i < p->nlane; i++) cudaStreamWaitEvent(blas->lane[i], blas->here, 0);
    while (busy && good) { /* one call of every lane in turn; a lane that is done takes the next output */
        busy = 0;
        for (int i = 0; i < p->nlane && good; i++) {
            double *base[KL_NAT];
            if (own[i].next == own[i].last && taken < b->ngroup) {
                const kl_group *const g = &b->group[b->order[taken++]];
                own[i].next = g->first, own[i].last = g->last;
                if (b->zero && g->ny > 0)
                    cudaMemsetAsync(y + g->y, 0, (size_t)g->ny * sizeof(double), blas->lane[i]);
                busy = 1;
            }
            if (own[i].next == own[i].last) continue;
            busy = 1;
            for (int k = 0; k < KL_NAT; k++) base[k] = kl_device(b->base[k]);
            base[KL_AT_X] = (double *)(uintptr_t)x, base[KL_AT_Y] = y,
            base[KL_AT_WORK] = (double *)p->work + i * p->nwork;
            const kl_rec *const r = &b->rec[own[i].next++];
            good = call(blas, i, r, base[r->at_a] + r->a, base[r->at_b] + r->b, base[r->at_c] + r->c);
        }
    }
    for (int i = 1; i < p->nlane; i++) {
        cudaEventRecord(blas->there[i], blas->lane[i]);
        cudaStreamWaitEvent(self->stream, blas->there[i], 0);
    }
    if (!good) return self->host->fail(err, KL_EBROKEN, "--exec cuda: cuBLAS refuses a product");
    return kl_cuda_check(self, "a list of products", err);
}
