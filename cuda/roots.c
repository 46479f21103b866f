/* Inverse Cholesky factors by cuSOLVER and cuBLAS, several at a time. Both are looked up at run time; without
   them the host's threads do it.
   SPDX-License-Identifier: Apache-2.0 */
#include "solver.h"
#include <dlfcn.h>
#include <pthread.h>

/* What is used of cuBLAS. */
typedef struct library {
    __typeof__(&cublasCreate) create;
    __typeof__(&cublasDestroy) destroy;
    __typeof__(&cublasSetStream) set_stream;
    __typeof__(&cublasDtrsm) trsm;
} library;

typedef struct job {
    kl_solver_job many;
    const kl_cusolver *solver;
    const library *blas;
    int nwork; /* doubles of work space */
    const int64_t *off;
    double *a, *t;
    int *info; /* [nmat] on the device */
} job;

/* What a look at the library found, once: looking takes longer than small factors. */
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static library known;
static int is_there;

static void look(void)
{
    void *const blas = kl_cuda_open_cublas();
    if (!blas) return;
    *(void **)&known.create = dlsym(blas, "cublasCreate_v2");
    *(void **)&known.destroy = dlsym(blas, "cublasDestroy_v2");
    *(void **)&known.set_stream = dlsym(blas, "cublasSetStream_v2");
    *(void **)&known.trsm = dlsym(blas, "cublasDtrsm_v2");
    is_there = known.create && known.destroy && known.set_stream && known.trsm;
}

static const library *find_library(void)
{
    pthread_once(&looked, look);
    return is_there ? &known : NULL;
}

static int open_worker(kl_cuda *self, const library *api, int i)
{
    kl_cuda_solver *const s = &self->solver[i];
    if (!kl_cuda_solver_open(self, i)) return 0;
    if (s->blas) return 1;
    if (api->create(&s->blas) != CUBLAS_STATUS_SUCCESS) s->blas = NULL;
    if (s->blas && api->set_stream(s->blas, s->stream) == CUBLAS_STATUS_SUCCESS) return 1;
    if (s->blas) api->destroy(s->blas); /* nothing may run in another stream */
    s->blas = NULL;
    return 0;
}

void kl_cuda_roots_close(kl_cuda *self)
{
    for (int i = 0; i < KL_NSOLVER; i++) {
        if (self->solver[i].blas) known.destroy(self->solver[i].blas);
        self->solver[i].blas = NULL;
    }
}

/* A = L L^T; T = L^-T, in the place of the identity. */
static int factorize(const kl_solver_job *many, const kl_cuda_solver *s, int i)
{
    const job *const j = (const job *)(const void *)many; /* its first member */
    const int n = many->n[i];
    const double one = 1;
    const int failed = j->solver->potrf(s->handle, KL_CUSOLVER_LOWER, n, j->a + j->off[i], n, s->work,
                                        j->nwork, j->info + i);
    if (failed) return failed;
    return j->blas->trsm(s->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT,
                         n, n, &one, j->a + j->off[i], n, j->t + j->off[i], n);
}

/* T = 1 in every place; ones: as many as the largest has rows. */
static int set_identities(const kl_cuda *self, const job *j, const double *ones)
{
    int good = 1;
    for (int i = 0; i < j->many.nmat && good; i++) {
        const size_t n = (size_t)j->many.n[i];
        double *const t = j->t + j->off[i];
        if (n == 0) continue;
        good = cudaMemsetAsync(t, 0, n * n * sizeof *t, self->stream) == cudaSuccess &&
               cudaMemcpy2DAsync(t, (n + 1) * sizeof *t, ones, sizeof *t, sizeof *t, n,
                                 cudaMemcpyDeviceToDevice, self->stream) == cudaSuccess;
    }
    return good && cudaEventRecord(self->done, self->stream) == cudaSuccess;
}

kl_status kl_cuda_roots(kl_exec *ex, int nmat, const int *n, const int64_t *off, kl_dptr a, kl_dptr t,
                        char *good, kl_err *err)
{
    kl_status st = KL_OK;
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    const kl_cusolver *const solver = kl_cuda_cusolver();
    const library *const blas = find_library();
    job j = {.many = {.self = self, .nmat = nmat, .n = n, .one = factorize, .what = "Cholesky factors"},
             .solver = solver,
             .blas = blas,
             .off = off,
             .a = kl_device(a),
             .t = kl_device(t)};
    int *order = NULL, *info = NULL, nworker = 0;
    void *infos = NULL, *ones = NULL;
    if (nmat == 0) return KL_OK;
    cudaSetDevice(self->device); /* whatever thread this is */
    kl_cuda_eigen_wait(self);
    if (!solver || !blas || !open_worker(self, blas, 0))
        return host->fail(err, KL_EABSENT, "--exec cuda: cuSOLVER and cuBLAS cannot be used for factors");
    KL_TRY(host->alloc_bytes((void **)&order, nmat, sizeof *order, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&info, nmat, sizeof *info, KL_MEM_WORK, err));
    kl_cuda_solver_order(nmat, n, order);
    j.many.order = order;
    const int largest = n[order[0]];
    if (solver->potrf_size(self->solver[0].handle, KL_CUSOLVER_LOWER, largest, j.a, largest, &j.nwork) != 0) {
        st = host->fail(err, KL_EBROKEN, "--exec cuda: cuSOLVER knows no work space for %d rows", largest);
        goto out;
    }
    KL_TRY(host->pool_alloc(&self->pool, nmat * (int64_t)sizeof(int), &infos, err));
    KL_TRY(host->pool_alloc(&self->pool, largest * (int64_t)sizeof(double), &ones, err));
    j.info = infos;
    while (nworker < KL_NSOLVER && nworker < nmat && open_worker(self, blas, nworker)) {
        void *space;
        if (host->pool_alloc(&self->pool, (int64_t)(j.nwork + 1) * (int64_t)sizeof(double), &space,
                             nworker ? NULL : err) != KL_OK)
            break;
        self->solver[nworker++].work = space;
    }
    if (nworker == 0) {
        st = KL_ENOMEM;
        goto out;
    }
    kl_cuda_fill(ex, largest, 1.0, (kl_dptr){.addr = (uintptr_t)ones});
    if (cudaMemsetAsync(infos, 0, (size_t)nmat * sizeof(int), self->stream) != cudaSuccess ||
        !set_identities(self, &j, ones))
        KL_TRY(kl_cuda_check(self, "Cholesky factors", err));
    KL_TRY(kl_cuda_solver_run(&j.many, nworker, err));
    if (kl_cuda_get(self, info, infos, nmat * (int64_t)sizeof(int)) != 0)
        KL_TRY(kl_cuda_check(self, "Cholesky factors", err));
    for (int i = 0; i < nmat; i++) good[i] = info[i] == 0;
out:
    for (int i = 0; i < nworker; i++) host->pool_release(&self->pool, self->solver[i].work);
    host->pool_release(&self->pool, infos);
    host->pool_release(&self->pool, ones);
    host->free_ptr((void **)&order);
    host->free_ptr((void **)&info);
    return st;
}
