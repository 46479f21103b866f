/* Inverse Cholesky factors by cuSOLVER and cuBLAS, several at a time. Both are looked up at run time; without
   them the host's threads do it.
   SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LOWER = 0 }; /* CUBLAS_FILL_MODE_LOWER */

typedef struct library {
    int (*size)(void *, int, int, double *, int, int *);
    int (*potrf)(void *, int, int, double *, int, double *, int, int *);
    __typeof__(&cublasCreate) create;
    __typeof__(&cublasDestroy) destroy;
    __typeof__(&cublasSetStream) set_stream;
    __typeof__(&cublasDtrsm) trsm;
} library;

typedef struct worker {
    struct job *job;
    kl_cuda_solver *solver;
    int failed; /* what a library or CUDA said */
} worker;

typedef struct job {
    const library *api;
    kl_cuda *self;
    int nmat, nwork; /* doubles of work space */
    const int *n, *order; /* largest first */
    const int64_t *off;
    double *a, *t;
    int *info; /* [nmat] on the device */
    atomic_int next;
} job;

static void *open_blas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *blas = NULL;
    for (int i = 0; i < 3 && !blas; i++) blas = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return blas;
}

/* What a look at the libraries found, once: looking takes longer than small factors. */
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static library known;
static int is_there;

static void look(void)
{
    void *const solver = dlopen("libcusolver.so.12", RTLD_NOW | RTLD_LOCAL); /* they stay */
    void *const blas = open_blas();
    if (!solver || !blas) return;
    *(void **)&known.size = dlsym(solver, "cusolverDnDpotrf_bufferSize");
    *(void **)&known.potrf = dlsym(solver, "cusolverDnDpotrf");
    *(void **)&known.create = dlsym(blas, "cublasCreate_v2");
    *(void **)&known.destroy = dlsym(blas, "cublasDestroy_v2");
    *(void **)&known.set_stream = dlsym(blas, "cublasSetStream_v2");
    *(void **)&known.trsm = dlsym(blas, "cublasDtrsm_v2");
    is_there = known.size && known.potrf && known.create && known.destroy && known.set_stream && known.trsm;
}

static int find_library(library *l)
{
    pthread_once(&looked, look);
    *l = known;
    return is_there;
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
static void *work(void *arg)
{
    worker *const w = arg;
    job *const j = w->job;
    const double one = 1;
    w->failed = cudaSetDevice(j->self->device);
    for (int k; !w->failed && (k = atomic_fetch_add(&j->next, 1)) < j->nmat;) {
        const int i = j->order[k], n = j->n[i];
        if (n == 0) continue;
        w->failed = j->api->potrf(w->solver->handle, LOWER, n, j->a + j->off[i], n, w->solver->work, j->nwork,
                                  j->info + i);
        if (!w->failed)
            w->failed =
                j->api->trsm(w->solver->blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T,
                             CUBLAS_DIAG_NON_UNIT, n, n, &one, j->a + j->off[i], n, j->t + j->off[i], n);
    }
    const int last = cudaStreamSynchronize(w->solver->stream);
    if (!w->failed) w->failed = last;
    return NULL;
}

static kl_status run(kl_cuda *self, job *j, int nworker, kl_err *err)
{
    worker w[KL_NSOLVER] = {{0}};
    void *arg[KL_NSOLVER];
    int failed = 0;
    for (int i = 0; i < nworker; i++) {
        w[i] = (worker){.job = j, .solver = &self->solver[i]};
        cudaStreamWaitEvent(w[i].solver->stream, self->done, 0);
        arg[i] = &w[i];
    }
    kl_cuda_crew_run(self, nworker, work, arg);
    for (int i = 0; i < nworker; i++)
        if (w[i].failed) failed = w[i].failed;
    if (!failed) return KL_OK;
    const kl_status st = kl_cuda_check(self, "Cholesky factors", err);
    return st != KL_OK ? st
                       : self->host->fail(err, KL_EBROKEN,
                                          "--exec cuda: Cholesky factors failed with status %d", failed);
}

/* T = 1 in every place; ones: as many as the largest has rows. */
static int set_identities(const kl_cuda *self, const job *j, const double *ones)
{
    int good = 1;
    for (int i = 0; i < j->nmat && good; i++) {
        const size_t n = (size_t)j->n[i];
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
    library api;
    job j = {
        .api = &api, .self = self, .nmat = nmat, .n = n, .off = off, .a = kl_device(a), .t = kl_device(t)};
    int *order = NULL, *info = NULL, nworker = 0;
    void *infos = NULL, *ones = NULL;
    if (nmat == 0) return KL_OK;
    cudaSetDevice(self->device); /* whatever thread this is */
    kl_cuda_eigen_wait(self);
    if (!find_library(&api) || !open_worker(self, &api, 0))
        return host->fail(err, KL_EABSENT, "--exec cuda: cuSOLVER and cuBLAS cannot be used for factors");
    KL_TRY(host->alloc_bytes((void **)&order, nmat, sizeof *order, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&info, nmat, sizeof *info, KL_MEM_WORK, err));
    for (int i = 0; i < nmat; i++) {
        int k = i;
        for (; k > 0 && n[order[k - 1]] < n[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    j.order = order;
    const int largest = n[order[0]];
    if (api.size(self->solver[0].handle, LOWER, largest, j.a, largest, &j.nwork) != 0) {
        st = host->fail(err, KL_EBROKEN, "--exec cuda: cuSOLVER knows no work space for %d rows", largest);
        goto out;
    }
    KL_TRY(host->pool_alloc(&self->pool, nmat * (int64_t)sizeof(int), &infos, err));
    KL_TRY(host->pool_alloc(&self->pool, largest * (int64_t)sizeof(double), &ones, err));
    j.info = infos;
    while (nworker < KL_NSOLVER && nworker < nmat && open_worker(self, &api, nworker)) {
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
    KL_TRY(run(self, &j, nworker, err));
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
