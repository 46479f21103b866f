/* Who writes what: see tileoutputs.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tileoutputs.h"
#include "base/parsort.h"

/* Intermediate of the open group that holds [from, to) wholly; -1: none does; -2: something overlaps. */
static int living(const kl_tile_plan_maker *s, int64_t from, int64_t to)
{
    int found = -1;
    for (int64_t i = 0; i < s->nlive; i++) {
        const kl_alive *const w = &s->live[i];
        if (to <= w->from || from >= w->to) continue;
        if (found >= 0 || from < w->from || to > w->to) return -2;
        found = w->dest;
    }
    return found;
}

static kl_status new_dest(kl_tile_plan_maker *s, kl_tile_output d, int *out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_ROOM(s->dest, s->ndest, s->cap_dest);
    d.first = d.last = -1;
    d.home = (int)s->ndest;
    *out = (int)s->ndest;
    s->dest[s->ndest++] = d;
out:
    return st;
}

static kl_status new_use(kl_tile_plan_maker *s, int to, int64_t rec, int da, int db, kl_err *err)
{
    kl_status st = KL_OK;
    KL_ROOM(s->use, s->nuse, s->cap_use);
    kl_tile_output *const d = &s->dest[to];
    s->use[s->nuse] = (kl_use){.rec = rec, .next = -1, .da = da, .db = db};
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
static kl_status target(kl_tile_plan_maker *s, const kl_batch *b, int group, int64_t first_dest,
                        const kl_rec *r, int *to, int *foreseen, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t from = r->c, end = r->c + kl_extent(r->m, r->n, r->ldc);
    const kl_group *const g = &b->group[group];
    *foreseen = 1;
    if (r->at_c == KL_AT_WORK) {
        *to = living(s, from, end);
        const int whole = *to >= 0 && s->dest[*to].base == from && s->dest[*to].size == end - from;
        if (*to >= 0 && !s->dest[*to].read && !(whole && !r->beta)) goto out; /* one more part of it */
        if (r->beta) *foreseen = 0;
        if (!*foreseen) goto out;
        /* the older record of these elements ends; those of other elements stay */
        for (int64_t i = s->nlive - 1; i >= 0; i--) {
            const kl_alive w = s->live[i];
            if (end <= w.from || from >= w.to) continue;
            s->live[i] = s->live[--s->nlive];
            for (int k = 0; k < 2; k++) {
                const kl_alive rest = {k ? end : w.from, k ? w.to : from, w.dest};
                if (rest.from >= rest.to) continue;
                KL_ROOM(s->live, s->nlive, s->cap_live);
                s->live[s->nlive++] = rest;
            }
        }
        KL_TRY(new_dest(s, (kl_tile_output){.base = from, .size = end - from, .group = group, .in_work = 1},
                        to, err));
        KL_ROOM(s->live, s->nlive, s->cap_live);
        s->live[s->nlive++] = (kl_alive){from, end, *to};
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
        const kl_tile_output *const d = &s->dest[i];
        if (d->in_work || end <= d->base || from >= d->base + d->size) continue;
        const kl_rec other = kl_upright(&b->rec[s->use[d->first].rec]);
        if (d->base == from && other.m == r->m && other.n == r->n && other.ldc == r->ldc && r->beta) {
            *to = (int)i;
            goto out;
        }
        if (other.ldc != r->ldc) *foreseen = 0;
        const int64_t gap = from - d->base, row = ((gap % r->ldc) + r->ldc) % r->ldc,
                      col = (gap - row) / r->ldc;
        const int below = row >= other.m && row + r->m <= r->ldc, aside = col >= other.n || col + r->n <= 0;
        if (!below && !aside) *foreseen = 0;
    }
    if (*foreseen)
        KL_TRY(new_dest(
            s, (kl_tile_output){.base = from, .size = end - from, .group = group, .keep = r->beta}, to, err));
out:
    return st;
}

kl_status kl_tile_outputs_find(kl_tile_plan_maker *s, const kl_batch *b, int group, int *foreseen,
                               kl_err *err)
{
    kl_status st = KL_OK;
    const kl_group *const g = &b->group[group];
    const int64_t first = s->ndest;
    int to;
    *foreseen = 1;
    s->nlive = 0;
    if (g->ny > 0)
        KL_TRY(
            new_dest(s,
                     (kl_tile_output){
                         .base = g->y, .size = g->ny, .group = group, .keep = !b->zero, .zero = b->zero != 0},
                     &to, err));
    for (int64_t i = g->first; i < g->last && *foreseen; i++) {
        kl_rec own;
        const kl_rec *const r = kl_upright_of(&b->rec[i], &own);
        if (r->m == 0 || r->n == 0) continue;
        int from[2] = {-1, -1};
        for (int k = 0; k < 2 && *foreseen; k++) {
            if (r->kind == KL_REC_FILL || (k == 1 && r->kind == KL_REC_ADD)) continue;
            const int at = k ? r->at_b : r->at_a, turned = k ? r->tb : r->ta, ld = k ? r->ldb : r->lda;
            const int m = k ? r->k : r->m, n = k ? r->n : r->kind == KL_REC_GEMM ? r->k : r->n;
            const int64_t at0 = k ? r->b : r->a;
            if (at == KL_AT_Y) *foreseen = 0;
            if (at != KL_AT_WORK || m == 0 || n == 0) continue;
            from[k] = living(s, at0, at0 + (turned ? kl_extent(n, m, ld) : kl_extent(m, n, ld)));
            if (from[k] < 0 || r->at_c == KL_AT_WORK) *foreseen = 0;
            if (*foreseen) s->dest[from[k]].read = 1;
        }
        if (!*foreseen) break;
        KL_TRY(target(s, b, group, first, r, &to, foreseen, err));
        if (*foreseen) KL_TRY(new_use(s, to, i, from[0], from[1], err));
    }
out:
    return st;
}

kl_status kl_tile_outputs_in_order(kl_tile_plan_maker *s, const kl_batch *b, int group, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_group *const g = &b->group[group];
    int region, to, level = 0;
    KL_TRY(new_dest(s, (kl_tile_output){.size = g->nwork, .group = group, .in_work = 1}, &region, err));
    if (b->zero && g->ny > 0) {
        KL_TRY(
            new_dest(s, (kl_tile_output){.base = g->y, .size = g->ny, .group = group, .zero = 1}, &to, err));
        level++;
    }
    for (int64_t i = g->first; i < g->last; i++) {
        const kl_rec r = kl_upright(&b->rec[i]);
        if (r.m == 0 || r.n == 0) continue;
        KL_TRY(new_dest(s,
                        (kl_tile_output){.base = r.c,
                                         .size = kl_extent(r.m, r.n, r.ldc),
                                         .group = group,
                                         .level = level++,
                                         .in_work = r.at_c == KL_AT_WORK,
                                         .keep = r.beta,
                                         .strict = 1},
                        &to, err));
        if (r.at_c == KL_AT_WORK) s->dest[to].home = region;
        KL_TRY(new_use(s, to, i, -1, -1, err));
        kl_use *const u = &s->use[s->nuse - 1];
        /* after new_use: order is by level here */
        if (r.kind != KL_REC_FILL && r.at_a == KL_AT_WORK) u->da = region;
        if (r.kind == KL_REC_GEMM && r.at_b == KL_AT_WORK) u->db = region;
    }
    s->dest[region].read = 2; /* marks the group: it stays in round 0 */
out:
    return st;
}

void kl_tile_outputs_place(kl_tile_plan_maker *s, int64_t budget, int64_t *nwork, int *nround)
{
    int64_t at = 0;
    int round = 0;
    *nwork = 0;
    for (int64_t i = 0; i < s->ndest; i++) {
        kl_tile_output *const d = &s->dest[i];
        if (!d->in_work || d->read != 2 || d->home != i) continue;
        d->work = at;
        at += (d->size + 15) / 16 * 16;
    }
    *nwork = at;
    for (int64_t i = 0, j; i < s->ndest; i = j) {
        int64_t size = 0;
        int whole = 1, two = 0;
        for (j = i; j < s->ndest && s->dest[j].group == s->dest[i].group; j++) {
            const kl_tile_output *const d = &s->dest[j];
            if (d->in_work && d->read == 2) whole = 0;
            if (d->in_work) size += (d->size + 15) / 16 * 16;
            for (int64_t u = d->first; u >= 0; u = s->use[u].next)
                two |= s->use[u].da >= 0 && s->use[u].db >= 0 && s->use[u].da != s->use[u].db;
        }
        if (!whole) continue;
        if (at > 0 && at + size > budget) at = 0, round++;
        for (int64_t k = i; k < j; k++) {
            kl_tile_output *const d = &s->dest[k];
            if (!d->in_work) continue;
            const int64_t need = (d->size + 15) / 16 * 16;
            if (at > 0 && at + need > budget && !two) at = 0, round++;
            d->work = at;
            d->round = round;
            at += need;
            if (at > *nwork) *nwork = at;
        }
    }
    *nround = round + 1;
}

/* For qsort: outputs in the order of their launches, in a launch in the order of their links. */
static int by_slot(const void *pa, const void *pb)
{
    const kl_output *const a = pa, *const b = pb;
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

kl_status kl_tile_outputs_sort(kl_tile_plan_maker *s, int hands, int64_t *nslot, kl_err *err)
{
    enum { MOST = 64 };
    kl_status st = KL_OK;
    int64_t slot[MOST], count[MOST];
    int n = 0, at = 0;
    *nslot = 0;
    for (int64_t i = 0; i < s->noutput && n < MOST; i++) {
        for (at = 0; at < n && slot[at] != s->output[i].slot; at++) continue;
        if (at == n) slot[n] = s->output[i].slot, count[n++] = 0;
        count[at]++;
    }
    if (n == MOST) { /* groups in order have a slot for each record */
        kl_par_sort(hands, s->output, s->noutput, sizeof *s->output, by_slot);
        for (int64_t i = 0; i < s->noutput; i++)
            *nslot += i == 0 || s->output[i].slot != s->output[i - 1].slot;
        return KL_OK;
    }
    KL_ROOM_FOR(s->sorted, s->noutput, s->cap_sorted);
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && slot[k - 1] > slot[k]; k--) {
            const int64_t here = slot[k], times = count[k];
            slot[k] = slot[k - 1], count[k] = count[k - 1];
            slot[k - 1] = here, count[k - 1] = times;
        }
    for (int64_t i = 0, from = 0; i < n; i++) {
        const int64_t times = count[i];
        count[i] = from;
        from += times;
    }
    for (int64_t i = 0; i < s->noutput; i++) {
        for (at = 0; slot[at] != s->output[i].slot; at++) continue;
        s->sorted[count[at]++] = s->output[i];
    }
    kl_output *const was = s->output;
    const int64_t cap = s->cap_output;
    s->output = s->sorted, s->cap_output = s->cap_sorted;
    s->sorted = was, s->cap_sorted = cap;
    *nslot = n;
out:
    return st;
}
