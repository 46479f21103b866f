/* Record lists on the CUDA executor: the launches of a prepared list. Nobody waits here: what is asked of the device next comes after it.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#define KERNEL "CUDA tensor cores"

kl_status kl_cuda_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_cuda *const self = ex->self;
    kl_tiling_opts o[2];
    kl_cuda_tiling_opts(self, o);
    return self->host->devbatch_prepare(b, o, kl_cuda_room(ex), &self->pool, err);
}

void kl_cuda_batch_release(kl_exec *ex, kl_batch *b)
{
    kl_cuda *const self = ex->self;
    self->host->devbatch_release(b, &self->pool);
}

kl_status kl_cuda_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const kl_devbatch *const p = b->prepared;
    const kl_status st = self->host->devbatch_check(b, err);
    if (st != KL_OK) return st;
    for (int64_t i = 0; i < p->plan.nlaunch; i++) {
        const kl_launch *const l = &p->plan.launch[i];
        if (l->products) kl_cuda_products(self, l, p->piece, kl_device(x), kl_device(y));
        else kl_cuda_sums(self, p->cell + l->first, (int)l->n, p->term, kl_device(x), kl_device(y));
    }
    return kl_cuda_check(self, "a list of products", err);
}

void kl_cuda_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *out)
{
    const kl_cuda *const self = ex->self;
    self->host->devbatch_explain(b, KERNEL, out);
}

kl_status kl_cuda_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    kl_tiling_opts o[2];
    kl_cuda_tiling_opts(self, o);
    return self->host->devbatch_dry(b, o, kl_cuda_room(ex), KERNEL, out, err);
}
