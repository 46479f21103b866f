/* Packed lists of a sum of Kronecker products.
   1. The rows of an operator are cut into groups that fit fast memory, where few entries cross a border. 2.
      In a tile of rows far entries are gathered by their
   distance (column - row), the commonest first, and distances share a slot when no row has both; near ones
   are put into as few slots as allow that no bank of fast memory is wanted twice. 3. All arrays go to the
   device as one block of memory, addresses inside it put in beforehand.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/devkron.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum {
    LANES = KL_KRON_LANES,
    MOST_ROWS = 32,
    ALIGN = 256,
    AHEAD = 2048 /* bytes that may be read behind any array */
};

/* ---------------------------------------------------------------- one block of memory */

typedef struct arena {
    char *byte;
    int64_t n, room;
} arena;

/* Room for `bytes`, zero; *at its place. */
static kl_status reserve(arena *a, int64_t bytes, int64_t *at, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t first = (a->n + ALIGN - 1) / ALIGN * ALIGN, end = first + bytes + AHEAD;
    if (end > a->room) {
        const int64_t room = end > 2 * a->room ? end : 2 * a->room;
        KL_TRY(kl_realloc(&a->byte, room, KL_MEM_RECORD, err));
        a->room = room;
    }
    memset(a->byte + a->n, 0, (size_t)(end - a->n));
    a->n = end;
    *at = first;
out:
    return st;
}

static kl_status append(arena *a, const void *from, int64_t bytes, int64_t *at, kl_err *err)
{
    const kl_status st = reserve(a, bytes, at, err);
    if (st == KL_OK && bytes > 0) memcpy(a->byte + *at, from, (size_t)bytes);
    return st;
}

/* Places become addresses when the device's block is known: pointers are kept as places + 1 until then. */
#define PLACE(at) ((void *)(uintptr_t)((at) + 1))
#define MOVE(p, base) ((p) = (p) ? (void *)((char *)(base) + (uintptr_t)(p) - 1) : NULL)

/* ---------------------------------------------------------------- lists of an operator */

typedef struct entry {
    int64_t distance;
    uint32_t row, col; /* row within its tile */
    int minus, slot;
    double coef;
} entry;

static int by_distance(const void *pa, const void *pb)
{
    const entry *const a = pa, *const b = pb;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

typedef struct run { /* entries of one distance */
    int first, count;
} run;

static int by_count(const void *pa, const void *pb)
{
    const run *const a = pa, *const b = pb;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

typedef struct packer {
    int rows, right;   /* rows of a tile; 1: places as a right operator has them */
    arena *a;
    int64_t room;      /* entries of a tile */
    entry *e[2];       /* near, far */
    run *r;
    uint32_t *used;    /* [room] rows of a slot, */
    uint32_t *bank;    /* and banks of their entries */
    int *at[2]; /* [MOST_ROWS][room] entry of a slot that a row has, and that wants a bank; -1: none */
    int *path; /* [room] */
    uint32_t *near; /* as in kl_devkron_op */
    uint64_t *far;
    double *coef[2];
    int64_t npair[2], cap[2];
    int any[2];
} packer;

static void packer_clear(packer *p)
{
    for (int i = 0; i < 2; i++) {
        kl_free(&p->e[i]);
        kl_free(&p->coef[i]);
        kl_free(&p->at[i]);
    }
    kl_free(&p->r);
    kl_free(&p->used);
    kl_free(&p->bank);
    kl_free(&p->path);
    kl_free(&p->near);
    kl_free(&p->far);
}

/* Banks by number: rows that meet in one access of fast memory, 8 neighbours with two numbers of 8 bytes each
   (right) or 2 with 64 bytes, have as many. */
static uint32_t bank_of(const packer *p, uint32_t row, uint32_t local)
{
    const uint32_t meet = p->right ? LANES : 2;
    return row / meet * meet + local % meet;
}

/* 2. Slots of n far entries of a tile. Returns their number. */
static int far_slots(packer *p, entry *e, int n)
{
    if (n == 0) return 0;
    qsort(e, (size_t)n, sizeof *e, by_distance);
    int runs = 0, slots = 0;
    for (int i = 0; i < n;) {
        int j = i;
        while (j < n && e[j].distance == e[i].distance) j++;
        p->r[runs++] = (run){i, j - i};
        i = j;
    }
    qsort(p->r, (size_t)runs, sizeof *p->r, by_count);
    for (int k = 0; k < runs; k++) {
        uint32_t rows = 0;
        for (int i = p->r[k].first; i < p->r[k].first + p->r[k].count; i++) rows |= UINT32_C(1) << e[i].row;
        int s = 0;
        while (s < slots && (p->used[s] & rows)) s++;
        if (s == slots) p->used[slots++] = 0;
        p->used[s] |= rows;
        for (int i = p->r[k].first; i < p->r[k].first + p->r[k].count; i++) e[i].slot = s;
    }
    return slots;
}

/* 2. Slots of n near entries of a tile in the group from g0: no row has two entries in one, and no two of its
   entries want one bank. That is a colouring of the edges of a bipartite graph, rows and banks, so that as
   many slots are enough as the busiest of them has entries (Koenig): an entry whose row and bank have
   different slots free swaps these two along the path that begins at its bank, and that cannot come back to
   its row. Returns the number of slots. */
static int near_slots(packer *p, entry *e, int n, uint32_t g0)
{
    int degree[2][MOST_ROWS] = {{0}}, slots = 0;
    for (int i = 0; i < n; i++) {
        const uint32_t node[2] = {e[i].row, bank_of(p, e[i].row, e[i].col - g0)};
        for (int side = 0; side < 2; side++)
            if (++degree[side][node[side]] > slots) slots = degree[side][node[side]];
    }
    if (slots == 0) return 0; /* nothing to colour */
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < MOST_ROWS * slots; i++) p->at[side][i] = -1;
    for (int i = 0; i < n; i++) {
        const uint32_t node[2] = {e[i].row, bank_of(p, e[i].row, e[i].col - g0)};
        int slot[2] = {0, 0}, length = 0;
        for (int side = 0; side < 2; side++)
            while (p->at[side][(int)node[side] * slots + slot[side]] >= 0) slot[side]++;
        for (int side = 1, at = (int)node[1], turn = 0, k;
             (k = p->at[side][at * slots + slot[turn]]) >= 0 && slot[0] != slot[1]; turn = !turn) {
            p->path[length++] = k;
            side = !side;
            at = (int)(side ? bank_of(p, e[k].row, e[k].col - g0) : e[k].row);
        }
        for (int set = 0; set < 2; set++) /* first out of the tables, then in again */
            for (int k = 0; k < length; k++) {
                entry *const q = &e[p->path[k]];
                if (set) q->slot = slot[0] + slot[1] - q->slot;
                p->at[0][(int)q->row * slots + q->slot] = set ? p->path[k] : -1;
                p->at[1][(int)bank_of(p, q->row, q->col - g0) * slots + q->slot] = set ? p->path[k] : -1;
            }
        e[i].slot = slot[0];
        for (int side = 0; side < 2; side++) p->at[side][(int)node[side] * slots + slot[0]] = i;
    }
    memset(p->used, 0, (size_t)slots * sizeof *p->used);
    memset(p->bank, 0, (size_t)slots * sizeof *p->bank);
    for (int i = 0; i < n; i++) {
        p->used[e[i].slot] |= UINT32_C(1) << e[i].row;
        p->bank[e[i].slot] |= UINT32_C(1) << bank_of(p, e[i].row, e[i].col - g0);
    }
    return slots;
}

static kl_status grow(packer *p, int which, int64_t pairs, int unit, kl_err *err)
{
    kl_status st = KL_OK;
    if (p->npair[which] + pairs > p->cap[which]) {
        p->cap[which] = 2 * p->cap[which] + pairs + 256;
        const int64_t n = p->cap[which] * p->rows;
        if (which) KL_TRY(kl_realloc(&p->far, n, KL_MEM_RECORD, err));
        else KL_TRY(kl_realloc(&p->near, n, KL_MEM_RECORD, err));
        if (!unit) KL_TRY(kl_realloc(&p->coef[which], 2 * n, KL_MEM_RECORD, err));
    }
out:
    return st;
}

/* What a word of a near pair says of an entry, `local` being its state's number in the group. */
static uint32_t near_bits(const packer *p, int slot, uint32_t local, int minus)
{
    if (p->right)
        return (local / LANES * KL_DEVKRON_PITCH + local % LANES) << 16 * (slot % 2) |
               (uint32_t)minus << (16 * (slot % 2) + 15);
    return local * (LANES * 8) << (slot % 2 ? KL_DEVKRON_LEFT_SHIFT : 0) | (uint32_t)minus
                                                                               << (slot % 2 ? 31 : 0);
}

/* A state that holds 0 for a row without an entry, in a bank that nobody else wants; taken: the slot's banks
   so far. */
static uint32_t zero_state(const packer *p, int64_t states, uint32_t row, uint32_t *taken)
{
    const uint32_t end = (uint32_t)((states + LANES - 1) / LANES * LANES), meet = p->right ? LANES : 2;
    uint32_t local = end; /* the places from here on, as many as there are banks, hold 0 */
    while (local + 1 < end + meet && (*taken >> bank_of(p, row, local) & 1)) local++;
    *taken |= UINT32_C(1) << bank_of(p, row, local);
    return local;
}

/* The lists of rows [row, row + rows) of o, which lie in the group [g0, g1). */
static kl_status pack_tile(packer *p, const kl_kron_op *o, int64_t row, int64_t g0, int64_t g1,
                           kl_devkron_span *span, kl_err *err)
{
    kl_status st = KL_OK;
    int n[2] = {0, 0};
    const int64_t end = row + p->rows < o->nrow ? row + p->rows : o->nrow;
    const int64_t all = (int64_t)o->ptr[end] - o->ptr[row];
    if (all > p->room) {
        p->room = all + 64;
        for (int i = 0; i < 2; i++) KL_TRY(kl_realloc(&p->e[i], p->room, KL_MEM_RECORD, err));
        KL_TRY(kl_realloc(&p->r, p->room, KL_MEM_RECORD, err));
        KL_TRY(kl_realloc(&p->used, p->room, KL_MEM_RECORD, err));
        KL_TRY(kl_realloc(&p->bank, p->room, KL_MEM_RECORD, err));
        KL_TRY(kl_realloc(&p->path, p->room, KL_MEM_RECORD, err));
        for (int i = 0; i < 2; i++) KL_TRY(kl_realloc(&p->at[i], MOST_ROWS * p->room, KL_MEM_RECORD, err));
    }
    for (int64_t i = row; i < end; i++)
        for (uint32_t q = o->ptr[i]; q < o->ptr[i + 1]; q++) {
            const int64_t j = o->idx16 ? (int64_t)o->idx16[q] : (int64_t)o->idx32[q];
            const int far = j < g0 || j >= g1;
            p->e[far][n[far]++] =
                (entry){j - i, (uint32_t)(i - row),       (uint32_t)j, o->unit && q >= o->minus[i],
                        0,     o->unit ? 1.0 : o->coef[q]};
        }
    uint32_t *const first[2] = {&span->near_first, &span->far_first}, *const count[2] = {&span->near_count,
                                                                                         &span->far_count};
    for (int f = 0; f < 2; f++) {
        const int slots = f ? far_slots(p, p->e[f], n[f]) : near_slots(p, p->e[f], n[f], (uint32_t)g0);
        const int64_t least = f ? KL_DEVKRON_FAR_LEAST : KL_DEVKRON_NEAR_LEAST,
                      pairs = (slots + 1) / 2 > least ? (slots + 1) / 2 : least;
        /* a left operator's near pairs come in twos */
        const int64_t two = !f && !p->right ? 2 : 1, room = (pairs + two - 1) / two * two,
                      at = p->npair[f] * p->rows;
        KL_TRY(grow(p, f, room, o->unit, err));
        *first[f] = (uint32_t)(p->npair[f] / two);
        *count[f] = (uint32_t)pairs;
        p->any[f] |= n[f] > 0;
        p->npair[f] += room;
        if (!o->unit) memset(p->coef[f] + 2 * at, 0, (size_t)(2 * room * p->rows) * sizeof(double));
        if (f) {
            for (int64_t i = 0; i < room * p->rows; i++)
                p->far[at + i] = (uint64_t)KL_DEVKRON_NONE << 32 | KL_DEVKRON_NONE;
        } else {
            memset(p->near + at, 0, (size_t)(room * p->rows) * sizeof *p->near);
            for (int slot = 0; slot < 2 * room; slot++) {
                const uint32_t rows = slot < slots ? p->used[slot] : 0;
                uint32_t taken = rows ? p->bank[slot] : 0;
                for (int i = 0; i < p->rows; i++)
                    if (!(rows >> i & 1))
                        p->near[kl_devkron_near_at(*first[f], slot / 2, p->right, i)] |=
                            near_bits(p, slot, zero_state(p, g1 - g0, (uint32_t)i, &taken), 0);
            }
        }
        for (int i = 0; i < n[f]; i++) {
            const entry *const e = &p->e[f][i];
            const int slot = e->slot, shift = slot % 2;
            if (f) {
                const uint64_t v = e->col | (uint64_t)e->minus << 31;
                const int64_t to = at + slot / 2 * p->rows + e->row;
                p->far[to] = (p->far[to] & ~(UINT64_C(0xffffffff) << 32 * shift)) | v << 32 * shift;
            } else {
                p->near[kl_devkron_near_at(*first[f], slot / 2, p->right, (int)e->row)] |=
                    near_bits(p, slot, e->col - (uint32_t)g0, e->minus);
            }
            if (!o->unit) p->coef[f][2 * at + slot * p->rows + e->row] = e->coef;
        }
    }
out:
    return st;
}

/* 1. First rows of the groups, at most `most` rows each, in place[ngroup + 1]: of all borders at multiples of
   STEP those that leave the fewest entries far, an operator being as full above its diagonal as below. A team
   takes `round` rows at once: rows that the last round of a group lacks count as IDLE far entries each, and
   so does a quarter of a round for the group's beginning. *far: their entries. */
static kl_status make_groups(const kl_kron_op *o, int64_t nrow, const kl_devkron_room *room, uint32_t **place,
                             int *ngroup, int64_t *far, kl_err *err)
{
    enum { STEP = MOST_ROWS, IDLE = 4 };
    kl_status st = KL_OK;
    const int64_t nblock = (nrow + STEP - 1) / STEP, wide = room->most / STEP, round = room->round;
    /* of the best groups before a block; entries of the rows from a block on that stay there; of a block with
       one before it */
    int64_t *cost = NULL, *inside = NULL, *with = NULL;
    uint32_t *before = NULL, *g = NULL; /* where the last group before a block begins */
    int n = 0;
    KL_TRY(kl_alloc(&cost, nblock + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&inside, nblock + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&before, nblock + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&with, wide, KL_MEM_RECORD, err));
    for (int64_t b = 0; b < nblock; b++) {
        const int64_t end = (b + 1) * STEP < nrow ? (b + 1) * STEP : nrow;
        int64_t more = 0;
        memset(with, 0, (size_t)wide * sizeof *with);
        for (uint32_t q = o ? o->ptr[b * STEP] : 0; o && q < o->ptr[end]; q++) {
            const int64_t k = b - (o->idx16 ? (int64_t)o->idx16[q] : (int64_t)o->idx32[q]) / STEP;
            if (k >= 0 && k < wide) with[k] += k > 0 ? 2 : 1;
        }
        cost[b + 1] = INT64_MAX;
        for (int64_t a = b; a >= 0 && b - a < wide; a--) {
            more += with[b - a];
            inside[a] += more;
            const int64_t rounds = (end - a * STEP + round - 1) / round,
                          all = o ? (int64_t)o->ptr[end] - o->ptr[a * STEP] : 0;
            const int64_t c = cost[a] + all - inside[a] + IDLE * (rounds * round + round / 4);
            if (c <= cost[b + 1]) cost[b + 1] = c, before[b + 1] = (uint32_t)a;
        }
    }
    *far = nblock > 0 ? cost[nblock] : 0;
    for (int64_t b = nblock; b > 0; b = before[b], n++) {
        const int64_t rows = (b * STEP < nrow ? b * STEP : nrow) - (int64_t)before[b] * STEP;
        *far -= IDLE * ((rows + round - 1) / round * round + round / 4);
    }
    if (n == 0) n = 1;
    KL_TRY(kl_alloc(&g, n + 1, KL_MEM_RECORD, err));
    g[n] = (uint32_t)nrow;
    for (int64_t b = nblock, k = n; b > 0; b = before[b]) g[--k] = before[b] * STEP;
    *ngroup = n;
    *place = g;
    g = NULL;
out:
    kl_free(&cost);
    kl_free(&inside);
    kl_free(&before);
    kl_free(&with);
    kl_free(&g);
    return st;
}

/* Pairs of 32 bits become pairs of 16, in place. */
static void narrow(uint64_t *far, int64_t n)
{
    uint32_t *const to = (uint32_t *)(void *)far;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t e[2] = {(uint32_t)far[i], (uint32_t)(far[i] >> 32)};
        const uint32_t pair = (e[0] & KL_DEVKRON_NARROW_NONE) | e[0] >> 31 << 15 |
                              (e[1] & KL_DEVKRON_NARROW_NONE) << 16 | e[1] >> 31 << 31;
        memcpy(&to[i], &pair, sizeof pair);
    }
}

/* All lists of an operator, NULL being one without entries. room NULL: all entries are far. */
static kl_status pack(arena *a, const kl_kron_op *o, int64_t nrow, int rows, int right,
                      const kl_devkron_room *room, kl_devkron_op *out, kl_err *err)
{
    kl_status st = KL_OK;
    packer p = {.rows = rows, .right = right, .a = a};
    uint32_t *group = NULL;
    kl_devkron_span *span = NULL;
    int64_t at, far;
    const int64_t ntile = (nrow + rows - 1) / rows;
    *out = (kl_devkron_op){.unit = !o || o->unit, .scale = o && o->unit ? o->scale : 1.0, .ngroup = 1};
    if (room) {
        KL_TRY(make_groups(o, nrow, room, &group, &out->ngroup, &far, err));
        KL_TRY(append(a, group, (out->ngroup + 1) * (int64_t)sizeof *group, &at, err));
        out->group = PLACE(at);
    }
    KL_TRY(kl_alloc(&span, ntile, KL_MEM_RECORD, err));
    for (int k = 0; o && k < out->ngroup; k++) {
        const int64_t g0 = group ? group[k] : 0, g1 = group ? group[k + 1] : nrow;
        for (int64_t row = g0; row < g1; row += rows)
            KL_TRY(pack_tile(&p, o, row, room ? g0 : 0, room ? g1 : 0, &span[row / rows], err));
    }
    if (p.npair[0] > UINT32_MAX || p.npair[1] > UINT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "a matrix of one half has %lld pairs of list places; at most 2^32 are possible",
                       (long long)(p.npair[0] > p.npair[1] ? p.npair[0] : p.npair[1])));
    for (int64_t t = 0; t < ntile; t++) {
        if (!p.any[0]) span[t].near_first = span[t].near_count = 0;
        if (!p.any[1]) span[t].far_first = span[t].far_count = 0;
    }
    KL_TRY(append(a, span, ntile * (int64_t)sizeof *span, &at, err));
    out->span = PLACE(at);
    if (p.any[0]) { /* behind the last list more is read than is there */
        KL_TRY(append(a, p.near, p.npair[0] * rows * (int64_t)sizeof *p.near, &at, err));
        out->near = PLACE(at);
    }
    if (p.any[1]) {
        out->narrow = o->ncol <= KL_DEVKRON_NARROW_NONE;
        if (out->narrow) narrow(p.far, p.npair[1] * rows);
        KL_TRY(append(a, p.far, p.npair[1] * rows * (int64_t)(out->narrow ? sizeof(uint32_t) : sizeof *p.far),
                      &at, err));
        out->far = PLACE(at);
    }
    if (!out->unit) {
        KL_TRY(append(a, p.coef[0], 2 * p.npair[0] * rows * (int64_t)sizeof(double), &at, err));
        out->near_coef = PLACE(at);
        KL_TRY(append(a, p.coef[1], 2 * p.npair[1] * rows * (int64_t)sizeof(double), &at, err));
        out->far_coef = PLACE(at);
    }
out:
    packer_clear(&p);
    kl_free(&group);
    kl_free(&span);
    return st;
}

static void move_op(kl_devkron_op *o, void *base)
{
    MOVE(o->group, base);
    MOVE(o->span, base);
    MOVE(o->near, base);
    MOVE(o->far, base);
    MOVE(o->near_coef, base);
    MOVE(o->far_coef, base);
}

/* ---------------------------------------------------------------- blocks */

/* Where every bit is worth the same on all right states that have it, counting is enough. */
static kl_status pack_bits(arena *a, const kl_kron_block *b, kl_devkron_block *d, kl_err *err)
{
    kl_status st = KL_OK;
    uint64_t *with = NULL;
    int64_t at;
    const int64_t width = b->ntile * LANES;
    d->nbit = b->nbit;
    if (b->nbit == 0) return KL_OK;
    if (b->nbit > 32) {
        KL_TRY(append(a, b->mask, b->nl * (int64_t)sizeof *b->mask, &at, err));
    } else {
        KL_TRY(reserve(a, b->nl * (int64_t)sizeof(uint32_t), &at, err));
        for (int64_t l = 0; l < b->nl; l++) ((uint32_t *)(void *)(a->byte + at))[l] = (uint32_t)b->mask[l];
    }
    d->mask = PLACE(at);
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
        KL_TRY(append(a, with, width * (int64_t)sizeof *with, &at, err));
        d->with = PLACE(at);
    } else {
        KL_TRY(append(a, b->bits, b->nbit * width * (int64_t)sizeof(double), &at, err));
        d->bits = PLACE(at);
    }
out:
    kl_free(&with);
    return st;
}

static kl_status pack_cross(arena *a, const kl_kron *k, const kl_kron_block *b, kl_devkron_block *d,
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
        KL_TRY(append(a, col, g->most * nl * (int64_t)sizeof *col, &at, err));
        g->col = PLACE(at);
        KL_TRY(append(a, val, g->most * nl * (int64_t)sizeof *val, &at, err));
        g->val = PLACE(at);
        KL_TRY(pack(a, b->cross[c].b, b->cross[c].b->nrow, KL_DEVKRON_RIGHT_ROWS, 1, NULL, &g->b, err));
        kl_free(&col);
        kl_free(&val);
    }
    KL_TRY(append(a, all, b->ncross * (int64_t)sizeof *all, &at, err));
    d->cross = PLACE(at);
    d->ncross = (int)b->ncross;
out:
    kl_free(&all);
    kl_free(&col);
    kl_free(&val);
    return st;
}

static kl_status pack_block(arena *a, const kl_kron *k, const kl_kron_block *b, const kl_devkron_room *left,
                            const kl_devkron_room *right, kl_devkron_block *d, kl_err *err)
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
    KL_TRY(pack(a, b->a, b->nl, KL_DEVKRON_LEFT_ROWS, 0, left, &d->left, err));
    KL_TRY(pack(a, b->b, b->nr, KL_DEVKRON_RIGHT_ROWS, 1, right, &d->right, err));
    int64_t zeros = 0;
    while (zeros < b->nl && b->dl[zeros] == 0.0) zeros++;
    if (zeros < b->nl) {
        KL_TRY(append(a, b->dl, b->nl * (int64_t)sizeof(double), &at, err));
        d->dl = PLACE(at);
    }
    KL_TRY(append(a, b->dr, b->ntile * LANES * (int64_t)sizeof(double), &at, err));
    d->dr = PLACE(at);
    /* also beyond the last state, where it keeps vectors 0 */
    for (int64_t r = 0; r < b->ntile * LANES && !d->any_dr; r++) d->any_dr = b->dr[r] != 0.0;
    KL_TRY(pack_bits(a, b, d, err));
    d->nfeature = b->nfeature;
    if (b->nfeature > 0) {
        KL_TRY(append(a, b->fl, b->nl * b->nfeature * (int64_t)sizeof(double), &at, err));
        d->fl = PLACE(at);
        KL_TRY(append(a, b->fr, b->nfeature * b->ntile * LANES * (int64_t)sizeof(double), &at, err));
        d->fr = PLACE(at);
    }
    KL_TRY(pack_cross(a, k, b, d, err));
out:
    return st;
}

/* ---------------------------------------------------------------- the whole */

/* Work of a strip stays together, so that far entries find their source in the second-level cache. */
static kl_status list_items(arena *a, const kl_kron *k, const kl_devkron_block *d, int right, int64_t *place,
                            int64_t *count, int64_t *states, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0;
    for (int64_t i = 0; i < k->nblock; i++)
        n += right ? (d[i].nl + LANES - 1) / LANES * d[i].right.ngroup : d[i].ntile * d[i].left.ngroup;
    if (n > INT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT, "a product has %lld parts; a device takes 2^31", (long long)n));
    KL_TRY(reserve(a, n * (int64_t)sizeof(kl_devkron_item), place, err));
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
        MOVE(g[c].col, base);
        MOVE(g[c].val, base);
        move_op(&g[c].b, base);
    }
    move_op(&d->left, base);
    move_op(&d->right, base);
    MOVE(d->dl, base);
    MOVE(d->dr, base);
    MOVE(d->mask, base);
    MOVE(d->with, base);
    MOVE(d->bits, base);
    MOVE(d->fl, base);
    MOVE(d->fr, base);
    MOVE(d->cross, base);
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
        KL_TRY(make_groups(right ? b->b : b->a, nrow, room, &group, &ngroup, &far, err));
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
    arena a = {0};
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
    KL_TRY(reserve(&a, k->nblock * (int64_t)sizeof *d, &block, err));
    KL_TRY(reserve(&a, p->nleft * (int64_t)sizeof(double), &partial, err));
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
