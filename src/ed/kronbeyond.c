/* See kronbeyond.h.

   1. Chunk by chunk of left states: the tiles that another rank reads go to it, while
   2. y = (diagonal + a (x) 1) x on the rank's own tiles,
   3. and, for each chunk that has come, y += (1 (x) b) x.

   Where the devices reach each other's memory (window.h), their copy engines write tiles where the others
   read them, as rows of a matrix, and say so by a count; a chunk has one of two places in turn, which is
   free when its reader says so, again by a count. Nobody packs and no host waits. Elsewhere tiles are packed
   and sent. SPDX-License-Identifier: Apache-2.0 */
#include "ed/kronbeyond.h"

#include <string.h>

#include "base/mem.h"
#include "comm/window.h"
#include "exec/rows.h"

enum {
    LANES = KL_KRON_LANES,
    TURN = 2,
    GAP = 8,        /* tiles that nobody reads and that are sent all the same, for a message less */
    MOST_CHUNK = 32,
    HEAD_UNIT = 32, /* numbers: what follows the counts is aligned */
};
/* Numbers that come: from so many on in two chunks, since the last teams of each leave a device half idle,
   and from more on in as many as have this size. */
static const int64_t two_from = INT64_C(1) << 18, many_from = INT64_C(1) << 26, chunk_size = INT64_C(1) << 24;
/* More than the transposition's traffic it may be: what that copies besides takes as long. */
static const double most_traffic = 1.25;

/* Neighbouring tiles, of the rank that has them, and where they stand among a reader's. */
typedef struct run {
    int64_t tile, ntile, to;
} run;

struct kl_kronbeyond {
    kl_exec *ex;
    kl_kron *own; /* NULL: this rank has no tile */
    int64_t nl;
    int nchunk;
    int64_t *first; /* [nchunk + 1] left states */
    int64_t *nother; /* [ranks] tiles that each reads of others */
    int64_t *from;   /* [ranks + 1] those that this one reads begin here, rank by rank */
    run *run;        /* that go to rank r: */
    int64_t *runs;   /* [ranks + 1] */
    /* messages */
    kl_rows *take; /* [nchunk] */
    int64_t *take_at; /* [nchunk][ranks + 1] in the buffer */
    kl_dptr send[TURN], others[TURN];
    kl_ranks_part *part;
    /* or memory of each other: counts of what has come from each rank, of what each rank has read, then
       places of chunks */
    kl_window *window;
    uint32_t count;
};

/* ---------------------------------------------------------------- who reads what */

/* Tiles that rank r reads of others, as runs of rank q's: into to[nrun], where not NULL; the tiles one by
   one into list, where not NULL. */
static void collect(const kl_kronborder *tile, int64_t ntile, int q, const char *wanted, int64_t *place,
                    run *to, int64_t *nrun, int64_t *list)
{
    const int64_t low = kl_kronborder_in(&tile[q], 0, ntile), high = kl_kronborder_in(&tile[q + 1], 0, ntile);
    for (int64_t t = low; t < high;) {
        if (!wanted[t]) {
            t++;
            continue;
        }
        int64_t end = t + 1;
        for (int64_t i = end; i < high && i - end <= GAP; i++)
            if (wanted[i]) end = i + 1;
        if (to) to[*nrun] = (run){t - low, end - t, *place};
        ++*nrun;
        for (; t < end; t++, ++*place)
            if (list) list[*place] = t;
    }
}

/* own: the tiles that this rank reads. */
static kl_status find_runs(kl_kronbeyond *s, const kl_kron *k, const kl_kronborder *tile, int64_t **own,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex);
    const int64_t ntile = k->block->ntile;
    char *wanted = NULL;
    int64_t nrun = 0;
    KL_TRY(kl_alloc(&wanted, ntile, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(own, ntile, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->nother, size, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->from, size + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->runs, size + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->run, ntile * size, KL_MEM_MISC, err));
    for (int r = 0; r < size; r++) {
        kl_kronparts_wanted(k, kl_kronborder_in(&tile[r], 0, ntile), kl_kronborder_in(&tile[r + 1], 0, ntile),
                            wanted);
        for (int q = 0; q < size; q++) {
            int64_t none = 0;
            if (r == me) s->from[q] = s->nother[r];
            if (q == r) continue;
            collect(tile, ntile, q, wanted, &s->nother[r], q == me ? s->run : NULL, q == me ? &nrun : &none,
                    r == me ? *own : NULL);
        }
        s->runs[r + 1] = nrun;
    }
    s->from[size] = s->nother[me];
    KL_TRY(kl_realloc(&s->run, nrun + 1, KL_MEM_MISC, err));
out:
    kl_free(&wanted);
    return st;
}

/* What comes to the rank that gets most, and what the transposition would bring to one. */
static int is_worth_it(const kl_kronbeyond *s, const kl_kron *k)
{
    const double size = kl_ranks_size(s->ex), tiles = (double)k->block->ntile;
    double most = 0.0;
    for (int r = 0; r < (int)size; r++)
        if ((double)s->nother[r] > most) most = (double)s->nother[r];
    return most <= most_traffic * 2.0 * tiles * (size - 1.0) / (size * size) + 1.0;
}

static kl_status make_chunks(kl_kronbeyond *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t strips = (s->nl + LANES - 1) / LANES;
    int64_t most = 0;
    for (int r = 0; r < kl_ranks_size(s->ex); r++)
        if (s->nother[r] > most) most = s->nother[r];
    const int64_t n = most * s->nl * LANES;
    int64_t chunks = n < two_from ? 1 : n < many_from ? 2 : n / chunk_size;
    if (chunks > MOST_CHUNK) chunks = MOST_CHUNK;
    if (chunks > strips) chunks = strips;
    s->nchunk = (int)chunks;
    KL_TRY(kl_alloc(&s->first, s->nchunk + 1, KL_MEM_MISC, err));
    for (int i = 0; i < s->nchunk; i++) s->first[i] = strips * i / s->nchunk * LANES;
    s->first[s->nchunk] = s->nl;
out:
    return st;
}

/* Numbers of a place for a chunk of so many tiles. */
static int64_t place_size(const kl_kronbeyond *s, int64_t ntile)
{
    int64_t most = 0;
    for (int i = 0; i < s->nchunk; i++)
        if (s->first[i + 1] - s->first[i] > most) most = s->first[i + 1] - s->first[i];
    return ntile * most * LANES;
}

/* ---------------------------------------------------------------- by messages */

static kl_status make_rows(kl_kronbeyond *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(s->ex);
    int64_t most = 0;
    KL_TRY(kl_alloc(&s->take, s->nchunk, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->take_at, s->nchunk * (size + 1), KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->part, 2 * size, KL_MEM_MISC, err));
    for (int i = 0; i < s->nchunk; i++) {
        kl_rows *const t = &s->take[i];
        const int64_t low = s->first[i], n = s->first[i + 1] - low;
        t->nlist = n;
        KL_TRY(kl_alloc(&t->run, s->runs[size], KL_MEM_MISC, err));
        KL_TRY(kl_alloc(&t->row, n, KL_MEM_MISC, err));
        for (int64_t l = 0; l < n; l++) t->row[l] = (uint32_t)(low + l);
        for (int r = 0; r < size; r++) {
            for (int64_t j = s->runs[r]; j < s->runs[r + 1]; j++) {
                const run *const a = &s->run[j];
                t->run[t->nrun++] =
                    (kl_rows_run){a->tile * s->nl * LANES, s->nl * LANES, a->ntile, n, 0, t->n};
                t->n += a->ntile * n * LANES;
            }
            s->take_at[i * (size + 1) + r + 1] = t->n;
        }
        if (t->n > most) most = t->n;
        if (t->n > 0 && s->ex->vt.rows_prepare) KL_TRY(s->ex->vt.rows_prepare(s->ex, t, err));
    }
    const int64_t comes = place_size(s, s->nother[kl_ranks_mine(s->ex)]);
    for (int i = 0; i < TURN; i++) {
        KL_TRY(s->ex->vt.alloc(s->ex, most + 1, &s->send[i], err));
        KL_TRY(s->ex->vt.alloc(s->ex, comes + 1, &s->others[i], err));
    }
out:
    return st;
}

static kl_status start(kl_kronbeyond *s, int i, kl_dptr x, kl_transfer **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex), t = i % TURN;
    const int64_t *const at = s->take_at + i * (size + 1), one = (s->first[i + 1] - s->first[i]) * LANES;
    int n = 0;
    if (s->take[i].n > 0) KL_TRY(s->ex->vt.rows_take(s->ex, &s->take[i], x, s->send[t], err));
    for (int r = 0; r < size; r++) {
        if (r == me) continue;
        s->part[n++] = (kl_ranks_part){r, 1, kl_dptr_at(s->send[t], at[r]), at[r + 1] - at[r]};
        s->part[n++] = (kl_ranks_part){r, 0, kl_dptr_at(s->others[t], s->from[r] * one),
                                       (s->from[r + 1] - s->from[r]) * one};
    }
    KL_TRY(kl_ranks_start(s->ex, n, s->part, out, err));
out:
    return st;
}

static kl_status apply_by_messages(kl_kronbeyond *s, int adds, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    kl_transfer *come[TURN] = {NULL};
    KL_TRY(start(s, 0, x, &come[0], err));
    if (s->own) KL_TRY(ex->vt.kron_left(ex, s->own, adds, x, y, err));
    for (int i = 0; i < s->nchunk; i++) {
        const kl_kron_beyond b = {s->others[i % TURN], s->first[i], s->first[i + 1]};
        KL_TRY(kl_ranks_finish(ex, &come[i % TURN], err));
        if (i + 1 < s->nchunk) KL_TRY(start(s, i + 1, x, &come[(i + 1) % TURN], err));
        if (s->own) KL_TRY(ex->vt.kron_beyond(ex, s->own, &b, x, y, err));
    }
out:
    return st;
}

/* ---------------------------------------------------------------- by memory of each other */

static int64_t head(const kl_kronbeyond *s)
{
    return (2 * kl_ranks_size(s->ex) + HEAD_UNIT - 1) / HEAD_UNIT * HEAD_UNIT;
}

/* Of rank r's window the place of a chunk; all products count on, from 1, so that it was read last by the
   TURN-th before, with an odd number of chunks a product, too. */
static int64_t place_of(const kl_kronbeyond *s, int r, uint32_t now)
{
    return head(s) + (int64_t)(now % TURN) * place_size(s, s->nother[r]);
}

/* Chunk i of a product that began at such a count. */
static void put_chunk(const kl_kronbeyond *s, int i, uint32_t begun, kl_dptr x)
{
    const kl_peers *const p = s->ex->peers;
    const int size = kl_ranks_size(s->ex), me = kl_ranks_mine(s->ex);
    const uint32_t now = begun + (uint32_t)i + 1;
    const int64_t one = (s->first[i + 1] - s->first[i]) * LANES;
    for (int k = 1; k < size; k++) {
        const int r = (me + k) % size;
        if (now > TURN) p->await(s->ex, 1, kl_dptr_at(s->window->own, size + r), now - TURN);
        const kl_dptr to = kl_dptr_at(s->window->there[r], place_of(s, r, now));
        for (int64_t j = s->runs[r]; j < s->runs[r + 1]; j++) {
            const run *const a = &s->run[j];
            p->put(s->ex, a->ntile, one, kl_dptr_at(x, (a->tile * s->nl + s->first[i]) * LANES),
                   s->nl * LANES, kl_dptr_at(to, a->to * one), one);
        }
        p->tell(s->ex, 1, kl_dptr_at(s->window->there[r], me), now);
    }
}

static kl_status apply_by_window(kl_kronbeyond *s, int adds, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    const kl_peers *const p = ex->peers;
    const int size = kl_ranks_size(ex), me = kl_ranks_mine(ex);
    const uint32_t begun = s->count;
    p->begin(ex); /* copies need not wait for the product that is asked for first */
    if (s->own) KL_TRY(ex->vt.kron_left(ex, s->own, adds, x, y, err));
    /* A device takes some thousand copies ahead; then the host waits. What a chunk's place waits for has been
       asked for by then: with all chunks first, two ranks whose devices could take no more waited for each
       other for good (19 sites, 32 chunks of hundreds of copies). */
    for (int i = 0; i < TURN && i < s->nchunk; i++) put_chunk(s, i, begun, x);
    for (int i = 0; i < s->nchunk; i++) {
        const kl_kron_beyond b = {kl_dptr_at(s->window->own, place_of(s, me, s->count + 1)), s->first[i],
                                  s->first[i + 1]};
        s->count++;
        for (int r = 0; r < size; r++)
            if (r != me) p->await(ex, 0, kl_dptr_at(s->window->own, r), s->count);
        if (s->own) KL_TRY(ex->vt.kron_beyond(ex, s->own, &b, x, y, err));
        for (int r = 0; r < size; r++)
            if (r != me) p->tell(ex, 0, kl_dptr_at(s->window->there[r], size + me), s->count);
        if (i + TURN < s->nchunk) put_chunk(s, i + TURN, begun, x);
    }
    p->end(ex);
    KL_TRY(p->check(ex, err));
out:
    return st;
}

/* ---------------------------------------------------------------- all of it */

kl_status kl_kronbeyond_create(const kl_kron *k, kl_exec *ex, const kl_kronborder *tile, kl_kronbeyond **out,
                               kl_err *err)
{
    kl_status st = KL_OK;
    kl_kronbeyond *s = NULL;
    int64_t *other = NULL;
    const int me = kl_ranks_mine(ex);
    *out = NULL;
    if (k->nblock != 1 || k->block->ncross > 0 || !k->block->b || !ex->vt.kron_beyond) return KL_OK;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->ex = ex;
    s->nl = k->block->nl;
    KL_TRY(find_runs(s, k, tile, &other, err));
    if (!is_worth_it(s, k)) goto out;
    KL_TRY(make_chunks(s, err));
    KL_TRY(kl_kronparts_beyond(k, &tile[me], &tile[me + 1], s->nother[me], other, &s->own, err));
    if (s->own) KL_TRY(ex->vt.kron_prepare(ex, s->own, err));
    KL_TRY(kl_window_open(ex, head(s) + TURN * place_size(s, s->nother[me]), &s->window, err));
    if (!s->window) KL_TRY(make_rows(s, err));
    *out = s;
    s = NULL;
out:
    kl_free(&other);
    kl_kronbeyond_destroy(&s);
    return st;
}

void kl_kronbeyond_destroy(kl_kronbeyond **spread)
{
    kl_kronbeyond *s = *spread;
    if (!s) return;
    kl_exec *const ex = s->ex;
    kl_window_close(&s->window, kl_ranks_size(ex), s->count);
    for (int t = 0; t < TURN; t++) {
        if (s->send[t].addr) ex->vt.release(ex, &s->send[t]);
        if (s->others[t].addr) ex->vt.release(ex, &s->others[t]);
    }
    for (int i = 0; s->take && i < s->nchunk; i++) {
        if (s->take[i].device && ex->vt.rows_release) ex->vt.rows_release(ex, &s->take[i]);
        kl_free(&s->take[i].run);
        kl_free(&s->take[i].row);
    }
    if (s->own && s->own->device) ex->vt.kron_release(ex, s->own);
    kl_kronparts_beyond_destroy(&s->own);
    kl_free(&s->take);
    kl_free(&s->take_at);
    kl_free(&s->part);
    kl_free(&s->first);
    kl_free(&s->nother);
    kl_free(&s->from);
    kl_free(&s->run);
    kl_free(&s->runs);
    kl_free(spread);
}

const kl_kron *kl_kronbeyond_own(const kl_kronbeyond *s) { return s->own; }

kl_status kl_kronbeyond_apply(kl_kronbeyond *s, int adds, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    KL_TRY(s->window ? apply_by_window(s, adds, x, y, err) : apply_by_messages(s, adds, x, y, err));
    if (!xy) goto out;
    if (!ex->vt.kron_dot) {
        const int64_t n = s->own ? s->own->n : 0;
        ex->vt.dots(ex, n, 1, x, n, y, xy);
        goto out;
    }
    *xy = 0.0;
    if (s->own) KL_TRY(ex->vt.kron_dot(ex, s->own, xy, err));
    kl_ranks_sum(ex, 1, xy);
out:
    return st;
}
