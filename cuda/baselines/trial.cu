/* Operations on tall V timed by the device's clock, by our kernels and by cuBLAS: what `kronlat bench` and
   `kronlat tune` stand on.
   SPDX-License-Identifier: Apache-2.0 */
#include "../kernels/tall.h"

static cublasStatus_t once(kl_exec *ex, kl_cublas *b, const kl_trial *t, double *result,
                           const double *factors)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const double *const v = kl_device(t->v), *const x = kl_device(t->x), one = 1.0, zero = 0.0;
    double *const y = kl_device(t->y);
    const int n = (int)t->n;
    const bool library = t->way == KL_WAY_LIBRARY;
    switch (t->op) {
    case KL_OP_COPY:
        if (library) return b->dcopy(b->handle[0], n, x, 1, y, 1);
        kl_cuda_copy(ex, t->n, t->x, t->y);
        break;
    case KL_OP_AXPBY:
        if (library) return b->daxpy(b->handle[0], n, t->c, x, 1, y, 1);
        kl_cuda_axpby(ex, t->n, t->c[0], t->x, 1.0, t->y);
        break;
    case KL_OP_COMBINE:
        if (library)
            return b->dgemv(b->handle[0], CUBLAS_OP_N, n, t->nvec, &one, v, (int)t->ldv, factors, 1, &zero, y,
                            1);
        kl_cuda_combine(ex, t->n, t->nvec, t->v, t->ldv, t->c, 0.0, t->y);
        break;
    default:
        if (library)
            return b->dgemv(b->handle[0], CUBLAS_OP_T, n, t->nvec, &one, v, (int)t->ldv, x, 1, &zero, result,
                            1);
        if (t->way == KL_WAY_GEMM)
            return b->dgemm(b->handle[0], CUBLAS_OP_T, CUBLAS_OP_N, t->nvec, 1, n, &one, v, (int)t->ldv, x, n,
                            &zero, result, t->nvec);
        if (t->way == KL_WAY_READ) { /* as many bytes, as one array */
            kl_cuda_read_start(self, t->n * (t->nvec + 1), v);
            break;
        }
        kl_cuda_dots_start(self, t->way == KL_WAY_SHARED, t->belt, t->n, t->nvec, v, t->ldv, x);
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Runs `repeat` times between two events; the first run, before them, is not counted. */
extern "C" kl_status kl_cuda_trial(kl_exec *ex, kl_trial *t, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_cuda_host *const host = self->host;
    const bool library = t->way == KL_WAY_LIBRARY || t->way == KL_WAY_GEMM;
    kl_status st = KL_OK;
    kl_cublas *b = NULL;
    cudaEvent_t start = NULL, end = NULL;
    float ms = 0.0f;
    double *const result = self->scratch, *const factors = self->scratch + KL_RESULT;
    cublasStatus_t good = CUBLAS_STATUS_SUCCESS;
    if ((t->op != KL_OP_DOTS && t->way != KL_WAY_OWN && t->way != KL_WAY_LIBRARY) || t->nvec > KL_RESULT ||
        (library && (t->n > INT32_MAX || t->ldv > INT32_MAX)))
        return host->fail(err, KL_EABSENT, "CUDA has no way \"%d\" to do operation %d on %d columns of %lld",
                          (int)t->way, (int)t->op, t->nvec, (long long)t->n);
    if (library) {
        st = kl_cuda_blas(self, &b, err);
        if (st != KL_OK) return st;
    }
    if (t->op == KL_OP_COMBINE && library &&
        kl_cuda_put(self, factors, t->c, t->nvec * (int64_t)sizeof(double)) != 0)
        return kl_cuda_check(self, "a trial", err);
    if (cudaEventCreate(&start) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess) {
        if (start) cudaEventDestroy(start);
        return kl_cuda_check(self, "a trial", err);
    }
    for (int r = -1; r < t->repeat && good == CUBLAS_STATUS_SUCCESS; r++) {
        if (r == 0) cudaEventRecord(start, self->stream);
        good = once(ex, b, t, result, factors);
    }
    cudaEventRecord(end, self->stream);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, start, end);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    t->seconds = 1e-3 * ms / t->repeat;
    if (good != CUBLAS_STATUS_SUCCESS)
        return host->fail(err, KL_EBROKEN,
                          "--exec cuda: cuBLAS refuses a product with %d columns of %lld (status %d)",
                          t->nvec, (long long)t->n, (int)good);
    if (t->op == KL_OP_DOTS && library &&
        kl_cuda_get(self, t->out, result, t->nvec * (int64_t)sizeof(double)) != 0)
        return kl_cuda_check(self, "a trial", err);
    for (int j = 0; t->op == KL_OP_DOTS && !library && j < t->nvec; j++) t->out[j] = self->result[j];
    return kl_cuda_check(self, "a trial", err);
}
