/* y = H x by rows of alpha strings, as slater.c puts a matrix together, with sums in place of stored
   elements.

   A task has the determinants of one alpha string ia, or a stretch of them, and sums their elements of y in a
   table by beta string. For every alpha string ja that H connects ia with:
   1. ja = ia: T_beta along the row, by its lists or, in a short row, by all pairs of its strings;
   2. ja by a move: V_ab and T_alpha's single excitations. From the shorter side: either each beta string of
      ia takes what its moves lead to in the row of ja, or each of ja gives to where its moves lead. In a
      truncated space the rows of high alpha strings are short, and most moves of a long row lead to nothing.
   3. ja by two moves: T_alpha's double excitations, beta stays.
   A row of y belongs to one task, and a task goes over strings in their order.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/rowsigma.h"

#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "ci/devrows.h"
#include "comm/share.h"

/* The longest stretch of a row, and how many pairs of strings are compared in the time of one listed one. */
enum {
    MOST_ROWS = 2048,
    PAIRS_FOR_ONE = 4,
};

typedef struct task { /* determinants [from, to) of the row of ia */
    int64_t ia, from, to;
    int64_t reach; /* moves of their beta strings */
    int64_t pairs; /* double excitations of them */
} task;

struct kl_rowsigma {
    kl_exec *ex;
    const kl_slater *h;
    double *diagonal; /* [n] by position */
    int64_t *reach; /* [alpha strings] moves of all beta strings of the row */
    task *task;
    int64_t ntask;
    int64_t first, last; /* tasks of this rank */
    kl_share_piece *piece; /* [ranks] their stretches of `all`; NULL: there are no ranks */
    double *all; /* elements of y in the order of tasks, where ranks exchange them */
    int64_t *at; /* [ntask + 1] where those of a task begin */
    int nwork;
    double **work; /* [nwork][3][beta strings]: sums, x of ia, x of ja; all 0 between tasks */
    kl_devrows *device; /* NULL: the processor makes all elements */
    double *x, *y; /* [n] a device's vectors here */
};

static inline int low_bit(uint64_t x) { return __builtin_ctzll(x); }

static inline int64_t beta_of(const kl_detspace *s, int64_t ia, int64_t k)
{
    return s->full ? s->row_first[ia] + (k - s->row_off[ia]) : s->row_beta[k];
}
static inline int64_t position_of(const kl_detspace *s, int64_t k) { return s->full ? k : s->row_pos[k]; }

/* The first in [low, high) of an ascending list that is not below `value`. */
static int64_t lower_bound(const int32_t *list, int64_t low, int64_t high, int64_t value)
{
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int64_t lower_move(const kl_move *list, int64_t low, int64_t high, int64_t value)
{
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list[middle].to < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The first determinant in the row of ia whose beta string is not below `beta`. */
static int64_t row_from(const kl_detspace *s, int64_t ia, int64_t beta)
{
    if (!s->full) return lower_bound(s->row_beta, s->row_off[ia], s->row_off[ia + 1], beta);
    const int64_t k = s->row_off[ia] + beta - s->row_first[ia];
    return k < s->row_off[ia] ? s->row_off[ia] : k < s->row_off[ia + 1] ? k : s->row_off[ia + 1];
}

/* ---------------------------------------------------------------- set up */

static int64_t row_length(const kl_detspace *d, int64_t ia) { return d->row_off[ia + 1] - d->row_off[ia]; }

static int short_row(const kl_detspace *d, const task *t)
{
    const int64_t lists = t->reach + t->pairs;
    return (t->to - t->from) * row_length(d, t->ia) < PAIRS_FOR_ONE * lists;
}

static double task_cost(const kl_rowsigma *s, const task *t)
{
    const kl_detspace *const d = s->h->s;
    const kl_strings *const a = d->a;
    const int64_t length = row_length(d, t->ia), own = t->to - t->from;
    double cost =
        short_row(d, t) ? (double)(own * length) / (int)PAIRS_FOR_ONE : (double)(t->reach + t->pairs);
    for (int64_t m = a->move_off[t->ia]; m < a->move_off[t->ia + 1]; m++) {
        const int64_t other = s->reach[a->move[m].to];
        cost += (double)(t->reach < other ? t->reach : other) + 1;
    }
    return cost + (double)(s->h->two_off[0][t->ia + 1] - s->h->two_off[0][t->ia]) + (double)length;
}

static kl_status make_tasks(kl_rowsigma *s, const uint8_t *stored, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_detspace *const d = s->h->s;
    const kl_strings *const b = d->b;
    int64_t room = 0;
    for (int64_t ia = 0; ia < d->a->n; ia++) room += (row_length(d, ia) + MOST_ROWS - 1) / MOST_ROWS;
    kl_free(&s->task);
    s->ntask = 0;
    KL_TRY(kl_alloc(&s->task, room, KL_MEM_WORK, err));
    for (int64_t ia = 0; ia < d->a->n; ia++)
        for (int64_t from = d->row_off[ia]; from < d->row_off[ia + 1]; from += MOST_ROWS) {
            if (stored != NULL && stored[ia]) break;
            task t = {.ia = ia, .from = from, .to = from + MOST_ROWS};
            if (t.to > d->row_off[ia + 1]) t.to = d->row_off[ia + 1];
            for (int64_t k = from; k < t.to; k++) {
                const int64_t ib = beta_of(d, ia, k);
                t.reach += b->move_off[ib + 1] - b->move_off[ib];
                t.pairs += s->h->two_off[1][ib + 1] - s->h->two_off[1][ib];
            }
            s->task[s->ntask++] = t;
        }
out:
    return st;
}

kl_status kl_rowsigma_create(kl_exec *ex, const kl_slater *h, kl_rowsigma **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_rowsigma *s = NULL;
    const kl_detspace *const d = h->s;
    *out = NULL;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->ex = ex;
    s->h = h;
    KL_TRY(kl_alloc(&s->diagonal, d->n, KL_MEM_VECTOR, err));
    kl_slater_diagonal(h, s->diagonal);
    KL_TRY(kl_alloc(&s->reach, d->a->n, KL_MEM_MATRIX, err));
    for (int64_t ia = 0; ia < d->a->n; ia++)
        for (int64_t k = d->row_off[ia]; k < d->row_off[ia + 1]; k++) {
            const int64_t ib = beta_of(d, ia, k);
            s->reach[ia] += d->b->move_off[ib + 1] - d->b->move_off[ib];
        }
    KL_TRY(make_tasks(s, NULL, err));
    s->nwork = h->nthread;
    KL_TRY(kl_alloc(&s->work, s->nwork, KL_MEM_WORK, err));
    for (int k = 0; k < s->nwork; k++) KL_TRY(kl_alloc(&s->work[k], 3 * d->b->n, KL_MEM_WORK, err));
    *out = s;
    s = NULL;
out:
    kl_rowsigma_destroy(&s);
    return st;
}

void kl_rowsigma_destroy(kl_rowsigma **sigma)
{
    kl_rowsigma *s = *sigma;
    if (s == NULL) return;
    kl_free(&s->diagonal);
    kl_free(&s->reach);
    kl_free(&s->task);
    kl_free(&s->piece);
    kl_free(&s->all);
    kl_free(&s->at);
    for (int k = 0; k < s->nwork && s->work != NULL; k++) kl_free(&s->work[k]);
    kl_free(&s->work);
    kl_devrows_destroy(&s->device);
    kl_free(&s->x);
    kl_free(&s->y);
    kl_free(sigma);
}

void kl_rowsigma_costs(const kl_rowsigma *s, double *cost)
{
    memset(cost, 0, (size_t)s->h->s->a->n * sizeof(double));
    for (int64_t k = 0; k < s->ntask; k++) cost[s->task[k].ia] += task_cost(s, &s->task[k]);
}

/* A device's own tables, or room for its vectors here. */
static kl_status open_device(kl_rowsigma *s, const uint8_t *stored, kl_err *err)
{
    kl_status st = KL_EABSENT;
    kl_err none;
    if (s->ex->space != KL_SPACE_DEVICE || s->ntask == 0) return KL_OK;
    if (kl_ranks_size(s->ex) == 1)
        st = kl_devrows_create(s->ex, s->h, s->diagonal, stored, 0, &s->device, &none);
    if (st == KL_OK) return st;
    if (st != KL_EABSENT && st != KL_ENOMEM) return kl_fail(err, st, "%s", none.text);
    KL_TRY(kl_alloc(&s->x, s->h->s->n, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&s->y, s->h->s->n, KL_MEM_VECTOR, err));
out:
    return st;
}

kl_status kl_rowsigma_divide(kl_rowsigma *s, const uint8_t *stored, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(s->ex), mine = kl_ranks_mine(s->ex);
    double *cost = NULL;
    int64_t *first = NULL;
    KL_TRY(make_tasks(s, stored, err));
    KL_TRY(open_device(s, stored, err));
    s->last = s->ntask;
    if (size == 1) goto out;
    KL_TRY(kl_alloc(&cost, s->ntask, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&first, size + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->piece, size, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->at, s->ntask + 1, KL_MEM_WORK, err));
    for (int64_t k = 0; k < s->ntask; k++) {
        cost[k] = task_cost(s, &s->task[k]);
        s->at[k + 1] = s->at[k] + s->task[k].to - s->task[k].from;
    }
    KL_TRY(kl_alloc(&s->all, s->at[s->ntask], KL_MEM_VECTOR, err));
    kl_share_rows(s->ex, s->ntask, cost, first);
    for (int r = 0; r < size; r++)
        s->piece[r] = (kl_share_piece){r, s->at[first[r]], s->at[first[r + 1]] - s->at[first[r]]};
    s->first = first[mine];
    s->last = first[mine + 1];
out:
    kl_free(&cost);
    kl_free(&first);
    return st;
}

int64_t kl_rowsigma_flops(const kl_rowsigma *s)
{
    double sum = 0;
    for (int64_t k = 0; k < s->ntask; k++) sum += 2 * task_cost(s, &s->task[k]);
    return (int64_t)sum;
}

int kl_rowsigma_there(const kl_rowsigma *s) { return s->device != NULL; }

int64_t kl_rowsigma_rows(const kl_rowsigma *s)
{
    int64_t n = 0;
    for (int64_t k = 0; k < s->ntask; k++) n += s->task[k].to - s->task[k].from;
    return n;
}

/* ---------------------------------------------------------------- products */

typedef struct product {
    const kl_rowsigma *s;
    const double *x;
    double *y;
} product;

/* x along the row of ia, by beta string, with 0 where there is no determinant: a full space has it already,
   and a listed one gets it in t. */
static const double *spread(const product *p, int64_t ia, double *t)
{
    const kl_detspace *const d = p->s->h->s;
    if (d->full) return p->x + (d->row_off[ia] - d->row_first[ia]);
    for (int64_t k = d->row_off[ia]; k < d->row_off[ia + 1]; k++) t[d->row_beta[k]] = p->x[d->row_pos[k]];
    return t;
}

static void collect(const product *p, int64_t ia, double *t)
{
    const kl_detspace *const d = p->s->h->s;
    for (int64_t k = d->row_off[ia]; !d->full && k < d->row_off[ia + 1]; k++) t[d->row_beta[k]] = 0;
}

/* 1. Two strings of a row, one and two moves apart or more. */
static double pair_element(const kl_slater *h, int64_t ib, int64_t jb, const double *repulsion)
{
    const kl_strings *const b = h->s->b;
    const int apart = __builtin_popcountll(b->bits[ib] ^ b->bits[jb]);
    if (apart == 2) {
        const int64_t end = b->move_off[ib + 1], m = lower_move(b->move, b->move_off[ib], end, jb);
        return h->single[1][m] + b->move[m].sign * repulsion[b->move[m].pair];
    }
    if (apart != 4) return 0;
    const int64_t end = h->two_off[1][ib + 1], k = lower_bound(h->two_to[1], h->two_off[1][ib], end, jb);
    return k < end && h->two_to[1][k] == jb ? h->two[1][k] : 0; /* what is as good as 0 is not listed */
}

static void same_alpha(const product *p, const task *t, double *sum, double *table)
{
    const kl_slater *const h = p->s->h;
    const kl_detspace *const d = h->s;
    const kl_strings *const b = d->b;
    double repulsion[KL_DET_MAX_ORB * (KL_DET_MAX_ORB + 1) / 2];
    const int64_t npair = h->f->npair;
    memset(repulsion, 0, (size_t)npair * sizeof(double));
    for (uint64_t o = d->a->bits[t->ia]; o != 0; o &= o - 1) {
        const double *const v = h->f->eri[2] + kl_pair(low_bit(o), low_bit(o)) * npair;
        for (int64_t rs = 0; rs < npair; rs++) repulsion[rs] += v[rs];
    }
    const int by_pairs = short_row(d, t);
    const double *const x = by_pairs ? NULL : spread(p, t->ia, table);
    for (int64_t k = t->from; k < t->to; k++) {
        const int64_t ib = beta_of(d, t->ia, k), at = position_of(d, k);
        double e = p->s->diagonal[at] * p->x[at];
        if (by_pairs) {
            for (int64_t j = d->row_off[t->ia]; j < d->row_off[t->ia + 1]; j++)
                if (j != k)
                    e += pair_element(h, ib, beta_of(d, t->ia, j), repulsion) * p->x[position_of(d, j)];
        } else {
            const int64_t *const moves = b->move_to + b->nirrep * ib + b->irrep[ib];
            for (int64_t m = moves[0]; m < moves[1]; m++)
                e += (h->single[1][m] + b->move[m].sign * repulsion[b->move[m].pair]) * x[b->move[m].to];
            for (int64_t j = h->two_off[1][ib]; j < h->two_off[1][ib + 1]; j++)
                e += h->two[1][j] * x[h->two_to[1][j]];
        }
        sum[ib] += e;
    }
    if (!by_pairs) collect(p, t->ia, table);
}

/* 2. A move of alpha, and where it leads. */
typedef struct step {
    const double *v; /* [npair] its row of the integrals */
    double single; /* T_alpha */
    int64_t ja;
    int sign, may_stay; /* 1: the irrep lets beta stay */
} step;

/* <ia ib| H |ja ib> */
static double stay(const kl_strings *b, const step *u, int64_t ib)
{
    double e = 0;
    for (uint64_t o = b->bits[ib]; o != 0; o &= o - 1) e += u->v[kl_pair(low_bit(o), low_bit(o))];
    return u->single + u->sign * e;
}

/* Each string of ia takes what its moves lead to. */
static void take(const product *p, const task *t, const step *u, double *sum, double *table)
{
    const kl_detspace *const d = p->s->h->s;
    const kl_strings *const b = d->b;
    const int g = d->a->irrep[u->ja] ^ d->target;
    const double *const x = spread(p, u->ja, table);
    for (int64_t k = t->from; k < t->to; k++) {
        const int64_t ib = beta_of(d, t->ia, k);
        const int64_t *const moves = b->move_to + b->nirrep * ib + g;
        double e = 0;
        for (const kl_move *v = b->move + moves[0]; v < b->move + moves[1]; v++)
            e += u->v[v->pair] * (v->sign * x[v->to]);
        e *= u->sign;
        if (u->may_stay && x[ib] != 0) e += stay(b, u, ib) * x[ib];
        sum[ib] += e;
    }
    collect(p, u->ja, table);
}

/* Each string of ja gives to where its moves lead, between `low' and `high'. */
static void give(const product *p, const task *t, const step *u, int64_t low, int64_t high, double *sum)
{
    const kl_detspace *const d = p->s->h->s;
    const kl_strings *const b = d->b;
    const int g = d->a->irrep[t->ia] ^ d->target, whole = t->to - t->from == row_length(d, t->ia);
    for (int64_t k = d->row_off[u->ja]; k < d->row_off[u->ja + 1]; k++) {
        const int64_t jb = beta_of(d, u->ja, k);
        const int64_t *const moves = b->move_to + b->nirrep * jb + g;
        const double x = p->x[position_of(d, k)], signed_x = u->sign * x;
        if (x == 0) continue;
        if (u->may_stay && jb >= low && jb <= high) sum[jb] += stay(b, u, jb) * x;
        const int64_t from = whole ? moves[0] : lower_move(b->move, moves[0], moves[1], low);
        for (const kl_move *v = b->move + from; v < b->move + moves[1] && v->to <= high; v++)
            if (v->to >= low) sum[v->to] += u->v[v->pair] * (v->sign * signed_x);
    }
}

/* 3. */
static void moved_pair(const product *p, int64_t ja, double value, int64_t low, int64_t high, double *sum)
{
    const kl_detspace *const d = p->s->h->s;
    for (int64_t k = row_from(d, ja, low); k < d->row_off[ja + 1]; k++) {
        const int64_t jb = beta_of(d, ja, k);
        if (jb > high) break;
        sum[jb] += value * p->x[position_of(d, k)];
    }
}

/* What falls on strings that are not in the row is left where it fell. */
static void row_task(void *self, int64_t index, int thread)
{
    const product *const p = self;
    const kl_rowsigma *const s = p->s;
    const task *const t = &s->task[s->first + index];
    const kl_slater *const h = s->h;
    const kl_detspace *const d = h->s;
    const kl_strings *const a = d->a;
    double *const sum = s->work[thread], *const own = sum + d->b->n, *const other = own + d->b->n;
    const int64_t low = beta_of(d, t->ia, t->from), high = beta_of(d, t->ia, t->to - 1);
    memset(sum + low, 0, (size_t)(high - low + 1) * sizeof(double));
    same_alpha(p, t, sum, own);
    for (int64_t m = a->move_off[t->ia]; m < a->move_off[t->ia + 1]; m++) {
        const kl_move *const v = &a->move[m];
        const step u = {.v = h->f->eri[2] + v->pair * h->f->npair,
                        .single = h->single[0][m],
                        .ja = v->to,
                        .sign = v->sign,
                        .may_stay = a->irrep[v->to] == a->irrep[t->ia]};
        if (row_length(d, u.ja) == 0) continue;
        if (t->reach <= s->reach[u.ja]) take(p, t, &u, sum, other);
        else give(p, t, &u, low, high, sum);
    }
    for (int64_t k = h->two_off[0][t->ia]; k < h->two_off[0][t->ia + 1]; k++)
        moved_pair(p, h->two_to[0][k], h->two[0][k], low, high, sum);
    for (int64_t k = t->from; k < t->to; k++) {
        const double y = sum[beta_of(d, t->ia, k)];
        if (s->all != NULL) s->all[s->at[s->first + index] + k - t->from] = y;
        else p->y[position_of(d, k)] = y;
    }
}

static kl_status exchange(kl_rowsigma *s, double *y, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_share_exchange(s->ex, kl_ranks_size(s->ex), s->piece, s->all, err));
    for (int64_t i = 0; i < s->ntask; i++)
        for (int64_t k = s->task[i].from; k < s->task[i].to; k++)
            y[position_of(s->h->s, k)] = s->all[s->at[i] + k - s->task[i].from];
out:
    return st;
}

kl_status kl_rowsigma_apply(kl_rowsigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                            kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->h->s->n;
    const int far = s->ex->space == KL_SPACE_DEVICE;
    if (s->device != NULL) return kl_devrows_apply(s->device, nvec, x, ldx, y, ldy, err);
    for (int v = 0; v < nvec && s->ntask > 0; v++) {
        const kl_dptr from = kl_dptr_at(x, v * ldx), to = kl_dptr_at(y, v * ldy);
        product p = {s, far ? s->x : (const double *)from.addr, far ? s->y : (double *)to.addr};
        if (far) KL_TRY(s->ex->vt.download(s->ex, s->x, from, n, err));
        if (far) KL_TRY(s->ex->vt.download(s->ex, s->y, to, n, err)); /* other rows stay */
        kl_par_for(s->nwork, s->last - s->first, row_task, &p);
        if (s->piece != NULL) KL_TRY(exchange(s, p.y, err));
        if (far) KL_TRY(s->ex->vt.upload(s->ex, to, s->y, n, err));
    }
out:
    return st;
}
