/* See sharecut.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/sharecut.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "comm/share.h"

/* The work of writing one number, in flops, in addition to those of its records. */
#define WRITTEN 1.0

enum { STEP = 16 }; /* columns: what kernels take at once */

/* ---------------------------------------------------------------- what can be cut */

static int is_operator(int at) { return at != KL_AT_X && at != KL_AT_Y && at != KL_AT_WORK; }

/* WORK becomes an operator times a part of x. */
static int makes_work(const kl_rec *r)
{
    return r->kind == KL_REC_GEMM && r->at_c == KL_AT_WORK && !r->beta && r->ldc == r->m && r->m > 0 &&
           r->k > 0 && is_operator(r->at_a) && r->at_b == KL_AT_X && !r->tb;
}

/* y gets columns of WORK, as w left it, times an operator or a number. */
static int ends_work(const kl_rec *r, const kl_rec *w)
{
    const int add = r->kind == KL_REC_ADD, deep = add ? r->n : r->k;
    return w && r->at_a == KL_AT_WORK && !r->ta && r->lda == w->m && r->m == w->m && r->a >= w->c &&
           (r->a - w->c) % w->m == 0 && (r->a - w->c) / w->m + deep <= w->n && (add || is_operator(r->at_b));
}

static int reads(const kl_rec *r, kl_at at)
{
    return (r->kind != KL_REC_FILL && r->at_a == at) || (r->kind == KL_REC_GEMM && r->at_b == at);
}

int kl_cut_columns(const kl_batch *b, const kl_group *g, int *ld)
{
    const kl_rec *work = NULL;
    *ld = 0;
    for (int64_t i = g->first; i < g->last && *ld == 0; i++)
        if (b->rec[i].at_c == KL_AT_Y) *ld = b->rec[i].ldc;
    if (!b->zero || *ld <= 0 || g->ny % *ld != 0) return 0;
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec *const r = &b->rec[i];
        if (r->at_c == KL_AT_WORK) {
            if (!makes_work(r)) return 0;
            work = r;
            continue;
        }
        const int64_t at = r->c - g->y;
        if (r->at_c != KL_AT_Y || !r->beta || reads(r, KL_AT_Y) || r->ldc != *ld || at < 0 ||
            at % *ld + r->m > *ld)
            return 0;
        if (reads(r, KL_AT_WORK) && !ends_work(r, work)) return 0;
    }
    return (int)(g->ny / *ld);
}

/* ---------------------------------------------------------------- cutting */

/* Of what r writes the columns [from, end). */
static kl_rec columns_of(const kl_rec *r, int from, int end)
{
    kl_rec out = *r;
    out.n = end - from;
    out.c += (int64_t)from * r->ldc;
    if (r->kind == KL_REC_GEMM) out.b += r->tb ? from : (int64_t)from * r->ldb;
    if (r->kind == KL_REC_ADD) out.a += r->ta ? from : (int64_t)from * r->lda;
    return out;
}

/* y += A (x B) instead of (A x) B, where w made A x; r: of the wanted columns. Returns numbers of WORK. */
static int64_t push_turned(const kl_rec *w, const kl_rec *r, kl_batch *to)
{
    const int64_t x = w->b + (r->a - w->c) / w->m * w->ldb;
    kl_rec first = *r, second = *w;
    second.n = r->n;
    second.at_c = KL_AT_Y;
    second.c = r->c;
    second.ldc = r->ldc;
    second.beta = 1;
    second.alpha = w->alpha * r->alpha;
    if (r->kind == KL_REC_ADD) {
        second.b = x;
        *kl_batch_push(to) = second;
        return 0;
    }
    first.at_a = KL_AT_X;
    first.a = x;
    first.lda = w->ldb;
    first.m = w->k;
    first.at_c = KL_AT_WORK;
    first.c = 0;
    first.ldc = w->k;
    first.beta = 0;
    first.alpha = 1.0;
    second.at_b = KL_AT_WORK;
    second.b = 0;
    second.ldb = w->k;
    *kl_batch_push(to) = first;
    *kl_batch_push(to) = second;
    return (int64_t)w->k * r->n;
}

kl_status kl_cut_take(const kl_batch *b, const kl_group *g, int from, int end, kl_batch *to, kl_err *err)
{
    kl_status st = KL_OK;
    int ld;
    const kl_rec *work = NULL;
    int64_t nwork = 0;
    (void)kl_cut_columns(b, g, &ld);
    KL_TRY(kl_batch_open_group(to, g->y + (int64_t)from * ld, (int64_t)(end - from) * ld, err));
    KL_TRY(kl_batch_reserve(to, 2 * (g->last - g->first), err));
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec *const r = &b->rec[i];
        if (r->at_c == KL_AT_WORK) {
            work = r;
            continue;
        }
        const int column = (int)((r->c - g->y) / ld), low = from > column ? from - column : 0,
                  high = end - column < r->n ? end - column : r->n;
        if (low >= high) continue;
        const kl_rec some = columns_of(r, low, high);
        if (!reads(r, KL_AT_WORK)) {
            *kl_batch_push(to) = some;
            continue;
        }
        const int64_t room = push_turned(work, &some, to);
        if (room > nwork) nwork = room;
    }
    kl_batch_close_group(to, nwork);
out:
    return st;
}

/* ---------------------------------------------------------------- where */

/* Of the columns before `end`, as kl_cut_take makes them. */
static double flop_before(const kl_batch *b, const kl_group *g, int end)
{
    const kl_rec *work = NULL;
    double all = 0.0;
    int ld;
    (void)kl_cut_columns(b, g, &ld);
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec *const r = &b->rec[i];
        const int64_t column = (r->c - g->y) / ld, n = end - column < r->n ? end - column : r->n;
        if (r->at_c == KL_AT_WORK) work = r;
        if (r->at_c == KL_AT_WORK || n <= 0) continue;
        const int ends = reads(r, KL_AT_WORK), gemm = r->kind == KL_REC_GEMM;
        if (ends) all += 2.0 * work->m * (double)n * work->k;
        if (gemm) all += 2.0 * (ends ? work->k : r->m) * (double)n * r->k;
        else if (!ends) all += 2.0 * r->m * (double)n;
    }
    return all;
}

/* Columns, in steps, whose work is nearest to `wanted`. */
static int nearest_step(const kl_batch *b, const kl_group *g, int steps, double wanted)
{
    int low = 0, high = steps;
    while (high - low > 1) {
        const int mid = (low + high) / 2;
        if (flop_before(b, g, mid * STEP) <= wanted) low = mid;
        else high = mid;
    }
    return wanted - flop_before(b, g, low * STEP) < flop_before(b, g, high * STEP) - wanted ? low : high;
}

void kl_cut_borders(const kl_cut_list *l, int size, const double *speed, kl_cut_border *border)
{
    double all = 0.0, fast = 0.0, before = 0.0, wanted = 0.0;
    int64_t i = 0;
    for (int64_t k = 0; k < l->n; k++) all += l->cost[k];
    for (int r = 0; r < size; r++) fast += speed[r];
    border[0] = (kl_cut_border){0, 0};
    for (int r = 1; r < size; r++) {
        wanted += all * speed[r - 1] / fast;
        while (i < l->n && before + l->cost[i] <= wanted) before += l->cost[i++];
        border[r] = (kl_cut_border){i, 0};
        if (i == l->n) continue;
        const int steps = l->columns[i] / STEP;
        const int at = steps > 1 ? nearest_step(l->b, &l->b->group[l->group[i]], steps, wanted - before) : 0;
        if (at > 0 && at < steps) border[r].column = at * STEP;
        else if (steps > 1 ? at == steps : wanted - before >= 0.5 * l->cost[i]) border[r].group = i + 1;
    }
    border[size] = (kl_cut_border){l->n, 0};
}

typedef struct placed {
    int64_t y;
    int group;
} placed;

static int by_place(const void *pa, const void *pb)
{
    const placed *const a = pa, *const b = pb;
    if (a->y != b->y) return a->y > b->y ? 1 : -1;
    return a->group - b->group;
}

kl_status kl_cut_order(const kl_batch *b, int *order, kl_err *err)
{
    kl_status st = KL_OK;
    placed *list = NULL;
    KL_TRY(kl_alloc(&list, b->ngroup, KL_MEM_WORK, err));
    for (int g = 0; g < b->ngroup; g++) list[g] = (placed){b->group[g].y, g};
    qsort(list, (size_t)b->ngroup, sizeof *list, by_place);
    for (int g = 0; g < b->ngroup; g++) order[g] = list[g].group;
out:
    kl_free(&list);
    return st;
}

/* How much more the rank that has most of cost[first[r]..] does than it would of even parts. */
static double unevenness(int size, const double *speed, const double *cost, const int64_t *first)
{
    double all = 0.0, fast = 0.0, most = 0.0;
    for (int r = 0; r < size; r++) {
        double mine = 0.0;
        for (int64_t i = first[r]; i < first[r + 1]; i++) mine += cost[i];
        all += mine;
        fast += speed[r];
        most = fmax(most, mine / speed[r]);
    }
    return (most - all / fast) * fast / size;
}

kl_status kl_cut_find(const kl_batch *b, const int *order, int size, const double *speed, double message,
                      kl_cut_border *border, kl_err *err)
{
    kl_status st = KL_OK;
    double *cost = NULL;
    int64_t *first = NULL;
    int *columns = NULL, ld;
    KL_TRY(kl_alloc(&cost, b->ngroup, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&first, size + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&columns, b->ngroup, KL_MEM_WORK, err));
    for (int g = 0; g < b->ngroup; g++) {
        const kl_group *const at = &b->group[order[g]];
        cost[g] = at->flop + WRITTEN * (double)at->ny;
    }
    kl_share_cut(b->ngroup, cost, size, speed, first);
    for (int r = 0; r <= size; r++) border[r] = (kl_cut_border){first[r], 0};
    if (!b->parts || unevenness(size, speed, cost, first) < message) goto out;
    for (int g = 0; g < b->ngroup; g++) columns[g] = kl_cut_columns(b, &b->group[order[g]], &ld);
    kl_cut_borders(&(kl_cut_list){b, b->ngroup, order, cost, columns}, size, speed, border);
out:
    kl_free(&cost);
    kl_free(&first);
    kl_free(&columns);
    return st;
}

double kl_cut_flop(const kl_batch *b, const int *order, kl_cut_border from, kl_cut_border to)
{
    double sum = 0.0;
    int ld;
    for (int64_t i = from.group; i < to.group; i++) {
        const kl_group *const g = &b->group[order[i]];
        sum += i == from.group && from.column > 0 ? flop_before(b, g, kl_cut_columns(b, g, &ld)) : g->flop;
    }
    if (from.column > 0) sum -= flop_before(b, &b->group[order[from.group]], from.column);
    if (to.column > 0) sum += flop_before(b, &b->group[order[to.group]], to.column);
    return sum;
}
