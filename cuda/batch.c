/* Record lists on the CUDA executor, by the projection that it was told to take. Lists that are applied often
   are waited for, so that clocks tell where time goes; beside those that are used once the host goes on: what
   is asked of the device next comes after them anyway.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

/* What stands in a batch: `inner` is a kl_devbatch, or what streams.c or device/storage.c made; where lists
   are joined first of the list `joined`, whose stacked operands lie in `stack`. */
typedef struct prepared {
    kl_projection way;
    void *inner;
    kl_batch joined;
    void *stack;
    int64_t stack_bytes;
} prepared;

static const char *const kernel[KL_NPROJECTION] = {"",
                                                   "CUDA tensor cores",
                                                   "cuBLAS, 4 streams",
                                                   "cuBLAS, joined products",
                                                   "cuBLAS, joined products in batches",
                                                   "cuBLAS, one stream",
                                                   "cuBLAS, grouped or strided batches",
                                                   "operators from the host, CUDA tensor cores"};

static int by_streams(kl_projection way)
{
    return way == KL_PROJECTION_4STREAMS || way == KL_PROJECTION_NOSTREAMS || way == KL_PROJECTION_CONCAT;
}
static int joins(kl_projection way) { return way == KL_PROJECTION_CONCAT || way == KL_PROJECTION_BATCHED; }
static int by_library(kl_projection way)
{
    return way == KL_PROJECTION_LIBRARY || way == KL_PROJECTION_BATCHED;
}
static int lanes_of(kl_projection way) { return way == KL_PROJECTION_NOSTREAMS ? 1 : KL_NLANE; }

/* 1: operators of the list lie on the host. */
static int far_operators(kl_exec *ex, const kl_batch *b)
{
    return ((const kl_cuda *)ex->self)->host->storage_wanted(ex, b);
}

static void launch_chunk(kl_exec *ex, const kl_devbatch *p, kl_dptr x, kl_dptr y)
{
    kl_cuda_launch_list(ex->self, p, kl_device(x), kl_device(y));
}

/* How lists whose operators are far are run; o[2]: kept by the caller. */
static kl_storage_way storage_way(const kl_exec *ex, kl_tile_plan_opts o[2])
{
    kl_cuda *const self = ex->self;
    kl_cuda_list_opts(ex, o);
    return (kl_storage_way){
        .o = o, .pool = &self->pool, .kernel = kernel[KL_PROJECTION_NOSTORAGE], .launch = launch_chunk};
}

/* The first to be tried: what was asked for; what the tune table has seen to be fastest for products of this
   size; our kernel. Operators on the host leave no choice. */
static kl_projection chosen(kl_exec *ex, const kl_batch *b)
{
    if (far_operators(ex, b)) return KL_PROJECTION_NOSTORAGE;
    if (ex->projection != KL_PROJECTION_AUTO) return ex->projection;
    const kl_projection fastest = ((const kl_cuda *)ex->self)->host->projection_of(ex, b);
    return fastest == KL_PROJECTION_AUTO ? KL_PROJECTION_GROUPED : fastest;
}

/* What wants less memory, where auto finds that there is not enough: AUTO, nothing. */
static kl_projection smaller(kl_projection way)
{
    return way == KL_PROJECTION_GROUPED                                       ? KL_PROJECTION_NOSTREAMS
           : way == KL_PROJECTION_NOSTREAMS || way == KL_PROJECTION_NOSTORAGE ? KL_PROJECTION_AUTO
                                                                              : KL_PROJECTION_GROUPED;
}

/* The batch with `inner` for its prepared part. */
static kl_batch inside(const kl_batch *b)
{
    const prepared *const p = b->prepared;
    kl_batch view = p && joins(p->way) ? p->joined : *b;
    view.prepared = p ? p->inner : NULL;
    return view;
}

static void take_apart(kl_cuda *self, prepared *p)
{
    self->host->pool_give(&self->pool, p->stack, p->stack_bytes);
    self->host->batch_clear(&p->joined);
    self->host->free_ptr((void **)&p);
}

static void options_of(const kl_exec *ex, kl_projection way, kl_tile_plan_opts o[2])
{
    const kl_cuda *const self = ex->self;
    if (by_library(way))
        o[0] = (kl_tile_plan_opts){.unit_m = 1,
                                   .unit_n = 1,
                                   .most_m = 65535,
                                   .most_n = 65535,
                                   .depth = 16,
                                   .nblock = self->nsm,
                                   .apart = 1};
    else kl_cuda_list_opts(ex, o);
}

/* The joined list and its stacked operands, which a list of sums copies. */
static kl_status join(kl_exec *ex, const kl_batch *b, prepared *p, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    kl_batch pack = {0};
    kl_tile_plan_opts o[2];
    KL_TRY(host->concat(b, &p->joined, &pack, err));
    p->stack_bytes = pack.ny * (int64_t)sizeof(double);
    if (p->stack_bytes == 0) goto out;
    p->stack = host->pool_take(&self->pool, p->stack_bytes);
    if (!p->stack) {
        st = host->fail(err, KL_ENOMEM,
                        "the device has no %lld bytes for the stacked operands of --projection concat or "
                        "batched; allowed: grouped 4streams nostreams",
                        (long long)p->stack_bytes);
        goto out;
    }
    p->joined.base[KL_AT_STACK].addr = (uintptr_t)p->stack;
    options_of(ex, KL_PROJECTION_GROUPED, o);
    KL_TRY(host->devbatch_prepare(&pack, o, kl_cuda_room(ex), &self->pool, err));
    const kl_devbatch *const q = pack.prepared;
    for (int64_t i = 0; i < q->plan.nlaunch; i++)
        kl_cuda_sums(self, q->cell + q->plan.launch[i].first, (int)q->plan.launch[i].n, q->term, NULL,
                     p->stack);
    host->devbatch_release(&pack, &self->pool);
out:
    host->batch_clear(&pack);
    return st;
}

static kl_status prepare(kl_exec *ex, kl_batch *b, kl_projection way, kl_err *err)
{
    kl_cuda *const self = ex->self;
    kl_status st = KL_OK;
    prepared *p = NULL;
    kl_tile_plan_opts o[2];
    KL_TRY(self->host->alloc_bytes((void **)&p, 1, sizeof *p, KL_MEM_RECORD, err));
    p->way = way;
    if (joins(way)) KL_TRY(join(ex, b, p, err));
    kl_batch view = joins(way) ? p->joined : *b;
    if (by_streams(way)) {
        KL_TRY(kl_cuda_streams_prepare(self, &view, lanes_of(way), err));
    } else if (way == KL_PROJECTION_NOSTORAGE) {
        KL_TRY(kl_cuda_loads_open(self, err)); /* asked for by name there may be no far memory yet */
        const kl_storage_way far = storage_way(ex, o);
        KL_TRY(self->host->storage_prepare(ex, &view, &far, err));
    } else {
        options_of(ex, way, o);
        KL_TRY(self->host->devbatch_prepare(&view, o, kl_cuda_room(ex), &self->pool, err));
    }
    p->inner = view.prepared;
    b->prepared = p;
    p = NULL;
out:
    if (p) take_apart(self, p);
    return st;
}

kl_status kl_cuda_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_projection way = chosen(ex, b);
    for (;;) {
        const kl_status st = prepare(ex, b, way, err);
        if (st != KL_ENOMEM || ex->projection != KL_PROJECTION_AUTO || smaller(way) == KL_PROJECTION_AUTO)
            return st;
        way = smaller(way);
    }
}

void kl_cuda_batch_release(kl_exec *ex, kl_batch *b)
{
    kl_cuda *const self = ex->self;
    prepared *p = b->prepared;
    if (!p) return;
    kl_batch view = inside(b);
    if (by_streams(p->way)) kl_cuda_streams_release(self, &view);
    else if (p->way == KL_PROJECTION_NOSTORAGE) self->host->storage_release(ex, &view, &self->pool);
    else self->host->devbatch_release(&view, &self->pool);
    take_apart(self, p);
    b->prepared = NULL;
}

kl_status kl_cuda_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const prepared *const way = b->prepared;
    const kl_batch view = inside(b);
    kl_status st = KL_OK;
    if (by_streams(way->way)) KL_TRY(kl_cuda_streams_apply(self, &view, kl_device(x), kl_device(y), err));
    else if (way->way == KL_PROJECTION_NOSTORAGE) {
        kl_tile_plan_opts o[2];
        const kl_storage_way far = storage_way(ex, o);
        KL_TRY(self->host->storage_apply(ex, &view, &far, x, y, err));
    } else {
        KL_TRY(self->host->devbatch_check(&view, err));
        const kl_devbatch *const p = way->inner;
        if (way->way == KL_PROJECTION_GROUPED) kl_cuda_launch_list(self, p, kl_device(x), kl_device(y));
        for (int64_t i = 0; i < p->plan.nlaunch && by_library(way->way); i++) {
            const kl_launch *const l = &p->plan.launch[i];
            if (!l->products)
                kl_cuda_sums(self, p->cell + l->first, (int)l->n, p->term, kl_device(x), kl_device(y));
            else KL_TRY(kl_cuda_library_apply(self, p, l, kl_device(x), kl_device(y), err));
        }
    }
    /* whoever reads what a list made waits for it; copies on other streams would not */
    if (!ex->ahead && (!b->once || self->loads)) cudaStreamSynchronize(self->stream);
    st = kl_cuda_check(self, "a list of products", err);
out:
    return st;
}

void kl_cuda_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *out)
{
    const kl_cuda *const self = ex->self;
    const prepared *const p = b->prepared;
    const kl_projection way = p ? p->way : chosen(ex, b);
    const kl_batch view = inside(b);
    *out = (kl_batch_plan){.kernel = kernel[way], .share = 1};
    if (way == KL_PROJECTION_NOSTORAGE) self->host->storage_explain(&view, out);
    else if (by_streams(way)) kl_cuda_streams_explain(&view, out);
    else self->host->devbatch_explain(&view, kernel[way], out);
    if (p) out->work_bytes += p->stack_bytes;
}

static kl_status dry_joined(kl_exec *ex, const kl_batch *b, kl_projection way, kl_batch_plan *out,
                            kl_err *err)
{
    const kl_cuda_host *const host = ((const kl_cuda *)ex->self)->host;
    kl_status st = KL_OK;
    kl_batch joined = {0}, pack = {0};
    kl_tile_plan_opts o[2];
    KL_TRY(host->concat(b, &joined, &pack, err));
    if (by_streams(way)) {
        out->nlaunch = (int)joined.nrec, out->npiece = joined.nrec;
        out->work_bytes = joined.nwork * lanes_of(way) * (int64_t)sizeof(double);
    } else {
        options_of(ex, way, o);
        KL_TRY(host->devbatch_dry(&joined, o, kl_cuda_room(ex), kernel[way], out, err));
    }
    out->work_bytes += pack.ny * (int64_t)sizeof(double);
out:
    host->batch_clear(&joined);
    host->batch_clear(&pack);
    return st;
}

kl_status kl_cuda_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    const kl_projection way = chosen(ex, b);
    kl_tile_plan_opts o[2];
    *out = (kl_batch_plan){.kernel = kernel[way],
                           .nlaunch = (int)b->nrec,
                           .nround = 1,
                           .npiece = b->nrec,
                           .padded = 1,
                           .share = 1};
    if (way == KL_PROJECTION_NOSTORAGE) {
        const kl_storage_way far = storage_way(ex, o);
        return self->host->storage_dry(ex, b, &far, out, err);
    }
    if (joins(way)) return dry_joined(ex, b, way, out, err);
    if (by_streams(way)) {
        out->work_bytes = b->nwork * lanes_of(way) * (int64_t)sizeof(double);
        return KL_OK;
    }
    options_of(ex, way, o);
    return self->host->devbatch_dry(b, o, kl_cuda_room(ex), kernel[way], out, err);
}

const char *kl_cuda_batch_reason(kl_exec *ex, const kl_batch *b)
{
    const kl_cuda *const self = ex->self;
    const int older = self->sm < 90; /* than Hopper: kernels/mma.cuh */
    if (far_operators(ex, b)) return "operators wait on the host, for the device has no room";
    if (ex->projection == KL_PROJECTION_NOSTORAGE)
        return "operators come in chunk by chunk during the products";
    if (ex->projection != KL_PROJECTION_AUTO)
        return ex->projection != KL_PROJECTION_GROUPED ? "asked for"
               : older                                 ? "m8n8k4, sums in registers"
                                                       : "m16n8k16, sums in registers";
    return self->host->projection_of(ex, b) == KL_PROJECTION_AUTO
               ? older ? "auto: m8n8k4, sums in registers" : "auto: m16n8k16, sums in registers"
               : "auto: fastest for products of this size, by the tune table";
}
