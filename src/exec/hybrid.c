/* Processor and device together on one list: see hybrid.h.

   1. The work of each output is its records' flops; the wanted share of the device follows from the user's
      step function at the list's mean matrix size, or, measured, from what the
      whole list would take on either side: flops at the rate of that size, and on the device no less than
      operators that come over the bus.
   2. Outputs go to the device, largest first, as long as the share is not exceeded; the others are the
      host's.
   3. Where the share is still far off, the records of the largest output of the host are cut in two, and what
      the host makes of it is added.
   4. An apply: what the host reads of x comes down during the device's products, the host does its part, its
      segments of y go up during them too.
   5. Measured only: sharing takes the longer of both parts and the transfers; where the device alone is done
      sooner, or nearly, it is left alone.
   Operands of the host's records are copied once, when the list is prepared, unless they are on the host
   anyway.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/hybrid.h"
#include "record/chunk.h"
#include "base/mem.h"
#include "base/prof.h"
#include "record/record.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* APPLIES: number of products that follow at least, on average, when operands have been copied */
enum {
    MOST_STEP = 16,
    APPLIES = 20,
};
#define WORTH 0.95    /* of the device's time alone: what sharing must come down to */
#define LAUNCH 5e-6   /* seconds of a launch, and of a transfer's start */

typedef struct hybrid {
    kl_exec ex; /* first: what callers hold */
    kl_exec *device, *host;
    int measured, nstep;
    double size[MOST_STEP], ratio[MOST_STEP];
    double rate[2][MOST_STEP]; /* measured: flop/s of host and device */
    double bus;                /* measured: bytes/s between them */
} hybrid;

typedef struct shared {
    kl_batch here, there;     /* the host's records, and the device's */
    double *x, *y;            /* the host's */
    double *operand;          /* copies */
    /* behind all three, where the device can read it; else they are blocks of their own */
    kl_dptr pinned;
    kl_dptr sum;              /* on the device: the host's part of an output that is cut */
    int64_t cut_y, cut_n;     /* its segment; cut_n 0: none */
    kl_gather reads;          /* what the host reads of x */
    double share;             /* the device's part of the flops */
    double alone, together;   /* measured: predicted seconds of one apply */
    int shares;               /* 0: the whole list is the device's, as it stands */
} shared;

static int step_at(const hybrid *h, double size)
{
    int k = 0;
    while (k + 1 < h->nstep && h->size[k + 1] <= size) k++;
    return k;
}

static kl_status add_group(kl_batch *to, const kl_batch *from, const kl_group *g, int64_t first, int64_t last,
                           kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_batch_open_group(to, g->y, g->ny, err));
    KL_TRY(kl_batch_reserve(to, last - first, err));
    for (int64_t i = first; i < last; i++) *kl_batch_push(to) = from->rec[i];
    kl_batch_close_group(to, g->nwork);
out:
    return st;
}

/* Last record before which a group may be cut so that the first part has no more than `flop`. */
static kl_status cut_at(const kl_batch *b, const kl_group *g, double flop, int64_t *cut, kl_err *err)
{
    kl_status st = KL_OK;
    char *may = NULL;
    double done = 0;
    *cut = g->first;
    KL_TRY(kl_alloc(&may, g->last - g->first + 1, KL_MEM_RECORD, err));
    kl_group_cuts(b, g, may);
    for (int64_t i = g->first; i < g->last && done <= flop; i++) {
        if (may[i - g->first]) *cut = i;
        done += kl_rec_flop(&b->rec[i]);
    }
out:
    kl_free(&may);
    return st;
}

/* 1., 2., 3.: wanted: flops for the device. */
static kl_status share_out(const kl_batch *b, double wanted, shared *s, kl_err *err)
{
    kl_status st = KL_OK;
    double given = 0;
    int next = -1; /* largest output of the host */
    char *mine = NULL;
    KL_TRY(kl_alloc(&mine, b->ngroup, KL_MEM_RECORD, err));
    for (int i = 0; i < b->ngroup; i++) {
        const kl_group *const g = &b->group[b->order[i]];
        if (given + g->flop <= wanted || g->flop == 0) given += g->flop;
        else mine[b->order[i]] = 1, next = next < 0 ? b->order[i] : next;
    }
    const int cut = next >= 0 && wanted - given > 0.05 * b->flop && b->zero;
    for (int i = 0; i < b->ngroup; i++) {
        const kl_group *const g = &b->group[i];
        int64_t at = mine[i] ? g->first : g->last;
        if (cut && i == next) KL_TRY(cut_at(b, g, wanted - given, &at, err));
        if (at > g->first || !mine[i]) KL_TRY(add_group(&s->there, b, g, g->first, at, err));
        if (at < g->last) KL_TRY(add_group(&s->here, b, g, at, g->last, err));
        if (mine[i] && at > g->first && at < g->last) s->cut_y = g->y, s->cut_n = g->ny;
    }
    s->here.zero = s->there.zero = b->zero;
    s->here.lasting = s->there.lasting = b->lasting;
    s->here.nx = s->there.nx = b->nx, s->here.ny = s->there.ny = b->ny;
    memcpy(s->there.base, b->base, sizeof b->base);
    memcpy(s->here.base, b->base, sizeof b->base);
    KL_TRY(kl_batch_close(&s->here, err));
    KL_TRY(kl_batch_close(&s->there, err));
    s->share = b->flop > 0 ? s->there.flop / b->flop : 1;
    s->shares = s->here.ngroup > 0;
out:
    kl_free(&mine);
    return st;
}

/* Which of a list's operands are on the device. */
static void near_places(kl_exec *device, const kl_batch *b, char which[KL_NAT])
{
    for (int k = 0; k < KL_NAT; k++) which[k] = k >= KL_AT_LEFT && !kl_exec_is_far(device, b->base[k]);
}

/* Finds what of x and of operators on the device the host's records read: their gathered form is what runs.
   moved: bytes that the list as a whole takes over the bus in every apply. */
static kl_status decide(const hybrid *h, const kl_batch *b, double moved, shared *s, kl_gather *operands,
                        kl_err *err)
{
    static const char only_x[KL_NAT] = {[KL_AT_X] = 1};
    /* a gap of fewer doubles is copied along, which takes less time than another transfer */
    enum { GAP = 1 << 15 };
    kl_status st = KL_OK;
    kl_batch copy;
    char which[KL_NAT];
    kl_batch_init(&copy);
    const int k = step_at(h, kl_batch_mean_size(b));
    double ratio = h->ratio[k], there = 0, here = 0;
    if (h->measured) {
        here = b->flop / h->rate[0][k];
        there = fmax(b->flop / h->rate[1][k], moved / h->bus) + LAUNCH;
        ratio = here / there;
    }
    KL_TRY(share_out(b, b->flop * ratio / (1 + ratio), s, err));
    if (!s->shares) goto out;
    KL_TRY(kl_batch_open_group(&copy, 0, 0, err));
    KL_TRY(kl_batch_reserve(&copy, s->here.nrec, err));
    for (int64_t i = 0; i < s->here.nrec; i++) *kl_batch_push(&copy) = s->here.rec[i];
    KL_TRY(kl_gather_create(&copy, only_x, &s->reads, err));
    int64_t n = 0, down = 0, up = 0;
    for (int64_t i = 0; i < s->reads.ncopy; i++) {
        const kl_copy c = s->reads.copy[i];
        kl_copy *const last = n > 0 ? &s->reads.copy[n - 1] : NULL;
        if (last && c.from - last->from - last->n < GAP) last->n = c.from + c.n - last->from;
        else s->reads.copy[n++] = c;
    }
    s->reads.ncopy = n;
    for (int64_t i = 0; i < n; i++) down += s->reads.copy[i].n;
    for (int i = 0; i < s->here.ngroup; i++) up += s->here.group[i].ny;
    near_places(h->device, b, which);
    KL_TRY(kl_gather_create(&s->here, which, operands, err));
    if (h->measured) {
        const double mine = 8.0 * (double)(down + up) / h->bus + LAUNCH * (double)(n + s->here.ngroup + 1) +
                            here * (1 - s->share) + 8.0 * (double)operands->n / h->bus / (double)APPLIES;
        s->alone = there, s->together = fmax(mine, there * s->share);
        s->shares = s->together < WORTH * s->alone; /* 5. */
    }
out:
    kl_batch_clear(&copy);
    return st;
}

/* Memory of the host's part, and copies of what its records read in addition to x. */
static kl_status fetch_operands(kl_exec *device, const kl_batch *b, shared *s, const kl_gather *operands,
                                kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t line = 8, nx = (b->nx + line - 1) / line * line, ny = (b->ny + line - 1) / line * line;
    if (device->vt.alloc_far) {
        KL_TRY(device->vt.alloc_far(device, nx + ny + operands->n, &s->pinned, err));
        s->x = (double *)s->pinned.addr, s->y = s->x + nx, s->operand = s->y + ny;
    } else {
        KL_TRY(kl_alloc(&s->x, nx, KL_MEM_VECTOR, err));
        KL_TRY(kl_alloc(&s->y, ny, KL_MEM_VECTOR, err));
        KL_TRY(kl_alloc(&s->operand, operands->n, KL_MEM_BLOCK, err));
    }
    s->here.base[KL_AT_STACK].addr = (uintptr_t)s->operand;
    int ticket = -1;
    for (int64_t i = 0; i < operands->ncopy; i++) {
        const kl_copy *const c = &operands->copy[i];
        const kl_dptr from = kl_dptr_at(b->base[c->at], c->from);
        if (s->pinned.addr)
            ticket =
                device->vt.copy_async(device, c->n, from, (kl_dptr){(uintptr_t)(s->operand + c->to)}, i == 0);
        else KL_TRY(device->vt.download(device, s->operand + c->to, from, c->n, err));
    }
    if (ticket >= 0) device->vt.join(device, ticket, 1);
    if (s->cut_n > 0) KL_TRY(device->vt.alloc(device, s->cut_n, &s->sum, err));
out:
    return st;
}

/* What the device sees of a list that is not shared. */
static kl_batch whole(const kl_batch *b, const shared *s)
{
    kl_batch view = *b;
    view.prepared = s ? s->there.prepared : NULL;
    return view;
}

/* The whole list, on the device. */
static kl_status prepare_whole(const hybrid *h, const kl_batch *b, shared *s, kl_err *err)
{
    kl_batch view = whole(b, s);
    const kl_status st = h->device->vt.batch_prepare(h->device, &view, err);
    s->there.prepared = view.prepared;
    return st;
}

static void release_whole(const hybrid *h, const kl_batch *b, shared *s)
{
    kl_batch view = whole(b, s);
    if (view.prepared) h->device->vt.batch_release(h->device, &view);
    s->there.prepared = NULL;
}

static kl_status apply_shared(const hybrid *h, const shared *s, kl_dptr x, kl_dptr y, kl_err *err);

/* Seconds of an apply as it is prepared now: the second of two. */
static kl_status time_apply(const hybrid *h, const kl_batch *b, const shared *s, int sharing, kl_dptr x,
                            kl_dptr y, double *seconds, kl_err *err)
{
    kl_status st = KL_OK;
    double last;
    for (int k = 0; k < 2; k++) {
        const kl_batch view = whole(b, s);
        const double t0 = kl_prof_seconds();
        KL_TRY(sharing ? apply_shared(h, s, x, y, err)
                       : h->device->vt.batch_apply(h->device, &view, x, y, err));
        KL_TRY(h->device->vt.download(h->device, &last, y, 1, err));
        *seconds = kl_prof_seconds() - t0;
    }
out:
    return st;
}

/* Both parts, of which s->there is prepared instead of the whole. */
static kl_status prepare_shared(hybrid *h, const kl_batch *b, shared *s, const kl_gather *operands,
                                kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(fetch_operands(h->device, b, s, operands, err));
    KL_TRY(h->device->vt.batch_prepare(h->device, &s->there, err));
    KL_TRY(h->host->vt.batch_prepare(h->host, &s->here, err));
out:
    return st;
}

static void drop_parts(hybrid *h, shared *s)
{
    if (s->there.prepared) h->device->vt.batch_release(h->device, &s->there);
    if (s->here.prepared) h->host->vt.batch_release(h->host, &s->here);
    h->device->vt.release(h->device, &s->sum);
    if (s->pinned.addr) h->device->vt.release(h->device, &s->pinned);
    else {
        kl_free(&s->x);
        kl_free(&s->y);
        kl_free(&s->operand);
    }
    kl_gather_clear(&s->reads);
    kl_batch_clear(&s->here);
    kl_batch_clear(&s->there);
}

static kl_status hybrid_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    hybrid *const h = (hybrid *)ex;
    kl_exec *const d = h->device;
    shared *s = NULL;
    kl_gather operands = {0};
    kl_dptr x = {0}, y = {0};
    kl_batch_plan plan;
    kl_err ignored;
    double alone = 0, together = 0;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_RECORD, err));
    d->projection = ex->projection;
    d->most_bytes = ex->most_bytes;
    if (!b->lasting || h->measured) KL_TRY(prepare_whole(h, b, s, err)); /* it says how much moves */
    if (b->lasting) {
        kl_batch view = whole(b, s);
        if (view.prepared) d->vt.batch_explain(d, &view, &plan);
        s->there.prepared = NULL;
        st = decide(h, b, view.prepared ? (double)plan.moved_bytes : 0, s, &operands, err);
        if (st == KL_OK && s->shares && view.prepared && d->vt.alloc(d, b->nx, &x, &ignored) == KL_OK &&
            d->vt.alloc(d, b->ny + 1, &y, &ignored) == KL_OK) {
            d->vt.fill(d, b->nx, 0.5, x);
            s->there.prepared = view.prepared;
            st = time_apply(h, b, s, 0, x, y, &alone, err);
            s->there.prepared = NULL;
        }
        if (view.prepared && (s->shares || st != KL_OK)) d->vt.batch_release(d, &view);
        s->there.prepared = s->shares ? NULL : view.prepared;
        if (st != KL_OK) goto out;
    }
    if (s->shares) {
        KL_TRY(prepare_shared(h, b, s, &operands, err));
        if (alone > 0) KL_TRY(time_apply(h, b, s, 1, x, y, &together, err));
        if (together > alone) { /* the estimate was wrong */
            drop_parts(h, s);
            *s = (shared){.shares = 0};
        }
    } else {
        void *const prepared = s->there.prepared;
        kl_batch_clear(&s->there);
        kl_batch_clear(&s->here);
        s->there.prepared = prepared;
    }
    if (!s->shares && !s->there.prepared) KL_TRY(prepare_whole(h, b, s, err));
    b->prepared = s;
    s = NULL;
out:
    d->vt.release(d, &x);
    d->vt.release(d, &y);
    kl_gather_clear(&operands);
    if (s && !s->shares) release_whole(h, b, s);
    if (s) drop_parts(h, s);
    kl_free(&s);
    return st;
}

static void hybrid_release(kl_exec *ex, kl_batch *b)
{
    hybrid *const h = (hybrid *)ex;
    shared *s = b->prepared;
    if (!s) return;
    if (!s->shares) release_whole(h, b, s);
    drop_parts(h, s);
    kl_free(&s);
    b->prepared = NULL;
}

/* 4. */
static kl_status apply_shared(const hybrid *h, const shared *s, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = h->device;
    const int overlaps = s->pinned.addr != 0;
    int ticket = -1;
    for (int64_t i = 0; i < s->reads.ncopy; i++) {
        const kl_copy *const c = &s->reads.copy[i];
        if (overlaps)
            ticket = d->vt.copy_async(d, c->n, kl_dptr_at(x, c->from), (kl_dptr){(uintptr_t)(s->x + c->from)},
                                      i == 0);
        else KL_TRY(d->vt.download(d, s->x + c->from, kl_dptr_at(x, c->from), c->n, err));
    }
    d->ahead = 1;
    st = d->vt.batch_apply(d, &s->there, x, y, err);
    d->ahead = 0;
    if (st != KL_OK) goto out;
    if (ticket >= 0) d->vt.join(d, ticket, 1);
    KL_TRY(h->host->vt.batch_apply(h->host, &s->here, (kl_dptr){(uintptr_t)s->x}, (kl_dptr){(uintptr_t)s->y},
                                   err));
    for (int i = 0; i < s->here.ngroup; i++) {
        const kl_group *const g = &s->here.group[i];
        const kl_dptr to = s->cut_n > 0 && g->y == s->cut_y ? s->sum : kl_dptr_at(y, g->y);
        if (overlaps) ticket = d->vt.copy_async(d, g->ny, (kl_dptr){(uintptr_t)(s->y + g->y)}, to, 0);
        else KL_TRY(d->vt.upload(d, to, s->y + g->y, g->ny, err));
    }
    if (overlaps) d->vt.join(d, ticket, 0);
    if (s->cut_n > 0) d->vt.axpby(d, s->cut_n, 1.0, s->sum, 1.0, kl_dptr_at(y, s->cut_y));
out:
    return st;
}

static kl_status hybrid_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    const hybrid *const h = (const hybrid *)ex;
    const shared *const s = b->prepared;
    const kl_batch view = whole(b, s);
    return s->shares ? apply_shared(h, s, x, y, err) : h->device->vt.batch_apply(h->device, &view, x, y, err);
}

static void hybrid_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    const hybrid *const h = (const hybrid *)ex;
    const shared *const s = b->prepared;
    const kl_batch view = s && s->shares ? s->there : whole(b, s);
    h->device->vt.batch_explain(h->device, &view, plan);
    plan->share = s && s->shares ? s->share : 1;
}

static kl_status hybrid_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    const hybrid *const h = (const hybrid *)ex;
    kl_status st = KL_OK;
    shared s = {.shares = 0};
    kl_gather operands = {0};
    h->device->projection = ex->projection;
    KL_TRY(h->device->vt.explain(h->device, call, c, err));
    if (call->op != KL_OP_BATCH || !call->batch->lasting) goto out;
    KL_TRY(decide(h, call->batch, (double)c->moved_bytes, &s, &operands, err));
    c->share = s.shares ? s.share : 1;
    const size_t used = strlen(c->why), left = sizeof c->why - used;
    if (s.shares)
        snprintf(c->why + used, left, "; hybrid: %.1f %% on the device, %.1f %% on %d threads", 100 * s.share,
                 100 - 100 * s.share, h->host->nthread);
    else if (s.together > 0)
        snprintf(c->why + used, left, "; hybrid: the device alone, %.3g ms; with the host's share %.3g ms",
                 1e3 * s.alone, 1e3 * s.together);
    else snprintf(c->why + used, left, "; hybrid: nothing for the host at this ratio");
out:
    kl_gather_clear(&operands);
    kl_gather_clear(&s.reads);
    kl_batch_clear(&s.here);
    kl_batch_clear(&s.there);
    return st;
}

static void hybrid_close(kl_exec *ex)
{
    hybrid *const h = (hybrid *)ex;
    kl_exec_close(&h->device);
    kl_exec_close(&h->host);
}

/* Time of one apply of some products of n, the best of some after one that is not counted; *flop: what they
   do. */
static kl_status time_of(kl_exec *ex, int n, double *seconds, double *flop, kl_err *err)
{
    kl_status st = KL_OK;
    enum {
        FEW = 8,
        MANY = 4096,
    };
    kl_batch b;
    kl_dptr p = {0}, x = {0}, y = {0};
    double last;
    const int64_t one = (int64_t)n * n;
    /* a device has more to fill */
    const double work = ex->space == KL_SPACE_DEVICE ? 4e9 : 1e8, one_flop = 2.0 * n * n * n;
    const int many =
        work<(double)FEW * one_flop ? FEW : work>(double) MANY * one_flop ? MANY : (int)(work / one_flop);
    kl_batch_init(&b);
    *seconds = INFINITY;
    for (int i = 0; i < many; i++) {
        KL_TRY(kl_batch_open_group(&b, i * one, one, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .beta = 1,
                                      .at_a = KL_AT_LEFT,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = n,
                                      .n = n,
                                      .k = n,
                                      .lda = n,
                                      .ldb = n,
                                      .ldc = n,
                                      .b = i * one,
                                      .c = i * one,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1, b.nx = b.ny = many * one;
    KL_TRY(ex->vt.alloc(ex, one, &p, err));
    KL_TRY(ex->vt.alloc(ex, many * one, &x, err));
    KL_TRY(ex->vt.alloc(ex, many * one, &y, err));
    ex->vt.fill(ex, one, 0.3, p);
    ex->vt.fill(ex, many * one, 0.7, x);
    b.base[KL_AT_LEFT] = p;
    KL_TRY(kl_batch_close(&b, err));
    KL_TRY(ex->vt.batch_prepare(ex, &b, err));
    for (int k = 0; k < 4 && !(k > 1 && *seconds > 0.02); k++) {
        const double t0 = kl_prof_seconds();
        KL_TRY(ex->vt.batch_apply(ex, &b, x, y, err));
        KL_TRY(ex->vt.download(ex, &last, y, 1, err));
        if (k > 0) *seconds = fmin(*seconds, kl_prof_seconds() - t0);
    }
    *flop = b.flop;
out:
    if (b.prepared) ex->vt.batch_release(ex, &b);
    kl_batch_clear(&b);
    ex->vt.release(ex, &p);
    ex->vt.release(ex, &x);
    ex->vt.release(ex, &y);
    return st;
}

/* Bytes a second, the slower direction, as transfers of an apply go. */
static kl_status time_bus(hybrid *h, kl_err *err)
{
    enum { N = 2 << 20 };
    kl_status st = KL_OK;
    kl_exec *const d = h->device;
    kl_dptr near = {0}, far = {0};
    double *plain = NULL, seconds = 0;
    KL_TRY(d->vt.alloc(d, N, &near, err));
    d->vt.fill(d, N, 0.5, near);
    if (d->vt.alloc_far) KL_TRY(d->vt.alloc_far(d, N, &far, err));
    else KL_TRY(kl_alloc(&plain, N, KL_MEM_WORK, err));
    double *const to = far.addr ? (double *)far.addr : plain;
    for (int k = 0; k < 2; k++) { /* the first one touches the pages */
        const double t0 = kl_prof_seconds();
        KL_TRY(d->vt.download(d, to, near, N, err));
        const double t1 = kl_prof_seconds();
        KL_TRY(d->vt.upload(d, near, to, N, err));
        seconds = fmax(t1 - t0, kl_prof_seconds() - t1);
    }
    h->bus = 8.0 * (double)N / seconds;
out:
    d->vt.release(d, &near);
    d->vt.release(d, &far);
    kl_free(&plain);
    return st;
}

static kl_status measure(hybrid *h, kl_err *err)
{
    static const int sizes[] = {16, 64, 192, 512};
    kl_status st = KL_OK;
    h->measured = 1;
    h->nstep = sizeof sizes / sizeof *sizes;
    KL_TRY(time_bus(h, err));
    for (int i = 0; i < h->nstep; i++) {
        for (int k = 0; k < 2; k++) {
            double seconds = 1, flop = 0;
            KL_TRY(time_of(k ? h->device : h->host, sizes[i], &seconds, &flop, err));
            h->rate[k][i] = flop / seconds;
        }
        h->size[i] = i == 0 ? 0 : sizes[i] / 1.7;
        h->ratio[i] = h->rate[1][i] / h->rate[0][i];
    }
out:
    return st;
}

static kl_status read_steps(hybrid *h, const char *text, kl_err *err)
{
    for (const char *p = text; *p;) {
        char word[2][32];
        const char *const colon = strchr(p, ':'), *end = p + strcspn(p, ",");
        const int good =
            colon && colon < end && colon - p < 32 && end - colon - 1 < 32 && h->nstep < MOST_STEP;
        if (good) {
            memcpy(word[0], p, (size_t)(colon - p)), word[0][colon - p] = '\0';
            memcpy(word[1], colon + 1, (size_t)(end - colon - 1)), word[1][end - colon - 1] = '\0';
        }
        if (!good || !kl_parse_double(word[0], &h->size[h->nstep]) ||
            !kl_parse_double(word[1], &h->ratio[h->nstep]) || !(h->size[h->nstep] >= 0) ||
            !(h->ratio[h->nstep] > 0) || (h->nstep > 0 && h->size[h->nstep] <= h->size[h->nstep - 1]))
            return kl_fail(err, KL_EINPUT,
                           "--hybrid: '%.60s' at '%.30s': allowed are auto, or SIZE:RATIO,... of at most %d "
                           "ascending sizes and ratios above 0",
                           text, p, MOST_STEP);
        h->nstep++;
        p = *end ? end + 1 : end;
    }
    return h->nstep > 0
               ? KL_OK
               : kl_fail(err, KL_EINPUT, "--hybrid: nothing is given; allowed are auto, or SIZE:RATIO,...");
}

kl_status kl_exec_open_hybrid_take(kl_exec **device, int nthread, const char *steps, kl_exec **out,
                                   kl_err *err)
{
    kl_status st = KL_OK;
    hybrid *h = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    if (strcmp(steps, "auto")) KL_TRY(read_steps(h, steps, err));
    KL_TRY(kl_exec_open_host(nthread, &h->host, err));
    h->device = *device;
    if (!strcmp(steps, "auto")) {
        st = measure(h, err);
        if (st != KL_OK) h->device = NULL;
        if (st != KL_OK) goto out;
    }
    h->ex = *h->device;
    h->ex.vt.batch_prepare = hybrid_prepare;
    h->ex.vt.batch_apply = hybrid_apply;
    h->ex.vt.batch_apply_many = NULL;
    h->ex.vt.batch_release = hybrid_release;
    h->ex.vt.batch_explain = hybrid_batch_explain;
    h->ex.vt.explain = hybrid_explain;
    h->ex.vt.close = hybrid_close;
    *device = NULL;
    *out = &h->ex;
    return KL_OK;
out:
    if (h) kl_exec_close(&h->host);
    kl_free(&h);
    return st;
}
