/* Packed lists of a sum of Kronecker products: those of its operators (kronlist.h), and what blocks have
   besides these. All arrays go to the device as one block of memory, addresses inside it put in beforehand.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/devkron.h"
#include "base/mem.h"
#include "device/kronlist.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

/* ---------------------------------------------------------------- blocks */

/* Where every bit is worth the same on all right states that have it, counting is enough. */
static kl_status pack_bits(kl_arena *a, const kl_kron_block *b, kl_devkron_block *d, kl_err *err)
{
    kl_status st = KL_OK;
    uint64_t *with = NULL;
    int64_t at;
    const int64_t width = b->ntile * LANES;
    d->nbit = b->nbit;
    if (b->nbit == 0) return KL_OK;
    if (b->nbit > 32) {
        KL_TRY(kl_arena_append(a, b->mask, b->nl * (int64_t)sizeof *b->mask, &at, err));
    } else {
        KL_TRY(kl_arena_reserve(a, b->nl * (int64_t)sizeof(uint32_t), &at, err));
        for (int64_t l = 0; l < b->nl; l++) ((uint32_t *)(void *)(a->byte + at))[l] = (uint32_t)b->mask[l];
    }
    d->mask = KL_PLACE(at);
    double value = 0.0;
    int even = 1;
    for (int64_t i = 0; i < b->nbit * width && even; i++) {
        if (b->bits[i] == 0.0) continue;
        if (value == 0.0) value = b->bits[i];
        even = b->bits[i] == value;
    }
    d->even = even;
    d->bit_value = value;
    if (even) {
        KL_TRY(kl_alloc(&with, width, KL_MEM_RECORD, err));
        for (int k = 0; k < b->nbit; k++)
            for (int64_t r = 0; r < width; r++) with[r] |= (uint64_t)(b->bits[k * width + r] != 0.0) << k;
        KL_TRY(kl_arena_append(a, with, width * (int64_t)sizeof *with, &at, err));
        d->with = KL_PLACE(at);
    } else {
        KL_TRY(kl_arena_append(a, b->bits, b->nbit * width * (int64_t)sizeof(double), &at, err));
        d->bits = KL_PLACE(at);
    }
out:
    kl_free(&with);
    return st;
}

static kl_status pack_cross(kl_arena *a, const kl_kron *k, const kl_kron_block *b, kl_devkron_block *d,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_devkron_cross *all = NULL;
    uint32_t *col = NULL;
    double *val = NULL;
    int64_t at;
    if (b->ncross == 0) return KL_OK;
    const int64_t nl = (b->nl + LANES - 1) / LANES * LANES;
    KL_TRY(kl_alloc(&all, b->ncross, KL_MEM_RECORD, err));
    for (int64_t c = 0; c < b->ncross; c++) {
        const kl_kron_op *const o = b->cross[c].a;
        const kl_kron_block *const s = &k->block[b->cross[c].source];
        kl_devkron_cross *const g = &all[c];
        g->off = s->off;
        g->nl = s->nl;
        for (int64_t l = 0; l < o->nrow; l++)
            if ((int64_t)o->ptr[l + 1] - o->ptr[l] > g->most) g->most = (int)(o->ptr[l + 1] - o->ptr[l]);
        KL_TRY(kl_alloc(&col, g->most * nl, KL_MEM_RECORD, err));
        KL_TRY(kl_alloc(&val, g->most * nl, KL_MEM_RECORD, err));
        for (int64_t l = 0; l < o->nrow; l++)
            for (uint32_t q = o->ptr[l]; q < o->ptr[l + 1]; q++) {
                const int64_t to = (q - o->ptr[l]) * nl + l;
                col[to] = o->idx16 ? o->idx16[q] : o->idx32[q];
                val[to] = !o->unit ? o->coef[q] : q < o->minus[l] ? o->scale : -o->scale;
            }
        KL_TRY(kl_arena_append(a, col, g->most * nl * (int64_t)sizeof *col, &at, err));
        g->col = KL_PLACE(at);
        KL_TRY(kl_arena_append(a, val, g->most * nl * (int64_t)sizeof *val, &at, err));
        g->val = KL_PLACE(at);
        KL_TRY(kl_kronlist_pack(a, b->cross[c].b, b->cross[c].b->nrow, KL_DEVKRON_RIGHT_ROWS, 1, NULL, &g->b,
                                err));
        kl_free(&col);
        kl_free(&val);
    }
    KL_TRY(kl_arena_append(a, all, b->ncross * (int64_t)sizeof *all, &at, err));
    d->cross = KL_PLACE(at);
    d->ncross = (int)b->ncross;
out:
    kl_free(&all);
    kl_free(&col);
    kl_free(&val);
    return st;
}

static kl_status pack_block(kl_arena *a, const kl_kron *k, const kl_kron_block *b,
                            const kl_devkron_room *left, const kl_devkron_room *right, kl_devkron_block *d,
                            kl_err *err)
{
    kl_status st = KL_OK;
    int64_t at;
    if (b->nl >= INT64_C(1) << 29 || b->nr >= INT64_C(1) << 29)
        KL_TRY(kl_fail(err, KL_EINPUT, "a half has %lld states of one charge; a device takes fewer than 2^29",
                       (long long)(b->nl > b->nr ? b->nl : b->nr)));
    d->off = b->off;
    d->nl = b->nl;
    d->nr = b->nr;
    d->ntile = b->ntile;
    KL_TRY(kl_kronlist_pack(a, b->a, b->nl, KL_DEVKRON_LEFT_ROWS, 0, left, &d->left, err));
    KL_TRY(kl_kronlist_pack(a, b->b, b->nr, KL_DEVKRON_RIGHT_ROWS, 1, right, &d->right, err));
    int64_t zeros = 0;
    if (!b->dr) return KL_OK; /* a source of cross terms alone, without a product of its own: kronparts.h */
    while (zeros < b->nl && b->dl[zeros] == 0.0) zeros++;
    if (zeros < b->nl) {
        KL_TRY(kl_arena_append(a, b->dl, b->nl * (int64_t)sizeof(double), &at, err));
        d->dl = KL_PLACE(at);
    }
    KL_TRY(kl_arena_append(a, b->dr, b->ntile * LANES * (int64_t)sizeof(double), &at, err));
    d->dr = KL_PLACE(at);
    /* also beyond the last state, where it keeps vectors 0 */
    for (int64_t r = 0; r < b->ntile * LANES && !d->any_dr; r++) d->any_dr = b->dr[r] != 0.0;
    KL_TRY(pack_bits(a, b, d, err));
    d->nfeature = b->nfeature;
    if (b->nfeature > 0) {
        KL_TRY(kl_arena_append(a, b->fl, b->nl * b->nfeature * (int64_t)sizeof(double), &at, err));
        d->fl = KL_PLACE(at);
        KL_TRY(kl_arena_append(a, b->fr, b->nfeature * b->ntile * LANES * (int64_t)sizeof(double), &at, err));
        d->fr = KL_PLACE(at);
    }
    KL_TRY(pack_cross(a, k, b, d, err));
out:
    return st;
}

/* ---------------------------------------------------------------- the whole */

/* Work of a strip stays together, so that far entries find their source in the second-level cache. */
static kl_status list_items(kl_arena *a, const kl_kron *k, const kl_devkron_block *d, int right,
                            int64_t *place, int64_t *count, int64_t *states, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0;
    for (int64_t i = 0; i < k->nblock; i++)
        n += right ? (d[i].nl + LANES - 1) / LANES * d[i].right.ngroup : d[i].ntile * d[i].left.ngroup;
    if (n > INT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT, "a product has %lld parts; a device takes 2^31", (long long)n));
    KL_TRY(kl_arena_reserve(a, n * (int64_t)sizeof(kl_devkron_item), place, err));
    kl_devkron_item *item = (kl_devkron_item *)(void *)(a->byte + *place);
    *count = n;
    *states = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_devkron_op *const o = right ? &d[i].right : &d[i].left;
        const int64_t nstrip = right ? (d[i].nl + LANES - 1) / LANES : d[i].ntile;
        const uint32_t *const group = (const uint32_t *)(const void *)(a->byte + (uintptr_t)o->group - 1);
        for (int g = 0; g < o->ngroup; g++)
            if ((int64_t)group[g + 1] - group[g] > *states) *states = (int64_t)group[g + 1] - group[g];
        for (int64_t s = 0; s < nstrip; s++)
            for (int g = 0; g < o->ngroup; g++)
                *item++ = (kl_devkron_item){(uint32_t)i, (uint32_t)s, (uint32_t)g, 0};
    }
out:
    return st;
}

static void move_block(kl_devkron_block *d, char *byte, void *base)
{
    kl_devkron_cross *const g =
        d->ncross > 0 ? (kl_devkron_cross *)(void *)(byte + (uintptr_t)d->cross - 1) : NULL;
    for (int c = 0; c < d->ncross; c++) {
        KL_MOVE(g[c].col, base);
        KL_MOVE(g[c].val, base);
        kl_kronlist_move(&g[c].b, base);
    }
    kl_kronlist_move(&d->left, base);
    kl_kronlist_move(&d->right, base);
    KL_MOVE(d->dl, base);
    KL_MOVE(d->dr, base);
    KL_MOVE(d->mask, base);
    KL_MOVE(d->with, base);
    KL_MOVE(d->bits, base);
    KL_MOVE(d->fl, base);
    KL_MOVE(d->fr, base);
    KL_MOVE(d->cross, base);
}

/* Smaller groups than there is room for, where they are wished: for tests of what crosses their borders. */
static kl_devkron_opts fit(const kl_devkron_opts *o)
{
    const char *const wish = getenv("KRONLAT_KRON_STATES");
    const int64_t most = wish ? strtoll(wish, NULL, 10) / 32 * 32 : 0;
    kl_devkron_opts out = *o;
    for (int i = 0; i < 2 && most >= 64; i++) {
        if (most < out.left[i].most) out.left[i].most = most;
        if (most < out.right[i].most) out.right[i].most = most;
    }
    return out;
}

/* Many small teams hide each other's waiting, large ones have fewer far entries: these where more than `most'
   a row would be far otherwise. */
static kl_status choose_room(const kl_kron *k, int right, const kl_devkron_room *room, int *which,
                             kl_err *err)
{
    /* of 17 on a torus of 4 x 4, where it is 6.6 and 5.4, large teams win 17 and 2 %; of 13 on an open one,
       3.8 and 3.1, they lose 5 and 1 % */
    const double most = 5.0;
    kl_status st = KL_OK;
    double all = 0.0, rows = 0.0;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t nrow = right ? b->nr : b->nl, times = right ? b->nl : b->nr;
        uint32_t *group;
        int ngroup;
        int64_t far;
        KL_TRY(kl_kronlist_groups(right ? b->b : b->a, nrow, room, &group, &ngroup, &far, err));
        kl_free(&group);
        all += (double)far * (double)times;
        rows += (double)nrow * (double)times;
    }
    *which = all > most * rows;
out:
    return st;
}

kl_status kl_devkron_prepare(kl_kron *k, const kl_devkron_opts *o, kl_pool *pool, kl_err *err)
{
    kl_status st = KL_OK;
    kl_devkron *p = NULL;
    kl_devkron_block *d = NULL;
    kl_arena a = {0};
    int64_t left, right, block, partial;
    const kl_devkron_opts fitted = fit(o);
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, err));
    k->device = p;
    KL_TRY(kl_alloc(&d, k->nblock, KL_MEM_MISC, err));
    KL_TRY(choose_room(k, 0, fitted.left, &p->left_room, err));
    KL_TRY(choose_room(k, 1, fitted.right, &p->right_room, err));
    p->nblock = k->nblock;
    p->plain_left = p->plain_right = 1;
    for (int64_t i = 0; i < k->nblock; i++) {
        KL_TRY(pack_block(&a, k, &k->block[i], &fitted.left[p->left_room], &fitted.right[p->right_room],
                          &d[i], err));
        p->plain_left &= k->nblock == 1 && d[i].left.unit &&
                         (d[i].nbit == 0 || (d[i].even && d[i].nbit <= 32)) && d[i].nfeature == 0;
        p->plain_right &= k->nblock == 1 && d[i].right.unit && d[i].ncross == 0;
        if (p->plain_left && (!d[i].left.far || d[i].left.narrow)) p->plain_left = 2;
        if (p->plain_right && (!d[i].right.far || d[i].right.narrow)) p->plain_right = 2;
        if (!d[i].even && (d[i].nbit + 3) / 4 > p->tables) p->tables = (d[i].nbit + 3) / 4;
    }
    KL_TRY(list_items(&a, k, d, 0, &left, &p->nleft, &p->left_states, err));
    KL_TRY(list_items(&a, k, d, 1, &right, &p->nright, &p->right_states, err));
    KL_TRY(kl_arena_reserve(&a, k->nblock * (int64_t)sizeof *d, &block, err));
    KL_TRY(kl_arena_reserve(&a, (p->nleft + p->nright) * (int64_t)sizeof(double), &partial, err));
    p->list_bytes = a.n;
    p->list = kl_pool_take(pool, p->list_bytes);
    if (!p->list)
        KL_TRY(kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for the lists of a product with H",
                       (long long)p->list_bytes));
    for (int64_t i = 0; i < k->nblock; i++) move_block(&d[i], a.byte, p->list);
    if (k->nblock == 1) p->only = d[0];
    memcpy(a.byte + block, d, (size_t)k->nblock * sizeof *d);
    if (pool->put(pool->ctx, p->list, a.byte, a.n) != 0)
        KL_TRY(kl_fail(err, KL_EBROKEN, "lists of %lld bytes could not be copied to the device",
                       (long long)a.n));
    p->block = (const kl_devkron_block *)(void *)((char *)p->list + block);
    p->left = (const kl_devkron_item *)(void *)((char *)p->list + left);
    p->right = (const kl_devkron_item *)(void *)((char *)p->list + right);
    p->partial = (double *)(void *)((char *)p->list + partial);
out:
    kl_free(&a.byte);
    kl_free(&d);
    if (st != KL_OK) kl_devkron_release(k, pool);
    return st;
}

void kl_devkron_release(kl_kron *k, kl_pool *pool)
{
    kl_devkron *p = k->device;
    if (!p) return;
    kl_pool_give(pool, p->list, p->list_bytes);
    kl_free(&p);
    k->device = NULL;
}
