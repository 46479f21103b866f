/* Products with H in its form of two halves on vectors that are the host's (streamed.h).

   1. Right: some left states with all right ones (rows) at a time, and what cross terms read in addition (the
      halo), come, and what they become goes back to y. Rows of a block's tiles are pieces as long as each
      other, which the device copies as they lie; halos, and pieces that are too short for that, are put side
      by side by the host's threads.
   2. Left: y += (diagonal + a (x) 1) x, some tiles at a time, which are runs of x and y. x . y is made of the
      pieces.
   While a piece is multiplied the next one comes and the one before goes back, each way at the same time.

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
    int packed; /* 1: its pieces are short, and packed by the host */
} strip;

/* What stands in a kl_kron. */
typedef struct streamed_kron {
    int64_t n; /* of the vectors */
    int nleft, nright;
    tiles *left;
    strip *right;
    int covers; /* 1: strips write every row of y; else it has to be 0 before */
    kl_dptr x[TURN], y[TURN], z[TURN]; /* on the device; z: y as strips left it */
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
        kl_dptr *const buffer[] = {&p->x[t], &p->y[t], &p->z[t], &p->out[t], &p->back[t]};
        for (int i = 0; i < 5; i++)
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

/* Numbers of the longest strip: of its own rows, with its halo, and what of it the host packs. */
typedef struct longest {
    int64_t own, all, out, back;
} longest;

static void see(longest *l, const strip *r)
{
    const int64_t own = r->packed ? r->own.n : 0;
    if (r->own.n > l->own) l->own = r->own.n;
    if (r->own.n + r->halo.n > l->all) l->all = r->own.n + r->halo.n;
    if (own + r->halo.n > l->out) l->out = own + r->halo.n;
    if (own > l->back) l->back = own;
}

/* 1: on average its pieces are shorter than is worth a copy by the device, or further apart than it allows */
static int too_short(const kl_streamed *s, const kl_rows *own)
{
    double npiece = 0;
    for (int64_t i = 0; i < own->nrun; i++) {
        if (own->run[i].stride > INT32_MAX / (int64_t)sizeof(double)) return 1;
        npiece += (double)own->run[i].ntile;
    }
    return (double)own->n * (double)sizeof(double) < npiece * (double)s->pack_below;
}

static kl_status make_right(kl_streamed *s, const kl_kron *k, int parts, streamed_kron *p, longest *l,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_kronborder *border = NULL;
    KL_TRY(kl_alloc(&border, parts + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&p->right, parts, KL_MEM_MISC, err));
    kl_kronparts_rows(k, parts, border);
    p->covers = 1;
    for (int i = 0; i < parts; i++) {
        strip *const r = &p->right[p->nright];
        KL_TRY(make_strip(s, k, &border[i], r, err));
        if (!r->k) {
            rows_close(&r->own);
            rows_close(&r->halo);
            p->covers = 0;
            *r = (strip){.k = NULL};
            continue;
        }
        p->nright++;
        r->packed = too_short(s, &r->own);
        p->covers &= !r->packed; /* else they are added to it */
        see(l, r);
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
    int64_t left = 0;
    longest l = {0};
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, err));
    p->n = k->n;
    KL_TRY(make_left(s, k, parts, p, &left, err));
    if (kl_kronparts_has_right(k)) KL_TRY(make_right(s, k, parts, p, &l, err));
    const int64_t most_x = left > l.all ? left : l.all, most_y = left > l.own ? left : l.own;
    for (int t = 0; t < TURN; t++) {
        KL_TRY(device->vt.alloc(device, most_x, &p->x[t], err));
        KL_TRY(device->vt.alloc(device, most_y, &p->y[t], err));
        if (p->nright > 0) KL_TRY(device->vt.alloc(device, left, &p->z[t], err));
        if (l.out > 0) KL_TRY(device->vt.alloc_far(device, l.out, &p->out[t], err));
        if (l.back > 0) KL_TRY(device->vt.alloc_far(device, l.back, &p->back[t], err));
    }
    *out = p;
    return KL_OK;
out:
    if (p) take_apart(s, p);
    return st;
}

static void tell(const streamed_kron *p, const kl_kron *k, kl_streamed_facts *f)
{
    const double each = (double)sizeof(double);
    f->npiece = p->nleft + p->nright;
    f->left_bytes = (double)k->n * each;
    f->again_bytes = p->nright > 0 ? f->left_bytes : 0;
    f->take_bytes = f->back_bytes = f->packed_bytes = 0;
    for (int i = 0; i < p->nright; i++) {
        const strip *const r = &p->right[i];
        f->take_bytes += (double)(r->own.n + r->halo.n) * each;
        f->back_bytes += (double)r->own.n * each;
        /* reading two numbers and writing one is one and a half of a copy */
        f->packed_bytes += ((double)r->halo.n + (r->packed ? 2.5 * (double)r->own.n : 0)) * each;
    }
}

kl_status kl_streamed_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err)
{
    /* buffers take a part of the device; pieces are short enough for copies to hide most of the first one */
    enum {
        FEW = 16,
        MANY = 4096,
    };
    kl_streamed *const s = kl_streamed_of(ex);
    const double room = (double)s->device->vt.room(s->device), all = 3.0 * (int)TURN * (double)sizeof(double);
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

/* The strip's own rows, from x to a buffer, or to y from there. */
static int copy_own(kl_exec *d, const strip *r, kl_dptr vector, kl_dptr buffer, int how)
{
    const int back = how & KL_COPY_BACK;
    int ticket = -1;
    for (int64_t i = 0; i < r->own.nrun; i++) {
        const kl_rows_run *const run = &r->own.run[i];
        const int64_t n = run->nrow * KL_ROW;
        const kl_dptr there = kl_dptr_at(vector, run->off + (int64_t)r->own.row[run->list] * KL_ROW),
                      here = kl_dptr_at(buffer, run->to);
        const kl_copy_pieces c = {.src = back ? here : there,
                                  .dst = back ? there : here,
                                  .n = n,
                                  .npiece = run->ntile,
                                  .src_stride = back ? n : run->stride,
                                  .dst_stride = back ? run->stride : n};
        const int first = i == 0, last = i + 1 == r->own.nrun;
        ticket = d->vt.copy_pieces(
            d, &c, back | (first ? how & KL_COPY_AFTER : 0) | (last ? how & KL_COPY_MORE : KL_COPY_MORE));
    }
    return ticket;
}

/* Rows of strip i, on their way to the device; *ticket: of the strip that had these buffers before. */
static kl_status send_strip(kl_streamed *s, const streamed_kron *p, int i, kl_dptr x, int *ticket,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    const strip *const r = &p->right[i];
    const int t = i % TURN;
    const int64_t own = r->own.n, packed = r->packed ? own : 0, halo = r->halo.n;
    if (packed + halo > 0 && i >= TURN) d->vt.join(d, *ticket, 1);
    if (packed > 0) KL_TRY(s->cpu->vt.rows_take(s->cpu, &r->own, x, p->out[t], err));
    if (halo > 0) KL_TRY(s->cpu->vt.rows_take(s->cpu, &r->halo, x, kl_dptr_at(p->out[t], packed), err));
    if (packed + halo > 0)
        *ticket = d->vt.copy_async(d, packed + halo, p->out[t], kl_dptr_at(p->x[t], own - packed),
                                   KL_COPY_AFTER | (packed ? 0 : KL_COPY_MORE));
    if (packed == 0) *ticket = copy_own(d, r, x, p->x[t], KL_COPY_AFTER);
out:
    return st;
}

/* What strip i has become, on its way to y, or to where the host adds it. */
static int return_strip(const kl_streamed *s, const streamed_kron *p, int i, kl_dptr y)
{
    kl_exec *const d = s->device;
    const strip *const r = &p->right[i];
    const int t = i % TURN;
    return r->packed ? d->vt.copy_async(d, r->own.n, p->y[t], p->back[t], KL_COPY_AFTER | KL_COPY_BACK)
                     : copy_own(d, r, y, p->y[t], KL_COPY_AFTER | KL_COPY_BACK);
}

static kl_status add_strip(kl_streamed *s, const streamed_kron *p, int i, int ticket, kl_dptr y, kl_err *err)
{
    if (!p->right[i].packed) return KL_OK;
    s->device->vt.join(s->device, ticket, 1);
    return s->cpu->vt.rows_add(s->cpu, &p->right[i].own, p->back[i % TURN], y, err);
}

/* While strip i is multiplied the next two are on their way, and the host packs of one of these and adds up
   of the one before what it has to. All of y is there at the end. */
static kl_status apply_right(kl_streamed *s, const streamed_kron *p, int what, kl_dptr x, kl_dptr y,
                             kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    int come[TURN] = {-1, -1, -1}, gone[TURN] = {-1, -1, -1};
    if (what == KL_STREAMED_WORK) {
        for (int i = 0; i < p->nright; i++)
            KL_TRY(d->vt.kron_apply(d, p->right[i].k, p->x[i % TURN], p->y[i % TURN], NULL, err));
        return KL_OK;
    }
    for (int i = 0; i < 2 && i < p->nright; i++) KL_TRY(send_strip(s, p, i, x, &come[i], err));
    for (int i = 0; i < p->nright; i++) {
        const int t = i % TURN, before = (i + TURN - 1) % TURN;
        if (i + 2 < p->nright) KL_TRY(send_strip(s, p, i + 2, x, &come[before], err));
        d->vt.join(d, come[t], 0);
        if (gone[t] >= 0) d->vt.join(d, gone[t], 0);
        if (what & KL_STREAMED_WORK) KL_TRY(d->vt.kron_apply(d, p->right[i].k, p->x[t], p->y[t], NULL, err));
        gone[t] = return_strip(s, p, i, y);
        if (i > 0) KL_TRY(add_strip(s, p, i - 1, gone[before], y, err));
    }
    KL_TRY(add_strip(s, p, p->nright - 1, gone[(p->nright - 1) % TURN], y, err));
out:
    for (int t = 0; t < TURN; t++)
        if (gone[t] >= 0) d->vt.join(d, gone[t], 1);
    return st;
}

/* Tiles of piece i, and what strips made of their part of y. */
static int send_tiles(const kl_streamed *s, const streamed_kron *p, int i, kl_dptr x, kl_dptr y)
{
    kl_exec *const d = s->device;
    const tiles *const now = &p->left[i];
    const int t = i % TURN, again = p->nright > 0;
    const int ticket = d->vt.copy_async(d, now->k->n, kl_dptr_at(x, now->at), p->x[t],
                                        KL_COPY_AFTER | (again ? KL_COPY_MORE : 0));
    return again ? d->vt.copy_async(d, now->k->n, kl_dptr_at(y, now->at), p->z[t], 0) : ticket;
}

static kl_status multiply_tiles(const kl_streamed *s, const streamed_kron *p, int i, double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    const int t = i % TURN;
    const int64_t n = p->left[i].k->n;
    double dot = 0;
    KL_TRY(d->vt.kron_apply(d, p->left[i].k, p->x[t], p->y[t], NULL, err));
    if (p->nright > 0) d->vt.axpby(d, n, 1.0, p->z[t], 1.0, p->y[t]);
    if (!xy) goto out;
    d->vt.dots(d, n, 1, p->x[t], n, p->y[t], &dot);
    *xy += dot;
out:
    return st;
}

static kl_status apply_left(kl_streamed *s, const streamed_kron *p, int what, kl_dptr x, kl_dptr y,
                            double *xy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = s->device;
    int come[TURN], gone[TURN] = {-1, -1, -1};
    if (xy) *xy = 0;
    if (what == KL_STREAMED_WORK) {
        for (int i = 0; i < p->nleft; i++) KL_TRY(multiply_tiles(s, p, i, NULL, err));
        return KL_OK;
    }
    come[0] = send_tiles(s, p, 0, x, y);
    for (int i = 0; i < p->nleft; i++) {
        const int t = i % TURN;
        const tiles *const now = &p->left[i];
        if (i + 1 < p->nleft) come[(i + 1) % TURN] = send_tiles(s, p, i + 1, x, y);
        d->vt.join(d, come[t], 0);
        if (gone[t] >= 0) d->vt.join(d, gone[t], 0);
        if (what & KL_STREAMED_WORK) KL_TRY(multiply_tiles(s, p, i, xy, err));
        gone[t] =
            d->vt.copy_async(d, now->k->n, p->y[t], kl_dptr_at(y, now->at), KL_COPY_AFTER | KL_COPY_BACK);
    }
out:
    for (int t = 0; t < TURN; t++)
        if (gone[t] >= 0) d->vt.join(d, gone[t], 1);
    return st;
}

static kl_status apply(kl_streamed *s, const streamed_kron *p, int what, kl_dptr x, kl_dptr y, double *xy,
                       kl_err *err)
{
    kl_status st = KL_OK;
    if (p->nright > 0 && !p->covers) s->cpu->vt.fill(s->cpu, p->n, 0.0, y);
    if (p->nright > 0) KL_TRY(apply_right(s, p, what, x, y, err));
    KL_TRY(apply_left(s, p, what, x, y, xy, err));
out:
    return st;
}

/* Copies alone and work alone, for reports: together they cost about what a product does. y is not what H x
   is afterwards. */
static kl_status measure(kl_streamed *s, const streamed_kron *p, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    const double began = kl_prof_seconds();
    KL_TRY(apply(s, p, KL_STREAMED_COPIES, x, y, NULL, err));
    KL_TRY(apply(s, p, KL_STREAMED_WORK, x, y, NULL,
                 err)); /* a first time, when code comes to the device, too */
    kl_streamed_settle(s->device, p->x[0]);
    double start = kl_prof_seconds();
    KL_TRY(apply(s, p, KL_STREAMED_COPIES, x, y, NULL, err));
    s->facts.copies = kl_prof_seconds() - start;
    start = kl_prof_seconds();
    KL_TRY(apply(s, p, KL_STREAMED_WORK, x, y, NULL, err));
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
    KL_TRY(apply(s, p, KL_STREAMED_COPIES | KL_STREAMED_WORK, x, y, xy, err));
out:
    return st;
}
