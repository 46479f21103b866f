/* Prepared lists on the device: launches.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "device/storage.h"
#include "products.h"

/* What stands in a batch: a kl_devbatch or, where operators are far, what device/storage.c made. */
typedef struct prepared {
    int far;
    void *inner;
} prepared;

/* The batch with `inner` for its prepared part. */
static kl_batch inside(const kl_batch *b)
{
    const prepared *const p = b->prepared;
    kl_batch view = *b;
    view.prepared = p ? p->inner : NULL;
    return view;
}

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

static void launch(kl_exec *ex, const kl_devbatch *p, kl_dptr x, kl_dptr y)
{
    const kl_offload *const self = ex->self;
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
}

/* How lists whose operators are far are run. */
static kl_storage_way storage_way(kl_offload *self, const kl_tile_plan_opts *o)
{
    return (kl_storage_way){.o = o,
                            .pool = &self->pool,
                            .kernel = self->tensor ? "operators from the host, tensor cores"
                                                   : "operators from the host, plain OpenMP",
                            .launch = launch};
}

kl_status kl_offload_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_offload *const self = ex->self;
    kl_status st = KL_OK;
    const kl_tile_plan_opts o = options_of(ex, b);
    prepared *p = NULL;
    kl_batch view = *b;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_RECORD, err));
    p->far = kl_storage_wanted(ex, b);
    if (p->far) {
        const kl_storage_way way = storage_way(self, &o);
        KL_TRY(kl_storage_prepare(ex, &view, &way, err));
    } else
        KL_TRY(kl_devbatch_prepare(
            &view, &o, b->nwork > 0 ? kl_offload_free_bytes(self) : 0 /* nobody asks */, &self->pool, err));
    p->inner = view.prepared;
    b->prepared = p;
    return KL_OK;
out:
    kl_free(&p);
    return st;
}

void kl_offload_batch_release(kl_exec *ex, kl_batch *b)
{
    kl_offload *const self = ex->self;
    prepared *p = b->prepared;
    if (!p) return;
    kl_batch view = inside(b);
    if (p->far) kl_storage_release(ex, &view, &self->pool);
    else kl_devbatch_release(&view, &self->pool);
    kl_free(&p);
    b->prepared = NULL;
}

kl_status kl_offload_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_offload *const self = ex->self;
    const prepared *const p = b->prepared;
    const kl_batch view = inside(b);
    if (p->far) {
        const kl_tile_plan_opts o = options_of(ex, b);
        const kl_storage_way way = storage_way(self, &o);
        return kl_storage_apply(ex, &view, &way, x, y, err);
    }
    const kl_status st = kl_devbatch_check(&view, err);
    if (st == KL_OK) launch(ex, p->inner, x, y);
    return st;
}

void kl_offload_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *out)
{
    const prepared *const p = b->prepared;
    const kl_batch view = inside(b);
    if (!p || !p->far) {
        kl_devbatch_explain(&view, kernel_of(ex->self), out);
        return;
    }
    *out = (kl_batch_plan){.kernel = storage_way(ex->self, NULL).kernel};
    kl_storage_explain(&view, out);
}

kl_status kl_offload_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    const kl_tile_plan_opts o = options_of(ex, b);
    if (kl_storage_wanted(ex, b)) {
        const kl_storage_way way = storage_way(ex->self, &o);
        return kl_storage_dry(ex, b, &way, out, err);
    }
    return kl_devbatch_dry(b, &o, kl_offload_free_bytes(ex->self), kernel_of(ex->self), out, err);
}
