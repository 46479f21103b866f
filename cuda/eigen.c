/* Eigenvectors of symmetric matrices by cuSOLVER, several at a time (solver.h); without it truncation stays
   on the host.
   SPDX-License-Identifier: Apache-2.0 */
#include "solver.h"
#include <math.h>
#include <pthread.h>

typedef struct job {
    kl_solver_job many;
    const kl_cusolver *api;
    int nwork; /* doubles of work space */
    const int64_t *off, *place; /* of matrix i's values in `values` */
    double *a, *values;
    int *info; /* [nmat] on the device */
} job;

static int diagonalize(const kl_solver_job *many, const kl_cuda_solver *s, int i)
{
    const job *const j = (const job *)(const void *)many; /* its first member */
    const int n = many->n[i];
    return j->api->syevd(s->handle, KL_CUSOLVER_VECTORS, KL_CUSOLVER_LOWER, n, j->a + j->off[i], n,
                         j->values + j->place[i], s->work, j->nwork, j->info + i);
}

/* A matrix is diagonalized, for kernels are loaded when they are first used. What fails here fails again, and
   is told, where it is wanted. */
static void *open_all(void *arg)
{
    enum { ROWS = 512 }; /* as large as those that are worth it */
    kl_cuda *const self = arg;
    const kl_cusolver *const api = kl_cuda_cusolver();
    double *a = NULL, *space = NULL;
    int nwork = 0;
    const size_t bytes = sizeof *a * (size_t)ROWS * (ROWS + 2); /* behind the matrix its values and a code */
    cudaSetDevice(self->device);
    for (int i = 0; i < KL_NSOLVER; i++)
        if (!kl_cuda_solver_open(self, i)) return NULL;
    const kl_cuda_solver *const s = &self->solver[0];
    if (cudaMalloc((void **)&a, bytes) == cudaSuccess &&
        cudaMemsetAsync(a, 0, bytes, s->stream) == cudaSuccess &&
        api->syevd_size(s->handle, KL_CUSOLVER_VECTORS, KL_CUSOLVER_LOWER, ROWS, a, ROWS, a, &nwork) == 0 &&
        cudaMalloc((void **)&space, sizeof *space * (size_t)nwork) == cudaSuccess) {
        double *const values = a + (size_t)ROWS * ROWS;
        api->syevd(s->handle, KL_CUSOLVER_VECTORS, KL_CUSOLVER_LOWER, ROWS, a, ROWS, values, space, nwork,
                   (int *)(values + ROWS));
        cudaStreamSynchronize(s->stream);
    }
    cudaFree(space);
    cudaFree(a);
    cudaGetLastError(); /* this thread's own */
    return NULL;
}

void kl_cuda_eigen_soon(kl_exec *ex)
{
    kl_cuda *const self = ex->self;
    if (self->was_opening) return;
    self->was_opening = 1;
    self->is_opening = self->host->aside_begin(&self->opening, open_all, self);
}

void kl_cuda_eigen_wait(kl_cuda *self)
{
    if (self->is_opening) pthread_join(self->opening, NULL);
    self->is_opening = 0;
}

/* 1: everything from the first matrix to the last one is finite, which one sum tells; 0: one of them may not
   be, or what lies between them. */
static int all_finite(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a)
{
    int64_t from = INT64_MAX, to = 0;
    double square = 0;
    for (int i = 0; i < nmat; i++) {
        const int64_t end = off[i] + (int64_t)n[i] * n[i];
        if (off[i] < from) from = off[i];
        if (end > to) to = end;
    }
    const kl_dptr all = kl_dptr_at(a, from);
    kl_cuda_dots(ex, to - from, 1, all, 0, all, &square);
    return isfinite(square);
}

kl_status kl_cuda_eigen(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, double *w,
                        kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    const kl_cusolver *const api = kl_cuda_cusolver();
    job j = {.many = {.self = self, .nmat = nmat, .n = n, .one = diagonalize, .what = "eigenvectors"},
             .api = api,
             .off = off,
             .a = kl_device(a)};
    int *order = NULL, *info = NULL, nworker = 0;
    int64_t *place = NULL, total = 0;
    void *values = NULL, *infos = NULL;
    if (nmat == 0) return KL_OK;
    cudaSetDevice(self->device); /* whatever thread this is */
    kl_cuda_eigen_wait(self);
    if (!api || !kl_cuda_solver_open(self, 0))
        return host->fail(err, KL_EABSENT,
                          "--exec cuda: cuSOLVER (libcusolver.so.12) cannot be used for eigenvectors");
    KL_TRY(host->alloc_bytes((void **)&order, nmat, sizeof *order, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&info, nmat, sizeof *info, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&place, nmat, sizeof *place, KL_MEM_WORK, err));
    kl_cuda_solver_order(nmat, n, order);
    for (int i = 0; i < nmat; i++) {
        place[i] = total;
        total += n[i];
    }
    j.many.order = order, j.place = place;
    const int finite = all_finite(ex, nmat, n, off, a);
    for (int i = 0; i < nmat && !finite; i++) { /* no iteration ends on what is not a number */
        double square;
        kl_cuda_dots(ex, (int64_t)n[i] * n[i], 1, kl_dptr_at(a, off[i]), 0, kl_dptr_at(a, off[i]), &square);
        if (!isfinite(square)) {
            st = host->fail(
                err, KL_EINPUT,
                "eigenvectors: a matrix of %d rows has the squared norm %g; every element must be finite",
                n[i], square);
            goto out;
        }
    }
    const int largest = n[order[0]];
    if (api->syevd_size(self->solver[0].handle, KL_CUSOLVER_VECTORS, KL_CUSOLVER_LOWER, largest, j.a, largest,
                        j.a, &j.nwork) != 0) {
        st = host->fail(err, KL_EBROKEN, "--exec cuda: cuSOLVER knows no work space for a matrix of %d rows",
                        largest);
        goto out;
    }
    KL_TRY(host->pool_alloc(&self->pool, total * (int64_t)sizeof(double), &values, err));
    KL_TRY(host->pool_alloc(&self->pool, nmat * (int64_t)sizeof(int), &infos, err));
    j.values = values, j.info = infos;
    /* as many as there is memory for */
    while (nworker < KL_NEIGEN && nworker < nmat && kl_cuda_solver_open(self, nworker)) {
        void *space;
        if (host->pool_alloc(&self->pool, (int64_t)j.nwork * (int64_t)sizeof(double), &space,
                             nworker ? NULL : err) != KL_OK)
            break;
        self->solver[nworker++].work = space;
    }
    if (nworker == 0) {
        st = KL_ENOMEM;
        goto out;
    }
    if (cudaMemsetAsync(infos, 0, (size_t)nmat * sizeof(int), self->stream) != cudaSuccess ||
        cudaEventRecord(self->done, self->stream) != cudaSuccess)
        KL_TRY(kl_cuda_check(self, "eigenvectors", err));
    KL_TRY(kl_cuda_solver_run(&j.many, nworker, err));
    if (kl_cuda_get(self, w, values, total * (int64_t)sizeof(double)) != 0 ||
        kl_cuda_get(self, info, infos, nmat * (int64_t)sizeof(int)) != 0)
        KL_TRY(kl_cuda_check(self, "eigenvectors", err));
    for (int i = 0; i < nmat; i++)
        if (info[i] != 0) {
            st = host->fail(err, KL_ENOCONV, "eigenvectors of %d rows: cuSOLVER's syevd failed (%d)", n[i],
                            info[i]);
            goto out;
        }
out:
    for (int i = 0; i < nworker; i++) host->pool_release(&self->pool, self->solver[i].work);
    host->pool_release(&self->pool, values);
    host->pool_release(&self->pool, infos);
    host->free_ptr((void **)&order);
    host->free_ptr((void **)&info);
    host->free_ptr((void **)&place);
    return st;
}
