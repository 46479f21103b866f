/* Record lists on the CUDA executor, by the projection that it was told to take. Only a long list is waited for, so that clocks tell where time goes: what is asked of the device
   next comes after it anyway.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

/* What stands in a batch: `inner` is a kl_devbatch, or what streams.c made. */
typedef struct prepared {
    kl_projection way;
    void *inner;
} prepared;

#define LONG 2e10 /* flop */

static const char *const kernel[KL_NPROJECTION] = {"", "CUDA tensor cores", "cuBLAS, 4 streams", "cuBLAS, one stream", "cuBLAS, grouped or strided batches"};

static int by_streams(kl_projection way) { return way == KL_PROJECTION_4STREAMS || way == KL_PROJECTION_NOSTREAMS; }
static kl_projection chosen(const kl_exec *ex) { return ex->projection == KL_PROJECTION_AUTO ? KL_PROJECTION_GROUPED : ex->projection; }

/* The batch with `inner` for its prepared part. */
static kl_batch inside(const kl_batch *b)
{
    const prepared *const p = b->prepared;
    kl_batch view = *b;
    view.prepared = p ? p->inner : NULL;
    return view;
}

static void options_of(const kl_cuda *self, kl_projection way, kl_tiling_opts o[2])
{
    if (way == KL_PROJECTION_LIBRARY) o[0] = (kl_tiling_opts){.unit_m = 1, .unit_n = 1, .most_m = 65535, .most_n = 65535, .depth = 16, .nblock = self->nsm, .apart = 1};
    else {
        o[0] = kl_cuda_products_opts(self);
        o[1] = kl_cuda_small_opts(self);
        o[0].other = &o[1];
    }
}

kl_status kl_cuda_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_cuda *const self = ex->self;
    kl_status st = KL_OK;
    prepared *p = NULL;
    kl_tiling_opts o[2];
    KL_TRY(self->host->alloc_bytes((void **)&p, 1, sizeof *p, KL_MEM_RECORD, err));
    p->way = chosen(ex);
    kl_batch view = *b;
    if (by_streams(p->way)) {
        KL_TRY(kl_cuda_streams_prepare(self, &view, p->way == KL_PROJECTION_4STREAMS ? KL_NLANE : 1, err));
    } else {
        options_of(self, p->way, o);
        KL_TRY(self->host->devbatch_prepare(&view, o, kl_cuda_room(ex), &self->pool, err));
    }
    p->inner = view.prepared;
    b->prepared = p;
    p = NULL;
out:
    self->host->free_ptr((void **)&p);
    return st;
}

void kl_cuda_batch_release(kl_exec *ex, kl_batch *b)
{
    kl_cuda *const self = ex->self;
    prepared *p = b->prepared;
    if (!p) return;
    kl_batch view = inside(b);
    if (by_streams(p->way)) kl_cuda_streams_release(self, &view);
    else self->host->devbatch_release(&view, &self->pool);
    self->host->free_ptr((void **)&p);
    b->prepared = NULL;
}

kl_status kl_cuda_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const prepared *const way = b->prepared;
    const kl_batch view = inside(b);
    kl_status st = KL_OK;
    if (by_streams(way->way)) return kl_cuda_streams_apply(self, &view, kl_device(x), kl_device(y), err);
    KL_TRY(self->host->devbatch_check(&view, err));
    const kl_devbatch *const p = way->inner;
    for (int64_t i = 0; i < p->plan.nlaunch; i++) {
        const kl_launch *const l = &p->plan.launch[i];
        if (!l->products) kl_cuda_sums(self, p->cell + l->first, (int)l->n, p->term, kl_device(x), kl_device(y));
        else if (way->way == KL_PROJECTION_GROUPED) (l->kind ? kl_cuda_small : kl_cuda_products)(self, p->piece + l->first, (int)l->n, kl_device(x), kl_device(y));
        else KL_TRY(kl_cuda_library_apply(self, p, l, kl_device(x), kl_device(y), err));
    }
    if (b->flop > LONG) cudaStreamSynchronize(self->stream);
    st = kl_cuda_check(self, "a list of products", err);
out:
    return st;
}

void kl_cuda_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *out)
{
    const kl_cuda *const self = ex->self;
    const prepared *const p = b->prepared;
    const kl_projection way = p ? p->way : chosen(ex);
    const kl_batch view = inside(b);
    *out = (kl_batch_plan){.kernel = kernel[way]};
    if (by_streams(way)) kl_cuda_streams_explain(&view, out);
    else self->host->devbatch_explain(&view, kernel[way], out);
}

kl_status kl_cuda_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    const kl_projection way = chosen(ex);
    kl_tiling_opts o[2];
    if (by_streams(way)) {
        *out = (kl_batch_plan){.kernel = kernel[way], .nlaunch = (int)b->nrec, .nround = 1, .npiece = b->nrec, .padded = 1};
        out->work_bytes = b->nwork * (int64_t)sizeof(double) * (way == KL_PROJECTION_4STREAMS ? KL_NLANE : 1);
        return KL_OK;
    }
    options_of(self, way, o);
    return self->host->devbatch_dry(b, o, kl_cuda_room(ex), kernel[way], out, err);
}
