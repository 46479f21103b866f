/* See share.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/sharecut.h"
#include "record/chunk.h"

/* What a message costs in flops of those who wait for it: to be sent at all, and a number of it. A list is
   divided where the work that others do is more. Processors; devices that are linked; others. */
static const struct cost {
    double message, number;
} costs[] = {{1.0e5, 20.0}, {3.0e8, 320.0}, {1.0e9, 16000.0}};

static const struct cost *cost_of(const kl_exec *ex)
{
    return &costs[ex->space == KL_SPACE_HOST ? 0 : ex->ranks->linked ? 1 : 2];
}

double kl_share_message(int devices) { return costs[devices != 0].message; }
typedef struct sharing {
    kl_ranks ranks, spread; /* of the executor, first, and of its twin for solvers */
    kl_exec alone, solver;
    double *speed; /* [ranks] */
} sharing;

/* How a list is divided. */
typedef struct divided {
    kl_batch mine; /* its base is the whole list's, as is the next one's */
    /* records that read nothing of other ranks' parts, their arguments as far down as this rank's part
       begins: they run while the others' parts come, and `mine' adds to what they make. No group: all are in
       `mine' */
    kl_batch near;
    int64_t *begin; /* [ranks + 1] of y, for lists with parts */
    int npiece;
    kl_share_piece *piece; /* [ranks] of y, for the others */
} divided;

/* ---------------------------------------------------------------- who does what */

int kl_share_worth(const kl_exec *ex, double flop, int64_t numbers)
{
    const struct cost *const c = cost_of(ex);
    return flop * (1.0 - 1.0 / kl_ranks_size(ex)) > c->message + c->number * (double)numbers;
}

/* The task, from `from` on, that begins when `work` is done. */
static int64_t done_by(int64_t n, const double *cost, int64_t from, double work)
{
    double sum = 0;
    int64_t i = from;
    while (i < n && sum + cost[i] <= work) sum += cost[i++];
    return i;
}

static int is_enough(int64_t n, const double *cost, int size, const double *speed, double time,
                     int64_t *first)
{
    first[0] = 0;
    for (int r = 0; r < size; r++) first[r + 1] = done_by(n, cost, first[r], time * speed[r]);
    return first[size] == n;
}

void kl_share_cut(int64_t n, const double *cost, int size, const double *speed, int64_t *first)
{
    enum { HALVINGS = 40 };
    double all = 0, fastest = 0, slowest = INFINITY;
    for (int64_t i = 0; i < n; i++) all += cost[i];
    for (int r = 0; r < size; r++) {
        fastest = fmax(fastest, speed[r]);
        slowest = fmin(slowest, speed[r]);
    }
    double low = 0, high = 2 * all / slowest + 1;
    for (int i = 0; i < HALVINGS; i++) {
        const double mid = 0.5 * (low + high);
        if (is_enough(n, cost, size, speed, mid, first)) high = mid;
        else low = mid;
    }
    (void)is_enough(n, cost, size, speed, high, first);
    first[size] = n;
}

typedef struct costly {
    double cost;
    int task;
} costly;

static int by_cost(const void *pa, const void *pb)
{
    const costly *const a = pa, *const b = pb;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    return a->task - b->task;
}

kl_status kl_share_tasks(int n, const double *cost, int size, const double *speed, int *owner, kl_err *err)
{
    kl_status st = KL_OK;
    costly *list = NULL;
    double *busy = NULL;
    KL_TRY(kl_alloc(&list, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&busy, size, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) list[i] = (costly){cost[i], i};
    qsort(list, (size_t)n, sizeof *list, by_cost);
    for (int i = 0; i < n; i++) {
        int best = 0;
        for (int r = 1; r < size; r++)
            if (busy[r] + list[i].cost / speed[r] < busy[best] + list[i].cost / speed[best]) best = r;
        busy[best] += list[i].cost / speed[best];
        owner[list[i].task] = best;
    }
out:
    kl_free(&list);
    kl_free(&busy);
    return st;
}

kl_status kl_share_owners(const kl_exec *ex, int n, const double *cost, int *owner, kl_err *err)
{
    if (ex->ranks) return kl_share_tasks(n, cost, kl_ranks_size(ex), ex->ranks->speed, owner, err);
    memset(owner, 0, (size_t)n * sizeof *owner);
    return KL_OK;
}

void kl_share_rows(const kl_exec *ex, int64_t n, const double *cost, int64_t *first)
{
    kl_share_cut(n, cost, kl_ranks_size(ex), ex->ranks->speed, first);
}

/* ---------------------------------------------------------------- what all want */

/* What rank `me` sends or receives of a piece. */
static int push_parts(int me, int size, kl_share_piece all, kl_ranks_part *part, kl_dptr base)
{
    int n = 0;
    for (int r = 0; r < size && all.owner == me; r++)
        if (r != me) part[n++] = (kl_ranks_part){r, 1, kl_dptr_at(base, all.at), all.n};
    if (all.owner != me) part[n++] = (kl_ranks_part){all.owner, 0, kl_dptr_at(base, all.at), all.n};
    return n;
}

/* Pieces of one owner that lie behind each other go as one. */
static kl_status exchange(kl_exec *ex, int npiece, const kl_share_piece *piece, kl_dptr base, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    kl_ranks_part *part = NULL;
    kl_transfer *t = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&part, (int64_t)npiece * size, KL_MEM_WORK, err));
    for (int i = 0, next; i < npiece; i = next) {
        kl_share_piece one = piece[i];
        for (next = i + 1;
             next < npiece && piece[next].owner == one.owner && piece[next].at == one.at + one.n; next++)
            one.n += piece[next].n;
        if (one.n > 0) n += push_parts(me, size, one, part + n, base);
    }
    KL_TRY(kl_ranks_start(ex, n, part, &t, err));
    KL_TRY(kl_ranks_finish(ex, &t, err));
out:
    kl_free(&part);
    return st;
}

kl_status kl_share_exchange(kl_exec *ex, int npiece, const kl_share_piece *piece, double *base, kl_err *err)
{
    if (!ex->ranks) return KL_OK;
    kl_exec here = {.space = KL_SPACE_HOST, .ranks = ex->ranks};
    return exchange(&here, npiece, piece, (kl_dptr){(uintptr_t)base}, err);
}

kl_status kl_share_exchange_there(kl_exec *ex, int npiece, const kl_share_piece *piece, kl_dptr base,
                                  kl_err *err)
{
    return ex->ranks ? exchange(ex, npiece, piece, base, err) : KL_OK;
}

/* First how long they are, then all of them. */
kl_status kl_share_lists(kl_exec *ex, int n, kl_share_list *list, kl_err *err)
{
    kl_status st = KL_OK;
    const int me = kl_ranks_mine(ex);
    kl_share_piece *piece = NULL;
    double *count = NULL, *all = NULL;
    int64_t total = 0;
    KL_TRY(kl_alloc(&piece, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, n, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) {
        piece[i] = (kl_share_piece){list[i].owner, i, 1};
        count[i] = list[i].count;
    }
    KL_TRY(kl_share_exchange(ex, n, piece, count, err));
    for (int i = 0; i < n; i++) {
        piece[i] = (kl_share_piece){list[i].owner, total, (int64_t)count[i]};
        total += piece[i].n;
    }
    KL_TRY(kl_realloc(&all, total, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++)
        if (list[i].owner == me && list[i].count > 0)
            memcpy(all + piece[i].at, list[i].number, (size_t)piece[i].n * sizeof *all);
    KL_TRY(kl_share_exchange(ex, n, piece, all, err));
    for (int i = 0; i < n; i++) {
        if (list[i].owner == me || piece[i].n == 0) continue;
        list[i].count = (int)piece[i].n;
        KL_TRY(kl_realloc(&list[i].number, piece[i].n, KL_MEM_WORK, err));
        memcpy(list[i].number, all + piece[i].at, (size_t)piece[i].n * sizeof *all);
    }
out:
    kl_free(&piece);
    kl_free(&count);
    kl_free(&all);
    return st;
}

/* ---------------------------------------------------------------- lists */

/* 0: groups do not say where they write. */
static int says_where(const kl_batch *b)
{
    for (int g = 0; g < b->ngroup; g++)
        if (b->group[g].ny == 0 && b->group[g].last > b->group[g].first) return 0;
    return 1;
}

/* What a record reads of x lies in [low, high). */
static int reads_within(const kl_rec *r, int64_t low, int64_t high)
{
    const int gemm = r->kind == KL_REC_GEMM, add = r->kind == KL_REC_ADD;
    /* rows and columns as operands lie there */
    const int64_t deep = gemm ? r->k : r->n, rows_a = r->ta ? deep : r->m, cols_a = r->ta ? r->m : deep,
                  rows_b = r->tb ? r->n : r->k, cols_b = r->tb ? r->k : r->n;
    if ((gemm || add) && r->at_a == KL_AT_X && (r->a < low || r->a + (cols_a - 1) * r->lda + rows_a > high))
        return 0;
    return !(gemm && r->at_b == KL_AT_X) || (r->b >= low && r->b + (cols_b - 1) * r->ldb + rows_b <= high);
}

/* Of each group the records that read x within [low, high) alone, or the others. */
typedef enum kind { WITHIN, BEYOND } kind;

typedef struct choice {
    kind which;
    int64_t low, high;
    /* results are so much further down, and so are arguments of those within */
    int64_t shift;
} choice;

/* Those of records [first, last), which stay together, that are chosen. Returns their flops. */
static double take_records(const kl_batch *b, int64_t first, int64_t last, const choice *c, kl_batch *mine)
{
    double flop = 0.0;
    int within = 1;
    for (int64_t r = first; r < last; r++) within = within && reads_within(&b->rec[r], c->low, c->high);
    if (within != (c->which == WITHIN)) return 0.0;
    for (int64_t r = first; r < last; r++) {
        kl_rec *const to = kl_batch_push(mine);
        *to = b->rec[r];
        flop += kl_rec_flop(to);
        if (to->at_c == KL_AT_Y) to->c -= c->shift;
        if (c->which == WITHIN && to->at_a == KL_AT_X) to->a -= c->shift;
        if (c->which == WITHIN && to->at_b == KL_AT_X) to->b -= c->shift;
    }
    return flop;
}

/* All groups of b, of which those that have lost their records still say what is to become 0. *flop: of all
   records that were taken. */
static kl_status take_groups(const kl_batch *b, const choice *c, kl_batch *mine, double *flop, kl_err *err)
{
    kl_status st = KL_OK;
    char *may = NULL;
    *flop = 0.0;
    for (const kl_group *g = b->group; g < b->group + b->ngroup; g++) {
        KL_TRY(kl_realloc(&may, g->last - g->first + 1, KL_MEM_WORK, err));
        KL_TRY(kl_batch_open_group(mine, g->y - c->shift, g->ny, err));
        KL_TRY(kl_batch_reserve(mine, g->last - g->first, err));
        kl_group_cuts(b, g, may);
        for (int64_t r = g->first, next; r < g->last; r = next) {
            for (next = r + 1; next < g->last && !may[next - g->first];) next++;
            *flop += take_records(b, r, next, c, mine);
        }
        kl_batch_close_group(mine, g->nwork);
    }
out:
    kl_free(&may);
    return st;
}

/* The groups order[n] of b from border[0] to border[1], in part where these lie inside. */
static kl_status take_stretch(const kl_batch *b, const int *order, const kl_cut_border *border, kl_batch *own,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const kl_cut_border *const end = border + 1;
    for (int64_t i = border->group; i < end->group + (end->column > 0); i++) {
        const kl_group *const g = &b->group[order[i]];
        const int from = i == border->group ? border->column : 0, to = i == end->group ? end->column : 0;
        int ld;
        if (from > 0 || to > 0) {
            KL_TRY(kl_cut_take(b, g, from, to > 0 ? to : kl_cut_columns(b, g, &ld), own, err));
            continue;
        }
        KL_TRY(kl_batch_open_group(own, g->y, g->ny, err));
        KL_TRY(kl_batch_reserve(own, g->last - g->first, err));
        for (int64_t r = g->first; r < g->last; r++) *kl_batch_push(own) = b->rec[r];
        kl_batch_close_group(own, g->nwork);
    }
out:
    return st;
}

static kl_status finish_list(const kl_batch *b, int64_t nx, int64_t ny, kl_batch *mine, kl_err *err)
{
    mine->nx = nx;
    mine->ny = ny;
    mine->zero = b->zero;
    mine->lasting = b->lasting;
    mine->once = b->once;
    memcpy(mine->base, b->base, sizeof b->base);
    return kl_batch_close(mine, err);
}

/* What `own' has moves to `to', results so much further down. */
static void move_down(kl_batch *own, int64_t shift, kl_batch *to)
{
    *to = *own;
    kl_batch_init(own);
    for (int g = 0; shift > 0 && g < to->ngroup; g++) to->group[g].y -= shift;
    for (int64_t r = 0; shift > 0 && r < to->nrec; r++)
        if (to->rec[r].at_c == KL_AT_Y) to->rec[r].c -= shift;
}

/* This rank's groups, which `own' loses; of lists with parts the records that need not wait for others' parts
   by themselves, where what they do hides enough of the way of these. */
static kl_status take_mine(kl_exec *ex, const kl_batch *b, kl_batch *own, divided *d, kl_err *err)
{
    kl_status st = KL_OK;
    const struct cost *const cost = cost_of(ex);
    const int64_t *const begin = d->begin + kl_ranks_mine(ex), n = begin[1] - begin[0];
    choice c = {.which = WITHIN, .low = begin[0], .high = begin[1], .shift = b->parts ? begin[0] : 0};
    double near = 0.0, rest;
    int apart = 0;
    /* processors wait for MPI anyway, and shorter groups take longer */
    if (b->parts && b->zero && own->ngroup > 0 && ex->space == KL_SPACE_DEVICE) {
        KL_TRY(take_groups(own, &c, &d->near, &near, err));
        apart = fmin(near, cost->number * (double)(b->ny - n)) > cost->message;
    }
    c.which = BEYOND;
    if (apart) KL_TRY(take_groups(own, &c, &d->mine, &rest, err));
    else move_down(own, c.shift, &d->mine);
    KL_TRY(finish_list(b, b->nx, b->parts ? n : b->ny, &d->mine, err));
    if (!apart) {
        kl_batch_clear(&d->near);
        goto out;
    }
    d->mine.zero = 0; /* it adds to what the other one has made */
    KL_TRY(finish_list(b, n, n, &d->near, err));
out:
    return st;
}

/* Where what a rank writes begins. */
static int64_t place_of(const kl_batch *b, const int *order, kl_cut_border at)
{
    int ld = 0;
    if (at.group == b->ngroup) return b->ny;
    if (at.column > 0) (void)kl_cut_columns(b, &b->group[order[at.group]], &ld);
    return b->group[order[at.group]].y + (int64_t)at.column * ld;
}

static kl_status divide(kl_exec *ex, const kl_batch *b, divided *d, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    int *order = NULL;
    kl_cut_border *border = NULL;
    kl_batch own;
    kl_batch_init(&own);
    kl_batch_init(&d->mine);
    kl_batch_init(&d->near);
    KL_TRY(kl_alloc(&order, b->ngroup, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&border, size + 1, KL_MEM_WORK, err));
    KL_TRY(kl_cut_order(b, order, err));
    KL_TRY(kl_cut_find(b, order, size, ex->ranks->speed, cost_of(ex)->message, border, err));
    KL_TRY(kl_alloc(&d->begin, size + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&d->piece, size, KL_MEM_RECORD, err));
    for (int r = 0; r < size; r++) {
        const kl_cut_border end = border[r + 1];
        if (end.group == border[r].group && end.column == border[r].column) continue;
        const int64_t at = place_of(b, order, border[r]);
        const kl_group *const last = end.column > 0 ? NULL : &b->group[order[end.group - 1]];
        d->piece[d->npiece++] =
            (kl_share_piece){r, at, (last ? last->y + last->ny : place_of(b, order, end)) - at};
    }
    if (d->npiece > ex->ranks->comm->most_busy) ex->ranks->comm->most_busy = d->npiece;
    for (int r = 1; r <= size; r++) d->begin[r] = r == size ? b->ny : place_of(b, order, border[r]);
    KL_TRY(take_stretch(b, order, &border[me], &own, err));
    own.zero = b->zero;
    KL_TRY(take_mine(ex, b, &own, d, err));
out:
    kl_batch_clear(&own);
    kl_free(&order);
    kl_free(&border);
    return st;
}

static void discard(divided **pd)
{
    divided *const d = *pd;
    if (!d) return;
    kl_batch_clear(&d->mine);
    kl_batch_clear(&d->near);
    kl_free(&d->begin);
    kl_free(&d->piece);
    kl_free(pd);
}

/* Of d, what was prepared. */
static void let_go(kl_exec *ex, divided *d)
{
    if (d->near.prepared) ex->ranks->own.batch_release(ex, &d->near);
    if (d->mine.prepared) ex->ranks->own.batch_release(ex, &d->mine);
}

static kl_status share_prepare(kl_exec *ex, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    divided *d = NULL;
    b->shared = NULL;
    if (!kl_share_worth(ex, b->flop, b->ny) || !says_where(b))
        return ex->ranks->own.batch_prepare(ex, b, err);
    KL_TRY(kl_alloc(&d, 1, KL_MEM_RECORD, err));
    KL_TRY(divide(ex, b, d, err));
    if (d->near.ngroup > 0) KL_TRY(ex->ranks->own.batch_prepare(ex, &d->near, err));
    if (d->mine.ngroup > 0) KL_TRY(ex->ranks->own.batch_prepare(ex, &d->mine, err));
    b->shared = d;
    d = NULL;
out:
    if (d) let_go(ex, d);
    discard(&d);
    return st;
}

static kl_status apply_list(kl_exec *ex, const kl_batch *b, kl_batch *list, kl_dptr x, kl_dptr y, kl_err *err)
{
    if (list->ngroup == 0) return KL_OK;
    memcpy(list->base, b->base, sizeof b->base);
    return ex->ranks->own.batch_apply(ex, list, x, y, err);
}

static kl_status share_apply(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    divided *const d = b->shared;
    if (!d) return ex->ranks->own.batch_apply(ex, b, x, y, err);
    if (d->near.ngroup > 0)
        KL_TRY(apply_list(ex, b, &d->near, kl_dptr_at(x, d->begin[kl_ranks_mine(ex)]), y, err));
    KL_TRY(apply_list(ex, b, &d->mine, x, y, err));
    if (!b->parts) KL_TRY(kl_share_exchange_there(ex, d->npiece, d->piece, y, err));
out:
    return st;
}

kl_status kl_share_room(kl_exec *ex, int64_t n, kl_dptr *whole, kl_err *err)
{
    kl_comm *const c = ex->ranks->comm;
    whole->addr = 0;
    /* all ask, for some may be on devices */
    const int devices = kl_comm_most(c, ex->space != KL_SPACE_HOST) != 0;
    if (!devices && kl_comm_common(c, n * (int64_t)sizeof(double))) return KL_OK;
    return ex->vt.alloc(ex, n, whole, err);
}

/* Each puts its part into memory that all read. */
static kl_status apply_in_common(kl_exec *ex, const kl_batch *b, divided *d, kl_dptr x, kl_dptr y,
                                 kl_err *err)
{
    kl_comm *const c = ex->ranks->comm;
    const int64_t *const mine = d->begin + c->rank;
    const kl_dptr all = {(uintptr_t)kl_comm_common_next(c)};
    ex->vt.copy(ex, mine[1] - mine[0], x, kl_dptr_at(all, mine[0]));
    kl_comm_meet(c);
    return apply_list(ex, b, &d->mine, all, y, err);
}

kl_status kl_share_apply_parts(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr whole, kl_dptr y,
                               kl_err *err)
{
    kl_status st = KL_OK;
    divided *const d = b->shared;
    kl_transfer *come = NULL;
    if (whole.addr == 0) return apply_in_common(ex, b, d, x, y, err);
    KL_TRY(kl_ranks_gather_start(ex, d->begin, x, whole, &come, err));
    KL_TRY(apply_list(ex, b, &d->near, x, y, err));
    KL_TRY(kl_ranks_finish(ex, &come, err));
    KL_TRY(apply_list(ex, b, &d->mine, whole, y, err));
out:
    return st;
}

static void share_release(kl_exec *ex, kl_batch *b)
{
    divided *d = b->shared;
    b->shared = NULL;
    if (d) let_go(ex, d);
    else ex->ranks->own.batch_release(ex, b);
    discard(&d);
}

static void share_explain(kl_exec *ex, const kl_batch *b, kl_batch_plan *plan)
{
    const divided *const d = b->shared;
    *plan = (kl_batch_plan){.kernel = "none"};
    if (!d) ex->ranks->own.batch_explain(ex, b, plan);
    else if (d->mine.ngroup > 0) ex->ranks->own.batch_explain(ex, &d->mine, plan);
}

const int64_t *kl_share_begin(const kl_batch *b)
{
    return b->shared && b->parts ? ((const divided *)b->shared)->begin : NULL;
}

/* ---------------------------------------------------------------- operators that wait */

kl_status kl_share_put_away(kl_exec *ex, int64_t n, kl_dptr *data, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *begin = NULL;
    kl_dptr mine = {0};
    KL_TRY(kl_ranks_even(ex, n, 1, &begin, err));
    const int64_t from = begin[kl_ranks_mine(ex)], count = begin[kl_ranks_mine(ex) + 1] - from;
    KL_TRY(kl_exec_alloc_operators(ex, count, &mine, err));
    ex->vt.copy(ex, count, kl_dptr_at(*data, from), mine);
    ex->vt.release(ex, data);
    *data = mine;
out:
    kl_free(&begin);
    return st;
}

kl_status kl_share_bring(kl_exec *ex, int64_t n, kl_dptr *data, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *begin = NULL;
    kl_dptr whole = {0};
    KL_TRY(kl_ranks_even(ex, n, 1, &begin, err));
    KL_TRY(kl_exec_alloc_operators(ex, n, &whole, err));
    KL_TRY(kl_ranks_gather(ex, begin, *data, whole, err));
    ex->vt.release(ex, data);
    *data = whole;
    whole.addr = 0;
out:
    ex->vt.release(ex, &whole);
    kl_free(&begin);
    return st;
}

/* Devices that are linked bring it together there, where all have room for it. */
static kl_status download_there(kl_exec *ex, const int64_t *begin, int64_t n, kl_dptr data, double *whole,
                                int *done, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr all = {0};
    kl_err why;
    *done = 0;
    const int good = ex->vt.alloc(ex, n, &all, &why) == KL_OK;
    if (kl_ranks_any(ex, !good)) goto out;
    KL_TRY(kl_ranks_gather(ex, begin, data, all, err));
    if (whole) KL_TRY(ex->vt.download(ex, whole, all, n, err));
    *done = 1;
out:
    ex->vt.release(ex, &all);
    return st;
}

kl_status kl_share_download(kl_exec *ex, int64_t n, kl_dptr data, int everywhere, double *whole, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *begin = NULL;
    int done = 0;
    KL_TRY(kl_ranks_even(ex, n, 1, &begin, err));
    if (ex->ranks->linked) KL_TRY(download_there(ex, begin, n, data, whole, &done, err));
    if (!done && everywhere) KL_TRY(kl_ranks_download(ex, begin, n, data, whole, err));
    else if (!done) KL_TRY(kl_ranks_collect(ex, begin, data, NULL, 0, n, whole, err));
out:
    kl_free(&begin);
    return st;
}

/* ---------------------------------------------------------------- the executor */

/* What may have changed since: threads, ways, what is learned of eigenproblems. */
static kl_exec *twin(const kl_exec *ex, kl_exec *to)
{
    const kl_vtable vt = to->vt;
    kl_ranks *const r = to->ranks;
    const double saved = to->eigen.saved, factored = to->eigen.factored;
    *to = *ex;
    to->vt = vt;
    to->ranks = r;
    to->eigen.saved = saved, to->eigen.factored = factored;
    return to;
}

kl_exec *kl_share_alone(kl_exec *ex) { return ex->ranks ? twin(ex, ex->ranks->alone) : ex; }

kl_exec *kl_share_solver(kl_exec *ex) { return ex->ranks ? twin(ex, ex->ranks->solver) : ex; }

static void share_close(kl_exec *ex)
{
    sharing *s = (sharing *)(void *)ex->ranks; /* its first member */
    kl_ranks_unlink(&s->ranks);
    ex->vt = ex->ranks->own;
    ex->ranks = NULL;
    kl_free(&s->speed);
    kl_free(&s);
    ex->vt.close(ex);
}

kl_status kl_share_join(kl_exec *ex, kl_comm *comm, kl_err *err)
{
    kl_status st = KL_OK;
    sharing *s = NULL;
    const double mine = ex->nthread;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->speed, comm->size, KL_MEM_MISC, err));
    kl_comm_gather(comm, &mine, s->speed, sizeof mine);
    s->ranks =
        (kl_ranks){.comm = comm, .own = ex->vt, .alone = &s->alone, .solver = &s->solver, .speed = s->speed};
    KL_TRY(kl_ranks_link(ex, comm, &s->ranks, err));
    s->spread = s->ranks;
    s->spread.spread = 1;
    s->spread.alone = s->spread.solver = NULL;
    s->alone = *ex;
    ex->vt.batch_prepare = share_prepare;
    ex->vt.batch_apply = share_apply;
    ex->vt.batch_apply_many = NULL;
    ex->vt.batch_release = share_release;
    ex->vt.batch_explain = share_explain;
    ex->vt.close = share_close;
    s->solver = *ex;
    s->solver.ranks = &s->spread;
    kl_ranks_overlay(&s->solver.vt);
    ex->ranks = &s->ranks;
    s = NULL;
out:
    if (s) kl_free(&s->speed);
    kl_free(&s);
    return st;
}
