/* Eigenvectors of symmetric matrices by cuSOLVER, several at a time: a matrix of a thousand rows leaves most
   of the device idle. The library is looked up at run time; without it truncation stays on the host.
   SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

/* CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER */
enum {
    VECTORS = 1,
    LOWER = 0,
};

typedef struct solver {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*set_stream)(void *, cudaStream_t);
    int (*size)(void *, int, int, int, const double *, int, const double *, int *);
    int (*syevd)(void *, int, int, int, double *, int, double *, double *, int, int *);
} solver;

typedef struct worker {
    struct job *job;
    void *handle;
    cudaStream_t stream;
    double *work;
    int failed; /* what cuSOLVER or CUDA said */
} worker;

typedef struct job {
    const solver *api;
    kl_cuda *self;
    int nmat, nwork;          /* doubles of work space */
    const int *n, *order;     /* largest first */
    const int64_t *off, *place; /* of matrix i's values in `values` */
    double *a, *values;
    int *info;                /* [nmat] on the device */
    atomic_int next;
} job;

/* What a look at the library found, once: looking takes longer than a small matrix. */
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static solver known;
static int is_there;

static void look(void)
{
    void *const lib = dlopen("libcusolver.so.12", RTLD_NOW | RTLD_LOCAL); /* stays */
    if (!lib) return;
    *(void **)&known.create = dlsym(lib, "cusolverDnCreate");
    *(void **)&known.destroy = dlsym(lib, "cusolverDnDestroy");
    *(void **)&known.set_stream = dlsym(lib, "cusolverDnSetStream");
    *(void **)&known.size = dlsym(lib, "cusolverDnDsyevd_bufferSize");
    *(void **)&known.syevd = dlsym(lib, "cusolverDnDsyevd");
    is_there = known.create && known.destroy && known.set_stream && known.size && known.syevd;
}

static int find_solver(solver *s)
{
    pthread_once(&looked, look);
    *s = known;
    return is_there;
}

static void *work(void *arg)
{
    worker *const w = arg;
    job *const j = w->job;
    w->failed = cudaSetDevice(j->self->device);
    for (int k; !w->failed && (k = atomic_fetch_add(&j->next, 1)) < j->nmat;) {
        const int i = j->order[k];
        if (j->n[i] == 0) continue;
        w->failed = j->api->syevd(w->handle, VECTORS, LOWER, j->n[i], j->a + j->off[i], j->n[i],
                                  j->values + j->place[i], w->work, j->nwork, j->info + i);
    }
    const int last = cudaStreamSynchronize(w->stream);
    if (!w->failed) w->failed = last;
    return NULL;
}

/* Opened once: a handle of cuSOLVER takes tens of milliseconds. */
int kl_cuda_solver_open(kl_cuda *self, int i)
{
    kl_cuda_solver *const s = &self->solver[i];
    solver found, *const api = &found;
    if (s->handle) return 1;
    if (!find_solver(api)) return 0;
    if (cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) != cudaSuccess) return 0;
    if (api->create(&s->handle) == 0 && api->set_stream(s->handle, s->stream) == 0) return 1;
    return 0;
}

/* A matrix is diagonalized, for kernels are loaded when they are first used. What fails here fails again, and
   is told, where it is wanted. */
static void *open_all(void *arg)
{
    enum { ROWS = 512 }; /* as large as those that are worth it */
    kl_cuda *const self = arg;
    solver api;
    double *a = NULL, *space = NULL;
    int nwork = 0;
    const size_t bytes = sizeof *a * (size_t)ROWS * (ROWS + 2); /* behind the matrix its values and a code */
    cudaSetDevice(self->device);
    for (int i = 0; i < KL_NSOLVER; i++)
        if (!kl_cuda_solver_open(self, i)) return NULL;
    const kl_cuda_solver *const s = &self->solver[0];
    if (find_solver(&api) && cudaMalloc((void **)&a, bytes) == cudaSuccess &&
        cudaMemsetAsync(a, 0, bytes, s->stream) == cudaSuccess &&
        api.size(s->handle, VECTORS, LOWER, ROWS, a, ROWS, a, &nwork) == 0 &&
        cudaMalloc((void **)&space, sizeof *space * (size_t)nwork) == cudaSuccess) {
        double *const values = a + (size_t)ROWS * ROWS;
        api.syevd(s->handle, VECTORS, LOWER, ROWS, a, ROWS, values, space, nwork, (int *)(values + ROWS));
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

void kl_cuda_eigen_close(kl_cuda *self)
{
    solver api;
    if (!self->solver[0].stream || !find_solver(&api)) return;
    for (int i = 0; i < KL_NSOLVER; i++) {
        if (self->solver[i].handle) api.destroy(self->solver[i].handle);
        if (self->solver[i].stream) cudaStreamDestroy(self->solver[i].stream);
        self->solver[i] = (kl_cuda_solver){0};
    }
}

static kl_status run(kl_cuda *self, job *j, int nworker, kl_err *err)
{
    worker w[KL_NSOLVER] = {{0}};
    void *arg[KL_NSOLVER];
    int failed = 0;
    for (int i = 0; i < nworker; i++) {
        w[i] = (worker){.job = j,
                        .handle = self->solver[i].handle,
                        .stream = self->solver[i].stream,
                        .work = self->solver[i].work};
        cudaStreamWaitEvent(w[i].stream, self->done, 0);
        arg[i] = &w[i];
    }
    kl_cuda_crew_run(self, nworker, work, arg);
    for (int i = 0; i < nworker; i++)
        if (w[i].failed) failed = w[i].failed;
    if (!failed) return KL_OK;
    const kl_status st = kl_cuda_check(self, "eigenvectors", err);
    return st != KL_OK ? st
                       : self->host->fail(
                             err, KL_EBROKEN,
                             "--exec cuda: cuSOLVER failed with status %d on a matrix of at most %d rows",
                             failed, j->n[j->order[0]]);
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
    solver api;
    job j = {.api = &api, .self = self, .nmat = nmat, .n = n, .off = off, .a = kl_device(a)};
    int *order = NULL, *info = NULL, nworker = 0;
    int64_t *place = NULL, total = 0;
    void *values = NULL, *infos = NULL;
    if (nmat == 0) return KL_OK;
    cudaSetDevice(self->device); /* whatever thread this is */
    kl_cuda_eigen_wait(self);
    if (!find_solver(&api) || !kl_cuda_solver_open(self, 0))
        return host->fail(err, KL_EABSENT,
                          "--exec cuda: cuSOLVER (libcusolver.so.12) cannot be used for eigenvectors");
    KL_TRY(host->alloc_bytes((void **)&order, nmat, sizeof *order, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&info, nmat, sizeof *info, KL_MEM_WORK, err));
    KL_TRY(host->alloc_bytes((void **)&place, nmat, sizeof *place, KL_MEM_WORK, err));
    for (int i = 0; i < nmat; i++) {
        int k = i;
        for (; k > 0 && n[order[k - 1]] < n[i]; k--) order[k] = order[k - 1];
        order[k] = i;
        place[i] = total;
        total += n[i];
    }
    j.order = order, j.place = place;
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
    if (api.size(self->solver[0].handle, VECTORS, LOWER, largest, j.a, largest, j.a, &j.nwork) != 0) {
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
    KL_TRY(run(self, &j, nworker, err));
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
