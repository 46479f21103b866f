/* See storage.h. The paper sorts records by the input that they wait for (Alg. 6); here vectors are on the
   device and operators are what is waited for, so that pieces of work are sorted by these (chunk.h). The
   first two chunks of the next apply begin to come in when this one ends, during what a solver does with
   vectors; those of the first apply when the list is prepared, during the diagonal of H.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/storage.h"
#include "base/mem.h"

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
    int nzero;
    int ahead;            /* number of chunks, the first, that are being copied already */
    int loaded[2];        /* the last copy into a buffer */
} storage;

/* Operators, wherever they are. */
static const char operators[KL_NAT] = {
    [KL_AT_LEFT] = 1, [KL_AT_RIGHT] = 1, [KL_AT_LEFT_PACK] = 1, [KL_AT_RIGHT_PACK] = 1};

int kl_storage_wanted(kl_exec *ex, const kl_batch *b)
{
    for (int at = KL_AT_LEFT; at < KL_NAT; at++)
        if (kl_exec_is_far(ex, b->base[at])) return 1;
    return 0;
}

/* Parts of what the device can give. Every chunk is planned by itself, which takes longer than products that
   are made once: a quarter of device memory on an H100, 1500 states, had 2.9 of 5.3 s go there. Operators of
   such a list come in whole where one buffer, which takes what two of them would, has place for them. */
enum {
    PART_WHOLE = 2,
    PART_ONCE = 4,
    PART_OFTEN = 16,
};

/* Doubles of one buffer: long enough that a copy is worth its start. */
static int64_t buffer_budget(kl_exec *ex, int parts)
{
    enum { MOST = 256 << 20 };
    const int64_t part = ex->vt.room(ex) / parts, most = parts == PART_WHOLE ? 2 * MOST : MOST;
    return (part < most ? part : most) / (int64_t)sizeof(double);
}

/* after: not before the products that were asked for until now are done. */
static void load(kl_exec *ex, const kl_batch *b, storage *s, int i, int after)
{
    const kl_gather *const need = &s->c.chunk[i].need;
    const kl_dptr to = {(uintptr_t)s->buffer[i % 2]};
    if (need->ncopy == 0) s->loaded[i % 2] = ex->vt.copy_async(ex, 0, to, to, after ? KL_COPY_AFTER : 0);
    for (int64_t k = 0; k < need->ncopy; k++) {
        const kl_copy *const c = &need->copy[k];
        const int more = k + 1 < need->ncopy ? KL_COPY_MORE : 0;
        s->loaded[i % 2] =
            ex->vt.copy_async(ex, c->n, kl_dptr_at(b->base[c->at], c->from), kl_dptr_at(to, c->to),
                              (after && k == 0 ? KL_COPY_AFTER : 0) | more);
    }
}

static void load_first(kl_exec *ex, const kl_batch *b, storage *s)
{
    for (s->ahead = 0; s->ahead < 2 && s->ahead < s->c.nchunk; s->ahead++)
        load(ex, b, s, s->ahead, s->ahead == 0);
}

static void take_apart(kl_exec *ex, storage *s, kl_pool *pool)
{
    /* nobody may get a buffer that is being written */
    for (int i = 0; i < 2 && i < s->ahead; i++) ex->vt.join(ex, s->loaded[i], 1);
    for (int i = 0; i < s->c.nchunk; i++) kl_devbatch_release(&s->c.chunk[i].list, pool);
    kl_chunks_clear(&s->c);
    kl_pool_give(pool, s->buffer[0], s->buffer_bytes);
    kl_pool_give(pool, s->work, s->work_bytes);
    kl_free(&s->zero);
    kl_free(&s);
}

static kl_status segments(const kl_batch *b, storage *s, kl_err *err)
{
    const kl_status st = kl_alloc(&s->zero, b->ngroup, KL_MEM_RECORD, err);
    for (int g = 0; st == KL_OK && g < b->ngroup && b->zero; g++) {
        segment *const last = s->nzero > 0 ? &s->zero[s->nzero - 1] : NULL;
        if (last && last->at + last->n == b->group[g].y) last->n += b->group[g].ny;
        else if (b->group[g].ny > 0) s->zero[s->nzero++] = (segment){b->group[g].y, b->group[g].ny};
    }
    return st;
}

/* In chunks, of which `parts` would fill the device. */
static kl_status divide(kl_exec *ex, const kl_batch *b, int parts, kl_chunks *c, kl_err *err)
{
    kl_status st = KL_OK;
    if (parts == PART_ONCE) {
        KL_TRY(kl_chunks_create(b, operators, buffer_budget(ex, PART_WHOLE), c, err));
        if (c->nchunk <= 1) goto out;
        kl_chunks_clear(c);
    }
    KL_TRY(kl_chunks_create(b, operators, buffer_budget(ex, parts), c, err));
out:
    return st;
}

/* Two buffers, smaller ones where the device has no such two. */
static kl_status take_buffers(kl_exec *ex, const kl_batch *b, int parts, kl_pool *pool, storage *s,
                              kl_err *err)
{
    kl_status st = KL_OK;
    int64_t budget = buffer_budget(ex, parts);
    KL_TRY(divide(ex, b, parts, &s->c, err));
    for (;;) {
        const int64_t each = (s->c.most + 31) / 32 * 32;
        s->buffer_bytes = (s->c.nchunk > 1 ? 2 : 1) * each * (int64_t)sizeof(double);
        if (s->buffer_bytes > 0) s->buffer[0] = kl_pool_take(pool, s->buffer_bytes);
        if (s->buffer[0] || s->buffer_bytes == 0) {
            s->buffer[1] = s->c.nchunk > 1 && s->buffer[0] ? s->buffer[0] + each : NULL;
            break;
        }
        if (budget <= 1)
            KL_TRY(kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for two buffers of operators",
                           (long long)s->buffer_bytes));
        kl_chunks_clear(&s->c);
        budget /= 2;
        KL_TRY(kl_chunks_create(b, operators, budget, &s->c, err));
    }
out:
    return st;
}

static kl_status prepare(kl_exec *ex, kl_batch *b, const kl_storage_way *way, int parts, kl_err *err)
{
    kl_status st = KL_OK;
    storage *s = NULL;
    int64_t nwork = 0;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_RECORD, err));
    KL_TRY(segments(b, s, err));
    KL_TRY(take_buffers(ex, b, parts, way->pool, s, err));
    const int64_t most = ex->vt.room(ex) / 4 / (int64_t)sizeof(double);
    for (int i = 0; i < s->c.nchunk; i++) {
        kl_batch *const list = &s->c.chunk[i].list;
        list->base[KL_AT_STACK].addr = (uintptr_t)s->buffer[i % 2];
        KL_TRY(kl_devbatch_open(list, way->o, most, way->pool, err));
        const kl_devbatch *const p = list->prepared;
        if (p->plan.nwork > nwork) nwork = p->plan.nwork;
    }
    s->work_bytes = nwork * (int64_t)sizeof(double);
    if (nwork > 0 && !(s->work = kl_pool_take(way->pool, s->work_bytes)))
        KL_TRY(kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for the intermediates of a product list",
                       (long long)s->work_bytes));
    for (int i = 0; i < s->c.nchunk; i++)
        KL_TRY(kl_devbatch_load(&s->c.chunk[i].list, s->work, way->pool, err));
    if (b->lasting) load_first(ex, b, s);
    b->prepared = s;
    s = NULL;
out:
    if (s) take_apart(ex, s, way->pool);
    return st;
}

kl_status kl_storage_prepare(kl_exec *ex, kl_batch *b, const kl_storage_way *way, kl_err *err)
{
    if (b->once && prepare(ex, b, way, PART_ONCE, err) == KL_OK) return KL_OK;
    return prepare(ex, b, way, PART_OFTEN, err);
}

void kl_storage_release(kl_exec *ex, kl_batch *b, kl_pool *pool)
{
    if (b->prepared) take_apart(ex, b->prepared, pool);
    b->prepared = NULL;
}

kl_status kl_storage_apply(kl_exec *ex, const kl_batch *b, const kl_storage_way *way, kl_dptr x, kl_dptr y,
                           kl_err *err)
{
    storage *const s = b->prepared;
    kl_status st = KL_OK;
    for (int i = 0; i < s->nzero; i++) ex->vt.fill(ex, s->zero[i].n, 0.0, kl_dptr_at(y, s->zero[i].at));
    if (s->ahead == 0) load_first(ex, b, s);
    for (int i = 0; i < s->c.nchunk; i++) {
        const kl_batch *const list = &s->c.chunk[i].list;
        KL_TRY(kl_devbatch_check(list, err));
        ex->vt.join(ex, s->loaded[i % 2], 0);
        way->launch(ex, list->prepared, x, y);
        if (i + 2 < s->c.nchunk) load(ex, b, s, i + 2, 1);
    }
    if (s->c.nchunk <= 2) goto out; /* they stay */
    if (b->lasting) load_first(ex, b, s);
    else s->ahead = 0;
out:
    return st;
}

void kl_storage_explain(const kl_batch *b, kl_batch_plan *out)
{
    const storage *const s = b->prepared;
    if (!s) return;
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

kl_status kl_storage_dry(kl_exec *ex, const kl_batch *b, const kl_storage_way *way, kl_batch_plan *out,
                         kl_err *err)
{
    kl_status st = KL_OK;
    kl_chunks c;
    kl_batch_plan one;
    KL_TRY(divide(ex, b, b->once ? PART_ONCE : PART_OFTEN, &c, err));
    *out = (kl_batch_plan){.kernel = way->kernel, .share = 1, .padded = 1, .nround = c.nchunk};
    out->moved_bytes = c.nchunk > 2 ? c.moved * (int64_t)sizeof(double) : 0;
    for (int i = 0; i < c.nchunk; i++) {
        KL_TRY(kl_devbatch_dry(&c.chunk[i].list, way->o, ex->vt.room(ex), way->kernel, &one, err));
        out->nlaunch += one.nlaunch;
        out->ntile += one.ntile;
        out->npiece += one.npiece;
        out->nsequential += one.nsequential;
        out->list_bytes += one.list_bytes;
        if (one.work_bytes > out->work_bytes) out->work_bytes = one.work_bytes;
    }
    out->work_bytes += (c.nchunk > 1 ? 2 : 1) * c.most * (int64_t)sizeof(double);
out:
    kl_chunks_clear(&c);
    return st;
}
