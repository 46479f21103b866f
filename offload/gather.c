/* Tables of Kronecker sums as threads that gather want them: see gather.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

/* One run of memory, filled on the host and sent as a whole. */
typedef struct arena {
    char *host;      /* NULL while sizes are counted */
    uint64_t device; /* where it will be */
    int64_t used;
} arena;

static uint64_t put(arena *a, const void *from, int64_t bytes)
{
    const int64_t at = a->used;
    if (!from || bytes == 0) return 0;
    a->used += (bytes + 15) / 16 * 16;
    if (a->host) memcpy(a->host + at, from, (size_t)bytes);
    return a->device + (uint64_t)at;
}

typedef struct tables {
    const kl_kron_op **op; /* every operator once, by address */
    int64_t nop, ncross, nblock;
    kl_gather_op *to;
    kl_gather_cross *cross;
    kl_gather_block *block;
    uint64_t *transposed;      /* [longest side] */
    uint64_t at_op, at_cross, at_block;
} tables;

static int by_address(const void *pa, const void *pb)
{
    const uintptr_t a = (uintptr_t)*(const kl_kron_op *const *)pa,
                    b = (uintptr_t)*(const kl_kron_op *const *)pb;
    return (a > b) - (a < b);
}

static int32_t place_of(const tables *t, const kl_kron_op *o)
{
    const kl_kron_op **const found =
        o ? bsearch(&o, t->op, (size_t)t->nop, sizeof(*t->op), by_address) : NULL;
    return found ? (int32_t)(found - t->op) : -1;
}

/* 1 when all bits are worth the same; then *transposed are the bits of each right state. */
static int one_weight(const kl_kron_block *b, double *weight, uint64_t *transposed)
{
    const int64_t pitch = b->ntile * LANES;
    *weight = 0.0;
    for (int64_t r = 0; r < pitch; r++) {
        transposed[r] = 0;
        for (int k = 0; k < b->nbit; k++) {
            const double v = b->bits[k * pitch + r];
            if (v == 0.0) continue;
            if (*weight == 0.0) *weight = v;
            if (v != *weight) return 0;
            transposed[r] |= UINT64_C(1) << k;
        }
    }
    return *weight != 0.0;
}

/* All blocks of x: those that are only read stand behind those of y (kron.h). */
static int64_t blocks_read(const kl_kron *k)
{
    int64_t n = k->nblock;
    for (int64_t i = 0; i < k->nblock; i++)
        for (int64_t c = 0; c < k->block[i].ncross; c++)
            if (k->block[i].cross[c].source >= n) n = k->block[i].cross[c].source + 1;
    return n;
}

/* Once to count, with a.host NULL, and once to write. */
static void fill(const kl_kron *k, tables *t, arena *a, int64_t *nunit)
{
    int64_t unit = 0, ncross = 0;
    t->at_op = put(a, t->to, t->nop * (int64_t)sizeof *t->to);
    t->at_cross = put(a, t->cross, t->ncross * (int64_t)sizeof *t->cross);
    t->at_block = put(a, t->block, t->nblock * (int64_t)sizeof *t->block);
    for (int64_t i = 0; i < t->nop; i++) {
        const kl_kron_op *const o = t->op[i];
        t->to[i] = (kl_gather_op){.ptr = put(a, o->ptr, (o->nrow + 1) * (int64_t)sizeof *o->ptr),
                                  .minus = put(a, o->minus, o->nrow * (int64_t)sizeof *o->minus),
                                  .idx16 = put(a, o->idx16, o->nnz * (int64_t)sizeof *o->idx16),
                                  .idx32 = put(a, o->idx32, o->nnz * (int64_t)sizeof *o->idx32),
                                  .coef = o->unit ? 0 : put(a, o->coef, o->nnz * (int64_t)sizeof *o->coef),
                                  .scale = o->scale};
    }
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t pitch = b->ntile * LANES;
        kl_gather_block *const to = &t->block[i];
        *to = (kl_gather_block){.off = b->off,
                                .nl = b->nl,
                                .nr = b->nr,
                                .unit = unit,
                                .a = place_of(t, b->a),
                                .b = place_of(t, b->b),
                                .nbit = b->nbit,
                                .nfeature = b->nfeature,
                                .first_cross = (int32_t)ncross,
                                .ncross = (int32_t)b->ncross};
        to->dl = put(a, b->dl, b->nl * 8);
        to->dr = put(a, b->dr, pitch * 8);
        if (b->nbit > 0) {
            to->mask = put(a, b->mask, b->nl * 8);
            if (one_weight(b, &to->weight, t->transposed)) to->transposed = put(a, t->transposed, pitch * 8);
            else to->weight = 0.0, to->bits = put(a, b->bits, b->nbit * pitch * 8);
        }
        to->fl = put(a, b->fl, b->nfeature * b->nl * 8);
        to->fr = put(a, b->fr, b->nfeature * pitch * 8);
        for (int64_t c = 0; c < b->ncross; c++)
            t->cross[ncross++] = (kl_gather_cross){.a = place_of(t, b->cross[c].a),
                                                   .b = place_of(t, b->cross[c].b),
                                                   .source = (int32_t)b->cross[c].source};
        unit += b->ntile * ((b->nl + KL_GATHER_ROWS - 1) / KL_GATHER_ROWS);
    }
    for (int64_t i = k->nblock; i < t->nblock; i++)
        t->block[i] = (kl_gather_block){.off = k->block[i].off, .nl = k->block[i].nl, .nr = k->block[i].nr};
    *nunit = unit;
}

void kl_gather_release(kl_kron *k, kl_pool *pool)
{
    kl_gather *h = k->device;
    if (!h) return;
    kl_pool_give(pool, h->memory, h->bytes);
    kl_free(&h);
    k->device = NULL;
}

kl_status kl_gather_prepare(kl_kron *k, kl_pool *pool, kl_err *err)
{
    kl_status st = KL_OK;
    kl_gather *h = NULL;
    tables t = {0};
    arena a = {0};
    int64_t nop = 0, most = 0, kept = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        nop += 2 + 2 * k->block[i].ncross;
        t.ncross += k->block[i].ncross;
        if (k->block[i].ntile * LANES > most) most = k->block[i].ntile * LANES;
    }
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    k->device = h;
    if (nop > INT32_MAX)
        KL_TRY(kl_fail(err, KL_ENOMEM, "%lld operators in one sum of products; at most %d are possible",
                       (long long)nop, INT32_MAX));
    KL_TRY(kl_alloc(&t.op, nop, KL_MEM_MISC, err));
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        if (b->a) t.op[t.nop++] = b->a;
        if (b->b) t.op[t.nop++] = b->b;
        for (int64_t c = 0; c < b->ncross; c++) t.op[t.nop++] = b->cross[c].a, t.op[t.nop++] = b->cross[c].b;
    }
    if (t.nop > 0) qsort(t.op, (size_t)t.nop, sizeof *t.op, by_address);
    for (int64_t i = 0; i < t.nop; i++)
        if (i == 0 || t.op[i] != t.op[kept - 1]) t.op[kept++] = t.op[i];
    t.nop = kept;
    KL_TRY(kl_alloc(&t.to, t.nop, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&t.cross, t.ncross, KL_MEM_MISC, err));
    t.nblock = blocks_read(k);
    KL_TRY(kl_alloc(&t.block, t.nblock, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&t.transposed, most, KL_MEM_MISC, err));
    fill(k, &t, &a, &h->nunit);
    h->bytes = a.used;
    h->memory = kl_pool_take(pool, h->bytes);
    if (!h->memory)
        KL_TRY(
            kl_fail(err, KL_ENOMEM, "the device has no %lld bytes for the tables of H", (long long)h->bytes));
    KL_TRY(kl_alloc(&a.host, h->bytes, KL_MEM_MISC, err));
    a.device = (uint64_t)(uintptr_t)h->memory;
    a.used = 0;
    fill(k, &t, &a, &h->nunit);
    /* the heads again, which now know their addresses */
    if (t.nop > 0) memcpy(a.host + (t.at_op - a.device), t.to, (size_t)t.nop * sizeof *t.to);
    if (t.ncross > 0) memcpy(a.host + (t.at_cross - a.device), t.cross, (size_t)t.ncross * sizeof *t.cross);
    if (t.nblock > 0) memcpy(a.host + (t.at_block - a.device), t.block, (size_t)t.nblock * sizeof *t.block);
    if (pool->put(pool->ctx, h->memory, a.host, h->bytes) != 0)
        KL_TRY(kl_fail(err, KL_EBROKEN, "%lld bytes of tables could not be copied to the device",
                       (long long)h->bytes));
    h->nblock = (int)k->nblock;
    h->op = (const kl_gather_op *)(uintptr_t)t.at_op;
    h->cross = (const kl_gather_cross *)(uintptr_t)t.at_cross;
    h->block = (const kl_gather_block *)(uintptr_t)t.at_block;
out:
    kl_free(&t.op);
    kl_free(&t.to);
    kl_free(&t.cross);
    kl_free(&t.block);
    kl_free(&t.transposed);
    kl_free(&a.host);
    if (st != KL_OK) kl_gather_release(k, pool);
    return st;
}
