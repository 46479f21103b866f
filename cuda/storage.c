/* Lists whose operators stay on the host (nemes2014's third strategy, NoStreamAndStorage): chunk by chunk
   they come into one of two buffers by copies on a stream of their own, while the chunk before is multiplied
   out of the other by our grouped kernel. The paper sorts records by the input that they wait for (Alg. 6);
   here vectors are on the device and operators are what is waited for, so that pieces of work are sorted by
   these (chunk.h). The first two chunks of the next apply begin to come in when this one ends, during what a
   solver does with vectors; those of the first apply when the list is prepared, during the diagonal of H.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

typedef struct segment { /* of y, to be zeroed */
    int64_t at, n;
} segment;

typedef struct storage {
    kl_chunks c;
    double *buffer[2];
    int64_t buffer_bytes; /* of both */
    void *work;
    int64_t work_bytes;
    segment *zero;
    int nzero, ahead;     /* ahead: number of chunks, the first, that are being copied already */
} storage;

/* Operators, wherever they are. */
static const char operators[KL_NAT] = {
    [KL_AT_LEFT] = 1, [KL_AT_RIGHT] = 1, [KL_AT_LEFT_PACK] = 1, [KL_AT_RIGHT_PACK] = 1};

/* Doubles of one buffer: long enough that a copy is worth its start, a small part of what the device can
   give. */
static int64_t buffer_budget(kl_exec *ex)
{
    enum { MOST = 256 << 20 };
    const int64_t part = kl_cuda_room(ex) / 16;
    return (part < MOST ? part : MOST) / (int64_t)sizeof(double);
}

static void load(kl_cuda *self, const kl_batch *b, const storage *s, int i)
{
    const kl_gather *const need = &s->c.chunk[i].need;
    for (int64_t k = 0; k < need->ncopy; k++) {
        const kl_copy *const c = &need->copy[k];
        cudaMemcpyAsync(s->buffer[i % 2] + c->to, kl_device(b->base[c->at]) + c->from,
                        (size_t)c->n * sizeof(double), cudaMemcpyDefault, self->loads->stream);
    }
    cudaEventRecord(self->loads->loaded[i % 2], self->loads->stream);
}

/* The first chunks, once the stream of products has come to where it is now. */
static void load_first(kl_cuda *self, const kl_batch *b, storage *s)
{
    cudaEventRecord(self->loads->here, self->stream);
    cudaStreamWaitEvent(self->loads->stream, self->loads->here, 0);
    for (s->ahead = 0; s->ahead < 2 && s->ahead < s->c.nchunk; s->ahead++) load(self, b, s, s->ahead);
}

static void take_apart(kl_cuda *self, storage *s)
{
    const kl_cuda_host *const host = self->host;
    /* nobody may get a buffer that is being written */
    if (self->loads && s->ahead > 0) cudaStreamSynchronize(self->loads->stream);
    for (int i = 0; i < s->c.nchunk; i++) host->devbatch_release(&s->c.chunk[i].list, &self->pool);
    host->chunks_clear(&s->c);
    host->pool_give(&self->pool, s->buffer[0], s->buffer_bytes);
    host->pool_give(&self->pool, s->work, s->work_bytes);
    host->free_ptr((void **)&s->zero);
    host->free_ptr((void **)&s);
}

static kl_status segments(const kl_cuda *self, const kl_batch *b, storage *s, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(self->host->alloc_bytes((void **)&s->zero, b->ngroup, sizeof *s->zero, KL_MEM_RECORD, err));
    for (int g = 0; g < b->ngroup && b->zero; g++) {
        segment *const last = s->nzero > 0 ? &s->zero[s->nzero - 1] : NULL;
        if (last && last->at + last->n == b->group[g].y) last->n += b->group[g].ny;
        else if (b->group[g].ny > 0) s->zero[s->nzero++] = (segment){b->group[g].y, b->group[g].ny};
    }
out:
    return st;
}

kl_status kl_cuda_storage_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    storage *s = NULL;
    kl_tile_plan_opts o[2];
    int64_t each = 0;
    KL_TRY(kl_cuda_loads_open(self, err));
    KL_TRY(host->alloc_bytes((void **)&s, 1, sizeof *s, KL_MEM_RECORD, err));
    KL_TRY(segments(self, b, s, err));
    /* smaller ones where the device has no such two */
    for (int64_t budget = buffer_budget(ex);; budget /= 2) {
        KL_TRY(host->chunks_create(b, operators, budget, &s->c, err));
        each = (s->c.most + 31) / 32 * 32;
        s->buffer_bytes = (s->c.nchunk > 1 ? 2 : 1) * each * (int64_t)sizeof(double);
        if (s->buffer_bytes > 0) s->buffer[0] = host->pool_take(&self->pool, s->buffer_bytes);
        if (s->buffer[0] || s->buffer_bytes == 0) break;
        if (budget <= 1)
            KL_TRY(host->fail(err, KL_ENOMEM, "the device has no %lld bytes for two buffers of operators",
                              (long long)s->buffer_bytes));
        host->chunks_clear(&s->c);
    }
    s->buffer[1] = s->c.nchunk > 1 ? s->buffer[0] + each : NULL;
    kl_cuda_list_opts(ex, o);
    int64_t nwork = 0;
    const int64_t most = kl_cuda_room(ex) / 4 / (int64_t)sizeof(double);
    for (int i = 0; i < s->c.nchunk; i++) {
        kl_batch *const list = &s->c.chunk[i].list;
        list->base[KL_AT_STACK].addr = (uintptr_t)s->buffer[i % 2];
        KL_TRY(host->devbatch_open(list, o, most, err));
        const kl_devbatch *const p = list->prepared;
        if (p->plan.nwork > nwork) nwork = p->plan.nwork;
    }
    s->work_bytes = nwork * (int64_t)sizeof(double);
    if (nwork > 0 && !(s->work = host->pool_take(&self->pool, s->work_bytes)))
        KL_TRY(host->fail(err, KL_ENOMEM,
                          "the device has no %lld bytes for the intermediates of a product list",
                          (long long)s->work_bytes));
    for (int i = 0; i < s->c.nchunk; i++)
        KL_TRY(host->devbatch_load(&s->c.chunk[i].list, s->work, &self->pool, err));
    if (b->lasting) load_first(self, b, s);
    b->prepared = s;
    s = NULL;
out:
    if (s) take_apart(self, s);
    return st;
}

void kl_cuda_storage_release(kl_cuda *self, kl_batch *b)
{
    if (b->prepared) take_apart(self, b->prepared);
    b->prepared = NULL;
}

kl_status kl_cuda_storage_apply(kl_exec *ex, const kl_batch *b, const double *x, double *y, kl_err *err)
{
    kl_cuda *const self = ex->self;
    const kl_cuda_loads *const l = self->loads;
    storage *const s = b->prepared;
    kl_status st = KL_OK;
    for (int i = 0; i < s->nzero; i++)
        cudaMemsetAsync(y + s->zero[i].at, 0, (size_t)s->zero[i].n * sizeof(double), self->stream);
    if (s->ahead == 0) load_first(self, b, s);
    for (int i = 0; i < s->c.nchunk; i++) {
        const kl_batch *const list = &s->c.chunk[i].list;
        KL_TRY(self->host->devbatch_check(list, err));
        cudaStreamWaitEvent(self->stream, l->loaded[i % 2], 0);
        kl_cuda_launch_list(self, list->prepared, x, y);
        if (i + 2 >= s->c.nchunk) continue;
        cudaEventRecord(l->used[i % 2], self->stream);
        cudaStreamWaitEvent(l->stream, l->used[i % 2], 0);
        load(self, b, s, i + 2);
    }
    if (s->c.nchunk <= 2) goto out; /* they stay */
    if (b->lasting) load_first(self, b, s);
    else s->ahead = 0;
out:
    return st == KL_OK ? kl_cuda_check(self, "a list of products with operators from the host", err) : st;
}

static void tell(const storage *s, kl_batch_plan *out)
{
    out->share = out->padded = 1;
    out->nround = s->c.nchunk;
    out->work_bytes = s->buffer_bytes + s->work_bytes;
    out->moved_bytes = s->c.nchunk > 2 ? s->c.moved * (int64_t)sizeof(double) : 0;
    for (int i = 0; i < s->c.nchunk; i++) {
        const kl_devbatch *const p = s->c.chunk[i].list.prepared;
        out->nlaunch += (int)p->plan.nlaunch;
        out->ntile += p->plan.ntile;
        out->npiece += p->plan.npiece;
        out->nsequential += p->plan.nsequential;
        out->list_bytes += p->list_bytes;
    }
}

void kl_cuda_storage_explain(const kl_batch *b, kl_batch_plan *out)
{
    if (b->prepared) tell(b->prepared, out);
}

kl_status kl_cuda_storage_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    kl_chunks c;
    kl_batch_plan one;
    kl_tile_plan_opts o[2];
    kl_cuda_list_opts(ex, o);
    KL_TRY(host->chunks_create(b, operators, buffer_budget(ex), &c, err));
    out->share = out->padded = 1;
    out->nround = c.nchunk;
    out->moved_bytes = c.nchunk > 2 ? c.moved * (int64_t)sizeof(double) : 0;
    for (int i = 0; i < c.nchunk; i++) {
        KL_TRY(host->devbatch_dry(&c.chunk[i].list, o, kl_cuda_room(ex), out->kernel, &one, err));
        out->nlaunch += one.nlaunch, out->ntile += one.ntile, out->npiece += one.npiece,
            out->nsequential += one.nsequential, out->list_bytes += one.list_bytes;
        if (one.work_bytes > out->work_bytes) out->work_bytes = one.work_bytes;
    }
    out->work_bytes += (c.nchunk > 1 ? 2 : 1) * c.most * (int64_t)sizeof(double);
out:
    host->chunks_clear(&c);
    return st;
}
