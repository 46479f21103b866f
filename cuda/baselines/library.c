/* A list by cuBLAS's own calls for many products, which is what our kernel is measured against: strided
   batches where all products are of one shape and their operands equally far apart, else the grouped call.
   Products that add to one output go in rounds.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"

typedef struct round_lists { /* [n] each, for one call */
    int *m, *n, *k, *lda, *ldb, *ldc, *each;
    double *alpha, *beta;
    cublasOperation_t *ta, *tb;
    const double **a, **b;
    double **c;
} round_lists;

/* One product a piece; 1 when all are alike and their operands lie evenly. */
static int is_even(const round_lists *r, int n)
{
    for (int i = 1; i < n; i++)
        if (r->m[i] != r->m[0] || r->n[i] != r->n[0] || r->k[i] != r->k[0] || r->lda[i] != r->lda[0] ||
            r->ldb[i] != r->ldb[0] || r->ldc[i] != r->ldc[0] || r->alpha[i] != r->alpha[0] ||
            r->beta[i] != r->beta[0] || r->ta[i] != r->ta[0] || r->tb[i] != r->tb[0] ||
            r->a[i] - r->a[i - 1] != r->a[1] - r->a[0] || r->b[i] - r->b[i - 1] != r->b[1] - r->b[0] ||
            r->c[i] - r->c[i - 1] != r->c[1] - r->c[0])
            return 0;
    return n > 1 && r->a[1] >= r->a[0] && r->b[1] >= r->b[0] && r->c[1] > r->c[0];
}

static void put(round_lists *r, int i, const kl_piece *p, const double *x, double *y)
{
    r->m[i] = kl_rows_of(p->mn), r->n[i] = kl_cols_of(p->mn), r->k[i] = p->k, r->lda[i] = p->lda,
    r->ldb[i] = p->ldb, r->ldc[i] = p->ldc, r->each[i] = 1;
    r->alpha[i] = p->factor, r->beta[i] = p->flags & KL_P_BETA ? 1.0 : 0.0;
    r->ta[i] = p->flags & KL_P_TA ? CUBLAS_OP_T : CUBLAS_OP_N,
    r->tb[i] = p->flags & KL_P_TB ? CUBLAS_OP_T : CUBLAS_OP_N;
    r->a[i] = (const double *)(uintptr_t)kl_where(p->a, p->flags, KL_P_A, x, y);
    r->b[i] = (const double *)(uintptr_t)kl_where(p->b, p->flags, KL_P_B, x, y);
    r->c[i] = (double *)(uintptr_t)kl_where(p->c, p->flags, KL_P_C, x, y);
}

kl_status kl_cuda_library_apply(kl_cuda *self, const kl_devbatch *p, const kl_launch *l, const double *x,
                                double *y, kl_err *err)
{
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    kl_cublas *blas;
    round_lists r = {0};
    char *memory = NULL;
    void *pointers = NULL;
    int64_t *at = NULL;
    const int64_t n = l->n, each = 7 * (int64_t)sizeof(int) + 2 * (int64_t)sizeof(cublasOperation_t) +
                                   2 * (int64_t)sizeof(double) + 3 * (int64_t)sizeof(void *);
    const int64_t pointer_bytes = 3 * n * (int64_t)sizeof(void *);
    const kl_piece *const piece = p->plan.piece + l->first;
    KL_TRY(kl_cuda_blas(self, &blas, err));
    KL_TRY(host->alloc_bytes((void **)&memory, n, (size_t)each, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&at, n, sizeof *at, KL_MEM_WORK, err));
    r.a = (const double **)(void *)memory, r.b = r.a + n, r.c = (double **)(void *)(r.b + n);
    r.alpha = (double *)(void *)(r.c + n), r.beta = r.alpha + n;
    r.m = (int *)(void *)(r.beta + n), r.n = r.m + n, r.k = r.n + n, r.lda = r.k + n, r.ldb = r.lda + n,
    r.ldc = r.ldb + n, r.each = r.ldc + n;
    r.ta = (cublasOperation_t *)(void *)(r.each + n), r.tb = r.ta + n;
    pointers = host->pool_take(&self->pool, pointer_bytes);
    if (!pointers) {
        st = host->fail(err, KL_ENOMEM, "the device has no %lld bytes for the addresses of a grouped call",
                        (long long)pointer_bytes);
        goto out;
    }
    for (int64_t i = 0; i < n; i++) at[i] = i;
    for (int left = 1; left;) {
        int have = 0;
        left = 0;
        for (int64_t i = 0; i < n; i++) {
            if (at[i] < 0) continue;
            put(&r, have++, &piece[at[i]], x, y);
            at[i] = piece[at[i]].next > 0 ? piece[at[i]].next : -1;
            left |= at[i] >= 0;
        }
        cublasStatus_t e;
        if (have == 1)
            e = blas->dgemm(blas->handle[0], r.ta[0], r.tb[0], r.m[0], r.n[0], r.k[0], r.alpha, r.a[0],
                            r.lda[0], r.b[0], r.ldb[0], r.beta, r.c[0], r.ldc[0]);
        else if (is_even(&r, have))
            e = blas->strided(blas->handle[0], r.ta[0], r.tb[0], r.m[0], r.n[0], r.k[0], r.alpha, r.a[0],
                              r.lda[0], r.a[1] - r.a[0], r.b[0], r.ldb[0], r.b[1] - r.b[0], r.beta, r.c[0],
                              r.ldc[0], r.c[1] - r.c[0], have);
        else {
            const double **const da = pointers, **const db = da + n;
            double **const dc = (double **)(void *)(db + n);
            if (kl_cuda_put(self, pointers, r.a, pointer_bytes) != 0) {
                st = kl_cuda_check(self, "addresses of a grouped call", err);
                goto out;
            }
            e = blas->grouped(blas->handle[0], r.ta, r.tb, r.m, r.n, r.k, r.alpha, da, r.lda, db, r.ldb,
                              r.beta, dc, r.ldc, have, r.each);
        }
        if (e != CUBLAS_STATUS_SUCCESS) {
            st = host->fail(err, KL_EBROKEN, "--exec cuda: cuBLAS refuses %d products (status %d)", have,
                            (int)e);
            goto out;
        }
    }
out:
    cudaStreamSynchronize(self->stream);
    host->pool_give(&self->pool, pointers, pointer_bytes);
    host->free_ptr((void **)&memory);
    host->free_ptr((void **)&at);
    return st;
}
