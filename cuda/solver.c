/* Matrices by cuSOLVER and cuBLAS, several at a time: see solver.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "solver.h"
#include <dlfcn.h>
#include <pthread.h>

typedef struct worker {
    kl_solver_job *job;
    const kl_cuda_solver *solver;
    int failed; /* what a library or CUDA said */
} worker;

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static kl_cusolver known;
static int is_there;

static void look(void)
{
    void *const lib = dlopen("libcusolver.so.12", RTLD_NOW | RTLD_LOCAL); /* stays */
    if (!lib) return;
    *(void **)&known.create = dlsym(lib, "cusolverDnCreate");
    *(void **)&known.destroy = dlsym(lib, "cusolverDnDestroy");
    *(void **)&known.set_stream = dlsym(lib, "cusolverDnSetStream");
    *(void **)&known.syevd_size = dlsym(lib, "cusolverDnDsyevd_bufferSize");
    *(void **)&known.syevd = dlsym(lib, "cusolverDnDsyevd");
    *(void **)&known.potrf_size = dlsym(lib, "cusolverDnDpotrf_bufferSize");
    *(void **)&known.potrf = dlsym(lib, "cusolverDnDpotrf");
    is_there = known.create && known.destroy && known.set_stream && known.syevd_size && known.syevd &&
               known.potrf_size && known.potrf;
}

const kl_cusolver *kl_cuda_cusolver(void)
{
    pthread_once(&looked, look);
    return is_there ? &known : NULL;
}

/* What is half open is closed again: nothing may run in another stream. */
int kl_cuda_solver_open(kl_cuda *self, int i)
{
    kl_cuda_solver *const s = &self->solver[i];
    const kl_cusolver *const api = kl_cuda_cusolver();
    const cudaError_t before = cudaPeekAtLastError();
    if (s->handle) return 1;
    if (!api) return 0;
    if (cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) != cudaSuccess) s->stream = NULL;
    if (s->stream && api->create(&s->handle) != 0) s->handle = NULL;
    if (s->handle && api->set_stream(s->handle, s->stream) == 0) return 1;
    if (s->handle) api->destroy(s->handle);
    if (s->stream) cudaStreamDestroy(s->stream);
    s->handle = NULL, s->stream = NULL;
    if (before == cudaSuccess) cudaGetLastError(); /* work goes on without, and others look for their own */
    return 0;
}

void kl_cuda_solver_close(kl_cuda *self)
{
    for (int i = 0; i < KL_NSOLVER; i++) {
        if (!self->solver[i].handle) continue;
        kl_cuda_cusolver()->destroy(self->solver[i].handle);
        cudaStreamDestroy(self->solver[i].stream);
        self->solver[i] = (kl_cuda_solver){0};
    }
}

void kl_cuda_solver_order(int nmat, const int *n, int *order)
{
    for (int i = 0; i < nmat; i++) {
        int k = i;
        for (; k > 0 && n[order[k - 1]] < n[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

static void *work(void *arg)
{
    worker *const w = arg;
    kl_solver_job *const j = w->job;
    w->failed = cudaSetDevice(j->self->device);
    if (!w->failed) w->failed = cudaStreamWaitEvent(w->solver->stream, j->self->done, 0);
    for (int k; !w->failed && (k = atomic_fetch_add(&j->next, 1)) < j->nmat;) {
        const int i = j->order[k];
        if (j->n[i] > 0) w->failed = j->one(j, w->solver, i);
    }
    const int last = cudaStreamSynchronize(w->solver->stream);
    if (!w->failed) w->failed = last;
    return NULL;
}

kl_status kl_cuda_solver_run(kl_solver_job *j, int nworker, kl_err *err)
{
    kl_cuda *const self = j->self;
    worker w[KL_NSOLVER] = {{0}};
    void *arg[KL_NSOLVER] = {NULL};
    int failed = 0;
    for (int i = 0; i < nworker; i++) {
        w[i] = (worker){.job = j, .solver = &self->solver[i]};
        arg[i] = &w[i];
    }
    kl_cuda_crew_run(self, nworker, work, arg);
    for (int i = 0; i < nworker; i++)
        if (w[i].failed) failed = w[i].failed;
    if (!failed) return KL_OK;
    const kl_status st = kl_cuda_check(self, j->what, err);
    if (st != KL_OK) return st;
    return self->host->fail(err, KL_EBROKEN, "--exec cuda: %s failed with status %d (matrices of %d rows)",
                            j->what, failed, j->n[j->order[0]]);
}
