/* Sparse products on the CUDA executor: which kernels, which yardstick.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

kl_spmachine kl_cuda_spmachine(const kl_cuda *self)
{
    return (kl_spmachine){.warps = 1, .nblock = self->nsm, .shared_bytes = self->shared_bytes};
}

kl_status kl_cuda_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const kl_spmachine machine = kl_cuda_spmachine(self);
    kl_status st = self->host->spdev_prepare(ex, &machine, s, err);
    if (st == KL_OK && s->way == KL_SPWAY_CUSPARSE) st = kl_cuda_cusparse_prepare(ex, s->m, s->plan, err);
    if (st == KL_OK && s->way == KL_SPWAY_CSR5) st = kl_cuda_csr5_prepare(ex, s->m, s->plan, err);
    return st;
}

void kl_cuda_spmv_release(kl_exec *ex, kl_spmv *s)
{
    kl_cuda *const self = ex->self;
    kl_spdev *const d = s->plan;
    if (d == NULL) return;
    cudaStreamSynchronize(self->stream);
    if (d->way == KL_SPWAY_CUSPARSE) kl_cuda_cusparse_release(ex, d);
    self->host->free_ptr(&d->library);
    self->host->spdev_release(ex, s);
}

kl_status kl_cuda_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                             int64_t ldy, kl_err *err)
{
    kl_cuda *const self = ex->self;
    kl_spdev *d;
    int nv;
    kl_status st = self->host->spdev_ready(ex, s, nvec, &d, &nv, err);
    if (st != KL_OK) return st;
    if (d->way == KL_SPWAY_CUSPARSE)
        st = kl_cuda_cusparse_apply(ex, d, nvec, nv, kl_device(x), ldx, kl_device(y), ldy, err);
    else if (d->way == KL_SPWAY_CSR5)
        for (int v = 0; v < nvec; v++) kl_cuda_csr5(self, d, kl_device(x) + v * ldx, kl_device(y) + v * ldy);
    else kl_cuda_spmv(self, d, nvec, nv, kl_device(x), ldx, kl_device(y), ldy);
    return st != KL_OK ? st : kl_cuda_check(self, "a product with a sparse matrix", err);
}
