/* See kronspread.h.

   1. Left part: y = (diagonal + a (x) 1) x on the rank's own tiles.
   2. Right part, chunk by chunk: every rank takes the rows that each other rank works on out of its tiles
      (rows that only cross terms read: the halo, too) and sends them; what arrives is whole rows. The product
      with them is sent back, and is added to y.
   While a chunk is multiplied the next one is in flight, and the results of the one before are in flight
   back.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/kronspread.h"

#include <string.h>

#include "base/mem.h"
#include "ed/kronbeyond.h"
#include "exec/kronparts.h"
#include "exec/rows.h"

enum {
    LANES = KL_KRON_LANES,
    TURN = 2, /* buffers of each kind, for chunks in turn */
};
/* The number of chunks of the right part, by the size of a rank's vector from which it holds. With shorter
   vectors messages cost more than waiting does; with longer ones the buffers stay small compared with a
   vector. */
static const struct {
    int64_t from;
    int chunks;
} steps[] = {{INT64_C(1) << 26, 16}, {INT64_C(1) << 18, 4}, {0, 1}};

/* What goes between this rank and rank r in a chunk: to r own and halo rows out of my tiles, from r the same
   for my rows out of its tiles. */
typedef struct exchange {
    int64_t to_at, to_own, to_halo; /* in the buffer of what is sent */
    int64_t from_own, from_nown, from_halo, from_nhalo; /* in whole rows */
    int64_t back_at; /* of the answer to to_own, in the buffer of what comes back */
} exchange;

typedef struct chunk {
    kl_kron *right; /* NULL: no row of it is mine */
    exchange *with; /* [ranks] */
    kl_rows take, answer; /* rows for others, and what they send back */
    kl_rows own, halo;    /* rows for this rank itself; own: to and from it */
    int64_t own_at, halo_at, nrow; /* of this rank's tiles in its whole rows; all numbers of these */
} chunk;

struct kl_kronspread {
    kl_exec *ex;
    const kl_kron *whole;
    int64_t n;
    kl_kronbeyond *beyond; /* NULL, or what does all of it */
    kl_kron *left;
    kl_kronborder *tile; /* [ranks + 1] */
    int nchunk;
    chunk *chunk;
    kl_dptr send[TURN], row[TURN], made[TURN], back[TURN];
};

kl_status kl_kronspread_borders(const kl_kron *k, const kl_exec *ex, int64_t **begin, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex);
    KL_TRY(kl_alloc(begin, size + 1, KL_MEM_MISC, err));
    int r = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t tile = b->nl * LANES, end = b->off + b->ntile * tile;
        for (; r < size; r++) {
            const int64_t wanted = k->n / size * r + k->n % size * r / size;
            if (wanted >= end) break;
            (*begin)[r] = b->off + (wanted - b->off + tile / 2) / tile * tile;
        }
    }
    for (; r <= size; r++) (*begin)[r] = k->n;
out:
    return st;
}

/* ---------------------------------------------------------------- lists of rows */

/* Room for as many runs and rows as there can be: all rows of all blocks for every rank, twice. */
static kl_status rows_open(kl_rows *r, int64_t nrun, int64_t nlist, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&r->run, nrun, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r->row, nlist, KL_MEM_MISC, err));
out:
    return st;
}

static void rows_close(kl_exec *ex, kl_rows *r)
{
    if (r->device && ex->vt.rows_release) ex->vt.rows_release(ex, r);
    kl_free(&r->run);
    kl_free(&r->row);
}

/* nrow rows (listed, or from `low` on) of tile block b of the left part. */
static void rows_push(kl_rows *r, const kl_kron_block *b, int64_t low, int64_t nrow, const uint32_t *list)
{
    if (nrow == 0) return;
    r->run[r->nrun++] = (kl_rows_run){b->off, b->nl * LANES, b->ntile, nrow, r->nlist, r->n};
    for (int64_t j = 0; j < nrow; j++) r->row[r->nlist + j] = list ? list[j] : (uint32_t)(low + j);
    r->nlist += nrow;
    r->n += b->ntile * nrow * LANES;
}

/* ---------------------------------------------------------------- making */

/* What rank r works on in a chunk. */
typedef struct piece {
    const kl_kronborder *from, *to;
    kl_kronhalo halo;
} piece;

static int64_t rows_of(const kl_kronspread *s, const piece *p, int64_t i, int halo)
{
    const int64_t nl = s->whole->block[i].nl;
    return halo ? p->halo.first[i + 1] - p->halo.first[i]
                : kl_kronborder_in(p->to, i, nl) - kl_kronborder_in(p->from, i, nl);
}

/* Index of a border of tiles among the whole rows of a piece. */
static int64_t place_of(const kl_kronspread *s, const piece *p, const kl_kronborder *tile, int halo)
{
    int64_t at = 0;
    for (int64_t i = 0; i < s->whole->nblock; i++)
        at += kl_kronborder_in(tile, i, s->whole->block[i].ntile) * rows_of(s, p, i, halo) * LANES;
    return at;
}

/* Rows of a piece out of this rank's tiles. */
static void push_piece(const kl_kronspread *s, const piece *p, int halo, kl_rows *to)
{
    const int me = kl_ranks_mine(s->ex);
    for (int64_t i = 0, at = 0; i < s->whole->nblock; i++) {
        const kl_kron_block *const b = &s->whole->block[i];
        if (kl_kronborder_in(&s->tile[me], i, b->ntile) >= kl_kronborder_in(&s->tile[me + 1], i, b->ntile))
            continue;
        rows_push(to, &s->left->block[at++], kl_kronborder_in(p->from, i, b->nl), rows_of(s, p, i, halo),
                  halo ? p->halo.row + p->halo.first[i] : NULL);
    }
}

static void plan_exchange(kl_kronspread *s, chunk *c, const piece *all)
{
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex);
    const kl_kronborder end = {s->whole->nblock, 0};
    const int64_t own = place_of(s, &all[me], &end, 0);
    c->nrow = own + place_of(s, &all[me], &end, 1);
    c->own_at = place_of(s, &all[me], &s->tile[me], 0);
    c->halo_at = own + place_of(s, &all[me], &s->tile[me], 1);
    push_piece(s, &all[me], 0, &c->own);
    push_piece(s, &all[me], 1, &c->halo);
    for (int r = 0; r < size; r++) {
        exchange *const w = &c->with[r];
        w->from_own = place_of(s, &all[me], &s->tile[r], 0);
        w->from_nown = place_of(s, &all[me], &s->tile[r + 1], 0) - w->from_own;
        w->from_halo = own + place_of(s, &all[me], &s->tile[r], 1);
        w->from_nhalo = own + place_of(s, &all[me], &s->tile[r + 1], 1) - w->from_halo;
        if (r == me) continue;
        w->to_at = c->take.n;
        push_piece(s, &all[r], 0, &c->take);
        w->to_own = c->take.n - w->to_at;
        push_piece(s, &all[r], 1, &c->take);
        w->to_halo = c->take.n - w->to_at - w->to_own;
        w->back_at = c->answer.n;
        push_piece(s, &all[r], 0, &c->answer);
    }
}

static kl_status make_chunk(kl_kronspread *s, int number, const kl_kronborder *border, kl_err *err)
{
    kl_status st = KL_OK;
    chunk *const c = &s->chunk[number];
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex);
    const int64_t nblock = s->whole->nblock;
    piece *all = NULL;
    int64_t nown = 0, nlist = 0;
    KL_TRY(kl_alloc(&all, size, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&c->with, size, KL_MEM_MISC, err));
    for (int r = 0; r < size; r++) {
        all[r].from = &border[r * s->nchunk + number];
        all[r].to = all[r].from + 1;
        KL_TRY(kl_kronhalo_find(s->whole, all[r].from, all[r].to, &all[r].halo, err));
        for (int64_t i = 0; i < nblock; i++) nown += rows_of(s, &all[r], i, 0);
        nlist += all[r].halo.first[nblock];
    }
    KL_TRY(rows_open(&c->take, 2 * size * nblock, nown + nlist, err));
    KL_TRY(rows_open(&c->answer, size * nblock, nown, err));
    KL_TRY(rows_open(&c->own, nblock, nown, err));
    KL_TRY(rows_open(&c->halo, nblock, all[me].halo.first[nblock], err));
    plan_exchange(s, c, all);
    KL_TRY(kl_kronparts_right(s->whole, all[me].from, all[me].to, &all[me].halo, &c->right, err));
    if (c->right) KL_TRY(s->ex->vt.kron_prepare(s->ex, c->right, err));
    kl_rows *const lists[] = {&c->take, &c->answer, &c->own, &c->halo};
    for (int i = 0; i < 4 && s->ex->vt.rows_prepare; i++)
        if (lists[i]->n > 0) KL_TRY(s->ex->vt.rows_prepare(s->ex, lists[i], err));
out:
    for (int r = 0; all && r < size; r++) kl_kronhalo_clear(&all[r].halo);
    kl_free(&all);
    return st;
}

static kl_status make_right(kl_kronspread *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(s->ex);
    kl_kronborder *border = NULL;
    int64_t send = 0, row = 0, made = 0, back = 0;
    int step = 0;
    while (s->whole->n / size < steps[step].from) step++;
    s->nchunk = steps[step].chunks;
    KL_TRY(kl_alloc(&s->chunk, s->nchunk, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&border, size * s->nchunk + 1, KL_MEM_WORK, err));
    kl_kronparts_rows(s->whole, size * s->nchunk, border);
    for (int i = 0; i < s->nchunk; i++) {
        chunk *const c = &s->chunk[i];
        KL_TRY(make_chunk(s, i, border, err));
        if (c->take.n > send) send = c->take.n;
        if (c->nrow > row) row = c->nrow;
        if (c->right && c->right->n > made) made = c->right->n;
        if (c->answer.n > back) back = c->answer.n;
    }
    const struct {
        kl_dptr *at;
        int64_t n;
    } buffer[] = {{s->send, send}, {s->row, row}, {s->made, made}, {s->back, back}};
    for (int t = 0; t < TURN && t < s->nchunk; t++)
        for (int i = 0; i < 4; i++)
            if (buffer[i].n > 0) KL_TRY(s->ex->vt.alloc(s->ex, buffer[i].n, &buffer[i].at[t], err));
out:
    kl_free(&border);
    return st;
}

kl_status kl_kronspread_create(const kl_kron *k, kl_exec *ex, const int64_t *begin, kl_kronspread **out,
                               kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    kl_kronspread *s = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->ex = ex;
    s->whole = k;
    s->n = begin[me + 1] - begin[me];
    KL_TRY(kl_alloc(&s->tile, size + 1, KL_MEM_MISC, err));
    for (int r = 0; r <= size; r++) s->tile[r] = kl_kronparts_tile(k, begin[r]);
    KL_TRY(kl_kronbeyond_create(k, ex, s->tile, &s->beyond, err));
    if (!s->beyond) {
        KL_TRY(kl_kronparts_left(k, &s->tile[me], &s->tile[me + 1], &s->left, err));
        if (s->n > 0) KL_TRY(ex->vt.kron_prepare(ex, s->left, err));
        if (kl_kronparts_has_right(k)) KL_TRY(make_right(s, err));
    }
    *out = s;
    s = NULL;
out:
    kl_kronspread_destroy(&s);
    return st;
}

static void close_part(kl_exec *ex, kl_kron **k)
{
    if (*k && (*k)->device) ex->vt.kron_release(ex, *k);
    kl_kronparts_destroy(k);
}

void kl_kronspread_destroy(kl_kronspread **spread)
{
    kl_kronspread *s = *spread;
    if (!s) return;
    kl_kronbeyond_destroy(&s->beyond);
    for (int t = 0; t < TURN; t++) {
        kl_dptr *const buffer[] = {&s->send[t], &s->row[t], &s->made[t], &s->back[t]};
        for (int i = 0; i < 4; i++)
            if (buffer[i]->addr) s->ex->vt.release(s->ex, buffer[i]);
    }
    for (int i = 0; s->chunk && i < s->nchunk; i++) {
        chunk *const c = &s->chunk[i];
        close_part(s->ex, &c->right);
        kl_rows *const lists[] = {&c->take, &c->answer, &c->own, &c->halo};
        for (int k = 0; k < 4; k++) rows_close(s->ex, lists[k]);
        kl_free(&c->with);
    }
    kl_free(&s->chunk);
    close_part(s->ex, &s->left);
    kl_free(&s->tile);
    kl_free(spread);
}

/* ---------------------------------------------------------------- the product */

typedef struct apply {
    kl_kronspread *s;
    kl_dptr x, y;
    kl_transfer *forth[TURN], *back[TURN];
    kl_ranks_part *part; /* [4 ranks] */
} apply;

/* Rows of chunk number i to those who work on them. */
static kl_status send_rows(apply *a, int i, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_kronspread *const s = a->s;
    const chunk *const c = &s->chunk[i];
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex), t = i % TURN;
    int n = 0;
    if (c->take.n > 0) KL_TRY(s->ex->vt.rows_take(s->ex, &c->take, a->x, s->send[t], err));
    if (c->own.n > 0)
        KL_TRY(s->ex->vt.rows_take(s->ex, &c->own, a->x, kl_dptr_at(s->row[t], c->own_at), err));
    if (c->halo.n > 0)
        KL_TRY(s->ex->vt.rows_take(s->ex, &c->halo, a->x, kl_dptr_at(s->row[t], c->halo_at), err));
    for (int r = 0; r < size; r++) {
        const exchange *const w = &c->with[r];
        if (r == me) continue;
        a->part[n++] = (kl_ranks_part){r, 1, kl_dptr_at(s->send[t], w->to_at), w->to_own};
        a->part[n++] = (kl_ranks_part){r, 1, kl_dptr_at(s->send[t], w->to_at + w->to_own), w->to_halo};
        a->part[n++] = (kl_ranks_part){r, 0, kl_dptr_at(s->row[t], w->from_own), w->from_nown};
        a->part[n++] = (kl_ranks_part){r, 0, kl_dptr_at(s->row[t], w->from_halo), w->from_nhalo};
    }
    KL_TRY(kl_ranks_start(s->ex, n, a->part, &a->forth[t], err));
out:
    return st;
}

/* What became of them to those whose they are. */
static kl_status send_back(apply *a, int i, kl_err *err)
{
    const kl_kronspread *const s = a->s;
    const chunk *const c = &s->chunk[i];
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex), t = i % TURN;
    int n = 0;
    for (int r = 0; r < size; r++) {
        const exchange *const w = &c->with[r];
        if (r == me) continue;
        a->part[n++] = (kl_ranks_part){r, 1, kl_dptr_at(s->made[t], w->from_own), w->from_nown};
        a->part[n++] = (kl_ranks_part){r, 0, kl_dptr_at(s->back[t], w->back_at), w->to_own};
    }
    return kl_ranks_start(s->ex, n, a->part, &a->back[t], err);
}

static kl_status add_back(apply *a, int i, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_kronspread *const s = a->s;
    const chunk *const c = &s->chunk[i];
    const int t = i % TURN;
    if (c->own.n > 0)
        KL_TRY(s->ex->vt.rows_add(s->ex, &c->own, kl_dptr_at(s->made[t], c->own_at), a->y, err));
    KL_TRY(kl_ranks_finish(s->ex, &a->back[t], err));
    if (c->answer.n > 0) KL_TRY(s->ex->vt.rows_add(s->ex, &c->answer, s->back[t], a->y, err));
out:
    return st;
}

kl_status kl_kronspread_apply(kl_kronspread *s, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    apply a = {.s = s, .x = x, .y = y};
    if (s->beyond) return kl_kronbeyond_apply(s->beyond, 0, x, y, xy, err);
    if (s->nchunk > 0) {
        KL_TRY(kl_alloc(&a.part, 4 * kl_ranks_size(ex), KL_MEM_MISC, err));
        KL_TRY(send_rows(&a, 0, err));
    }
    if (s->n > 0) KL_TRY(ex->vt.kron_apply(ex, s->left, x, y, NULL, err));
    for (int i = 0; i < s->nchunk; i++) {
        KL_TRY(kl_ranks_finish(ex, &a.forth[i % TURN], err));
        if (i + 1 < s->nchunk) KL_TRY(send_rows(&a, i + 1, err));
        if (s->chunk[i].right)
            KL_TRY(ex->vt.kron_apply(ex, s->chunk[i].right, s->row[i % TURN], s->made[i % TURN], NULL, err));
        KL_TRY(send_back(&a, i, err));
        if (i > 0) KL_TRY(add_back(&a, i - 1, err));
    }
    if (s->nchunk > 0) KL_TRY(add_back(&a, s->nchunk - 1, err));
    if (xy) ex->vt.dots(ex, s->n, 1, x, s->n, y, xy);
out:
    kl_free(&a.part);
    return st;
}

int kl_kronspread_can_add(const kl_kronspread *s) { return s->beyond != NULL; }

kl_status kl_kronspread_add(kl_kronspread *s, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    return kl_kronbeyond_apply(s->beyond, 1, x, y, xy, err);
}

const kl_kron *kl_kronspread_own(const kl_kronspread *s)
{
    return s->beyond ? kl_kronbeyond_own(s->beyond) : NULL;
}
