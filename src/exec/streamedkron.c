/* Products with H in its form of two halves on vectors that are the host's (streamed.h).

   1. Left: y = (diagonal + a (x) 1) x, some tiles at a time, which are runs of x and y: while a piece is
      multiplied the next one comes and the one before goes back.
   2. Right: some left states with all right ones (rows) at a time, and what cross terms read in addition (the
      halo): the host's threads put them side by side, they come, and what they become goes back and is added
      to y.

   Every number of x and y is made in the order that the tables say, so pieces of other lengths may differ in
   rounding alone.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/streamedbase.h"
#include "base/mem.h"
#include "base/prof.h"
#include "exec/kronparts.h"
#include "exec/rows.h"

enum {
    LANES = KL_KRON_LANES,
    TURN = 3, /* buffers of each kind, for pieces in turn */
};

typedef struct tiles { /* a piece of the left half of a product */
    kl_kron *k;
    int64_t at;
} tiles;

typedef struct strip { /* of the right one */
    kl_kron *k; /* NULL: nothing acts on these rows */
    kl_rows own, halo;
} strip;

/* What stands in a kl_kron. */
typedef struct streamed_kron {
    int nleft, nright;
    tiles *left;
    strip *right;
    kl_dptr x[TURN], y[TURN];   /* on the device */
    kl_dptr out[TURN], back[TURN]; /* rows side by side, far */
} streamed_kron;

/* ---------------------------------------------------------------- making */

static void close_part(kl_exec *device, kl_kron **k)
{
    if (*k && (*k)->device) device->vt.kron_release(device, *k);
    kl_kronparts_destroy(k);
}

static void rows_close(kl_rows *r)
{
    kl_free(&r->run);
    kl_free(&r->row);
}

static void take_apart(kl_streamed *s, streamed_kron *p)
{
    kl_exec *const device = s->device;
    for (int i = 0; p->left && i < p->nleft; i++) close_part(device, &p->left[i].k);
    for (int i = 0; p->right && i < p->nright; i++) {
        close_part(device, &p->right[i].k);
        rows_close(&p->right[i].own);
        rows_close(&p->right[i].halo);
    }
    for (int t = 0; t < TURN; t++) {
        kl_dptr *const buffer[] = {&p->x[t], &p->y[t], &p->out[t], &p->back[t]};
        for (int i = 0; i < 4; i++)
            if (buffer[i]->addr) device->vt.release(device, buffer[i]);
    }
    kl_free(&p->left);
    kl_free(&p->right);
    kl_free(&p);
}

/* The place in a vector of the border of tiles that is nearest to n part / parts. */
static int64_t border_near(const kl_kron *k, int64_t part, int64_t parts)
{
    const int64_t wanted = k->n / parts * part + k->n % parts * part / parts;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t tile = b->nl * LANES, end = b->off + b->ntile * tile;
        if (wanted < end) return b->off + (wanted - b->off + tile / 2) / tile * tile;
    }
    return k->n;
}

/* nrow rows of each tile of block b, listed or from `low` on. */
static void rows_push(kl_rows *r, const kl_kron_block *b, int64_t low, int64_t nrow, const uint32_t *list)
{
    if (nrow == 0) return;
    r->run[r->nrun++] = (kl_rows_run){b->off, b->nl * LANES, b->ntile, nrow, r->nlist, r->n};
    for (int64_t j = 0; j < nrow; j++) r->row[r->nlist + j] = list ? list[j] : (uint32_t)(low + j);
    r->nlist += nrow;
    r->n += b->ntile * nrow * LANES;
}

static kl_status make_left(kl_streamed *s, const kl_kron *k, int parts, streamed_kron *p, int64_t *most,
                           kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&p->left, parts, KL_MEM_MISC, err));
    for (int i = 0; i < parts; i++) {
        const int64_t at = border_near(k, i, parts), end = border_near(k, i + 1, parts);
        if (at == end) continue;
        const kl_kronborder from = kl_kronparts_tile(k, at), to = kl_kronparts_tile(k, end);
        tiles *const t = &p->left[p->nleft++];
        t->at = at;
        KL_TRY(kl_kronparts_left(k, &from, &to, &t->k, err));
        KL_TRY(s->device->vt.kron_prepare(s->device, t->k, err));
        if (t->k->n > *most) *most = t->k->n;
    }
out:
    return st;
}

static kl_status make_strip(kl_streamed *s, const kl_kron *k, const kl_kronborder *border, strip *p,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_kronhalo halo = {0};
    int64_t nown = 0;
    KL_TRY(kl_kronhalo_find(k, border, border + 1, &halo, err));
    for (int64_t i = 0; i < k->nblock; i++)
        nown += kl_kronborder_in(border + 1, i, k->block[i].nl) - kl_kronborder_in(border, i, k->block[i].nl);
    KL_TRY(kl_alloc(&p->own.run, k->nblock, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->own.row, nown, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->halo.run, k->nblock, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&p->halo.row, halo.first[k->nblock], KL_MEM_MISC, err));
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t low = kl_kronborder_in(border, i, b->nl), high = kl_kronborder_in(border + 1, i, b->nl);
        if (low < high) rows_push(&p->own, b, low, high - low, NULL);
        rows_push(&p->halo, b, 0, halo.first[i + 1] - halo.first[i], halo.row + halo.first[i]);
    }
    KL_TRY(kl_kronparts_right(k, border, border + 1, &halo, &p->k, err));
    if (p->k) KL_TRY(s->device->vt.kron_prepare(s->device, p->k, err));
out:
    kl_kronhalo_clear(&halo);
    return st;
}

/* *own and *most: numbers of the longest strip, without and with its halo. */
static kl_status make_right(kl_streamed *s, const kl_kron *k, int parts, streamed_kron *p, int64_t *own,
                            int64_t *most, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kronborder *border = NULL;
    KL_TRY(kl_alloc(&border, parts + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&p->right, parts, KL_MEM_MISC, err));
    kl_kronparts_rows(k, parts, border);
    for (int i = 0; i < parts; i++) {
        strip *const r = &p->right[p->nright];
        KL_TRY(make_strip(s, k, &border[i], r, err));
        if (!r->k) {
            rows_close(&r->own);
            rows_close(&r->halo);
            *r = (strip){.k = NULL};
            continue;
        }
        p->nright++;
        if (r->own.n > *own) *own = r->own.n;
        if (r->own.n + r->halo.n > *most) *most = r->own.n + r->halo.n;
    }
out:
    kl_free(&border);
    return st;
}

/* In `parts` pieces of each half. KL_ENOMEM: they are too long, or too many, for the device. */
static kl_status make(kl_streamed *s, const kl_kron *k, int parts, streamed_kron **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const device = s->device;
    streamed_kron *p = NULL;
    int64_t left = 0, right = 0, own = 0;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, err));
    KL_TRY(make_left(s, k, parts, p, &left, err));
    if (kl_kronparts_has_right(k)) KL_TRY(make_right(s, k, parts, p, &own, &right, err));
    const int64_t most_x = left > right ? left : right, most_y = left > own ? left : own;
    for (int t = 0; t < TURN; t++) {
        KL_TRY(device->vt.alloc(device, most_x, &p->x[t], err));
        KL_TRY(device->vt.alloc(device, most_y, &p->y[t], err));
        if (right > 0) KL_TRY(device->vt.alloc_far(device, right, &p->out[t], err));
        if (own > 0) KL_TRY(device->vt.alloc_far(device, own, &p->back[t], err));
    }
    *out = p;
    return KL_OK;
out:
    if (p) take_apart(s, p);
    return st;
}

static void tell(const streamed_kron *p, const kl_kron *k, kl_streamed_facts *f)
{
    f->npiece = p->nleft + p->nright;
    f->left_bytes = (double)k->n * (double)sizeof(double);
    f->take_bytes = f->back_bytes = 0;
    for (int i = 0; i < p->nright; i++) {
        f->take_bytes += (double)(p->right[i].own.n + p->right[i].halo.n) * (double)sizeof(double);
        f->back_bytes += (double)p->right[i].own.n * (double)sizeof(double);
    }
}

kl_status kl_streamed_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err)
{
    /* buffers take a part of the device; pieces are short enough for copies to hide most of the first one */
    enum {
        FEW = 8,
        MANY = 4096,
    };
    kl_streamed *const s = kl_streamed_of(ex);
    const double room = (double)s->device->vt.room(s->device), all = 2.0 * (int)TURN * (double)sizeof(double);
    int parts = FEW;
    while (parts < MANY && all * (double)k->n / parts > room / 2) parts *= 2;
    for (;; parts *= 2) {
        streamed_kron *p = NULL;
        const kl_status st = make(s, k, parts, &p, err);
        k->device = p;
        if (st == KL_OK) {
            tell(p, k, &s->facts);
            return KL_OK;
        }
        if (st != KL_ENOMEM || parts >= MANY) return st;
    }
}

void kl_streamed_kron_release(kl_exec *ex, kl_kron *k)
{
    if (k->device) take_apart(kl_streamed_of(ex), k->device);
    k->device = NULL;
}

/* ---------------------------------------------------------------- the product */

static kl_status apply_left(kl_streamed *s, const streamed_kron *p, int what, kl_dptr x, kl_dptr y,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    if (what == KL_STREAMED_WORK) {
        for (int i = 0; i < p->nleft; i++)
            KL_TRY(d->vt.kron_apply(d, p->left[i].k, p->x[i % TURN], p->y[i % TURN], NULL, err));
        return KL_OK;
    }
    int come[TURN], gone[TURN] = {-1, -1, -1};
    come[0] = d->vt.copy_async(d, p->left[0].k->n, kl_dptr_at(x, p->left[0].at), p->x[0], KL_COPY_AFTER);
    for (int i = 0; i < p->nleft; i++) {
        const int t = i % TURN, next = (i + 1) % TURN;
        const tiles *const now = &p->left[i];
        if (i + 1 < p->nleft)
            come[next] =
                d->vt.copy_async(d, now[1].k->n, kl_dptr_at(x, now[1].at), p->x[next], KL_COPY_AFTER);
        d->vt.join(d, come[t], 0);
        if (gone[t] >= 0) d->vt.join(d, gone[t], 0);
        if (what & KL_STREAMED_WORK) KL_TRY(d->vt.kron_apply(d, now->k, p->x[t], p->y[t], NULL, err));
        gone[t] = d->vt.copy_async(d, now->k->n, p->y[t], kl_dptr_at(y, now->at), KL_COPY_AFTER);
    }
out:
    for (int t = 0; t < TURN; t++)
        if (gone[t] >= 0) d->vt.join(d, gone[t], 1);
    return st;
}

/* Rows of strip i, on their way to the device. The strip that had these buffers before is back. */
static kl_status send_strip(kl_streamed *s, const streamed_kron *p, int i, kl_dptr x, int *ticket,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    const strip *const r = &p->right[i];
    const int t = i % TURN;
    KL_TRY(s->cpu->vt.rows_take(s->cpu, &r->own, x, p->out[t], err));
    if (r->halo.n > 0)
        KL_TRY(s->cpu->vt.rows_take(s->cpu, &r->halo, x, kl_dptr_at(p->out[t], r->own.n), err));
    *ticket = d->vt.copy_async(d, r->own.n + r->halo.n, p->out[t], p->x[t], 0);
out:
    return st;
}

static kl_status add_strip(kl_streamed *s, const streamed_kron *p, int i, int ticket, kl_dptr y, kl_err *err)
{
    s->device->vt.join(s->device, ticket, 1);
    return s->cpu->vt.rows_add(s->cpu, &p->right[i].own, p->back[i % TURN], y, err);
}

/* While strip i is multiplied and the next one is on its way, the host adds up the one before and packs the
   one after the next. */
static kl_status apply_right(kl_streamed *s, const streamed_kron *p, int what, kl_dptr x, kl_dptr y,
                             kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    if (what == KL_STREAMED_WORK) {
        for (int i = 0; i < p->nright; i++)
            KL_TRY(d->vt.kron_apply(d, p->right[i].k, p->x[i % TURN], p->y[i % TURN], NULL, err));
        return KL_OK;
    }
    int come[TURN], gone[TURN] = {-1, -1, -1};
    for (int i = 0; i < 2 && i < p->nright; i++) KL_TRY(send_strip(s, p, i, x, &come[i], err));
    for (int i = 0; i < p->nright; i++) {
        const int t = i % TURN, before = (i + TURN - 1) % TURN;
        d->vt.join(d, come[t], 0);
        if (what & KL_STREAMED_WORK)
            KL_TRY(d->vt.kron_apply(d, p->right[i].k, p->x[t], p->y[t], NULL, err));
        gone[t] = d->vt.copy_async(d, p->right[i].own.n, p->y[t], p->back[t], KL_COPY_AFTER);
        if (i > 0) KL_TRY(add_strip(s, p, i - 1, gone[before], y, err));
        if (i + 2 < p->nright) KL_TRY(send_strip(s, p, i + 2, x, &come[before], err));
    }
    KL_TRY(add_strip(s, p, p->nright - 1, gone[(p->nright - 1) % TURN], y, err));
out:
    for (int t = 0; t < TURN && st != KL_OK; t++)
        if (gone[t] >= 0) d->vt.join(d, gone[t], 1);
    return st;
}

static kl_status apply(kl_streamed *s, const streamed_kron *p, int what, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    if (p->nleft > 0) KL_TRY(apply_left(s, p, what, x, y, err));
    if (p->nright > 0) KL_TRY(apply_right(s, p, what, x, y, err));
out:
    return st;
}

/* Copies alone and work alone, for reports: together they cost about what a product does. y is not what H x
   is afterwards. */
static kl_status measure(kl_streamed *s, const streamed_kron *p, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    const double began = kl_prof_seconds();
    KL_TRY(apply(s, p, KL_STREAMED_COPIES, x, y, err));
    KL_TRY(apply(s, p, KL_STREAMED_WORK, x, y, err)); /* a first time, when code comes to the device, too */
    kl_streamed_settle(s->device, p->x[0]);
    double start = kl_prof_seconds();
    KL_TRY(apply(s, p, KL_STREAMED_COPIES, x, y, err));
    s->facts.copies = kl_prof_seconds() - start;
    start = kl_prof_seconds();
    KL_TRY(apply(s, p, KL_STREAMED_WORK, x, y, err));
    kl_streamed_settle(s->device, p->x[0]);
    s->facts.work = kl_prof_seconds() - start;
    s->facts.measuring += kl_prof_seconds() - began;
out:
    return st;
}

kl_status kl_streamed_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr x, kl_dptr y, double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_streamed *const s = kl_streamed_of(ex);
    const streamed_kron *const p = k->device;
    if (s->facts.work == 0) KL_TRY(measure(s, p, x, y, err));
    KL_TRY(apply(s, p, KL_STREAMED_COPIES | KL_STREAMED_WORK, x, y, err));
    if (xy) s->cpu->vt.dots(s->cpu, k->n, 1, x, k->n, y, xy);
out:
    return st;
}
