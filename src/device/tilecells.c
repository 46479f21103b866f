/* Cells of tile outputs: see tilecells.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tilecells.h"
#include "device/tileplan.h"
#include <string.h>

/* cut[n], sorted, with v among them: uses of an output have few borders that differ. */
static int with_border(int *cut, int n, int v)
{
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (cut[mid] < v) low = mid + 1;
        else high = mid;
    }
    if (low < n && cut[low] == v) return n;
    memmove(cut + low + 1, cut + low, (size_t)(n - low) * sizeof *cut);
    cut[low] = v;
    return n + 1;
}

static uint64_t corner(const kl_tile_plan_maker *s, const kl_tile_output *d, uint64_t work, int64_t element,
                       uint32_t *flags)
{
    if (!d->in_work) {
        *flags |= 2u << KL_P_C;
        return (uint64_t)(d->base + element) * sizeof(double);
    }
    const kl_tile_output *const h = &s->dest[d->home];
    return work + (uint64_t)(h->work + d->base - h->base + element) * sizeof(double);
}

static kl_status emit(kl_tile_plan_maker *s, kl_output o, kl_err *err)
{
    kl_status st = KL_OK;
    KL_ROOM(s->output, s->noutput, s->cap_output);
    s->output[s->noutput++] = o;
out:
    return st;
}

/* Row and column: of the output's rectangle in the record's result. */
static kl_status add_link(kl_tile_plan_maker *s, int64_t use, int row, int col, const kl_rec *r, kl_err *err)
{
    kl_status st = KL_OK;
    KL_ROOM(s->link, s->nlink, s->cap_link);
    s->link[s->nlink++] = (kl_link){.rec = s->use[use].rec,
                                    .da = s->use[use].da,
                                    .db = s->use[use].db,
                                    .row = row,
                                    .col = col,
                                    .k = r->kind == KL_REC_GEMM ? r->k : 0,
                                    .alpha = r->alpha};
out:
    return st;
}

/* Launches come in the order of their slots. */
static int64_t slot_of(int round, int level, int products)
{
    return (int64_t)round << 40 | (int64_t)level << 1 | products;
}

static int round_of(const kl_tile_plan_maker *s, int64_t u, int otherwise)
{
    const kl_use *const w = &s->use[u];
    return w->da >= 0 ? s->dest[w->da].round : w->db >= 0 ? s->dest[w->db].round : otherwise;
}

static int is_nothing(const kl_rec *r)
{
    return (r->kind == KL_REC_GEMM && (r->k == 0 || r->alpha == 0)) ||
           (r->kind == KL_REC_FILL && r->alpha == 0);
}

/* What all cells of a tile output have in common. */
typedef struct writing {
    kl_tile_plan_maker *s;
    const kl_batch *b;
    const kl_tile_output *d;
    uint64_t work; /* where WORK begins */
    int ld;        /* leading dimension of its records */
    int level;     /* of its outputs; records that fit into no cell come in later ones */
    int round;     /* the first in which something is written */
    int keep;      /* 1: what stands there already counts */
    int early; /* 1: records that fit into no cell follow, so that a cell has to be complete before them */
} writing;

typedef struct cell {
    int row, col, rows, cols;
    const kl_span *list; /* [n]: the records that cover it, in order */
    int64_t n;
} cell;

/* The rounds of the records of a cell that do something; 0: there is none. fill: whether one of them only
   fills. */
static int rounds_of(const writing *w, const cell *c, int *least, int *most, int *fill)
{
    int any = 0;
    *least = *most = w->round;
    *fill = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const kl_rec *const r = &w->b->rec[w->s->use[c->list[i].use].rec];
        if (is_nothing(r)) continue;
        const int round = round_of(w->s, c->list[i].use, w->round);
        if (!any || round < *least) *least = round;
        if (!any || round > *most) *most = round;
        *fill |= r->kind == KL_REC_FILL;
        any = 1;
    }
    return any;
}

/* Links of a cell's records of one round: of products, of the others, or of both. */
static kl_status link_records(const writing *w, const cell *c, int round, int products, int both, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t i = 0; i < c->n; i++) {
        const kl_span *const x = &c->list[i];
        const kl_rec *const r = &w->b->rec[w->s->use[x->use].rec];
        if (is_nothing(r) || round_of(w->s, x->use, w->round) != round) continue;
        if (!both && (r->kind == KL_REC_GEMM) != products) continue;
        KL_TRY(add_link(w->s, x->use, c->row - x->row, c->col - x->col, r, err));
    }
out:
    return st;
}

/* One cell from the spans that cover it, round by round: sums of matrices first, then products. Where the
   kernel adds matrices itself, they are links like any other. */
static kl_status write_cell(const writing *w, cell c, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tile_plan_maker *const s = w->s;
    int keep = w->keep, least, most, fill;
    int64_t from = 0;
    for (int64_t i = 0; i < c.n; i++) {
        if (w->b->rec[s->use[c.list[i].use].rec].beta) continue;
        from = i; /* what came before is overwritten */
        keep = 0;
    }
    c.list += from;
    c.n -= from;
    kl_output o = {.ldc = w->ld, .m = c.rows, .n = c.cols, .strict = w->d->strict};
    o.c = corner(s, w->d, w->work, c.row + (int64_t)c.col * w->ld, &o.flags);
    const int any = rounds_of(w, &c, &least, &most, &fill);
    if (!keep && (!any || (w->early && least > w->round))) {
        o.first = s->nlink;
        o.slot = slot_of(w->round, w->level, 0);
        KL_TRY(emit(s, o, err));
        keep = 1;
    }
    const int join = s->adds && !fill;
    for (int round = least; any && round <= most; round++)
        for (int products = join; products < 2; products++) {
            o.first = s->nlink;
            KL_TRY(link_records(w, &c, round, products, join, err));
            o.count = s->nlink - o.first;
            if (o.count == 0) continue;
            o.slot = slot_of(round, w->level, products);
            o.flags = (o.flags & ~(uint32_t)KL_P_BETA) | (keep ? KL_P_BETA : 0);
            KL_TRY(emit(s, o, err));
            keep = 1;
        }
out:
    return st;
}

/* Zeros, as columns of a length that suits. */
static kl_status write_zeros(const writing *w, kl_err *err)
{
    kl_status st = KL_OK;
    enum {
        COLUMN = 1 << 14,
        MOST = 4096,
    };
    for (int64_t at = 0; at < w->d->size;) {
        const int64_t left = w->d->size - at, columns = left / COLUMN;
        kl_output o = {.ldc = COLUMN,
                       .m = left < COLUMN ? (int)left : COLUMN,
                       .n = left < COLUMN    ? 1
                            : columns > MOST ? MOST
                                             : (int)columns,
                       .first = w->s->nlink,
                       .slot = slot_of(w->round, w->level, 0)};
        o.c = corner(w->s, w->d, w->work, at, &o.flags);
        KL_TRY(emit(w->s, o, err));
        at += (int64_t)o.m * o.n;
    }
out:
    return st;
}

/* Leading dimension of the records of a tile output, by the first that shows one; a single column else. */
static int leading(const kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_output *d)
{
    int ld = 0;
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        kl_rec own;
        const kl_rec *const r = kl_upright_of(&b->rec[s->use[u].rec], &own);
        if (r->m > 1 && r->n > 1) return r->ldc;
        if (r->n > 1 && ld == 0) ld = r->ldc;
    }
    return ld > 0 ? ld : d->size < INT32_MAX ? (int)d->size : INT32_MAX;
}

/* Diagonals and the like, which fit into no cell: their own rectangles, in as many levels as keep those apart
   that may meet. */
static kl_status write_odd(const writing *w, const kl_span *odd, int64_t n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tile_plan_maker *const s = w->s;
    int *at = NULL;
    KL_TRY(kl_alloc(&at, n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        const kl_rec r = kl_upright(&w->b->rec[s->use[odd[i].use].rec]);
        const int64_t end = r.c + kl_extent(r.m, r.n, r.ldc);
        for (int64_t k = 0; k < i; k++) {
            const kl_rec o = kl_upright(&w->b->rec[s->use[odd[k].use].rec]);
            if (end <= o.c || r.c >= o.c + kl_extent(o.m, o.n, o.ldc)) continue;
            if (r.m == 1 && o.m == 1 && r.ldc == o.ldc && (r.c - o.c) % r.ldc != 0) continue;
            if (at[i] <= at[k]) at[i] = at[k] + 1;
        }
        if (r.kind == KL_REC_GEMM && (r.k == 0 || r.alpha == 0)) continue;
        kl_output o = {.ldc = r.ldc,
                       .m = r.m,
                       .n = r.n,
                       .first = s->nlink,
                       .count = 1,
                       .strict = w->d->strict,
                       .flags = KL_P_BETA};
        o.c = corner(s, w->d, w->work, r.c - w->d->base, &o.flags);
        o.slot = slot_of(round_of(s, odd[i].use, w->round), w->level + 1 + at[i], r.kind == KL_REC_GEMM);
        KL_TRY(add_link(s, odd[i].use, 0, 0, &r, err));
        KL_TRY(emit(s, o, err));
    }
out:
    kl_free(&at);
    return st;
}

/* Offset of a use's record in a tile output of this leading dimension; 0: it has none. */
static int span_of(const kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_output *d, int ld, int64_t u,
                   kl_span *out)
{
    kl_rec own;
    const kl_rec *const r = kl_upright_of(&b->rec[s->use[u].rec], &own);
    const int64_t at = r->c - d->base;
    /* numbers below 2^32 are divided in a third of the time */
    const int64_t col = at >= 0 && at <= UINT32_MAX ? (int64_t)((uint32_t)at / (uint32_t)ld) : at / ld;
    *out = (kl_span){.use = u, .row = (int)(at - col * ld), .col = (int)col, .m = r->m, .n = r->n};
    return (r->n == 1 || r->ldc == ld) && out->row + r->m <= ld;
}

int kl_tile_cells_tangled(const kl_tile_plan_maker *s, const kl_batch *b, int64_t first)
{
    for (int64_t i = first; i < s->ndest; i++) {
        const kl_tile_output *const d = &s->dest[i];
        const int ld = leading(s, b, d);
        int odd = 0, fresh = 0;
        kl_span one;
        for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
            if (!span_of(s, b, d, ld, u, &one)) odd = 1;
            if (!b->rec[s->use[u].rec].beta) fresh = 1;
        }
        if (odd && (fresh || d->in_work)) return 1;
    }
    return 0;
}

/* The records of a tile output, sorted: those that are rectangles of its grid, the others, and the grid's
   borders. */
typedef struct grid {
    kl_span *all, *odd, *strip, *here; /* strip, here: room for as many */
    int64_t nall, nodd;
    int *row, *col;
    int nrow, ncol;
} grid;

static kl_status make_room(kl_tile_plan_maker *s, int64_t n, grid *g, kl_err *err)
{
    kl_status st = KL_OK;
    if (n > s->cap_span) {
        const int64_t room = n + s->cap_span;
        KL_TRY(kl_realloc(&s->span, 4 * room, KL_MEM_RECORD, err));
        KL_TRY(kl_realloc(&s->border, 2 * (2 * room + 2), KL_MEM_RECORD, err));
        s->cap_span = room;
    }
    *g = (grid){.all = s->span,
                .odd = s->span + s->cap_span,
                .strip = s->span + 2 * s->cap_span,
                .here = s->span + 3 * s->cap_span,
                .row = s->border,
                .col = s->border + 2 * s->cap_span + 2};
out:
    return st;
}

static void sort_records(const writing *w, grid *g)
{
    for (int64_t u = w->d->first; u >= 0; u = w->s->use[u].next) {
        kl_span one;
        if (!span_of(w->s, w->b, w->d, w->ld, u, &one)) {
            g->odd[g->nodd++] = one;
            continue;
        }
        g->all[g->nall++] = one;
        const kl_span *const last = g->nall > 1 ? &g->all[g->nall - 2] : NULL;
        if (last && one.row == last->row && one.col == last->col && one.m == last->m && one.n == last->n)
            continue;
        g->nrow = with_border(g->row, with_border(g->row, g->nrow, one.row), one.row + one.m);
        g->ncol = with_border(g->col, with_border(g->col, g->ncol, one.col), one.col + one.n);
    }
}

static kl_status write_grid(const writing *w, const grid *g, kl_err *err)
{
    kl_status st = KL_OK;
    const int *const row = g->row, *const col = g->col;
    if (g->nrow == 2 && g->ncol == 2 && g->nall > 0) { /* all records have this rectangle */
        const cell c = {row[0], col[0], row[1] - row[0], col[1] - col[0], g->all, g->nall};
        KL_TRY(write_cell(w, c, err));
        goto out;
    }
    for (int j = 0; j + 1 < g->ncol; j++) {
        int64_t nstrip = 0, from = 0;
        int rising =
            1; /* stacks have many records below each other, each beginning where others do or lower */
        for (int64_t q = 0; q < g->nall; q++) {
            const kl_span *const x = &g->all[q];
            if (x->col > col[j] || x->col + x->n < col[j + 1]) continue;
            rising &= nstrip == 0 || x->row >= g->strip[nstrip - 1].row;
            g->strip[nstrip++] = *x;
        }
        for (int i = 0; i + 1 < g->nrow; i++) {
            int64_t n = 0;
            while (from < nstrip && g->strip[from].row + g->strip[from].m <= row[i]) from++;
            for (int64_t q = from; q < nstrip; q++) {
                const kl_span *const x = &g->strip[q];
                if (rising && x->row > row[i]) break;
                if (x->row <= row[i] && x->row + x->m >= row[i + 1]) g->here[n++] = *x;
            }
            if (n == 0 && (!w->d->zero || w->keep)) continue;
            const cell c = {.row = row[i],
                            .col = col[j],
                            .rows = row[i + 1] - row[i],
                            .cols = col[j + 1] - col[j],
                            .list = g->here,
                            .n = n};
            KL_TRY(write_cell(w, c, err));
        }
    }
out:
    return st;
}

kl_status kl_tile_cells_write(kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_output *d,
                              uint64_t work, kl_err *err)
{
    kl_status st = KL_OK;
    grid g;
    int64_t n = 0;
    int first = INT32_MAX;
    writing w = {.s = s, .b = b, .d = d, .work = work, .level = d->level, .keep = d->keep};
    if (d->first < 0) return d->zero ? write_zeros(&w, err) : KL_OK;
    w.ld = leading(s, b, d);
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        const int r = round_of(s, u, INT32_MAX);
        if (r < first) first = r;
        n++;
    }
    if (d->in_work) w.round = d->round;
    else w.round = first == INT32_MAX ? 0 : first;
    KL_TRY(make_room(s, n, &g, err));
    sort_records(&w, &g);
    w.early = g.nodd > 0;
    if (d->zero) {
        if (d->size % w.ld == 0) {
            g.nrow = with_border(g.row, with_border(g.row, g.nrow, 0), w.ld);
            g.ncol = with_border(g.col, with_border(g.col, g.ncol, 0), (int)(d->size / w.ld));
        } else {
            KL_TRY(write_zeros(&w, err));
            w.level++;
            w.keep = 1;
        }
    }
    KL_TRY(write_grid(&w, &g, err));
    if (g.nodd > 0) KL_TRY(write_odd(&w, g.odd, g.nodd, err));
out:
    return st;
}
