/* Prepared lists for devices: tiles, memory for intermediates, upload.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/devbatch.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

enum { UNKNOWN_MEMORY = 1 << 28 }; /* doubles of WORK where the device does not say what it has */

static void take_apart(kl_devbatch *p, kl_pool *pool)
{
    kl_pool_give(pool, p->work, p->work_bytes);
    kl_pool_give(pool, p->list, p->list_bytes);
    kl_tile_plan_clear(&p->plan);
    kl_free(&p);
}

/* Doubles of intermediates: a quarter of what is free. */
static int64_t work_budget(int64_t has)
{
    return has < 0 ? UNKNOWN_MEMORY : has / 4 / (int64_t)sizeof(double);
}

kl_status kl_devbatch_open(kl_batch *b, const kl_tile_plan_opts *o, int64_t budget, kl_pool *pool,
                           kl_err *err)
{
    kl_status st = KL_OK;
    kl_devbatch *p = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_RECORD, err));
    memcpy(p->base, b->base, sizeof p->base);
    pool->free_spare = kl_tile_plan_free_spare;
    KL_TRY(kl_tile_plan_open(b, o, budget, &pool->spare, &p->plan, err));
out:
    if (st != KL_OK && p) kl_tile_plan_clear(&p->plan);
    if (st != KL_OK) kl_free(&p);
    b->prepared = p;
    return st;
}

static kl_status put(kl_pool *pool, void *to, const void *from, int64_t bytes, kl_err *err)
{
    if (bytes == 0 || pool->put(pool->ctx, to, from, bytes) == 0) return KL_OK;
    return kl_fail(err, KL_EBROKEN, "a product list of %lld bytes could not be copied to the device",
                   (long long)bytes);
}

kl_status kl_devbatch_load(kl_batch *b, void *work, kl_pool *pool, kl_err *err)
{
    kl_status st = KL_OK;
    kl_devbatch *const p = b->prepared;
    KL_TRY(kl_tile_plan_write(b, (uint64_t)(uintptr_t)work, &p->plan, err));
    kl_tile_plan *const q = &p->plan;
    const int64_t pieces = q->npiece * (int64_t)sizeof(kl_piece),
                  cells = q->ncell * (int64_t)sizeof(kl_tile_cell),
                  terms = q->nterm * (int64_t)sizeof(kl_summand);
    const int64_t cell_at = pieces + (pieces > 0 ? (KL_PIECE_BATCH - 1) * (int64_t)sizeof(kl_piece) : 0),
                  term_at = (cell_at + cells + 63) / 64 * 64;
    p->list_bytes = term_at + terms;
    if (p->list_bytes > 0) {
        p->list = kl_pool_take(pool, p->list_bytes);
        if (!p->list)
            KL_TRY(kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for a product list",
                           (long long)p->list_bytes));
        p->piece = p->list;
        p->cell = (kl_tile_cell *)(void *)((char *)p->list + cell_at);
        p->term = (kl_summand *)(void *)((char *)p->list + term_at);
        KL_TRY(put(pool, p->list, q->piece, pieces, err));
        KL_TRY(put(pool, (char *)p->list + cell_at, q->cell, cells, err));
        KL_TRY(put(pool, (char *)p->list + term_at, q->term, terms, err));
    }
    if (!q->o.apart) kl_tile_plan_forget(q); /* a library is called with what stands here */
out:
    return st;
}

kl_status kl_devbatch_prepare(kl_batch *b, const kl_tile_plan_opts *o, int64_t has, kl_pool *pool,
                              kl_err *err)
{
    kl_status st = KL_OK;
    void *work = NULL;
    int64_t bytes = 0, before = INT64_MAX;
    for (int64_t budget = work_budget(has);;) {
        KL_TRY(kl_devbatch_open(b, o, budget, pool, err));
        const kl_tile_plan *const q = &((const kl_devbatch *)b->prepared)->plan;
        bytes = q->nwork * (int64_t)sizeof(double);
        if (bytes == 0) break;
        work = kl_pool_take(pool, bytes);
        if (work) break;
        if (q->nwork >= before) { /* what is left must lie there together */
            st = kl_fail(err, KL_ENOMEM,
                         "the device has no %lld bytes for the intermediates of a product list",
                         (long long)bytes);
            goto out;
        }
        before = q->nwork;
        budget = q->nwork / 2;
        kl_devbatch_release(b, pool);
    }
    kl_devbatch *const p = b->prepared;
    p->work = work, p->work_bytes = bytes;
    KL_TRY(kl_devbatch_load(b, work, pool, err));
out:
    if (st != KL_OK) kl_devbatch_release(b, pool);
    return st;
}

void kl_devbatch_release(kl_batch *b, kl_pool *pool)
{
    if (b->prepared) take_apart(b->prepared, pool);
    b->prepared = NULL;
}

kl_status kl_devbatch_check(const kl_batch *b, kl_err *err)
{
    const kl_devbatch *const p = b->prepared;
    for (int i = KL_AT_LEFT; i < KL_NAT; i++)
        if (b->base[i].addr != p->base[i].addr)
            return kl_fail(err, KL_EINPUT, "operands of a list moved after it was prepared (place %d)", i);
    return KL_OK;
}

static void tell(const kl_tile_plan *p, const char *kernel, kl_batch_plan *out)
{
    *out = (kl_batch_plan){.nlaunch = (int)p->nlaunch,
                           .nround = p->nround,
                           .ntile = p->ntile,
                           .npiece = p->npiece,
                           .nsequential = p->nsequential,
                           .work_bytes = p->nwork * (int64_t)sizeof(double),
                           .list_bytes = p->npiece * (int64_t)sizeof(kl_piece) +
                                         p->ncell * (int64_t)sizeof(kl_tile_cell) +
                                         p->nterm * (int64_t)sizeof(kl_summand),
                           .share = 1,
                           .padded = p->padded,
                           .kernel = kernel};
}

void kl_devbatch_explain(const kl_batch *b, const char *kernel, kl_batch_plan *out)
{
    static const kl_tile_plan none;
    const kl_devbatch *const p = b->prepared;
    tell(p ? &p->plan : &none, kernel, out);
}

kl_status kl_devbatch_dry(const kl_batch *b, const kl_tile_plan_opts *o, int64_t has, const char *kernel,
                          kl_batch_plan *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tile_plan p = {0};
    KL_TRY(kl_tile_plan_open(b, o, work_budget(has), NULL, &p, err));
    KL_TRY(kl_tile_plan_write(b, 0, &p, err));
    tell(&p, kernel, out);
out:
    kl_tile_plan_clear(&p);
    return st;
}

void kl_devbatch_choice(const kl_batch_plan *plan, const char *lead, kl_choice *c)
{
    c->kernel = plan->kernel;
    c->nlaunch = plan->nlaunch;
    c->memory_bytes = plan->work_bytes + plan->list_bytes;
    c->moved_bytes = plan->moved_bytes;
    const int used =
        snprintf(c->why, sizeof c->why,
                 "%s; %lld tiles, %.0f %% of their work is padding, %d %s%s, %lld groups in order", lead,
                 (long long)plan->ntile, plan->padded > 0 ? 100 * (plan->padded - 1) / plan->padded : 0.0,
                 plan->nround, plan->moved_bytes > 0 ? "chunk" : "round", plan->nround == 1 ? "" : "s",
                 (long long)plan->nsequential);
    if (plan->moved_bytes > 0 && used > 0 && (size_t)used < sizeof c->why)
        snprintf(c->why + used, sizeof c->why - (size_t)used,
                 ", %.3g GB of operators from the host each time", 1e-9 * (double)plan->moved_bytes);
}

int kl_devbatch_common(const kl_call *call, kl_choice *c)
{
    switch (call->op) {
    case KL_OP_SIGMA:
        c->nlaunch = 0;
        snprintf(c->why, sizeof c->why, "slabs of rows fetched into panels, multiplied, landed");
        return 1;
    case KL_OP_UPLOAD:
    case KL_OP_DOWNLOAD:
        c->kernel = "memcpy";
        c->nlaunch = 0;
        snprintf(c->why, sizeof c->why,
                 "vectors and operators stay on the device; small matrices and what is truncated travel");
        return 1;
    default: return 0;
    }
}
