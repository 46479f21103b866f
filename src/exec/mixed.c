/* Two executors of one device, operation by operation: see mixed.h. The first one may run ahead of the host:
   before the second one begins, one number is fetched, which is there when all that was asked of the first is
   done.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/mixed.h"
#include "base/mem.h"
#include "record/record.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HAND_OVER 10e-6 /* seconds until that number is there */
#define NEARLY 0.95     /* of the first one's time: what is closer than that is noise */
/* of the memory that is left: what a list may take by the second one, which the first one does not count */
enum { SMALL_PART = 16 };

typedef struct mixed {
    kl_exec ex; /* first: what callers hold */
    kl_exec *of[2];      /* the second: NULL until it is opened */
    kl_mixed_later later; /* open: NULL when it has been, or cannot be */
    double saved;        /* seconds that it would have saved so far */
    kl_dptr mark; /* one number of the first one's */
    kl_mixed_time *time;
    int n;
    char name[32];
} mixed;

typedef struct prepared {
    int which;
    void *inner;
    /* NULL, or the times by which the second one would have been taken, were it open */
    const kl_mixed_time *better;
} prepared;

int kl_mixed_which(const kl_mixed_time *time, int n, kl_op op, double size, const kl_mixed_time **by)
{
    const kl_mixed_time *best = NULL;
    double least = INFINITY;
    if (op == KL_OP_PRECONDITION) op = KL_OP_AXPBY;
    for (int i = 0; i < n; i++) {
        const double far = fabs(log((double)time[i].size / fmax(size, 1)));
        if (time[i].op == op && far < least) best = &time[i], least = far;
    }
    *by = best;
    return best && best->seconds[1] + HAND_OVER < best->seconds[0] &&
           best->seconds[1] < NEARLY * best->seconds[0];
}

int kl_mixed_ever(const kl_mixed_time *time, int n)
{
    const kl_mixed_time *by;
    int any = 0;
    for (int i = 0; i < n; i++) any |= kl_mixed_which(time, n, time[i].op, (double)time[i].size, &by);
    return any;
}

static void name_both(mixed *p)
{
    snprintf(p->name, sizeof p->name, "%.12s and %.12s", p->of[0]->name, p->of[1]->name);
    p->ex.name = p->name;
}

static int open_second(mixed *p)
{
    kl_err ignored;
    if (p->later.open && p->later.open(p->later.self, &p->of[1], &ignored) == KL_OK) name_both(p);
    p->later.open = NULL;
    return p->of[1] != NULL;
}

/* 1: the second one is there; where it is not, this counts towards its opening. */
static int has_second(mixed *p, const kl_mixed_time *by)
{
    if (p->of[1] || !p->later.open) return p->of[1] != NULL;
    p->saved += by->seconds[0] - by->seconds[1];
    return p->saved >= p->later.seconds && open_second(p);
}

/* Who takes it; the second one may begin at once. */
static kl_exec *taker(kl_exec *ex, kl_op op, int64_t n)
{
    mixed *const p = (mixed *)ex;
    const kl_mixed_time *by;
    kl_err ignored; /* a device that is lost says so where numbers come back */
    double done;
    if (!kl_mixed_which(p->time, p->n, op, (double)n, &by) || !has_second(p, by)) return p->of[0];
    if (p->of[0]->vt.download(p->of[0], &done, p->mark, 1, &ignored) != KL_OK) return p->of[0];
    return p->of[1];
}

static void pick_copy(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst)
{
    kl_exec *const to = taker(ex, KL_OP_COPY, n);
    to->vt.copy(to, n, src, dst);
}

static void pick_axpby(kl_exec *ex, int64_t n, double a, kl_dptr x, double b, kl_dptr y)
{
    kl_exec *const to = taker(ex, KL_OP_AXPBY, n);
    to->vt.axpby(to, n, a, x, b, y);
}

static void pick_precondition(kl_exec *ex, int64_t n, kl_dptr diag, double theta, double floor, kl_dptr r,
                              kl_dptr t)
{
    kl_exec *const to = taker(ex, KL_OP_PRECONDITION, n);
    to->vt.precondition(to, n, diag, theta, floor, r, t);
}

static void pick_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, kl_dptr x, double *out)
{
    kl_exec *const to = taker(ex, KL_OP_DOTS, n);
    to->vt.dots(to, n, nvec, v, ldv, x, out);
}

static void pick_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr v, int64_t ldv, const double *c, double b,
                         kl_dptr y)
{
    kl_exec *const to = taker(ex, KL_OP_COMBINE, n);
    to->vt.combine(to, n, nvec, v, ldv, c, b, y);
}

static void pick_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots)
{
    kl_exec *const to = taker(ex, KL_OP_FUSE, n), *const has = to->vt.fuse ? to : ((const mixed *)ex)->of[0];
    has->vt.fuse(has, n, f, dots);
}

static int takes_list(const kl_exec *ex, const kl_batch *b, const kl_mixed_time **by)
{
    const mixed *const p = (const mixed *)ex;
    *by = NULL;
    if (ex->projection != KL_PROJECTION_AUTO) return 0;
    for (int k = KL_AT_LEFT; k < KL_NAT; k++)
        if (kl_exec_is_far(p->of[0], b->base[k])) return 0;
    return kl_mixed_which(p->time, p->n, KL_OP_BATCH, kl_batch_mean_size(b), by);
}

/* The list as the one that has it sees it. */
static kl_batch inside(const kl_batch *b)
{
    kl_batch view = *b;
    view.prepared = b->prepared ? ((const prepared *)b->prepared)->inner : NULL;
    return view;
}

static kl_status prepare_by(const mixed *p, const kl_batch *b, int which, prepared *out, kl_err *err)
{
    kl_batch view = *b;
    kl_exec *const to = p->of[which];
    const kl_status st = to->vt.batch_prepare(to, &view, err);
    if (st == KL_OK) *out = (prepared){.which = which, .inner = view.prepared};
    return st;
}

static kl_status pick_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    mixed *const p = (mixed *)ex;
    const kl_mixed_time *by;
    kl_batch_plan plan;
    kl_err ignored;
    prepared *q = NULL;
    KL_TRY(kl_alloc(&q, 1, KL_MEM_RECORD, err));
    p->of[0]->projection = ex->projection;
    const int better = takes_list(ex, b, &by);
    if (better && p->of[1] && prepare_by(p, b, 1, q, &ignored) == KL_OK) {
        kl_batch view = *b;
        view.prepared = q->inner;
        p->of[1]->vt.batch_explain(p->of[1], &view, &plan);
        if (plan.work_bytes + plan.list_bytes > p->of[0]->vt.room(p->of[0]) / SMALL_PART) {
            p->of[1]->vt.batch_release(p->of[1], &view);
            *q = (prepared){0};
        }
    }
    if (!q->inner) KL_TRY(prepare_by(p, b, 0, q, err));
    if (better && !p->of[1]) q->better = by;
    b->prepared = q;
    q = NULL;
out:
    kl_free(&q);
    return st;
}

static kl_status pick_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    mixed *const p = (mixed *)ex;
    const prepared *const q = b->prepared;
    const int which = q->which;
    const kl_batch view = inside(b);
    double done;
    if (q->better) has_second(p, q->better); /* for the lists after this one */
    if (which) KL_TRY(p->of[0]->vt.download(p->of[0], &done, p->mark, 1, err));
    else p->of[0]->ahead = ex->ahead;
    st = p->of[which]->vt.batch_apply(p->of[which], &view, x, y, err);
out:
    return st;
}

static void pick_release(kl_exec *ex, kl_batch *b)
{
    const mixed *const p = (const mixed *)ex;
    prepared *q = b->prepared;
    if (!q) return;
    kl_batch view = inside(b);
    p->of[q->which]->vt.batch_release(p->of[q->which], &view);
    kl_free(&q);
    b->prepared = NULL;
}

static void pick_batch_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    const mixed *const p = (const mixed *)ex;
    const kl_mixed_time *by;
    const int which =
        b->prepared ? ((const prepared *)b->prepared)->which : takes_list(ex, b, &by) && p->of[1];
    const kl_batch view = inside(b);
    p->of[0]->projection = ex->projection;
    p->of[which]->vt.batch_explain(p->of[which], &view, plan);
}

static kl_status pick_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    mixed *const p = (mixed *)ex;
    const kl_mixed_time *by;
    const int better = call->op == KL_OP_BATCH
                           ? takes_list(ex, call->batch, &by)
                           : kl_mixed_which(p->time, p->n, call->op, (double)call->n, &by);
    const int which = better && (p->of[1] || open_second(p));
    kl_exec *const to = p->of[which];
    p->of[0]->projection = ex->projection;
    c->exec = to->name;
    const kl_status st = to->vt.explain(to, call, c, err);
    const size_t used = strlen(c->why);
    if (st == KL_OK && by)
        snprintf(c->why + used, sizeof c->why - used, "%sauto: %s %.3g us, %s %.3g us at %lld",
                 used ? "; " : "", p->of[0]->name, by->seconds[0] * 1e6,
                 p->of[1] ? p->of[1]->name : "the other", by->seconds[1] * 1e6, (long long)by->size);
    return st;
}

static void pick_close(kl_exec *ex)
{
    mixed *const p = (mixed *)ex;
    p->of[0]->vt.release(p->of[0], &p->mark);
    for (int k = 0; k < 2; k++) kl_exec_close(&p->of[k]);
    kl_free(&p->time);
}

kl_status kl_exec_open_mixed_take(kl_exec **first, kl_exec **second, const kl_mixed_later *later,
                                  const kl_mixed_time *time, int n, kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    mixed *p = NULL;
    static const double zero = 0;
    *out = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->time, n, KL_MEM_MISC, err));
    memcpy(p->time, time, (size_t)n * sizeof *time);
    p->n = n;
    KL_TRY((*first)->vt.alloc(*first, 1, &p->mark, err));
    KL_TRY((*first)->vt.upload(*first, p->mark, &zero, 1, err));
    p->of[0] = *first, p->of[1] = *second;
    if (later) p->later = *later;
    p->ex = **first;
    if (p->of[1]) name_both(p);
    p->ex.vt.copy = pick_copy;
    p->ex.vt.axpby = pick_axpby;
    p->ex.vt.precondition = pick_precondition;
    p->ex.vt.dots = pick_dots;
    p->ex.vt.combine = pick_combine;
    if ((*first)->vt.fuse) p->ex.vt.fuse = pick_fuse;
    p->ex.vt.batch_prepare = pick_prepare;
    p->ex.vt.batch_apply = pick_apply;
    p->ex.vt.batch_apply_many = NULL;
    p->ex.vt.batch_release = pick_release;
    p->ex.vt.batch_explain = pick_batch_explain;
    p->ex.vt.explain = pick_explain;
    p->ex.vt.close = pick_close;
    *first = *second = NULL;
    *out = &p->ex;
    return KL_OK;
out:
    if (p) (*first)->vt.release(*first, &p->mark);
    if (p) kl_free(&p->time);
    kl_free(&p);
    return st;
}
