/* cuSPARSE as a yardstick: CSR with 32-bit indices, the algorithm that is fastest for this matrix, found by
   timing all of them. Blocks of vectors are laid side by side first, which its products like better.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../device.h"
#include <cusparse.h>
#include <dlfcn.h>

enum {
    ROUNDS = 3,
    NALG = 3,
};
static const cusparseSpMVAlg_t spmv_alg[NALG] = {CUSPARSE_SPMV_ALG_DEFAULT, CUSPARSE_SPMV_CSR_ALG1,
                                                 CUSPARSE_SPMV_CSR_ALG2};
static const cusparseSpMMAlg_t spmm_alg[NALG] = {CUSPARSE_SPMM_CSR_ALG1, CUSPARSE_SPMM_CSR_ALG2,
                                                 CUSPARSE_SPMM_CSR_ALG3};

/* X(name): what is called of the library, by its own names. */
/* clang-format off */
#define CALLS(X) \
    X(cusparseCreate) \
    X(cusparseDestroy) \
    X(cusparseSetStream) \
    X(cusparseCreateCsr) \
    X(cusparseDestroySpMat) \
    X(cusparseCreateDnVec) \
    X(cusparseDestroyDnVec) \
    X(cusparseCreateDnMat) \
    X(cusparseDestroyDnMat) \
    X(cusparseSpMV_bufferSize) \
    X(cusparseSpMV) \
    X(cusparseSpMM_bufferSize) \
    X(cusparseSpMM)
/* clang-format on */

typedef struct library {
#define X(name) __typeof__(&name) name;
    CALLS(X)
#undef X
    cusparseHandle_t handle;
    cusparseSpMatDescr_t matrix;
    int64_t nrow, ncol;
    int spmv, spmm[5];        /* fastest algorithm; spmm by nv 1, 2, 4, 8, 16; -1: not tried */
    kl_dptr buffer, ys;       /* for all algorithms so far; [nrow][nv] */
    size_t buffer_bytes;
    int nv_room;
} library;

static kl_status load(kl_exec *ex, kl_spdev *d, kl_err *err)
{
    static const char *const names[] = {"libcusparse.so.12", "libcusparse.so.13", "libcusparse.so"};
    kl_cuda *const self = ex->self;
    void *so = NULL;
    int good = 1;
    for (int i = 0; i < 3 && !so; i++) so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!so) return self->host->fail(err, KL_EABSENT, "--exec cuda: cuSPARSE is not here: %s", dlerror());
    const kl_status st = self->host->alloc_bytes(&d->library, 1, sizeof(library), KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    library *const l = d->library;
#define X(name)                            \
    *(void **)&l->name = dlsym(so, #name); \
    good = good && l->name;
    CALLS(X)
#undef X
    if (good && l->cusparseCreate(&l->handle) == CUSPARSE_STATUS_SUCCESS &&
        l->cusparseSetStream(l->handle, self->stream) == CUSPARSE_STATUS_SUCCESS)
        return KL_OK;
    return self->host->fail(err, KL_EABSENT,
                            "--exec cuda: this cuSPARSE cannot be used; 12 or later is wanted");
}

kl_status kl_cuda_cusparse_prepare(kl_exec *ex, const kl_spmat *m, kl_spdev *d, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    int32_t *start = NULL, *column = NULL;
    void *on_start, *on_column, *on_value;
    if (m->nnz > INT32_MAX || m->ncol > INT32_MAX)
        return host->fail(err, KL_EABSENT, "way cusparse has 32-bit indices; this matrix has %lld non-zeros",
                          (long long)m->nnz);
    KL_TRY(load(ex, d, err));
    library *const l = d->library;
    l->nrow = m->nrow;
    l->ncol = m->ncol;
    l->spmv = -1;
    for (int k = 0; k < 5; k++) l->spmm[k] = -1;
    KL_TRY(host->alloc_bytes((void **)&start, m->nrow + 1, sizeof *start, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&column, m->nnz, sizeof *column, KL_MEM_WORK, err));
    for (int64_t i = 0; i <= m->nrow; i++) start[i] = (int32_t)kl_sp_offset(m, m->start, i);
    for (int64_t k = 0; k < m->nnz; k++) column[k] = (int32_t)kl_sp_column(m, m->rest_column, k);
    KL_TRY(kl_cuda_send(ex, d, start, 4 * (m->nrow + 1), &on_start, err));
    KL_TRY(kl_cuda_send(ex, d, column, 4 * m->nnz, &on_column, err));
    KL_TRY(kl_cuda_send(ex, d, m->rest_value, 8 * m->nnz, &on_value, err));
    if (l->cusparseCreateCsr(&l->matrix, m->nrow, m->ncol, m->nnz, on_start, on_column, on_value,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                             CUDA_R_64F) != CUSPARSE_STATUS_SUCCESS)
        st = host->fail(err, KL_EBROKEN,
                        "--exec cuda: cuSPARSE takes no matrix of %lld rows and %lld non-zeros",
                        (long long)m->nrow, (long long)m->nnz);
out:
    host->free_ptr((void **)&start);
    host->free_ptr((void **)&column);
    return st;
}

void kl_cuda_cusparse_release(kl_exec *ex, kl_spdev *d)
{
    library *const l = d->library;
    if (!l) return;
    if (l->matrix) l->cusparseDestroySpMat(l->matrix);
    if (l->handle) l->cusparseDestroy(l->handle);
    ex->vt.release(ex, &l->buffer);
    ex->vt.release(ex, &l->ys);
}

typedef struct operands {
    int nv;
    cusparseDnVecDescr_t x, y;
    cusparseDnMatDescr_t xs, ys;
} operands;

static const double one = 1.0, zero = 0.0;

static cusparseStatus_t multiply(library *l, const operands *o, int alg)
{
    void *const buffer = (void *)l->buffer.addr;
    if (o->nv == 1)
        return l->cusparseSpMV(l->handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, l->matrix, o->x, &zero,
                               o->y, CUDA_R_64F, spmv_alg[alg], buffer);
    return l->cusparseSpMM(l->handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                           &one, l->matrix, o->xs, &zero, o->ys, CUDA_R_64F, spmm_alg[alg], buffer);
}

static kl_status room(kl_exec *ex, library *l, const operands *o, int alg, kl_err *err)
{
    kl_cuda *const self = ex->self;
    size_t bytes = 0;
    const cusparseStatus_t s =
        o->nv == 1 ? l->cusparseSpMV_bufferSize(l->handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, l->matrix,
                                                o->x, &zero, o->y, CUDA_R_64F, spmv_alg[alg], &bytes)
                   : l->cusparseSpMM_bufferSize(l->handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                                CUSPARSE_OPERATION_NON_TRANSPOSE, &one, l->matrix, o->xs,
                                                &zero, o->ys, CUDA_R_64F, spmm_alg[alg], &bytes);
    if (s != CUSPARSE_STATUS_SUCCESS)
        return self->host->fail(err, KL_EBROKEN, "--exec cuda: cuSPARSE refuses an algorithm (%d)", (int)s);
    if (bytes <= l->buffer_bytes && l->buffer.addr) return KL_OK;
    cudaStreamSynchronize(self->stream);
    ex->vt.release(ex, &l->buffer);
    l->buffer_bytes = bytes;
    return ex->vt.alloc(ex, (int64_t)bytes / 8 + 1, &l->buffer, err);
}

/* Times every algorithm; leaves the fastest in *best. */
static kl_status find_best(kl_exec *ex, library *l, const operands *o, int *best, kl_err *err)
{
    kl_cuda *const self = ex->self;
    kl_status st = KL_OK;
    cudaEvent_t from = NULL, to = NULL;
    float least = 0;
    if (cudaEventCreate(&from) != cudaSuccess || cudaEventCreate(&to) != cudaSuccess)
        KL_TRY(kl_cuda_check(self, "an event", err));
    for (int alg = 0; alg < NALG; alg++) {
        float ms = 0;
        KL_TRY(room(ex, l, o, alg, err));
        if (multiply(l, o, alg) != CUSPARSE_STATUS_SUCCESS) continue;
        cudaEventRecord(from, self->stream);
        for (int k = 0; k < ROUNDS; k++)
            if (multiply(l, o, alg) != CUSPARSE_STATUS_SUCCESS) break;
        cudaEventRecord(to, self->stream);
        cudaEventSynchronize(to);
        cudaEventElapsedTime(&ms, from, to);
        if (*best < 0 || ms < least) {
            *best = alg;
            least = ms;
        }
    }
    if (*best < 0)
        st =
            self->host->fail(err, KL_EBROKEN, "--exec cuda: no algorithm of cuSPARSE multiplies this matrix");
out:
    if (from) cudaEventDestroy(from);
    if (to) cudaEventDestroy(to);
    return st;
}

kl_status kl_cuda_cusparse_apply(kl_exec *ex, kl_spdev *d, int nvec, int nv, const double *x, int64_t ldx,
                                 double *y, int64_t ldy, kl_err *err)
{
    kl_cuda *const self = ex->self;
    library *const l = d->library;
    kl_status st = KL_OK;
    operands o = {.nv = nv};
    int *const alg = nv == 1 ? &l->spmv : &l->spmm[nv == 2 ? 1 : nv == 4 ? 2 : nv == 8 ? 3 : 4];
    cusparseStatus_t s = CUSPARSE_STATUS_SUCCESS;
    double *const xs = kl_device(d->x);
    if (nv > 1) {
        if (l->nv_room < nv) {
            ex->vt.release(ex, &l->ys);
            l->nv_room = 0;
            KL_TRY(ex->vt.alloc(ex, l->nrow * nv, &l->ys, err));
            l->nv_room = nv;
        }
        kl_cuda_spmv_gather(self, l->ncol, nvec, nv, x, ldx, xs);
        s = l->cusparseCreateDnMat(&o.xs, l->ncol, nv, nv, xs, CUDA_R_64F, CUSPARSE_ORDER_ROW);
        if (s == CUSPARSE_STATUS_SUCCESS)
            s = l->cusparseCreateDnMat(&o.ys, l->nrow, nv, nv, kl_device(l->ys), CUDA_R_64F,
                                       CUSPARSE_ORDER_ROW);
    } else {
        s = l->cusparseCreateDnVec(&o.x, l->ncol, (void *)(uintptr_t)x, CUDA_R_64F);
        if (s == CUSPARSE_STATUS_SUCCESS) s = l->cusparseCreateDnVec(&o.y, l->nrow, y, CUDA_R_64F);
    }
    if (s == CUSPARSE_STATUS_SUCCESS && *alg < 0) KL_TRY(find_best(ex, l, &o, alg, err));
    if (s == CUSPARSE_STATUS_SUCCESS) s = multiply(l, &o, *alg);
    if (s != CUSPARSE_STATUS_SUCCESS)
        st = self->host->fail(err, KL_EBROKEN, "--exec cuda: cuSPARSE fails (%d)", (int)s);
    else if (nv > 1) kl_cuda_spmv_scatter(self, l->nrow, nvec, nv, kl_device(l->ys), y, ldy);
out:
    if (o.x) l->cusparseDestroyDnVec(o.x);
    if (o.y) l->cusparseDestroyDnVec(o.y);
    if (o.xs) l->cusparseDestroyDnMat(o.xs);
    if (o.ys) l->cusparseDestroyDnMat(o.ys);
    return st;
}
