/* Prepared lists on the device: launches.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/devbatch.h"
#include "products.h"

/* Wide tiles load less for what they do. Lists with intermediates run out of tiles twice, and there wide ones
   pay with much work only: with 5e10 operations they are 5 to 10 per cent slower, with 3e11 as much faster.
   But sums of many small products, as l-1-1-r has in two dimensions, want lone tiles more than the launch
   that two levels save: an 8x4 cylinder's H x takes 0.17 ms instead of 0.34 at m = 1000, 0.34 instead of 0.45
   at 2048. */
static kl_tile_plan_opts options_of(const kl_exec *ex, const kl_batch *b)
{
    const kl_offload *const self = ex->self;
    enum { MANY = 64 }; /* records of a group */
    const int two = b->nwork > 0 && b->flop < 1e11,
              many = two && b->lasting && b->nrec >= (int64_t)MANY * b->ngroup;
    kl_tile_plan_opts o = !self->tensor ? kl_plain_opts : two && !many ? kl_tensor_opts : kl_tensor_opts_wide;
    if (self->tensor && many) o.levels = 0;
    if (self->tensor) o.nblock = self->nsm;
    /* their tiles are small, and a step of those is shorter (tensor.c, SOLO) */
    if (self->tensor && o.most_n == kl_tensor_opts_wide.most_n && b->flop < 4e9) o.cost_least = 850;
    o.nthread = ex->nthread;
    return o;
}

static const char *kernel_of(const kl_offload *self)
{
    return self->tensor ? "tensor cores" : "plain OpenMP";
}

kl_status kl_offload_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_offload *const self = ex->self;
    const kl_tile_plan_opts o = options_of(ex, b);
    return kl_devbatch_prepare(b, &o, b->nwork > 0 ? kl_offload_free_bytes(self) : 0 /* nobody asks */,
                               &self->pool, err);
}

void kl_offload_batch_release(kl_exec *ex, kl_batch *b)
{
    kl_offload *const self = ex->self;
    kl_devbatch_release(b, &self->pool);
}

kl_status kl_offload_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const kl_devbatch *const p = b->prepared;
    const kl_status st = kl_devbatch_check(b, err);
    if (st != KL_OK) return st;
    const double *const from = kl_device(x);
    double *const to = kl_device(y);
    for (int64_t i = 0; i < p->plan.nlaunch; i++) {
        const kl_launch *const l = &p->plan.launch[i];
        if (!l->products) kl_offload_sums(self, p->cell + l->first, (int)l->n, p->term, from, to);
        else if (self->tensor)
            (p->plan.o.most_n == kl_tensor_opts_wide.most_n ? kl_offload_tensor_wide : kl_offload_tensor)(
                self, l, p->piece + l->first, from, to);
        else kl_offload_plain(self, p->piece + l->first, (int)l->n, from, to);
    }
    return KL_OK;
}

void kl_offload_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *out)
{
    kl_devbatch_explain(b, kernel_of(ex->self), out);
}

kl_status kl_offload_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    const kl_tile_plan_opts o = options_of(ex, b);
    return kl_devbatch_dry(b, &o, kl_offload_free_bytes(ex->self), kernel_of(ex->self), out, err);
}
