/* Groups of a list in strips: see strips.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/strips.h"

/* WORK as the records so far left it. */
typedef struct scratch {
    int64_t maker; /* the first record of it; -1: there is nothing */
    int m, n;
    int placed; /* 1: somebody has read it, at `place` */
    int32_t place;
} scratch;

/* A record that writes WORK: all of it anew, or adds to all of it. */
static int writes(const kl_rec *r, int64_t i, scratch *w)
{
    if (r->c != 0 || r->ldc != r->m || r->m < 1 || r->n < 1) return 0;
    if (r->beta) return w->maker >= 0 && !w->placed && r->m == w->m && r->n == w->n;
    *w = (scratch){.maker = i, .m = r->m, .n = r->n};
    return 1;
}

/* 1: what r reads of WORK are whole rows, or whole columns, that come out as its own. */
static int reads_strips(const kl_rec *r, kl_strip_way way, const scratch *w)
{
    if (w->maker < 0) return 0;
    if (way == KL_STRIPS_ROWS) return !r->ta && r->lda == w->m && r->m == w->m && r->a % w->m == 0;
    return r->kind == KL_REC_GEMM && !r->tb && r->ldb == w->m && r->n == w->n && r->b + r->k <= w->m;
}

static int first_from(const kl_rec *r, kl_at at) { return r->kind != KL_REC_FILL && r->at_a == at; }
static int second_from(const kl_rec *r, kl_at at) { return r->kind == KL_REC_GEMM && r->at_b == at; }
static int reads(const kl_rec *r, kl_at at) { return first_from(r, at) || second_from(r, at); }

/* 1: r does not read WORK in another way, and nothing of y, which others are at. */
static int reads_rightly(const kl_rec *r, kl_strip_way way, const scratch *w)
{
    if (reads(r, KL_AT_Y)) return 0;
    if (!reads(r, KL_AT_WORK)) return 1;
    return !(way == KL_STRIPS_ROWS ? second_from(r, KL_AT_WORK) : first_from(r, KL_AT_WORK)) &&
           reads_strips(r, way, w);
}

/* ld: rows of the segment. */
static int can_go(const kl_batch *b, const kl_group *g, kl_strip_way way, int ld, int32_t *place)
{
    scratch w = {.maker = -1};
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec *const r = &b->rec[i];
        if (!reads_rightly(r, way, &w)) return 0;
        if (r->at_c == KL_AT_WORK) {
            place[i - g->first] = 0;
            if (reads(r, KL_AT_WORK) || !writes(r, i, &w)) return 0;
            continue;
        }
        const int64_t row = (r->c - g->y) % ld, column = (r->c - g->y) / ld;
        if (r->at_c != KL_AT_Y || r->ldc != ld || row + r->m > ld) return 0;
        const int32_t at = (int32_t)(way == KL_STRIPS_ROWS ? row : column);
        place[i - g->first] = at;
        if (!reads(r, KL_AT_WORK)) continue;
        if (w.placed && w.place != at) return 0;
        if (!w.placed)
            for (int64_t k = w.maker; k < i; k++)
                if (b->rec[k].at_c == KL_AT_WORK) place[k - g->first] = at;
        w.placed = 1, w.place = at;
    }
    return 1;
}

kl_strips kl_group_strips(const kl_batch *b, const kl_group *g, int32_t *place)
{
    int ld = 0;
    for (int64_t i = g->first; i < g->last && ld == 0; i++)
        if (b->rec[i].at_c == KL_AT_Y) ld = b->rec[i].ldc;
    if (ld <= 0 || g->ny < ld || g->ny % ld != 0) return (kl_strips){.way = KL_STRIPS_NONE};
    /* strips of columns lie in one piece */
    if (can_go(b, g, KL_STRIPS_COLUMNS, ld, place))
        return (kl_strips){KL_STRIPS_COLUMNS, (int)(g->ny / ld), ld};
    if (can_go(b, g, KL_STRIPS_ROWS, ld, place)) return (kl_strips){KL_STRIPS_ROWS, ld, ld};
    return (kl_strips){.way = KL_STRIPS_NONE};
}
