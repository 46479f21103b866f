/* Cells of dests: see cells.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/cells.h"
#include "device/tiling.h"
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

static uint64_t corner(const kl_tiling_maker *s, const kl_dest *d, uint64_t work, int64_t element,
                       uint32_t *flags)
{
    if (!d->in_work) {
        *flags |= 2u << KL_P_C;
        return (uint64_t)(d->base + element) * sizeof(double);
    }
    const kl_dest *const h = &s->dest[d->home];
    return work + (uint64_t)(h->work + d->base - h->base + element) * sizeof(double);
}

static kl_status emit(kl_tiling_maker *s, kl_output o, kl_err *err)
{
    kl_status st = KL_OK;
    KL_ROOM(s->output, s->noutput, s->cap_output);
    s->output[s->noutput++] = o;
out:
    return st;
}

/* Row and column: of the output's rectangle in the record's result. */
static kl_status add_link(kl_tiling_maker *s, int64_t use, int row, int col, double alpha, kl_err *err)
{
    kl_status st = KL_OK;
    KL_ROOM(s->link, s->nlink, s->cap_link);
    s->link[s->nlink++] = (kl_link){.use = use, .row = row, .col = col, .alpha = alpha};
out:
    return st;
}

/* Launches come in the order of their slots. */
static int64_t slot_of(int round, int level, int products)
{
    return (int64_t)round << 40 | (int64_t)level << 1 | products;
}

static int round_of(const kl_tiling_maker *s, int64_t u, int otherwise)
{
    const kl_use *const w = &s->use[u];
    return w->da >= 0 ? s->dest[w->da].round : w->db >= 0 ? s->dest[w->db].round : otherwise;
}

static int is_nothing(const kl_rec *r)
{
    return (r->kind == KL_REC_GEMM && (r->k == 0 || r->alpha == 0)) ||
           (r->kind == KL_REC_FILL && r->alpha == 0);
}

/* One cell from the spans that cover it, round by round: sums of matrices first, then products. Where the
   kernel adds matrices itself, they are links like any other. */
static kl_status write_cell(kl_tiling_maker *s, const kl_batch *b, const kl_dest *d, uint64_t work,
                            const kl_span *list, int64_t n, int row, int col, int rows, int cols, int ld,
                            int level, int keep, int early, int first_round, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t from = 0;
    for (int64_t i = 0; i < n; i++) {
        if (b->rec[s->use[list[i].use].rec].beta) continue;
        from = i; /* what came before is overwritten */
        keep = 0;
    }
    kl_output o = {.ldc = ld, .m = rows, .n = cols, .strict = d->strict};
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
                if (is_nothing(r) || round_of(s, list[i].use, first_round) != round ||
                    (!join && (r->kind == KL_REC_GEMM) != products))
                    continue;
                KL_TRY(add_link(s, list[i].use, row - list[i].row, col - list[i].col, r->alpha, err));
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
static kl_status write_zeros(kl_tiling_maker *s, const kl_dest *d, uint64_t work, int level, int round,
                             kl_err *err)
{
    kl_status st = KL_OK;
    enum { COLUMN = 1 << 14 };
    for (int64_t at = 0; at < d->size;) {
        const int64_t left = d->size - at;
        kl_output o = {.ldc = COLUMN,
                       .m = left < COLUMN ? (int)left : COLUMN,
                       .n = left < COLUMN          ? 1
                            : left / COLUMN > 4096 ? 4096
                                                   : (int)(left / COLUMN),
                       .first = s->nlink,
                       .slot = slot_of(round, level, 0)};
        o.c = corner(s, d, work, at, &o.flags);
        KL_TRY(emit(s, o, err));
        at += (int64_t)o.m * o.n;
    }
out:
    return st;
}

/* Leading dimension of the records of a dest, by the first that shows one; a single column else. */
static int leading(const kl_tiling_maker *s, const kl_batch *b, const kl_dest *d)
{
    int ld = 0;
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        const kl_rec r = kl_upright(&b->rec[s->use[u].rec]);
        if (r.m > 1 && r.n > 1) return r.ldc;
        if (r.n > 1 && ld == 0) ld = r.ldc;
    }
    return ld > 0 ? ld : d->size < INT32_MAX ? (int)d->size : INT32_MAX;
}

/* Diagonals and the like, which fit into no cell: their own rectangles, in as many levels as keep those apart
   that may meet. */
static kl_status write_odd(kl_tiling_maker *s, const kl_batch *b, const kl_dest *d, uint64_t work,
                           const kl_span *odd, int64_t n, int level, int round, kl_err *err)
{
    kl_status st = KL_OK;
    int *at = NULL;
    KL_TRY(kl_alloc(&at, n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        const kl_rec r = kl_upright(&b->rec[s->use[odd[i].use].rec]);
        const int64_t end = r.c + kl_extent(r.m, r.n, r.ldc);
        for (int64_t k = 0; k < i; k++) {
            const kl_rec o = kl_upright(&b->rec[s->use[odd[k].use].rec]);
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
                       .strict = d->strict,
                       .flags = KL_P_BETA};
        o.c = corner(s, d, work, r.c - d->base, &o.flags);
        o.slot = slot_of(round_of(s, odd[i].use, round), level + 1 + at[i], r.kind == KL_REC_GEMM);
        KL_TRY(add_link(s, odd[i].use, 0, 0, r.alpha, err));
        KL_TRY(emit(s, o, err));
    }
out:
    kl_free(&at);
    return st;
}

/* Place of a use's record in a dest of this leading dimension; 0: it has none. */
static int span_of(const kl_tiling_maker *s, const kl_batch *b, const kl_dest *d, int ld, int64_t u,
                   kl_span *out)
{
    const kl_rec r = kl_upright(&b->rec[s->use[u].rec]);
    const int64_t at = r.c - d->base;
    *out = (kl_span){.use = u, .row = (int)(at % ld), .col = (int)(at / ld), .m = r.m, .n = r.n};
    return (r.n == 1 || r.ldc == ld) && out->row + r.m <= ld;
}

int kl_cells_tangled(const kl_tiling_maker *s, const kl_batch *b, int64_t first)
{
    for (int64_t i = first; i < s->ndest; i++) {
        const kl_dest *const d = &s->dest[i];
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

kl_status kl_cells_write(kl_tiling_maker *s, const kl_batch *b, const kl_dest *d, uint64_t work, kl_err *err)
{
    kl_status st = KL_OK;
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
    if (n > s->cap_span) {
        const int64_t room = n + s->cap_span;
        KL_TRY(kl_realloc(&s->span, 4 * room, KL_MEM_RECORD, err));
        KL_TRY(kl_realloc(&s->border, 2 * (2 * room + 2), KL_MEM_RECORD, err));
        s->cap_span = room;
    }
    kl_span *const all = s->span, *const odd = all + s->cap_span, *const strip = odd + s->cap_span,
                   *const here = strip + s->cap_span;
    int *const row = s->border, *const col = row + 2 * s->cap_span + 2;
    int nrow = 0, ncol = 0;
    for (int64_t u = d->first; u >= 0; u = s->use[u].next) {
        kl_span one;
        if (!span_of(s, b, d, ld, u, &one)) {
            odd[nodd++] = one;
            continue;
        }
        all[ngrid++] = one;
        if (ngrid > 1 && one.row == all[ngrid - 2].row && one.col == all[ngrid - 2].col &&
            one.m == all[ngrid - 2].m && one.n == all[ngrid - 2].n)
            continue;
        nrow = with_border(row, with_border(row, nrow, one.row), one.row + one.m);
        ncol = with_border(col, with_border(col, ncol, one.col), one.col + one.n);
    }
    if (d->zero) {
        if (d->size % ld == 0) {
            nrow = with_border(row, with_border(row, nrow, 0), ld);
            ncol = with_border(col, with_border(col, ncol, 0), (int)(d->size / ld));
        } else {
            KL_TRY(write_zeros(s, d, work, level++, round, err));
            keep = 1;
        }
    }
    for (int j = 0; j + 1 < ncol; j++) {
        int64_t nstrip = 0;
        for (int64_t q = 0; q < ngrid; q++)
            if (all[q].col <= col[j] && all[q].col + all[q].n >= col[j + 1]) strip[nstrip++] = all[q];
        for (int i = 0; i + 1 < nrow; i++) {
            int64_t k = 0;
            for (int64_t q = 0; q < nstrip; q++)
                if (strip[q].row <= row[i] && strip[q].row + strip[q].m >= row[i + 1]) here[k++] = strip[q];
            if (k == 0 && (!d->zero || keep)) continue;
            KL_TRY(write_cell(s, b, d, work, here, k, row[i], col[j], row[i + 1] - row[i],
                              col[j + 1] - col[j], ld, level, keep, nodd > 0, round, err));
        }
    }
    if (nodd > 0) KL_TRY(write_odd(s, b, d, work, odd, nodd, level, round, err));
out:
    return st;
}
