/* See joined.h. The stacked operands are copies that a list keeps for its life; a list that is used once runs
   as it stands.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/joined.h"
#include "base/mem.h"
#include "record/concat.h"
#include <stdio.h>
#include <string.h>

typedef struct joined {
    kl_exec ex; /* first: what callers hold */
    kl_exec *inner;
} joined;

/* What stands in a batch: for a joined list `list' with what the inner executor made of it, else that
   alone. */
typedef struct held {
    int joins;
    kl_batch list;
    kl_dptr stack;
    void *inner;
} held;

/* The list that the inner executor knows. */
static kl_batch seen(const kl_batch *b)
{
    const held *const h = b->prepared;
    kl_batch view = *b;
    if (h && h->joins) return h->list;
    view.prepared = h ? h->inner : NULL;
    return view;
}

static void joined_release(kl_exec *ex, kl_batch *b)
{
    kl_exec *const inner = ((joined *)ex)->inner;
    held *h = b->prepared;
    if (!h) return;
    kl_batch view = seen(b);
    if (view.prepared) inner->vt.batch_release(inner, &view);
    h->list.prepared = NULL;
    if (h->joins) kl_batch_clear(&h->list);
    inner->vt.release(inner, &h->stack);
    kl_free(&h);
    b->prepared = NULL;
}

/* list: b with its second level joined; *stack: the operands that are stacked, on the inner executor. */
static kl_status join(kl_exec *inner, const kl_batch *b, kl_batch *list, kl_dptr *stack, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch pack;
    KL_TRY(kl_concat(b, list, &pack, err));
    if (pack.ny > 0) {
        KL_TRY(inner->vt.alloc(inner, pack.ny, stack, err));
        KL_TRY(kl_batch_run(&pack, inner, (kl_dptr){0}, *stack, err));
    }
    list->base[KL_AT_STACK] = *stack;
    list->lasting = b->lasting, list->parts = b->parts;
out:
    kl_batch_clear(&pack);
    return st;
}

static kl_status joined_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const inner = ((joined *)ex)->inner;
    held *h = NULL;
    KL_TRY(kl_alloc(&h, 1, KL_MEM_RECORD, err));
    b->prepared = h;
    inner->most_bytes = ex->most_bytes;
    if (b->lasting) {
        h->joins = 1;
        KL_TRY(join(inner, b, &h->list, &h->stack, err));
        KL_TRY(inner->vt.batch_prepare(inner, &h->list, err));
    } else {
        kl_batch view = seen(b);
        st = inner->vt.batch_prepare(inner, &view, err);
        h->inner = view.prepared;
        KL_TRY(st);
    }
    return KL_OK;
out:
    if (h) joined_release(ex, b);
    return st;
}

static kl_status joined_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_exec *const inner = ((joined *)ex)->inner;
    const kl_batch view = seen(b);
    return inner->vt.batch_apply(inner, &view, x, y, err);
}

static void joined_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    kl_exec *const inner = ((joined *)ex)->inner;
    const kl_batch view = seen(b);
    inner->vt.batch_explain(inner, &view, plan);
}

static kl_status joined_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const inner = ((joined *)ex)->inner;
    kl_batch list = {0}, pack = {0};
    kl_call one = *call;
    if (call->op != KL_OP_BATCH || !call->batch->lasting) return inner->vt.explain(inner, call, c, err);
    KL_TRY(kl_concat(call->batch, &list, &pack, err));
    list.lasting = 1;
    one.batch = &list;
    KL_TRY(inner->vt.explain(inner, &one, c, err));
    c->memory_bytes += pack.ny * (int64_t)sizeof(double);
    const size_t used = strlen(c->why);
    snprintf(c->why + used, sizeof c->why - used, "; %lld records joined to %lld",
             (long long)call->batch->nrec, (long long)list.nrec);
out:
    kl_batch_clear(&list);
    kl_batch_clear(&pack);
    return st;
}

static void joined_close(kl_exec *ex) { kl_exec_close(&((joined *)ex)->inner); }

kl_status kl_exec_open_joined_take(kl_exec **inner, kl_exec **out, kl_err *err)
{
    joined *j = NULL;
    *out = NULL;
    const kl_status st = kl_alloc(&j, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    j->inner = *inner;
    j->ex = **inner;
    j->ex.vt.batch_prepare = joined_prepare;
    j->ex.vt.batch_apply = joined_apply;
    j->ex.vt.batch_apply_many = NULL;
    j->ex.vt.batch_release = joined_release;
    j->ex.vt.batch_explain = joined_batch_explain;
    j->ex.vt.explain = joined_explain;
    j->ex.vt.close = joined_close;
    *inner = NULL;
    *out = &j->ex;
    return KL_OK;
}
