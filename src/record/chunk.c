/* Lists in chunks: see chunk.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/chunk.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* An operand: a stretch of one memory. */
typedef struct span {
    int at;
    int64_t from, n;
} span;

/* Operands of a record, A and B; returns how many it has. */
static int operands(const kl_rec *r, span out[2])
{
    if (r->kind == KL_REC_FILL || r->m == 0 || r->n == 0 || (r->kind == KL_REC_GEMM && r->k == 0)) return 0;
    const int64_t inner = r->kind == KL_REC_GEMM ? r->k : r->n; /* ADD: op(A) is m x n */
    const int64_t rows_a = r->ta ? inner : r->m, cols_a = r->ta ? r->m : inner;
    out[0] = (span){r->at_a, r->a, (cols_a - 1) * r->lda + rows_a};
    if (r->kind != KL_REC_GEMM) return 1;
    const int64_t rows_b = r->tb ? r->n : r->k, cols_b = r->tb ? r->k : r->n;
    out[1] = (span){r->at_b, r->b, (cols_b - 1) * r->ldb + rows_b};
    return 2;
}

int64_t kl_batch_maker(const kl_batch *b, int64_t first, int64_t before, int64_t from, int64_t n)
{
    for (int64_t i = before - 1; i >= first; i--) {
        const kl_rec *const w = &b->rec[i];
        if (w->at_c == KL_AT_WORK && !w->beta && (w->ldc == w->m || w->n == 1) && from >= w->c &&
            from + n <= w->c + (int64_t)w->m * w->n)
            return i;
    }
    return -1;
}

void kl_group_cuts(const kl_batch *b, const kl_group *g, char *may)
{
    const int64_t all = g->last - g->first;
    memset(may, 1, (size_t)all + 1);
    int whole = !b->zero; /* a list that may overwrite keeps its records together */
    for (int64_t i = g->first; i < g->last && !whole; i++) {
        const kl_rec *const r = &b->rec[i];
        span in[3];
        int n = operands(r, in);
        whole = r->at_c == KL_AT_Y && !r->beta;
        if (r->at_c == KL_AT_WORK && r->beta)
            in[n++] = (span){KL_AT_WORK, r->c, (r->n > 0 ? (int64_t)(r->n - 1) * r->ldc : 0) + r->m};
        for (int k = 0; k < n; k++) {
            if (in[k].at == KL_AT_Y) whole = 1;
            if (in[k].at != KL_AT_WORK) continue;
            const int64_t w = kl_batch_maker(b, g->first, i, in[k].from, in[k].n);
            if (w < 0) whole = 1;
            /* none between the maker and its reader */
            else memset(may + (w - g->first) + 1, 0, (size_t)(i - w));
        }
    }
    if (whole && all > 1) memset(may + 1, 0, (size_t)all - 1);
}

/* ---- gathering ---- */

static int by_place(const void *pa, const void *pb)
{
    const span *const a = pa, *const b = pb;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return a->n != b->n ? (a->n > b->n ? -1 : 1) : 0;
}

/* Where it lies in the buffer. */
static int64_t moved_to(const kl_gather *g, int at, int64_t from)
{
    int64_t lo = 0, hi = g->ncopy - 1;
    while (lo < hi) { /* the last copy that begins at or before it */
        const int64_t mid = (lo + hi + 1) / 2;
        const kl_copy *const c = &g->copy[mid];
        if (c->at < at || (c->at == at && c->from <= from)) lo = mid;
        else hi = mid - 1;
    }
    return g->copy[lo].to + from - g->copy[lo].from;
}

kl_status kl_gather_create(kl_batch *b, const char which[KL_NAT], kl_gather *out, kl_err *err)
{
    enum { LINE = 16 }; /* doubles: a copy begins as far behind a multiple of this as its source does */
    kl_status st = KL_OK;
    span *list = NULL;
    int64_t n = 0;
    *out = (kl_gather){0};
    KL_TRY(kl_alloc(&list, 2 * b->nrec, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < b->nrec; i++) {
        span in[2];
        const int have = operands(&b->rec[i], in);
        for (int k = 0; k < have; k++)
            if (which[in[k].at]) list[n++] = in[k];
    }
    if (n == 0) goto out;
    qsort(list, (size_t)n, sizeof *list, by_place);
    KL_TRY(kl_alloc(&out->copy, n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        kl_copy *const last = out->ncopy > 0 ? &out->copy[out->ncopy - 1] : NULL;
        /* a hole of one: matrices begin at even offsets */
        if (last && last->at == list[i].at && list[i].from <= last->from + last->n + 1) {
            const int64_t end = list[i].from + list[i].n;
            if (end > last->from + last->n) last->n = end - last->from;
        } else out->copy[out->ncopy++] = (kl_copy){.at = list[i].at, .from = list[i].from, .n = list[i].n};
    }
    for (int64_t i = 0; i < out->ncopy; i++) {
        kl_copy *const c = &out->copy[i];
        c->to = (out->n + LINE - 1) / LINE * LINE + c->from % LINE;
        out->n = c->to + c->n;
    }
    for (int64_t i = 0; i < b->nrec; i++) {
        kl_rec *const r = &b->rec[i];
        span in[2];
        const int have = operands(r, in);
        if (have > 0 && which[r->at_a]) r->a = moved_to(out, r->at_a, r->a), r->at_a = KL_AT_STACK;
        if (have > 1 && which[r->at_b]) r->b = moved_to(out, r->at_b, r->b), r->at_b = KL_AT_STACK;
    }
out:
    kl_free(&list);
    if (st != KL_OK) kl_gather_clear(out);
    return st;
}

void kl_gather_clear(kl_gather *g)
{
    kl_free(&g->copy);
    *g = (kl_gather){0};
}

/* ---- chunks ---- */

/* Records [first, last) of a group that stay together, and the first operator they read. */
typedef struct piece {
    span key;
    int group;
    int64_t first, last;
} piece;

static int by_operator(const void *pa, const void *pb)
{
    const piece *const a = pa, *const b = pb;
    const int c = by_place(&a->key, &b->key);
    return c ? c : a->first < b->first ? -1 : a->first > b->first;
}

static int by_record(const void *pa, const void *pb)
{
    const piece *const a = pa, *const b = pb;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Operators that a chunk has so far, each once. */
typedef struct known {
    span *slot;
    int *stamp, now; /* a slot holds something of this chunk when its stamp is `now` */
    int64_t mask;
} known;

/* Doubles that the operators of a piece add to a chunk; keep: they are in it from now on. */
static int64_t added(known *k, const kl_batch *b, const piece *p, const char which[KL_NAT], int keep)
{
    int64_t sum = 0;
    for (int64_t i = p->first; i < p->last; i++) {
        span in[2];
        const int have = operands(&b->rec[i], in);
        for (int o = 0; o < have; o++) {
            if (!which[in[o].at]) continue;
            uint64_t at = ((uint64_t)in[o].from * 8 + (uint64_t)in[o].at) * 0x9e3779b97f4a7c15u;
            int64_t s = (int64_t)(at >> 20) & k->mask;
            while (k->stamp[s] == k->now && by_place(&k->slot[s], &in[o])) s = (s + 1) & k->mask;
            if (k->stamp[s] == k->now) continue;
            sum += in[o].n;
            if (keep) k->stamp[s] = k->now, k->slot[s] = in[o];
        }
    }
    return sum;
}

/* Pieces [0, n) as one chunk; they are put back in the order of their records. */
static kl_status write_chunk(const kl_batch *b, piece *p, int64_t n, const char which[KL_NAT], kl_chunk *out,
                             kl_err *err)
{
    kl_status st = KL_OK;
    qsort(p, (size_t)n, sizeof *p, by_record);
    kl_batch_init(&out->list);
    for (int64_t i = 0; i < n; i++) {
        const kl_group *const g = &b->group[p[i].group];
        if (i == 0 || p[i].group != p[i - 1].group) KL_TRY(kl_batch_open_group(&out->list, g->y, g->ny, err));
        KL_TRY(kl_batch_reserve(&out->list, p[i].last - p[i].first, err));
        for (int64_t k = p[i].first; k < p[i].last; k++) *kl_batch_push(&out->list) = b->rec[k];
        if (i + 1 == n || p[i].group != p[i + 1].group) kl_batch_close_group(&out->list, g->nwork);
    }
    out->list.nx = b->nx, out->list.ny = b->ny;
    memcpy(out->list.base, b->base, sizeof b->base);
    KL_TRY(kl_gather_create(&out->list, which, &out->need, err));
    KL_TRY(kl_batch_close(&out->list, err));
out:
    return st;
}

kl_status kl_chunks_create(const kl_batch *b, const char which[KL_NAT], int64_t budget, kl_chunks *out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    piece *list = NULL;
    char *may = NULL;
    known k = {.mask = 64};
    int64_t n = 0, longest = 0, first = 0, size = 0;
    *out = (kl_chunks){0};
    for (int g = 0; g < b->ngroup; g++)
        if (b->group[g].last - b->group[g].first > longest) longest = b->group[g].last - b->group[g].first;
    KL_TRY(kl_alloc(&may, longest + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&list, b->nrec, KL_MEM_RECORD, err));
    for (int g = 0; g < b->ngroup; g++) {
        const kl_group *const from = &b->group[g];
        kl_group_cuts(b, from, may);
        for (int64_t i = from->first; i < from->last; i++) {
            if (may[i - from->first]) list[n++] = (piece){.key = {.at = -1}, .group = g, .first = i};
            piece *const p = &list[n - 1];
            span in[2];
            const int have = operands(&b->rec[i], in);
            for (int o = 0; o < have && p->key.at < 0; o++)
                if (which[in[o].at]) p->key = in[o];
            p->last = i + 1;
        }
    }
    while (k.mask < 4 * b->nrec) k.mask *= 2;
    KL_TRY(kl_alloc(&k.slot, k.mask, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&k.stamp, k.mask, KL_MEM_RECORD, err));
    k.mask--;
    k.now = 1;
    if (n > 0) qsort(list, (size_t)n, sizeof *list, by_operator);
    for (int64_t i = 0; i <= n; i++) {
        if (i == n || (i > first && size + added(&k, b, &list[i], which, 0) > budget)) {
            if (i == first) break;
            KL_TRY(kl_realloc(&out->chunk, out->nchunk + 1, KL_MEM_RECORD, err));
            kl_chunk *const c = &out->chunk[out->nchunk++];
            *c = (kl_chunk){.need = {.n = 0}};
            KL_TRY(write_chunk(b, list + first, i - first, which, c, err));
            if (c->need.n > out->most) out->most = c->need.n;
            for (int64_t q = 0; q < c->need.ncopy; q++) out->moved += c->need.copy[q].n;
            first = i, size = 0;
            k.now++;
        }
        if (i < n) size += added(&k, b, &list[i], which, 1);
    }
out:
    kl_free(&may);
    kl_free(&list);
    kl_free(&k.slot);
    kl_free(&k.stamp);
    if (st != KL_OK) kl_chunks_clear(out);
    return st;
}

void kl_chunks_clear(kl_chunks *c)
{
    for (int i = 0; i < c->nchunk; i++) {
        kl_batch_clear(&c->chunk[i].list);
        kl_gather_clear(&c->chunk[i].need);
    }
    kl_free(&c->chunk);
    *c = (kl_chunks){0};
}
