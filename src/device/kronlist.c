/* Lists of one operator: see kronlist.h. 1. The rows of an operator are cut into groups that fit fast memory,
   where few entries cross a border. 2. In a tile of rows far entries are gathered by their distance (column -
   row), the commonest first, and distances share a slot when no row has both; near ones are put into as few
   slots as allow that no bank of fast memory is wanted twice.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/kronlist.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum {
    LANES = KL_KRON_LANES,
    MOST_ROWS = 32,
    ALIGN = 256,
    AHEAD = 2048 /* bytes that may be read behind any array */
};

kl_status kl_arena_reserve(kl_arena *a, int64_t bytes, int64_t *at, kl_err *err)
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

kl_status kl_arena_append(kl_arena *a, const void *from, int64_t bytes, int64_t *at, kl_err *err)
{
    const kl_status st = kl_arena_reserve(a, bytes, at, err);
    if (st == KL_OK && bytes > 0) memcpy(a->byte + *at, from, (size_t)bytes);
    return st;
}

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
    int rows, right; /* rows of a tile; 1: entries as a right operator has them */
    kl_arena *a;
    int64_t room; /* entries of a tile */
    entry *e[2]; /* near, far */
    run *r;
    uint32_t *used; /* [room] rows of a slot, */
    uint32_t *bank; /* and banks of their entries */
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
    uint32_t local = end; /* the words from here on, as many as there are banks, hold 0 */
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

kl_status kl_kronlist_groups(const kl_kron_op *o, int64_t nrow, const kl_devkron_room *room, uint32_t **place,
                             int *ngroup, int64_t *far, kl_err *err)
{
    enum {
        STEP = MOST_ROWS,
        IDLE = 4,
    };
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

kl_status kl_kronlist_pack(kl_arena *a, const kl_kron_op *o, int64_t nrow, int rows, int right,
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
        KL_TRY(kl_kronlist_groups(o, nrow, room, &group, &out->ngroup, &far, err));
        KL_TRY(kl_arena_append(a, group, (out->ngroup + 1) * (int64_t)sizeof *group, &at, err));
        out->group = KL_PLACE(at);
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
    KL_TRY(kl_arena_append(a, span, ntile * (int64_t)sizeof *span, &at, err));
    out->span = KL_PLACE(at);
    if (p.any[0]) { /* behind the last list more is read than is there */
        KL_TRY(kl_arena_append(a, p.near, p.npair[0] * rows * (int64_t)sizeof *p.near, &at, err));
        out->near = KL_PLACE(at);
    }
    if (p.any[1]) {
        out->narrow = o->ncol <= KL_DEVKRON_NARROW_NONE;
        if (out->narrow) narrow(p.far, p.npair[1] * rows);
        KL_TRY(kl_arena_append(a, p.far,
                               p.npair[1] * rows * (int64_t)(out->narrow ? sizeof(uint32_t) : sizeof *p.far),
                               &at, err));
        out->far = KL_PLACE(at);
    }
    if (!out->unit) {
        KL_TRY(kl_arena_append(a, p.coef[0], 2 * p.npair[0] * rows * (int64_t)sizeof(double), &at, err));
        out->near_coef = KL_PLACE(at);
        KL_TRY(kl_arena_append(a, p.coef[1], 2 * p.npair[1] * rows * (int64_t)sizeof(double), &at, err));
        out->far_coef = KL_PLACE(at);
    }
out:
    packer_clear(&p);
    kl_free(&group);
    kl_free(&span);
    return st;
}

void kl_kronlist_move(kl_devkron_op *o, void *base)
{
    KL_MOVE(o->group, base);
    KL_MOVE(o->span, base);
    KL_MOVE(o->near, base);
    KL_MOVE(o->far, base);
    KL_MOVE(o->near_coef, base);
    KL_MOVE(o->far_coef, base);
}
