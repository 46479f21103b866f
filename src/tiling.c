/* Launches from records: see tiling.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "tiling.h"
#include "mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct dest {
    int64_t base, size;  /* of y, or of the group's WORK */
    int64_t work;        /* in the WORK of all */
    int64_t first, last; /* its uses, a list */
    int ld, group, level, round;
    int home;            /* whose `work` and `base` addresses are made of */
    char in_work, read;
    char keep;           /* what is there counts */
    char zero;           /* what nothing is written to becomes 0 */
    char strict;         /* of a group whose records keep their order: nothing of it may run before what stands before it */
} dest;

typedef struct use {
    int64_t rec, next;
    int da, db; /* intermediates that are read, or -1 */
} use;

/* One rectangle of a launch and the records summed into it. */
typedef struct link {
    int64_t use;
    int row, col; /* corner of the rectangle in the record's result */
    int late;     /* reads what the launch's first level writes */
    double alpha;
} link;

typedef struct output {
    uint64_t c;
    int64_t first, count; /* links */
    double cost;
    int64_t slot;
    int ldc, m, n;
    int most_m, most_n;  /* units of a tile */
    int strict;
    uint32_t flags;
} output;

/* Where in the open group's WORK an intermediate is to be found. */
typedef struct alive {
    int64_t from, to;
    int dest;
} alive;

typedef struct kl_tiling_maker {
    dest *dest;
    use *use;
    link *link;
    output *output;
    int64_t ndest, cap_dest, nuse, cap_use, nlink, cap_link, noutput, cap_output;
    alive *live;
    int64_t nlive, cap_live;
    int adds;            /* of the opts */
} planner;

#define ROOM(array, n, cap)                                                                    \
    do {                                                                                       \
        if ((n) == (cap)) {                                                                    \
            const int64_t room_ = 2 * (int64_t)(cap) + 64;                                     \
            KL_TRY(kl_realloc(&(array), room_, KL_MEM_RECORD, err));                           \
            (cap) = (__typeof__(cap))room_;                                                    \
        }                                                                                      \
    } while (0)

/* A row of neighbours is a column, which is how everything here is cut. */
static kl_rec upright(const kl_rec *r)
{
    kl_rec u = *r;
    if (r->m != 1 || r->n == 1 || r->ldc != 1) return u;
    u.m = r->n;
    u.n = 1;
    u.ldc = r->n;
    if (r->kind == KL_REC_ADD) u.ta = !r->ta;
    if (r->kind == KL_REC_GEMM) {
        u.at_a = r->at_b, u.a = r->b, u.lda = r->ldb, u.ta = !r->tb;
        u.at_b = r->at_a, u.b = r->a, u.ldb = r->lda, u.tb = !r->ta;
    }
    return u;
}

static int64_t extent(int m, int n, int ld) { return (int64_t)(n - 1) * ld + m; }

/* Intermediate of the open group that holds [from, to) wholly; -1: none does; -2: something overlaps. */
static int living(const planner *s, int64_t from, int64_t to)
{
    int found = -1;
    for (int64_t i = 0; i < s->nlive; i++) {
        const alive *const w = &s->live[i];
        if (to <= w->from || from >= w->to) continue;
        if (found >= 0 || from < w->from || to > w->to) return -2;
        found = w->dest;
    }
    return found;
}

static kl_status new_dest(planner *s, dest d, int *out, kl_err *err)
{
    kl_status st = KL_OK;
    ROOM(s->dest, s->ndest, s->cap_dest);
    d.first = d.last = -1;
    d.home = (int)s->ndest;
    *out = (int)s->ndest;
    s->dest[s->ndest++] = d;
out:
    return st;
}

static kl_status new_use(planner *s, int to, int64_t rec, int da, int db, kl_err *err)
{
    kl_status st = KL_OK;
    ROOM(s->use, s->nuse, s->cap_use);
    dest *const d = &s->dest[to];
    s->use[s->nuse] = (use){.rec = rec, .next = -1, .da = da, .db = db};
    if (d->last >= 0) s->use[d->last].next = s->nuse;
    else d->first = s->nuse;
    d->last = s->nuse++;
    for (int k = 0; k < 2; k++) {
        const int from = k ? db : da;
        if (from >= 0 && s->dest[from].level >= d->level) d->level = s->dest[from].level + 1;
    }
out:
    return st;
}

/* Where record r of a group goes: *to; 0 when that is not foreseen. */
static kl_status target(planner *s, const kl_batch *b, int group, int64_t first_dest, const kl_rec *r, int *to, int *foreseen, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t from = r->c, end = r->c + extent(r->m, r->n, r->ldc);
    const kl_group *const g = &b->group[group];
    *foreseen = 1;
    if (r->at_c == KL_AT_WORK) {
        *to = living(s, from, end);
        const int whole = *to >= 0 && s->dest[*to].base == from && s->dest[*to].size == end - from;
        if (*to >= 0 && !s->dest[*to].read && !(whole && !r->beta)) goto out; /* one more part of it */
        if (r->beta) *foreseen = 0;
        if (!*foreseen) goto out;
        for (int64_t i = s->nlive - 1; i >= 0; i--) { /* what was there is over; what stands beside it stays */
            const alive w = s->live[i];
            if (end <= w.from || from >= w.to) continue;
            s->live[i] = s->live[--s->nlive];
            for (int k = 0; k < 2; k++) {
                const alive rest = {k ? end : w.from, k ? w.to : from, w.dest};
                if (rest.from >= rest.to) continue;
                ROOM(s->live, s->nlive, s->cap_live);
                s->live[s->nlive++] = rest;
            }
        }
        KL_TRY(new_dest(s, (dest){.base = from, .size = end - from, .group = group, .in_work = 1}, to, err));
        ROOM(s->live, s->nlive, s->cap_live);
        s->live[s->nlive++] = (alive){from, end, *to};
        goto out;
    }
    if (r->at_c != KL_AT_Y) {
        *foreseen = 0;
        goto out;
    }
    if (g->ny > 0) {
        *to = (int)first_dest;
        *foreseen = from >= g->y && end <= g->y + g->ny;
        goto out;
    }
    for (int64_t i = first_dest; i < s->ndest; i++) { /* no segment is named: every record says its own */
        const dest *const d = &s->dest[i];
        if (d->in_work || end <= d->base || from >= d->base + d->size) continue;
        const kl_rec other = upright(&b->rec[s->use[d->first].rec]);
        if (d->base == from && other.m == r->m && other.n == r->n && other.ldc == r->ldc && r->beta) {
            *to = (int)i;
            goto out;
        }
        if (other.ldc != r->ldc) *foreseen = 0;
        const int64_t gap = from - d->base, row = ((gap % r->ldc) + r->ldc) % r->ldc, col = (gap - row) / r->ldc;
        const int below = row >= other.m && row + r->m <= r->ldc, beside = col >= other.n || col + r->n <= 0;
        if (!below && !beside) *foreseen = 0;
    }
    if (*foreseen) KL_TRY(new_dest(s, (dest){.base = from, .size = end - from, .group = group, .keep = r->beta}, to, err));
out:
    return st;
}

static kl_status analyse(planner *s, const kl_batch *b, int group, int *foreseen, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_group *const g = &b->group[group];
    const int64_t first = s->ndest;
    int to;
    *foreseen = 1;
    s->nlive = 0;
    if (g->ny > 0) KL_TRY(new_dest(s, (dest){.base = g->y, .size = g->ny, .group = group, .keep = !b->zero, .zero = b->zero != 0}, &to, err));
    for (int64_t i = g->first; i < g->last && *foreseen; i++) {
        const kl_rec r = upright(&b->rec[i]);
        if (r.m == 0 || r.n == 0) continue;
        int from[2] = {-1, -1};
        for (int k = 0; k < 2 && *foreseen; k++) {
            if (r.kind == KL_REC_FILL || (k == 1 && r.kind == KL_REC_ADD)) continue;
            const int at = k ? r.at_b : r.at_a, turned = k ? r.tb : r.ta, ld = k ? r.ldb : r.lda;
            const int m = k ? r.k : r.m, n = k ? r.n : r.kind == KL_REC_GEMM ? r.k : r.n;
            const int64_t at0 = k ? r.b : r.a;
            if (at == KL_AT_Y) *foreseen = 0;
            if (at != KL_AT_WORK || m == 0 || n == 0) continue;
            from[k] = living(s, at0, at0 + (turned ? extent(n, m, ld) : extent(m, n, ld)));
            if (from[k] < 0 || r.at_c == KL_AT_WORK) *foreseen = 0;
            if (*foreseen) s->dest[from[k]].read = 1;
        }
        if (!*foreseen) break;
        KL_TRY(target(s, b, group, first, &r, &to, foreseen, err));
        if (*foreseen) KL_TRY(new_use(s, to, i, from[0], from[1], err));
    }
out:
    return st;
}

/* Records one after the other, WORK as the group has it. */
static kl_status in_order(planner *s, const kl_batch *b, int group, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_group *const g = &b->group[group];
    int region, to, level = 0;
    KL_TRY(new_dest(s, (dest){.size = g->nwork, .group = group, .in_work = 1}, &region, err));
    if (b->zero && g->ny > 0) {
        KL_TRY(new_dest(s, (dest){.base = g->y, .size = g->ny, .group = group, .zero = 1}, &to, err));
        level++;
    }
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec r = upright(&b->rec[i]);
        if (r.m == 0 || r.n == 0) continue;
        KL_TRY(new_dest(s, (dest){.base = r.c, .size = extent(r.m, r.n, r.ldc), .group = group, .level = level++, .in_work = r.at_c == KL_AT_WORK, .keep = r.beta, .strict = 1}, &to, err));
        if (r.at_c == KL_AT_WORK) s->dest[to].home = region;
        KL_TRY(new_use(s, to, i, -1, -1, err));
        use *const u = &s->use[s->nuse - 1];
        if (r.kind != KL_REC_FILL && r.at_a == KL_AT_WORK) u->da = region; /* after new_use: order is by level here */
        if (r.kind == KL_REC_GEMM && r.at_b == KL_AT_WORK) u->db = region;
    }
    s->dest[region].read = 2; /* marks the group: it stays in round 0 */
out:
    return st;
}

/* Offsets in WORK, and rounds. Groups that stay in order come first, all in round 0; a group is torn apart only when it is too large by itself. */
static void place(planner *s, int64_t budget, kl_tiling *p)
{
    int64_t at = 0;
    int round = 0;
    p->nwork = p->least_work = 0;
    for (int64_t i = 0; i < s->ndest; i++) {
        dest *const d = &s->dest[i];
        if (!d->in_work || d->read != 2 || d->home != i) continue;
        d->work = at;
        at += (d->size + 15) / 16 * 16;
    }
    p->nwork = at;
    for (int64_t i = 0, j; i < s->ndest; i = j) {
        int64_t size = 0;
        int whole = 1, two = 0;
        for (j = i; j < s->ndest && s->dest[j].group == s->dest[i].group; j++) {
            const dest *const d = &s->dest[j];
            if (d->in_work && d->read == 2) whole = 0;
            if (d->in_work) size += (d->size + 15) / 16 * 16;
            for (int64_t u = d->first; u >= 0; u = s->use[u].next) two |= s->use[u].da >= 0 && s->use[u].db >= 0 && s->use[u].da != s->use[u].db;
        }
        if (!whole) continue;
        if (at > 0 && at + size > budget) at = 0, round++;
        for (int64_t k = i; k < j; k++) {
            dest *const d = &s->dest[k];
            if (!d->in_work) continue;
            const int64_t need = (d->size + 15) / 16 * 16;
            if (at > 0 && at + need > budget && !two) at = 0, round++;
            d->work = at;
            d->round = round;
            at += need;
            if (at > p->nwork) p->nwork = at;
            if (need > p->least_work) p->least_work = need;
        }
    }
    p->nround = round + 1;
}

static int is_tangled(const planner *s, const kl_batch *b, int64_t first);

kl_status kl_tiling_open(const kl_batch *b, const kl_tiling_opts *o, int64_t budget, kl_tiling *p, kl_err *err)
{
    kl_status st = KL_OK;
    planner *s = NULL;
    *p = (kl_tiling){.o = *o};
    KL_TRY(kl_alloc(&s, 1, KL_MEM_RECORD, err));
    p->planner = s;
    s->adds = o->adds;
    for (int g = 0; g < b->ngroup; g++) {
        const int64_t ndest = s->ndest, nuse = s->nuse;
        int foreseen;
        KL_TRY(analyse(s, b, g, &foreseen, err));
        if (foreseen && !is_tangled(s, b, ndest)) continue;
        s->ndest = ndest;
        s->nuse = nuse;
        p->nsequential++;
        KL_TRY(in_order(s, b, g, err));
    }
    place(s, budget, p);
out:
    return st;
}

void kl_tiling_forget(kl_tiling *p)
{
    planner *s = p->planner;
    if (s) {
        kl_free(&s->dest);
        kl_free(&s->use);
        kl_free(&s->link);
        kl_free(&s->output);
        kl_free(&s->live);
        kl_free(&s);
    }
    kl_free(&p->piece);
    kl_free(&p->cell);
    kl_free(&p->term);
    p->planner = NULL;
}

void kl_tiling_clear(kl_tiling *p)
{
    kl_tiling_forget(p);
    kl_free(&p->launch);
}

/* ---- cells ---- */

typedef struct span {
    int64_t use;
    int row, col, m, n;
} span;

static int by_int(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int sorted_once(int *cut, int n)
{
    int k = 0;
    qsort(cut, (size_t)n, sizeof *cut, by_int);
    for (int i = 0; i < n; i++)
        if (i == 0 || cut[i] != cut[k - 1]) cut[k++] = cut[i];
    return k;
}

static uint64_t corner(const planner *s, const dest *d, uint64_t work, int64_t element, uint32_t *flags)
{
    if (!d->in_work) {
        *flags |= 2u << KL_P_C;
        return (uint64_t)(d->base + element) * sizeof(double);
    }
    const dest *const h = &s->dest[d->home];
    return work + (uint64_t)(h->work + d->base - h->base + element) * sizeof(double);
}

static kl_status emit(planner *s, output o, kl_err *err)
{
    kl_status st = KL_OK;
    ROOM(s->output, s->noutput, s->cap_output);
    s->output[s->noutput++] = o;
out:
    return st;
}

static kl_status add_link(planner *s, link l, kl_err *err)
{
    kl_status st = KL_OK;
    ROOM(s->link, s->nlink, s->cap_link);
    s->link[s->nlink++] = l;
out:
    return st;
}

/* Launches come in the order of their slots. */
static int64_t slot_of(int round, int level, int products) { return (int64_t)round << 40 | (int64_t)level << 1 | products; }

static int round_of(const planner *s, int64_t u, int otherwise)
{
    const use *const w = &s->use[u];
    return w->da >= 0 ? s->dest[w->da].round : w->db >= 0 ? s->dest[w->db].round : otherwise;
}

static int is_nothing(const kl_rec *r) { return (r->kind == KL_REC_GEMM && (r->k == 0 || r->alpha == 0)) || (r->kind == KL_REC_FILL && r->alpha == 0); }

/* One cell from the spans that cover it, round by round: sums of matrices first, then products. Where the kernel adds matrices itself, they are links like any other. */
static kl_status write_cell(planner *s, const kl_batch *b, const dest *d, uint64_t work, const span *list, int64_t n, int row, int col, int rows, int cols,
                            int ld, int level, int keep, int early, int first_round, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t from = 0;
    for (int64_t i = 0; i < n; i++) {
        if (b->rec[s->use[list[i].use].rec].beta) continue;
        from = i; /* what came before is overwritten */
        keep = 0;
    }
    output o = {.ldc = ld, .m = rows, .n = cols, .strict = d->strict};
    o.c = corner(s, d, work, row + (int64_t)col * ld, &o.flags);
    int any = 0, fill = 0, least = first_round, most = first_round;
    for (int64_t i = from; i < n; i++) {
        const kl_rec *const r = &b->rec[s->use[list[i].use].rec];
        if (is_nothing(r)) continue;
        const int round = round_of(s, list[i].use, first_round);
        if (!any || round < least) least = round;
        if (!any || round > most) most = round;
        fill |= r->kind == KL_REC_FILL;
        any = 1;
    }
    if (!keep && (!any || (early && least > first_round))) {
        o.first = s->nlink;
        o.slot = slot_of(first_round, level, 0);
        KL_TRY(emit(s, o, err));
        keep = 1;
    }
    const int join = s->adds && !fill;
    for (int round = least; any && round <= most; round++)
        for (int products = join; products < 2; products++) {
            o.first = s->nlink;
            for (int64_t i = from; i < n; i++) {
                const kl_rec *const r = &b->rec[s->use[list[i].use].rec];
                if (is_nothing(r) || round_of(s, list[i].use, first_round) != round || (!join && (r->kind == KL_REC_GEMM) != products)) continue;
                KL_TRY(add_link(s, (link){list[i].use, row - list[i].row, col - list[i].col, 0, r->alpha}, err));
            }
            o.count = s->nlink - o.first;
            if (o.count == 0) continue;
            o.slot = slot_of(round, level, products);
            o.flags = (o.flags & ~(uint32_t)KL_P_BETA) | (keep ? KL_P_BETA : 0);
            KL_TRY(emit(s, o, err));
            keep = 1;
        }
out:
    return st;
}

/* Zeros, as columns of a length that suits. */
static kl_status write_zeros(planner *s, const dest *d, uint64_t work, int level, int round, kl_err *err)
{
    kl_status st = KL_OK;
    enum { COLUMN = 1 << 14 };
    for (int64_t at = 0; at < d->size;) {
        const int64_t left = d->size - at;
        output o = {.ldc = COLUMN, .m = left < COLUMN ? (int)left : COLUMN, .n = left < COLUMN ? 1 : left / COLUMN > 4096 ? 4096 : (int)(left / COLUMN),
                    .first = s->nlink, .slot = slot_of(round, level, 0)};
        o.c = corner(s, d, work, at, &o.flags);
        KL_TRY(emit(s, o, err));
        at += (int64_t)o.m * o.n;
    }
out:
    return st;
}

/* Leading dimension of the records of a dest, by the first that shows one; a single column else. */
static int leading(const planner *s, const kl_batch *b, const dest *d)
{
    int ld = 0;
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        const kl_rec r = upright(&b->rec[s->use[u].rec]);
        if (r.m > 1 && r.n > 1) return r.ldc;
        if (r.n > 1 && ld == 0) ld = r.ldc;
    }
    return ld > 0 ? ld : d->size < INT32_MAX ? (int)d->size : INT32_MAX;
}

/* Diagonals and the like, which fit into no cell: their own rectangles, in as many levels as keep those apart that may meet. */
static kl_status write_odd(planner *s, const kl_batch *b, const dest *d, uint64_t work, const span *odd, int64_t n, int level, int round, kl_err *err)
{
    kl_status st = KL_OK;
    int *at = NULL;
    KL_TRY(kl_alloc(&at, n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        const kl_rec r = upright(&b->rec[s->use[odd[i].use].rec]);
        const int64_t end = r.c + extent(r.m, r.n, r.ldc);
        for (int64_t k = 0; k < i; k++) {
            const kl_rec o = upright(&b->rec[s->use[odd[k].use].rec]);
            if (end <= o.c || r.c >= o.c + extent(o.m, o.n, o.ldc)) continue;
            if (r.m == 1 && o.m == 1 && r.ldc == o.ldc && (r.c - o.c) % r.ldc != 0) continue;
            if (at[i] <= at[k]) at[i] = at[k] + 1;
        }
        if (r.kind == KL_REC_GEMM && (r.k == 0 || r.alpha == 0)) continue;
        output o = {.ldc = r.ldc, .m = r.m, .n = r.n, .first = s->nlink, .count = 1, .strict = d->strict, .flags = KL_P_BETA};
        o.c = corner(s, d, work, r.c - d->base, &o.flags);
        o.slot = slot_of(round_of(s, odd[i].use, round), level + 1 + at[i], r.kind == KL_REC_GEMM);
        KL_TRY(add_link(s, (link){odd[i].use, 0, 0, 0, r.alpha}, err));
        KL_TRY(emit(s, o, err));
    }
out:
    kl_free(&at);
    return st;
}

/* Place of a use's record in a dest of this leading dimension; 0: it has none. */
static int span_of(const planner *s, const kl_batch *b, const dest *d, int ld, int64_t u, span *out)
{
    const kl_rec r = upright(&b->rec[s->use[u].rec]);
    const int64_t at = r.c - d->base;
    *out = (span){.use = u, .row = (int)(at % ld), .col = (int)(at / ld), .m = r.m, .n = r.n};
    return (r.n == 1 || r.ldc == ld) && out->row + r.m <= ld;
}

/* 1 when a group whose records are all foreseen has a dest that cells and levels cannot express. */
static int is_tangled(const planner *s, const kl_batch *b, int64_t first)
{
    for (int64_t i = first; i < s->ndest; i++) {
        const dest *const d = &s->dest[i];
        const int ld = leading(s, b, d);
        int odd = 0, fresh = 0;
        span one;
        for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
            if (!span_of(s, b, d, ld, u, &one)) odd = 1;
            if (!b->rec[s->use[u].rec].beta) fresh = 1;
        }
        if (odd && (fresh || d->in_work)) return 1;
    }
    return 0;
}

static kl_status write_dest(planner *s, const kl_batch *b, const dest *d, uint64_t work, kl_err *err)
{
    kl_status st = KL_OK;
    span *all = NULL, *odd = NULL, *here = NULL;
    int *row = NULL, *col = NULL;
    int64_t n = 0, ngrid = 0, nodd = 0;
    int keep = d->keep, level = d->level, round = INT32_MAX;
    if (d->first < 0) return d->zero ? write_zeros(s, d, work, level, 0, err) : KL_OK;
    const int ld = leading(s, b, d);
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        const int r = round_of(s, u, INT32_MAX);
        if (r < round) round = r;
        n++;
    }
    if (d->in_work) round = d->round;
    else if (round == INT32_MAX) round = 0;
    KL_TRY(kl_alloc(&all, n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&odd, n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&here, n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&row, 2 * n + 2, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&col, 2 * n + 2, KL_MEM_RECORD, err));
    int nrow = 0, ncol = 0;
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        span one;
        if (!span_of(s, b, d, ld, u, &one)) {
            odd[nodd++] = one;
            continue;
        }
        all[ngrid++] = one;
        row[nrow++] = one.row, row[nrow++] = one.row + one.m;
        col[ncol++] = one.col, col[ncol++] = one.col + one.n;
    }
    if (d->zero) {
        if (d->size % ld == 0) {
            row[nrow++] = 0, row[nrow++] = ld;
            col[ncol++] = 0, col[ncol++] = (int)(d->size / ld);
        } else {
            KL_TRY(write_zeros(s, d, work, level++, round, err));
            keep = 1;
        }
    }
    nrow = sorted_once(row, nrow);
    ncol = sorted_once(col, ncol);
    for (int j = 0; j + 1 < ncol; j++)
        for (int i = 0; i + 1 < nrow; i++) {
            int64_t k = 0;
            for (int64_t q = 0; q < ngrid; q++) {
                const span *const w = &all[q];
                if (w->row <= row[i] && w->row + w->m >= row[i + 1] && w->col <= col[j] && w->col + w->n >= col[j + 1]) here[k++] = *w;
            }
            if (k == 0 && (!d->zero || keep)) continue;
            KL_TRY(write_cell(s, b, d, work, here, k, row[i], col[j], row[i + 1] - row[i], col[j + 1] - col[j], ld, level, keep, nodd > 0, round, err));
        }
    if (nodd > 0) KL_TRY(write_odd(s, b, d, work, odd, nodd, level, round, err));
out:
    kl_free(&all);
    kl_free(&odd);
    kl_free(&here);
    kl_free(&row);
    kl_free(&col);
    return st;
}

/* ---- tiles ---- */

static int by_slot(const void *pa, const void *pb)
{
    const output *const a = pa, *const b = pb;
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Address of an operand from an element of it on. */
static uint64_t operand(const planner *s, const kl_batch *b, int at, int from, int64_t element, uint64_t work, int shift, uint32_t *flags)
{
    switch (at) {
    case KL_AT_X: *flags |= 1u << shift; return (uint64_t)element * sizeof(double);
    case KL_AT_Y: *flags |= 2u << shift; return (uint64_t)element * sizeof(double);
    case KL_AT_WORK: {
        const dest *const d = &s->dest[from], *const h = &s->dest[d->home];
        return work + (uint64_t)(h->work + element - h->base) * sizeof(double);
    }
    default: return (uint64_t)b->base[at].addr + (uint64_t)element * sizeof(double);
    }
}

typedef struct tile {
    const output *o;
    int row, col, m, n, um, un;
    int once, level;     /* its sum is not to be cut; of the launch */
    double cost;
    int64_t steps, nth;
} tile;

/* What a tile costs in cycles, roughly: a step of `depth` by its pieces and by its edges, never less than its slices take to come, nor than the latency of loads; and
   what starting and writing take. */
static double tile_cost(const kl_tiling_opts *p, int um, int un, int64_t steps)
{
    const double wave = um * un * p->cost_unit + um * p->cost_row + un * p->cost_col;
    const double slices = p->rate > 0 ? 8.0 * p->depth * (um * p->unit_m + un * p->unit_n) / p->rate : 0;
    return (double)steps * fmax(wave, fmax(slices, p->cost_least)) + p->cost_tile + 100.0 * um * un;
}

/* Of one link: a matrix that is added takes about as long as one step of a product. */
static int64_t link_steps(const kl_rec *r, int depth) { return r->kind == KL_REC_GEMM ? (r->k + depth - 1) / depth : 1; }

static int64_t steps_of(const planner *s, const kl_batch *b, const output *o, int depth)
{
    int64_t steps = 0;
    for (int64_t i = o->first; i < o->first + o->count; i++) steps += link_steps(&b->rec[s->use[s->link[i].use].rec], depth);
    return steps;
}

typedef struct load {
    double cost;
    int64_t n, steps; /* so many tiles of so many steps each */
} load;

static int by_cost(const void *pa, const void *pb)
{
    const load *const a = pa, *const b = pb;
    return a->cost == b->cost ? 0 : a->cost > b->cost ? -1 : 1;
}

/* When the last of nblock blocks is done, each taking the next tile as it gets free, dearest first. */
static double makespan(load *l, int64_t n, int nblock)
{
    enum { MOST = 4096 };
    double heap[MOST]; /* when a block gets free; the earliest first */
    const int nheap = nblock < MOST ? nblock : MOST;
    double last = 0;
    for (int i = 0; i < nheap; i++) heap[i] = 0;
    qsort(l, (size_t)n, sizeof *l, by_cost);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < l[i].n; k++) {
            const double end = heap[0] + l[i].cost;
            int at = 0;
            for (;;) {
                int child = 2 * at + 1;
                if (child >= nheap) break;
                if (child + 1 < nheap && heap[child + 1] < heap[child]) child++;
                if (heap[child] >= end) break;
                heap[at] = heap[child];
                at = child;
            }
            heap[at] = end;
            if (end > last) last = end;
        }
    return last;
}

/* About that, in one pass: the dearest tile may begin last. */
static double makespan_about(const load *l, int64_t n, int nblock)
{
    double sum = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += l[i].cost * (double)l[i].n;
        if (l[i].cost > most) most = l[i].cost;
    }
    const double even = sum / nblock + 0.5 * most * (1 - 1.0 / nblock);
    return even > most ? even : most;
}

/* Tiles of an output in either direction when they have so many units at most. */
static void tiles_of(const kl_tiling_opts *p, const output *o, int most_m, int most_n, int *um, int *un, int *tm, int *tn)
{
    *um = (o->m + p->unit_m - 1) / p->unit_m, *un = (o->n + p->unit_n - 1) / p->unit_n;
    *tm = (*um + most_m - 1) / most_m, *tn = (*un + most_n - 1) / most_n;
}

enum { KINDS = 4 }; /* of tiles of one output: with a row of units more or less, and a column of them */

/* The tiles of an output, the dearest kind first. */
static void loads_of(const kl_tiling_opts *p, const output *o, int most_m, int most_n, int64_t steps, load l[KINDS])
{
    int um, un, tm, tn;
    tiles_of(p, o, most_m, most_n, &um, &un, &tm, &tn);
    for (int k = 0; k < KINDS; k++) {
        const int less_m = k & 1, less_n = k >> 1, more_m = um % tm, more_n = un % tn; /* so many have one more */
        const int64_t n = (int64_t)(less_m ? more_m ? tm - more_m : 0 : more_m ? more_m : tm) * (less_n ? more_n ? tn - more_n : 0 : more_n ? more_n : tn);
        l[k] = (load){tile_cost(p, (um + tm - 1) / tm - less_m, (un + tn - 1) / tn - less_n, steps), n, steps};
    }
}

static double sum_of(const load *l, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += l[i].cost * (double)l[i].n;
    return sum;
}

/* l = one, of which all but the dearest `whole` tiles are cut into parts; a part adds to what those before it wrote, which takes a while. Returns how many there are. */
static int64_t cut_the_rest(const kl_tiling_opts *p, const load *one, int64_t n, int64_t whole, int parts, load *l)
{
    memcpy(l, one, (size_t)n * sizeof *l);
    qsort(l, (size_t)n, sizeof *l, by_cost);
    for (int64_t m = 0; m < n; m++) {
        if (whole > 0 && whole < l[m].n) { /* of these some are left whole */
            memmove(l + m + 1, l + m, (size_t)(n - m) * sizeof *l);
            l[m].n = whole;
            l[m + 1].n -= whole;
            n++;
        }
        whole -= l[m].n;
        if (whole < 0) l[m] = (load){l[m].cost / parts + 3000 + 100.0 * p->most_m * p->most_n, l[m].n * parts, l[m].steps};
    }
    return n;
}

/* How the outputs of a launch are cut. */
typedef struct cutting {
    const kl_tiling_opts *p;
    int kind;
    int64_t whole; /* so many tiles, the dearest, are left as they are; the others' sums */
    int parts;     /* are cut into so many */
} cutting;

/* Cuts the outputs of a launch: which kind of block, and the most units of a tile. Small tiles load more for what they do, large ones leave blocks without work at
   the end. So most outputs get one size, and those whose tiles are the cheapest, which come last, may get a smaller one to fill the gaps; or the sums of dear tiles
   are cut into parts. Which, is found out by going through the motions. */
static kl_status cut_outputs(const planner *s, const kl_batch *b, const kl_tiling_opts *first, output *o, int64_t n, cutting *cut, kl_err *err)
{
    enum { MANY = 32 /* tiles of a block: then the end is all the same */, SIZES = 7, SHARES = 3, TRIES = 6, BRIEF = 560 };
    static const double share[SHARES] = {0.15, 0.3, 0.5}; /* of all work that gets the smaller size */
    static const int tries[TRIES] = {2, 3, 4, 6, 8, KL_PARTS}; /* parts of a sum */
    kl_status st = KL_OK;
    load *all = NULL, *l = NULL;
    double best = INFINITY;
    int64_t from = n; /* outputs from here on get the small size */
    int large[2] = {first->most_m, first->most_n}, small[2] = {0, 0};
    *cut = (cutting){first, 0, 0, 1};
    KL_TRY(kl_alloc(&all, SIZES * KINDS * n, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&l, KINDS * n + 1, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        loads_of(first, &o[i], first->most_m, first->most_n, steps_of(s, b, &o[i], first->depth), l);
        o[i].cost = l[0].cost;
    }
    qsort(o, (size_t)n, sizeof *o, by_slot); /* dearest first, all being of one slot */
    int nth = 0;
    for (const kl_tiling_opts *p = first->whole || first->apart ? NULL : first; p; p = p->other, nth++) {
        const int large_m = p->most_m, half_m = (large_m + 1) / 2, quarter_m = (large_m + 3) / 4, large_n = p->most_n, half_n = (large_n + 1) / 2;
        const int try_m[SIZES] = {large_m, large_m, large_m, half_m, half_m, quarter_m, quarter_m},
                  try_n[SIZES] = {large_n, (3 * large_n + 3) / 4, half_n, large_n, half_n, half_n, (large_n + 2) / 3};
        for (int64_t i = 0; i < n; i++) {
            const int64_t steps = steps_of(s, b, &o[i], p->depth);
            for (int t = 0; t < SIZES; t++) loads_of(p, &o[i], try_m[t], try_n[t], steps, all + KINDS * (t * n + i));
        }
        int brief = b->once; /* going through the motions takes some 50 ns a tile and a try, and is worth a tenth of what the device takes */
        for (int t = 0; t < SIZES; t++) {
            const load *const one = all + KINDS * t * n;
            const double work = sum_of(one, KINDS * n);
            int64_t ntile = 0;
            double dearest = 0;
            for (int64_t i = 0; i < KINDS * n; i++) ntile += one[i].n, dearest = one[i].n > 0 && one[i].cost > dearest ? one[i].cost : dearest;
            const int many = ntile > (int64_t)MANY * p->nblock;
            if (t == 0) brief |= b->lasting && work < (double)BRIEF * p->nblock * (double)ntile;
            if (work / p->nblock >= 0.985 * best) continue; /* however well the blocks are filled */
            for (int u = t; u < (many ? t + 1 : SIZES); u++)
                for (int q = 0; q < (u == t ? 1 : SHARES); q++) {
                    int64_t at = u == t ? n : 0;
                    for (double rest = work; u > t && at < n && rest > share[q] * work; at++) rest -= sum_of(one + KINDS * at, KINDS);
                    memcpy(l, one, (size_t)(KINDS * at) * sizeof *l);
                    if (at < n) memcpy(l + KINDS * at, all + KINDS * (u * n + at), (size_t)(KINDS * (n - at)) * sizeof *l);
                    if (u > t && sum_of(l, KINDS * n) / p->nblock >= 0.985 * best) continue;
                    const double time = many ? work / p->nblock : brief ? makespan_about(l, KINDS * n, p->nblock) : makespan(l, KINDS * n, p->nblock);
                    if (time >= 0.985 * best) continue;
                    best = time, *cut = (cutting){p, nth, 0, 1}, from = at;
                    large[0] = try_m[t], large[1] = try_n[t], small[0] = try_m[u], small[1] = try_n[u];
                }
            /* Few tiles, most blocks without one at the end: cut the sums of the last round's, or of all. */
            for (int k = 0; t == 0 && p->parts && !brief && ntile <= 8 * (int64_t)p->nblock && best > 1.05 * work / p->nblock && k < 2 * TRIES; k++) {
                const int parts = tries[k / 2];
                const int64_t whole = k % 2 ? ntile / p->nblock * p->nblock : 0;
                if (ntile - whole > KL_TURNS) continue;
                const int64_t m = cut_the_rest(p, one, KINDS * n, whole, parts, l);
                const double time = makespan(l, m, p->nblock);
                if (time >= 0.985 * best || dearest / parts < 8 * p->cost_least) continue; /* eight steps at least */
                best = time, *cut = (cutting){p, nth, whole, parts}, from = n;
                large[0] = try_m[t], large[1] = try_n[t];
            }
            if (many) break;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const int *const most = i < from ? large : small;
        o[i].most_m = most[0], o[i].most_n = most[1];
    }
out:
    kl_free(&all);
    kl_free(&l);
    return st;
}

/* What need not wait comes first. Then equal coefficients together: a change of coefficient costs a pass over the accumulators. */
static int by_alpha(const void *pa, const void *pb)
{
    const link *const a = pa, *const b = pb;
    if (a->late != b->late) return a->late - b->late;
    if (a->alpha != b->alpha) return a->alpha < b->alpha ? -1 : 1;
    return a->use < b->use ? -1 : a->use > b->use;
}

/* Steps [from, to) of a tile's sum as a chain of pieces: its head at base[head], the others from base[*more] on. */
static void write_part(const planner *s, const kl_batch *b, const kl_tiling_opts *q, const tile *w, uint64_t work, int64_t from, int64_t to, uint32_t turn, uint32_t mark, kl_piece *base,
                       int64_t head, int64_t *more, kl_tiling *p)
{
    const output *const o = w->o;
    const link *const l = s->link + o->first;
    uint32_t beta = turn & 255 ? (uint32_t)KL_P_BETA : o->flags & KL_P_BETA; /* a later part adds to the first */
    kl_piece *here = base + head;
    int64_t first = 0;
    int flushed = 0, waited = 0;
    for (int64_t k = 0; k < o->count; k++) {
        const use *const u = &s->use[l[k].use];
        const kl_rec r = upright(&b->rec[u->rec]);
        const int64_t steps = link_steps(&r, q->depth), end = first + steps;
        if (end <= from || first >= to) {
            first = end;
            continue;
        }
        const int add = r.kind == KL_REC_ADD, skip = (int)(from > first ? from - first : 0) * q->depth, last = add ? w->n : to < end ? (int)(to - first) * q->depth : r.k, ends = to <= end;
        const int dr = l[k].row + w->row, dc = l[k].col + w->col;
        uint32_t f = (q->apart ? 0 : (uint32_t)w->um | (uint32_t)w->un << 4) | (o->flags & 3u << KL_P_C) | (r.ta ? KL_P_TA : 0) | (mark & (uint32_t)KL_P_PART);
        *here = (kl_piece){.ldc = o->ldc, .mn = (uint32_t)w->m | (uint32_t)w->n << 16, .lda = r.lda, .k = last - skip, .turn = turn};
        if (add) {
            f |= KL_P_ADD;
            here->a = operand(s, b, r.at_a, u->da, r.a + (r.ta ? (int64_t)dr * r.lda + dc : dr + (int64_t)dc * r.lda), work, KL_P_A, &f);
        } else {
            f |= r.tb ? KL_P_TB : 0;
            here->ldb = r.ldb;
            here->a = operand(s, b, r.at_a, u->da, r.a + (r.ta ? (int64_t)dr * r.lda + skip : dr + (int64_t)skip * r.lda), work, KL_P_A, &f);
            here->b = operand(s, b, r.at_b, u->db, r.b + (r.tb ? dc + (int64_t)skip * r.ldb : (int64_t)dc * r.ldb + skip), work, KL_P_B, &f);
            p->padded += 2.0 * w->um * q->unit_m * w->un * q->unit_n * here->k;
        }
        here->c = o->c + ((uint64_t)w->row + (uint64_t)w->col * (uint64_t)o->ldc) * sizeof(double);
        /* coefficients: the sum is kept in units of the last one; where the ratio of two leaves the range, it is written in between */
        const double next = ends ? 1.0 : l[k + 1].alpha;
        const double ratio = r.alpha / next;
        const int flush = q->apart || ends || !(fabs(ratio) < 1e100 && fabs(ratio) > 1e-100);
        here->factor = flush ? r.alpha : ratio;
        const uint32_t over = !ends ? 0 : (mark & KL_P_PART ? KL_P_OVER | (mark & (uint32_t)KL_P_FINAL) : 0) | (mark & (uint32_t)KL_P_FIRST);
        here->flags = f | beta | (flush ? KL_P_LAST : 0) | over;
        if ((mark & (uint32_t)KL_P_NEXT) && !waited && (o->strict || beta || l[k].late)) here->flags |= (uint32_t)KL_P_NEXT, waited = 1;
        if (ends && beta && !flushed && q->adds && (turn & 255) == 0) { /* what stands there comes in like any matrix that is added */
            kl_piece *const then = base + (*more)++;
            *then = *here;
            then->a = then->c, then->lda = then->ldc, then->k = w->n, then->factor = 1, then->next = 0;
            then->flags = (here->flags & ~((uint32_t)KL_P_TA | KL_P_TB | KL_P_BETA | KL_P_NEXT | 3u << KL_P_A | 3u << KL_P_B)) | (uint32_t)KL_P_ADD | (here->flags >> KL_P_C & 3u) << KL_P_A;
            here->flags &= ~((uint32_t)KL_P_LAST | KL_P_BETA | KL_P_OVER | KL_P_FINAL | KL_P_FIRST);
            here->next = (int32_t)(then - base);
        }
        if (flush) beta = KL_P_BETA, flushed = 1;
        first = end;
        if (ends) return;
        here->next = (int32_t)*more;
        here = base + (*more)++;
    }
}

static int by_level_and_cost(const void *pa, const void *pb)
{
    const tile *const a = pa, *const b = pb;
    if (a->level != b->level) return a->level - b->level;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    return a->nth < b->nth ? -1 : a->nth > b->nth;
}

/* A coefficient so far from its neighbour that the sum is written in between: then it is not cut into parts, whose blocks may add only at their end. */
static int far_apart(const link *l, int64_t n)
{
    for (int64_t k = 1; k < n; k++) {
        const double ratio = fabs(l[k - 1].alpha / l[k].alpha);
        if (!(ratio < 1e100 && ratio > 1e-100)) return 1;
    }
    return 0;
}

/* One launch: outputs [0, n) and, where there are more, [n, n + after), which read what these write. */
static kl_status write_products(planner *s, const kl_batch *b, output *o, int64_t n, int64_t after, uint64_t work, int64_t *cap, kl_tiling *p, kl_err *err)
{
    kl_status st = KL_OK;
    int um, un, tm, tn;
    int64_t ntile = 0, npiece = 0, nhead = 0, nturn = 0, nfirst = 0;
    tile *list = NULL;
    int *parts = NULL;
    cutting cut[2] = {{0}};
    KL_TRY(cut_outputs(s, b, &p->o, o, n, &cut[0], err));
    if (after > 0) KL_TRY(cut_outputs(s, b, &p->o, o + n, after, &cut[1], err));
    for (int64_t i = 0; i < n + after; i++) {
        tiles_of(cut[i >= n].p, &o[i], o[i].most_m, o[i].most_n, &um, &un, &tm, &tn);
        ntile += (int64_t)tm * tn;
    }
    KL_TRY(kl_alloc(&list, ntile, KL_MEM_RECORD, err));
    ntile = 0;
    for (int64_t i = 0; i < n + after; i++) {
        const cutting *const c = &cut[i >= n];
        const kl_tiling_opts *const q = c->p;
        link *const l = s->link + o[i].first;
        const int64_t nl = o[i].count, steps = steps_of(s, b, &o[i], q->depth);
        int mixed = 0;
        for (int64_t k = 0; k < nl; k++) {
            l[k].late = i >= n && (s->use[l[k].use].da >= 0 || s->use[l[k].use].db >= 0);
            mixed |= l[k].alpha != l[0].alpha || l[k].late != l[0].late;
        }
        if (mixed) qsort(l, (size_t)nl, sizeof *l, by_alpha);
        const int once = mixed && far_apart(l, nl);
        tiles_of(q, &o[i], o[i].most_m, o[i].most_n, &um, &un, &tm, &tn);
        const double dearest = tile_cost(q, (um + tm - 1) / tm, (un + tn - 1) / tn, steps);
        int col = 0;
        for (int jt = 0; jt < tn; jt++) {
            const int wn = un / tn + (jt < un % tn);
            const int cols = wn * q->unit_n < o[i].n - col ? wn * q->unit_n : o[i].n - col;
            int row = 0;
            for (int it = 0; it < tm; it++) {
                const int wm = um / tm + (it < um % tm);
                const int rows = wm * q->unit_m < o[i].m - row ? wm * q->unit_m : o[i].m - row;
                list[ntile] = (tile){&o[i], row, col, rows, cols, wm, wn, once, i >= n, steps > q->together ? tile_cost(q, wm, wn, steps) : dearest, steps, ntile};
                ntile++;
                row += rows;
            }
            col += cols;
        }
    }
    if (ntile > 0) qsort(list, (size_t)ntile, sizeof *list, by_level_and_cost);
    KL_TRY(kl_alloc(&parts, ntile, KL_MEM_RECORD, err));
    for (int64_t i = 0, first = 0; i < ntile; i++) {
        const tile *const w = &list[i];
        const cutting *const c = &cut[w->level];
        if (i > 0 && w->level != list[i - 1].level) first = i;
        parts[i] = w->once || i - first < c->whole ? 1 : w->steps < c->parts ? (int)w->steps : c->parts;
        nhead += parts[i];
        npiece += w->o->count + 2 * parts[i]; /* a part may begin inside a product, and what stands there is one more */
    }
    if (npiece > INT32_MAX) {
        st = kl_fail(err, KL_ENOMEM, "plan: %lld pieces in one launch; at most %d are possible", (long long)npiece, INT32_MAX);
        goto out;
    }
    if (p->npiece + npiece > *cap) {
        *cap = p->npiece + npiece;
        KL_TRY(kl_realloc(&p->piece, *cap, KL_MEM_RECORD, err));
    }
    kl_piece *const base = p->piece + p->npiece;
    int64_t t = 0, more = nhead;
    for (int64_t i = 0; i < ntile; i++) {
        const tile *const w = &list[i];
        for (int q = 0; q < parts[i]; q++) {
            uint32_t mark = parts[i] > 1 ? (uint32_t)KL_P_PART : 0;
            if (q + 1 == parts[i]) mark |= (uint32_t)KL_P_FINAL | (after > 0 && w->level == 0 ? (uint32_t)KL_P_FIRST : 0);
            if (w->level == 1) mark |= (uint32_t)KL_P_NEXT;
            write_part(s, b, cut[w->level].p, w, work, w->steps * q / parts[i], w->steps * (q + 1) / parts[i], parts[i] > 1 ? (uint32_t)(nturn << 8 | q) : 0, mark, base, t++,
                       &more, p);
        }
        nturn += parts[i] > 1;
        nfirst += w->level == 0;
    }
    p->launch[p->nlaunch++] = (kl_launch){.products = 1, .kind = cut[0].kind, .first = p->npiece, .n = t, .nbefore = after > 0 ? nfirst : 0};
    p->npiece += more;
    p->ntile += t;
out:
    kl_free(&list);
    kl_free(&parts);
    return st;
}

static kl_status write_sums(planner *s, const kl_batch *b, const output *o, int64_t n, uint64_t work, int64_t *cap_cell, int64_t *cap_term, kl_tiling *p, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t first = p->ncell;
    for (int64_t i = 0; i < n; i++) {
        const int64_t term = p->nterm;
        for (int64_t k = o[i].first; k < o[i].first + o[i].count; k++) {
            const use *const u = &s->use[s->link[k].use];
            const kl_rec r = upright(&b->rec[u->rec]);
            ROOM(p->term, p->nterm, *cap_term);
            kl_term *const to = &p->term[p->nterm++];
            *to = (kl_term){.alpha = r.alpha, .lda = r.lda, .flags = r.ta ? KL_P_TA : 0};
            if (r.kind == KL_REC_FILL) {
                to->flags = KL_P_END;
                continue;
            }
            const int dr = s->link[k].row, dc = s->link[k].col;
            to->a = operand(s, b, r.at_a, u->da, r.a + (r.ta ? (int64_t)dr * r.lda + dc : dr + (int64_t)dc * r.lda), work, KL_P_A, &to->flags);
        }
        const int tall = o[i].m < 128 ? o[i].m : o[i].n == 1 ? KL_CELL : 128, wide = tall > 0 ? KL_CELL / tall : 1;
        for (int col = 0; col < o[i].n; col += wide)
            for (int row = 0; row < o[i].m; row += tall) {
                ROOM(p->cell, p->ncell, *cap_cell);
                p->cell[p->ncell++] = (kl_cell){.c = o[i].c, .ldc = o[i].ldc, .row = row, .col = col, .m = o[i].m - row < tall ? o[i].m - row : tall,
                                                .n = o[i].n - col < wide ? o[i].n - col : wide, .first = (int32_t)term, .count = (int32_t)o[i].count,
                                                .flags = o[i].flags};
            }
    }
    if (p->ncell > INT32_MAX / KL_CELL || p->nterm > INT32_MAX) {
        st = kl_fail(err, KL_ENOMEM, "plan: %lld cells and %lld terms in one list; at most %d cells are possible", (long long)p->ncell, (long long)p->nterm,
                     INT32_MAX / KL_CELL);
        goto out;
    }
    p->launch[p->nlaunch++] = (kl_launch){.first = first, .n = p->ncell - first};
out:
    return st;
}

static int64_t end_of_slot(const planner *s, int64_t i)
{
    int64_t j = i;
    while (j < s->noutput && s->output[j].slot == s->output[i].slot) j++;
    return j;
}

/* Outputs [i, j) of one slot: is there a product among them, or only matrices that are added? */
static int is_product_slot(const planner *s, const kl_batch *b, int64_t i, int64_t j)
{
    for (int64_t k = i; k < j && (s->output[k].slot & 1); k++)
        for (int64_t q = s->output[k].first; q < s->output[k].first + s->output[k].count; q++)
            if (b->rec[s->use[s->link[q].use].rec].kind == KL_REC_GEMM) return 1;
    return 0;
}

kl_status kl_tiling_write(const kl_batch *b, uint64_t work, kl_tiling *p, kl_err *err)
{
    kl_status st = KL_OK;
    planner *const s = p->planner;
    int64_t cap_piece = 0, cap_cell = 0, cap_term = 0, nslot = 0;
    for (int64_t i = 0; i < s->ndest; i++) KL_TRY(write_dest(s, b, &s->dest[i], work, err));
    for (int64_t i = 0; i < s->noutput; i++) s->output[i].cost = 0;
    if (s->noutput > 0) qsort(s->output, (size_t)s->noutput, sizeof *s->output, by_slot);
    for (int64_t i = 0; i < s->noutput; i++) nslot += i == 0 || s->output[i].slot != s->output[i - 1].slot;
    KL_TRY(kl_alloc(&p->launch, nslot, KL_MEM_RECORD, err));
    for (int64_t i = 0, j, k; i < s->noutput; i = k) {
        j = k = end_of_slot(s, i);
        if (is_product_slot(s, b, i, j)) {
            if (p->o.levels && j < s->noutput && s->output[i].slot >> 40 == s->output[j].slot >> 40 && is_product_slot(s, b, j, end_of_slot(s, j))) k = end_of_slot(s, j);
            KL_TRY(write_products(s, b, s->output + i, j - i, k - j, work, &cap_piece, p, err));
        } else KL_TRY(write_sums(s, b, s->output + i, j - i, work, &cap_cell, &cap_term, p, err));
    }
    if (b->flop > 0) p->padded /= b->flop;
out:
    return st;
}
