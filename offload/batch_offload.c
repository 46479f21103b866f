/* Prepared lists on the device: plan, memory for intermediates, upload, launches.
   SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"
#include "products.h"
#include <string.h>

typedef struct prepared {
    kl_plan plan;      /* lists are on the device; launches here */
    kl_dptr base[KL_NAT];
    void *work, *list;
    int64_t work_bytes, list_bytes;
    kl_piece *piece;   /* in list */
    kl_cell *cell;
    kl_term *term;
} prepared;

enum { UNKNOWN_MEMORY = 1 << 28 }; /* doubles of WORK where the device does not say what it has */

static void take_apart(kl_offload *self, prepared *p)
{
    kl_offload_give(self, p->work, p->work_bytes);
    kl_offload_give(self, p->list, p->list_bytes);
    kl_plan_clear(&p->plan);
    kl_free(&p);
}

static kl_plan_opts options_of(const kl_offload *self)
{
    kl_plan_opts o = self->tensor ? kl_tensor_opts : kl_plain_opts;
    if (self->tensor) o.nblock = self->nsm;
    return o;
}

/* Doubles of intermediates: a quarter of what is free, for a solver's basis comes after this. */
static int64_t work_budget(const kl_offload *self)
{
    const int64_t has = kl_offload_free_bytes(self);
    return has < 0 ? UNKNOWN_MEMORY : has / 4 / (int64_t)sizeof(double);
}

static void tell(const kl_offload *self, const kl_plan *p, kl_batch_plan *out)
{
    *out = (kl_batch_plan){.nlaunch = (int)p->nlaunch,
                           .nround = p->nround,
                           .ntile = p->ntile,
                           .npiece = p->npiece,
                           .nsequential = p->nsequential,
                           .work_bytes = p->nwork * (int64_t)sizeof(double),
                           .list_bytes = p->npiece * (int64_t)sizeof(kl_piece) + p->ncell * (int64_t)sizeof(kl_cell) + p->nterm * (int64_t)sizeof(kl_term),
                           .padded = p->padded,
                           .kernel = self->tensor ? "tensor cores" : "plain OpenMP"};
}

kl_status kl_offload_batch_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    kl_offload *const self = ex->self;
    prepared *p = NULL;
    char *lists = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_RECORD, err));
    const kl_plan_opts o = options_of(self);
    memcpy(p->base, b->base, sizeof p->base);

    int64_t budget = work_budget(self);
    for (;;) {
        KL_TRY(kl_plan_open(b, &o, budget, &p->plan, err));
        p->work_bytes = p->plan.nwork * (int64_t)sizeof(double);
        if (p->work_bytes == 0) break;
        p->work = kl_offload_take(self, p->work_bytes);
        if (p->work) break;
        if (p->plan.nwork <= p->plan.least_work || budget == 0) {
            st = kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for the intermediates of a product list", (long long)p->work_bytes);
            goto out;
        }
        budget = p->plan.nwork / 2;
        kl_plan_clear(&p->plan);
    }
    KL_TRY(kl_plan_write(b, (uint64_t)(uintptr_t)p->work, &p->plan, err));
    kl_plan *const q = &p->plan;
    const int64_t pieces = q->npiece * (int64_t)sizeof(kl_piece), cells = q->ncell * (int64_t)sizeof(kl_cell), terms = q->nterm * (int64_t)sizeof(kl_term);
    const int64_t cell_at = pieces, term_at = (cell_at + cells + 63) / 64 * 64;
    p->list_bytes = term_at + terms;
    if (p->list_bytes > 0) {
        p->list = kl_offload_take(self, p->list_bytes);
        if (!p->list) {
            st = kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for a product list", (long long)p->list_bytes);
            goto out;
        }
        KL_TRY(kl_alloc(&lists, p->list_bytes, KL_MEM_RECORD, err));
        if (pieces > 0) memcpy(lists, q->piece, (size_t)pieces);
        if (cells > 0) memcpy(lists + cell_at, q->cell, (size_t)cells);
        if (terms > 0) memcpy(lists + term_at, q->term, (size_t)terms);
        if (kl_offload_put(self, p->list, lists, p->list_bytes) != 0) {
            st = kl_fail(err, KL_EBROKEN, "a product list of %lld bytes could not be copied to the device", (long long)p->list_bytes);
            goto out;
        }
        p->piece = p->list;
        p->cell = (kl_cell *)(void *)((char *)p->list + cell_at);
        p->term = (kl_term *)(void *)((char *)p->list + term_at);
    }
    kl_plan_forget(q);
    b->prepared = p;
    p = NULL;
out:
    kl_free(&lists);
    if (p) take_apart(self, p);
    return st;
}

void kl_offload_batch_release(kl_exec *ex, kl_batch *b)
{
    if (b->prepared) take_apart(ex->self, b->prepared);
    b->prepared = NULL;
}

kl_status kl_offload_batch_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const prepared *const p = b->prepared;
    for (int i = KL_AT_LEFT; i < KL_NAT; i++)
        if (b->base[i].addr != p->base[i].addr) return kl_fail(err, KL_EINPUT, "operands of a list moved after it was prepared (place %d)", i);
    const double *const from = kl_device(x);
    double *const to = kl_device(y);
    for (int64_t i = 0; i < p->plan.nlaunch; i++) {
        const kl_launch *const l = &p->plan.launch[i];
        if (!l->products) kl_offload_sums(self, p->cell + l->first, (int)l->n, p->term, from, to);
        else if (self->tensor) kl_offload_tensor(self, p->piece + l->first, (int)l->n, from, to);
        else kl_offload_plain(self, p->piece + l->first, (int)l->n, from, to);
    }
    return KL_OK;
}

void kl_offload_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *out)
{
    const prepared *const p = b->prepared;
    static const kl_plan none;
    tell(ex->self, p ? &p->plan : &none, out);
}

kl_status kl_offload_batch_dry(kl_exec *ex, const kl_batch *b, kl_batch_plan *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_plan_opts o = options_of(ex->self);
    kl_plan p = {0};
    KL_TRY(kl_plan_open(b, &o, work_budget(ex->self), &p, err));
    KL_TRY(kl_plan_write(b, 0, &p, err));
    tell(ex->self, &p, out);
out:
    kl_plan_clear(&p);
    return st;
}
