/* cuBLAS, opened when the first call wants it: four handles, each on a stream of its own, the first on the
   executor's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device.h"
#include <dlfcn.h>

void kl_cuda_blas_close(kl_cuda *self)
{
    kl_cublas *const b = self->blas;
    if (!b) return;
    for (int i = 0; i < KL_NLANE; i++) {
        if (b->handle[i]) b->destroy(b->handle[i]);
        if (b->there[i]) cudaEventDestroy(b->there[i]);
        if (i > 0 && b->lane[i]) cudaStreamDestroy(b->lane[i]);
    }
    if (b->here) cudaEventDestroy(b->here);
    self->host->free_ptr((void **)&self->blas);
}

void *kl_cuda_open_cublas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *library = NULL;
    for (int i = 0; i < 3 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

kl_status kl_cuda_blas(kl_cuda *self, kl_cublas **out, kl_err *err)
{
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    __typeof__(&cublasCreate) create = NULL;
    __typeof__(&cublasSetStream) set_stream = NULL;
    *out = self->blas;
    if (*out) return KL_OK;
    void *const library = kl_cuda_open_cublas();
    if (!library) return host->fail(err, KL_EABSENT, "--exec cuda: cuBLAS is not here: %s", dlerror());
    KL_TRY(host->alloc_bytes((void **)&self->blas, 1, sizeof *self->blas, KL_MEM_MISC, err));
    kl_cublas *const b = self->blas;
    *(void **)&create = dlsym(library, "cublasCreate_v2");
    *(void **)&set_stream = dlsym(library, "cublasSetStream_v2");
    *(void **)&b->destroy = dlsym(library, "cublasDestroy_v2");
    *(void **)&b->dgemm = dlsym(library, "cublasDgemm_v2");
    *(void **)&b->dgemv = dlsym(library, "cublasDgemv_v2");
    *(void **)&b->daxpy = dlsym(library, "cublasDaxpy_v2");
    *(void **)&b->dcopy = dlsym(library, "cublasDcopy_v2");
    *(void **)&b->strided = dlsym(library, "cublasDgemmStridedBatched");
    *(void **)&b->grouped = dlsym(library, "cublasDgemmGroupedBatched");
    if (!create || !set_stream || !b->destroy || !b->dgemm || !b->dgemv || !b->daxpy || !b->dcopy ||
        !b->strided || !b->grouped) {
        st = host->fail(err, KL_EABSENT,
                        "--exec cuda: this cuBLAS has no grouped products; 12.4 or later is wanted");
        goto out;
    }
    int good = cudaEventCreateWithFlags(&b->here, cudaEventDisableTiming) == cudaSuccess;
    for (int i = 0; i < KL_NLANE && good; i++) {
        b->lane[i] = self->stream;
        if (i > 0) good = cudaStreamCreateWithFlags(&b->lane[i], cudaStreamNonBlocking) == cudaSuccess;
        good = good && cudaEventCreateWithFlags(&b->there[i], cudaEventDisableTiming) == cudaSuccess;
        good = good && create(&b->handle[i]) == CUBLAS_STATUS_SUCCESS &&
               set_stream(b->handle[i], b->lane[i]) == CUBLAS_STATUS_SUCCESS;
    }
    if (!good) st = host->fail(err, KL_ENOMEM, "--exec cuda: cuBLAS cannot be started");
out:
    if (st != KL_OK) kl_cuda_blas_close(self);
    *out = self->blas;
    return st;
}
