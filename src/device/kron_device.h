/* The two kernels of H v as a sum of Kronecker products on NVIDIA GPUs from sm_90 on, once for CUDA and for
   bare OpenMP regions, which launch them, a team an item. `right` writes y = (1 (x) b) x and all pairs a (x)
   b, `left` adds (a (x) 1) x and the diagonal and takes x . y in the same pass: five passes over memory in
   all. A team brings the part of x that belongs to its group of states into shared memory, for `left` one run
   of memory, for `right` many short ones, and walks the packed lists of devkron.h; what lies outside the
   group comes through the caches while near entries are added.

   What limits them: accesses of shared memory and caches are counted in runs of 128 bytes, so lanes lie such
   that 8 neighbours in a tile of x and two left states fill one; latency is hidden by asking for several
   values before the first is added up, which takes registers: `unit' and the like are constants for callers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRON_DEVICE_H
#define KL_KRON_DEVICE_H
#include "device/devkron.h"
#include "device/ptx.h"

enum {
    /* numbers at the beginning of shared memory: a barrier, from 8 on a sum of each of up to 32 warps, and */
    KL_KRON_HEAD = 64,
    /* for `left' what 8 right states have of the diagonal: dr and the bits they have */
    KL_KRON_ONCE = 40,
    KL_KRON_TABLE = 16 * KL_KRON_LANES, /* numbers of a table of sums of bits */
    /* pairs of near slots that `left' reads ahead, see kl_cached_twos; devkron.c leaves room behind the last
       one */
    KL_KRON_AHEAD = 6,
    KL_KRON_MINE = KL_KRON_LANES / 2 /* left states of a lane of `right', see kl_cached_apart */
};

/* ---------------------------------------------------------------- sizes, for who launches */

/* Teams that share a multiprocessor, by what kl_devkron says of their memory. */
static inline int kl_kron_left_teams(int room) { return room ? 1 : 2; }
static inline int kl_kron_right_teams(int room) { return room ? 1 : 4; }

/* Groups as large as a multiprocessor's shared memory allows, of whose part for each team `taken' bytes are
   others'; threads: of all its teams. */
static inline void kl_kron_fit(int64_t bytes, int64_t taken, int left_threads, int right_threads,
                               kl_devkron_opts *o)
{
    for (int i = 0; i < 2; i++) {
        const int64_t left = (bytes / kl_kron_left_teams(i) - taken) / 8 - KL_KRON_HEAD,
                      right = (bytes / kl_kron_right_teams(i) - taken) / 8 - KL_KRON_HEAD;
        o->left[i].most = (left / KL_KRON_LANES - 2) / 32 * 32;
        o->right[i].most = (right / KL_DEVKRON_PITCH - 1) * KL_KRON_LANES / 32 * 32;
        if (o->left[i].most > KL_DEVKRON_LEFT_STATES) o->left[i].most = KL_DEVKRON_LEFT_STATES;
        if (o->right[i].most > KL_DEVKRON_RIGHT_STATES) o->right[i].most = KL_DEVKRON_RIGHT_STATES;
        o->left[i].round = left_threads / kl_kron_left_teams(i) / 32 * KL_DEVKRON_LEFT_ROWS;
        o->right[i].round = right_threads / kl_kron_right_teams(i) / 32 * KL_DEVKRON_RIGHT_ROWS;
    }
}

static inline int kl_kron_table_at(const kl_devkron *p)
{
    return KL_KRON_HEAD +
           (int)((p->left_states + KL_KRON_LANES - 1) / KL_KRON_LANES * KL_KRON_LANES + 2) * KL_KRON_LANES;
}

static inline int kl_kron_left_bytes(const kl_devkron *p)
{
    return 8 * (kl_kron_table_at(p) + p->tables * KL_KRON_TABLE);
}

static inline int kl_kron_right_bytes(const kl_devkron *p)
{
    return 8 * (KL_KRON_HEAD +
                ((int)((p->right_states + KL_KRON_LANES - 1) / KL_KRON_LANES) + 1) * KL_DEVKRON_PITCH);
}

/* ---------------------------------------------------------------- far entries */

/* A pair as it lies in the list, and its entries: a column, in bit 31 a sign. */
KL_DEV uint64_t kl_kron_far(const void *far, int narrow, uint64_t at)
{
    return narrow ? kl_cached_u32((const uint32_t *)far + at) : kl_cached_u64((const uint64_t *)far + at);
}
KL_DEV uint32_t kl_kron_first(uint64_t pair, int narrow)
{
    return narrow ? ((uint32_t)pair & 0x7fffu) | ((uint32_t)pair << 16 & 0x80000000u) : (uint32_t)pair;
}
KL_DEV uint32_t kl_kron_second(uint64_t pair, int narrow)
{
    return narrow ? ((uint32_t)pair >> 16 & 0x7fffu) | ((uint32_t)pair & 0x80000000u)
                  : (uint32_t)(pair >> 32);
}
KL_DEV uint32_t kl_kron_none(int narrow) { return narrow ? KL_DEVKRON_NARROW_NONE : KL_DEVKRON_NONE; }

/* ---------------------------------------------------------------- (a (x) 1) x, the diagonal, x . y */

/* Both entries of a near pair; shared: the group's first row; lane: the lane's two right states in a row, in
   bytes. coef: of the pair's first slot, where not unit. */
KL_DEV void kl_kron_left_near(double *sum, uint32_t w, uint32_t shared, uint32_t lane, int unit,
                              const double *coef)
{
    const kl_pair v0 = kl_shared_pair(shared + ((w & KL_DEVKRON_LEFT_MASK) | lane)),
                  v1 = kl_shared_pair(shared + ((w >> KL_DEVKRON_LEFT_SHIFT & KL_DEVKRON_LEFT_MASK) | lane));
    const double f0 = unit ? kl_sign_of(w) : kl_cached(coef),
                 f1 = unit ? kl_flip_sign(1.0, w) : kl_cached(coef + KL_DEVKRON_LEFT_ROWS);
    sum[0] += f0 * v0.a, sum[1] += f0 * v0.b;
    sum[0] += f1 * v1.a, sum[1] += f1 * v1.b;
}

KL_DEV kl_pair kl_kron_left_from(uint32_t e, int narrow, const double *x)
{
    const uint32_t j = e & 0x7fffffffu;
    kl_pair v = {0.0, 0.0};
    if (j != kl_kron_none(narrow)) v = kl_cached_pair(x + (uint64_t)j * KL_KRON_LANES);
    return v;
}

/* Far pairs of a row: the values of one are in flight, the word of the next one too, while near pairs are
   worked on. */
typedef struct kl_kron_left_way {
    const double *x; /* of the lane */
    const void *far;
    const double *coef; /* not unit: of the row's first slot */
    uint64_t at, word; /* of the next pair: index in the list, where it is known, and content */
    int pair, count;
    uint32_t e[2];
    kl_pair v[2];
} kl_kron_left_way;

KL_DEV void kl_kron_left_ask(kl_kron_left_way *way, int narrow)
{
    way->e[0] = kl_kron_first(way->word, narrow);
    way->e[1] = kl_kron_second(way->word, narrow);
    way->v[0] = kl_kron_left_from(way->e[0], narrow, way->x);
    way->v[1] = kl_kron_left_from(way->e[1], narrow, way->x);
    way->at += KL_DEVKRON_LEFT_ROWS;
    if (way->pair + 1 < way->count) way->word = kl_kron_far(way->far, narrow, way->at);
}

/* Adds what was asked for, and asks for the next pair. */
KL_DEV void kl_kron_left_take(double *sum, kl_kron_left_way *way, int unit, int narrow)
{
    if (way->pair >= way->count) return;
    KL_UNROLL
    for (int i = 0; i < 2; i++) {
        const double f = unit ? kl_sign_of(way->e[i] >> 31)
                              : kl_cached(way->coef + (2 * way->pair + i) * KL_DEVKRON_LEFT_ROWS);
        sum[0] += f * way->v[i].a, sum[1] += f * way->v[i].b;
    }
    if (++way->pair < way->count) kl_kron_left_ask(way, narrow);
}

/* table[g][m][lane] = sum of the bits 4 g + i that are set in m. */
KL_DEV void kl_kron_tables(const kl_devkron_block *b, int64_t tile, int team, double *table)
{
    const int64_t width = b->ntile * KL_KRON_LANES;
    for (int i = kl_in_block(); i < (b->nbit + 3) / 4 * KL_KRON_TABLE; i += team) {
        const int g = i / KL_KRON_TABLE, m = i / KL_KRON_LANES % 16, lane = i % KL_KRON_LANES;
        double a = 0.0;
        for (int k = 0; k < 4 && 4 * g + k < b->nbit; k++)
            if (m >> k & 1) a += b->bits[(4 * g + k) * width + tile * KL_KRON_LANES + lane];
        table[i] = a;
    }
}

/* The diagonal beyond dl + dr for one left state of the group's block and a lane's two right ones, whose bits
   are `with' in fast memory. */
KL_DEV void kl_kron_bits(const kl_devkron_block *b, int64_t tile, int64_t l, int c, uint64_t m, int few,
                         uint32_t with, const double *table, double *d)
{
    if (few) {
        uint32_t bits[2];
        kl_shared_two(with, bits);
        for (int i = 0; i < 2; i++) d[i] += b->bit_value * kl_bits((uint32_t)m & bits[i]);
        return;
    }
    if (b->even && b->nbit > 0) {
        for (int i = 0; i < 2; i++) {
            uint32_t bits[2];
            kl_shared_two(with + (uint32_t)i * 8, bits);
            d[i] += b->bit_value * (kl_bits((uint32_t)m & bits[0]) + kl_bits((uint32_t)(m >> 32) & bits[1]));
        }
    }
    for (int g = 0; g * 4 < b->nbit && !b->even; g++, m >>= 4)
        for (int i = 0; i < 2; i++) d[i] += table[g * KL_KRON_TABLE + (int)(m & 15) * KL_KRON_LANES + c + i];
    for (int k = 0; k < b->nfeature; k++) {
        const double f = kl_cached(b->fl + l * b->nfeature + k);
        for (int i = 0; i < 2; i++)
            d[i] += f * kl_cached(b->fr + (k * b->ntile + tile) * KL_KRON_LANES + c + i);
    }
}

/* What is known of a list and of its diagonal, constants where they are used: coefficients are 1 or -1; a
   popcount of 32 bits makes what dl + dr leave; entries are narrow; y is added to, not written. */
typedef struct kl_kron_left_how {
    int unit, few, narrow, adds;
} kl_kron_left_how;

/* Addresses in fast memory: of the group's states, and of what a tile needs once; and the tables of bits. */
typedef struct kl_kron_left_fast {
    uint32_t shared, once;
    const double *table;
} kl_kron_left_fast;

/* Rows of one group on one tile: four lanes a row, two right states a lane; neighbouring warps have
   neighbouring rows, whose far entries are neighbours too. Words of the next rows are in flight while
   these are worked on, and values of far entries while near ones are. once: what the tile's right states have
   of the diagonal, in fast memory (bits of each in 32 bits, where few). Returns the lane's part of x times
   what it makes of x. */
KL_DEV double kl_kron_left_rows(const kl_devkron_block *b, int64_t tile, uint32_t g0, int n, int team,
                                const kl_kron_left_how how, const kl_kron_left_fast fast, const double *x,
                                double *y)
{
    const int unit = how.unit, few = how.few, narrow = how.narrow, adds = how.adds;
    const uint32_t shared = fast.shared, once = fast.once;
    enum {
        ROWS = KL_DEVKRON_LEFT_ROWS,
        LANES = KL_KRON_LANES,
        FIRST = KL_KRON_AHEAD / 2,
    };
    const int row = kl_lane_number() / 4, c = kl_lane_number() % 4 * 2, ntile = (n + ROWS - 1) / ROWS,
              step = team / 32;
    const int has_near = b->left.near != 0, has_far = b->left.far != 0;
    const uint32_t *const span = (const uint32_t *)(b->left.span + g0 / ROWS),
                          *const near = b->left.near + 2 * row, lane = (uint32_t)c * 8;
    kl_kron_left_way way = {0};
    double dot = 0.0;
    uint32_t now[4], next[4], w[KL_KRON_AHEAD];
    int t = kl_in_block() / 32;
    if (t >= ntile) return 0.0;
    way.x = kl_steady(x + c);
    way.far = b->left.far;
    y += (int64_t)g0 * LANES + row * LANES + c;
    kl_cached_four(span + 4 * t, now);
    if (has_near) kl_cached_twos(near + (uint64_t)now[0] * (2 * ROWS), ROWS * 8, w);
    if (has_far) way.word = kl_kron_far(way.far, narrow, (uint64_t)now[2] * ROWS + row);
    for (; t < ntile; t += step) {
        const int i = t * ROWS + row, is = i < n;
        double sum[2] = {0.0, 0.0};
        kl_pair old = {0.0, 0.0};
        uint64_t m = 0;
        kl_cached_four(span + 4 * (t + step < ntile ? t + step : t), next);
        way.pair = 0;
        way.count = has_far ? (int)now[3] : 0;
        if (has_far) {
            way.at = (uint64_t)now[2] * ROWS + row;
            way.coef = unit ? 0 : b->left.far_coef + 2 * (uint64_t)now[2] * ROWS + row;
            kl_kron_left_ask(&way, narrow);
        }
        if (is) {
            if (adds) old = kl_once_pair(y + (int64_t)t * (ROWS * LANES));
            if (b->nbit > 0)
                m = few || b->nbit <= 32 ? kl_cached_u32((const uint32_t *)b->mask + g0 + i)
                                         : kl_cached_u64((const uint64_t *)b->mask + g0 + i);
        }
        if (has_near) {
            const double *const coef = unit ? 0 : b->left.near_coef + (uint64_t)now[0] * (4 * ROWS) + row;
            KL_UNROLL
            for (int k = 0; k < KL_KRON_AHEAD; k++) {
                if (k < KL_DEVKRON_NEAR_LEAST || k < (int)now[1])
                    kl_kron_left_near(sum, w[k], shared, lane, unit, unit ? 0 : coef + 2 * k * ROWS);
                if (k == FIRST - 1) kl_kron_left_take(sum, &way, unit, narrow);
            }
            KL_ROLLED
            for (int k = KL_KRON_AHEAD; k < (int)now[1]; k += 2) {
                uint32_t two[2];
                kl_cached_two(near + ((uint64_t)now[0] + (uint64_t)k / 2) * (2 * ROWS), two);
                kl_kron_left_near(sum, two[0], shared, lane, unit, unit ? 0 : coef + 2 * k * ROWS);
                if (k + 1 < (int)now[1])
                    kl_kron_left_near(sum, two[1], shared, lane, unit, unit ? 0 : coef + (2 * k + 2) * ROWS);
            }
            kl_cached_twos(near + (uint64_t)next[0] * (2 * ROWS), ROWS * 8, w);
        }
        if (has_far) {
            KL_ROLLED
            while (way.pair < way.count) kl_kron_left_take(sum, &way, unit, narrow);
            way.word = kl_kron_far(way.far, narrow, (uint64_t)next[2] * ROWS + row);
        }
        KL_UNROLL
        for (int k = 0; k < 4; k++) now[k] = next[k];
        if (!is) continue;
        double diagonal[2] = {0.0, 0.0};
        if (b->any_dr) {
            const kl_pair dr = kl_shared_pair(once + lane);
            diagonal[0] = dr.a, diagonal[1] = dr.b;
        }
        if (b->dl) {
            const double d = kl_cached(b->dl + g0 + i);
            diagonal[0] += d, diagonal[1] += d;
        }
        kl_kron_bits(b, tile, g0 + i, c, m, few, once + LANES * 8 + (few ? lane / 2 : lane), fast.table,
                     diagonal);
        const kl_pair own = kl_shared_pair(shared + ((uint32_t)i * (LANES * 8) | lane));
        const kl_pair out = {old.a + diagonal[0] * own.a + b->left.scale * sum[0],
                             old.b + diagonal[1] * own.b + b->left.scale * sum[1]};
        kl_put_once_pair(y + (int64_t)t * (ROWS * LANES), out);
        dot += out.a * own.a;
        dot += out.b * own.b;
    }
    return dot;
}

/* Fast memory of a team of `left': KL_KRON_HEAD numbers, the group's states and two that hold 0, and from
   table_at on the tables of bits. */
typedef struct kl_kron_room {
    double *memory;
    int table_at;
} kl_kron_room;

/* plain: as in kl_devkron. adds 0: y is written. *partial: the item's part of x . y. */
KL_DEV void kl_kron_left(const kl_devkron_block *b, const kl_devkron_item it, int team, int plain, int adds,
                         const kl_kron_room room, const double *x, double *y, double *partial)
{
    enum { LANES = KL_KRON_LANES };
    double *const memory = room.memory, *const part = memory + 8, *const once = memory + KL_KRON_ONCE,
                  *const s = memory + KL_KRON_HEAD, *const table = memory + room.table_at;
    uint64_t *const bar = (uint64_t *)memory;
    const int64_t tile = it.strip;
    const uint32_t group = it.group;
    const int me = kl_in_block();
    const uint32_t g0 = b->left.group[group];
    const int n = (int)(b->left.group[group + 1] - g0);
    const int64_t at = b->off + tile * b->nl * LANES;
    if (me == 0) {
        kl_barrier_init(bar, 1);
        kl_barrier_ready();
        kl_barrier_expect(bar, n * LANES * 8);
        kl_bring(s, x + at + (int64_t)g0 * LANES, n * LANES * 8, bar);
    }
    if (me < 2 * LANES) s[(n + LANES - 1) / LANES * LANES * LANES + me] = 0.0;
    if (me < LANES) once[me] = kl_cached(b->dr + tile * LANES + me);
    if (me < LANES && (plain || b->even)) {
        const uint64_t with = b->nbit > 0 ? kl_cached_u64(b->with + tile * LANES + me) : 0;
        if (plain) ((uint32_t *)(once + LANES))[me] = (uint32_t)with;
        else ((uint64_t *)once)[LANES + me] = with;
    }
    if (!plain && !b->even && b->nbit > 0) kl_kron_tables(b, tile, team, table);
    kl_block_sync();
    kl_barrier_wait(bar, 0);
    const kl_kron_left_fast fast = {kl_shared_address(s), kl_shared_address(once), table};
    const kl_kron_left_how bits = {1, 1, plain == 2, adds}, ones = {1, 0, b->left.narrow, adds},
                           any = {0, 0, b->left.narrow, adds};
    double dot;
    if (plain) dot = kl_kron_left_rows(b, tile, g0, n, team, bits, fast, x + at, y + at);
    else if (b->left.unit) dot = kl_kron_left_rows(b, tile, g0, n, team, ones, fast, x + at, y + at);
    else dot = kl_kron_left_rows(b, tile, g0, n, team, any, fast, x + at, y + at);
    dot = kl_lane_sum(dot, 32);
    if (me % 32 == 0) part[me / 32] = dot;
    kl_block_sync();
    if (me != 0) return;
    for (int w = 1; w < team / 32; w++) dot += part[w];
    *partial = dot;
}

/* ---------------------------------------------------------------- (1 (x) b) x and pairs */

/* A lane of `right' has one of 16 rows, 8 neighbours side by side, and every other one of 8 left states. Both
   entries of a near pair; at: the lane's first left state of the group's first row. */
KL_DEV void kl_kron_right_near(double *acc, uint32_t w, uint32_t at, int unit, const double *coef)
{
    enum { STEP = 2 * KL_KRON_LANES * 8 };
    const uint32_t a0 = at + (kl_masked(w, 0x7fffu) << 3), a1 = at + (w >> 13 & 0x3fff8u);
    double v0[KL_KRON_MINE], v1[KL_KRON_MINE];
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) v0[i] = kl_shared_one(a0 + STEP * i);
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) v1[i] = kl_shared_one(a1 + STEP * i);
    const double f0 = unit ? kl_flip_sign(1.0, w << 16) : kl_cached(coef),
                 f1 = unit ? kl_flip_sign(1.0, w) : kl_cached(coef + KL_DEVKRON_RIGHT_ROWS);
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) acc[i] += f0 * v0[i];
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) acc[i] += f1 * v1[i];
}

/* Tiles of x from number `tile' on, which lie in another memory: see kl_kron_beyond in kron.h. */
typedef struct kl_kron_others {
    const double *x; /* of the strip's first left state */
    uint32_t stride, tile;
    double *partial; /* where the item's part of x times what it makes of x goes */
} kl_kron_others;

/* Far entries of a row, a slot at a time: its values and the word of the next pair are in flight while
   near pairs are worked on. */
typedef struct kl_kron_right_way {
    const double *x, *coef; /* of the lane's first left state; not unit: of the row's first slot */
    const char *far; /* the row's first pair */
    kl_kron_others others; /* x of the lane; tile: 2^32 - 1 where there are none */
    uint64_t word, next; /* pairs */
    uint32_t stride, e;
    int states, count; /* left states that are there, of KL_KRON_MINE; pairs */
    double v[KL_KRON_MINE];
} kl_kron_right_way;

/* The lane's left states, as many as are there, of the right state that e names. */
KL_DEV void kl_kron_right_from(double *v, uint32_t e, int narrow, int beyond, const kl_kron_right_way *way)
{
    const uint32_t j = e & 0x7fffffffu, tile = j / KL_KRON_LANES;
    const int is = j != kl_kron_none(narrow), away = beyond && tile >= way->others.tile;
    const double *const from =
        away ? way->others.x + (uint64_t)(tile - way->others.tile) * way->others.stride + j % KL_KRON_LANES
             : way->x + (uint64_t)tile * way->stride + j % KL_KRON_LANES;
    if (way->states == KL_KRON_MINE) {
        kl_cached_apart(from, 2 * KL_KRON_LANES * 8, is, v);
    } else {
        KL_UNROLL
        for (int i = 0; i < KL_KRON_MINE; i++) {
            v[i] = 0.0;
            if (is && i < way->states) v[i] = kl_cached(from + 2 * KL_KRON_LANES * i);
        }
    }
}

KL_DEV void kl_kron_right_ask(kl_kron_right_way *way, uint32_t e, int narrow, int beyond)
{
    way->e = e;
    kl_kron_right_from(way->v, e, narrow, beyond, way);
}

KL_DEV void kl_kron_right_add(double *acc, const kl_kron_right_way *way, int slot, int unit)
{
    const double f = unit ? kl_flip_sign(1.0, way->e) : kl_cached(way->coef + slot * KL_DEVKRON_RIGHT_ROWS);
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) acc[i] += f * way->v[i];
}

KL_DEV void kl_kron_right_begin(kl_kron_right_way *way, int narrow, int beyond)
{
    kl_kron_right_ask(way, kl_kron_first(way->word, narrow), narrow, beyond);
    way->next = kl_kron_far(way->far, narrow, KL_DEVKRON_RIGHT_ROWS);
}

/* Adds the first entry of pair k, which was asked for, and asks for the second; adds this one and asks for
   the first of the next pair. */
KL_DEV void kl_kron_right_first(double *acc, kl_kron_right_way *way, int k, int unit, int narrow, int beyond)
{
    if (k >= way->count) return;
    kl_kron_right_add(acc, way, 2 * k, unit);
    kl_kron_right_ask(way, kl_kron_second(way->word, narrow), narrow, beyond);
}

KL_DEV void kl_kron_right_second(double *acc, kl_kron_right_way *way, int k, int unit, int narrow, int beyond)
{
    if (k >= way->count) return;
    kl_kron_right_add(acc, way, 2 * k + 1, unit);
    if (k + 1 >= way->count) return;
    way->word = way->next;
    kl_kron_right_ask(way, kl_kron_first(way->word, narrow), narrow, beyond);
    if (k + 2 < way->count)
        way->next = kl_kron_far(way->far, narrow, (uint64_t)(k + 2) * KL_DEVKRON_RIGHT_ROWS);
}

/* acc[i] += sum over entries (l', va) of a's row l0 + 2 i and (r', vb) of b's row: va vb x(l', r'). Rows of a
   are the same for a whole strip, so those without an entry cost nothing. */
KL_DEV void kl_kron_pairs(const kl_devkron_cross *g, int64_t tile, int row, int64_t l0, int64_t nl8,
                          const double *x, double *acc)
{
    enum {
        ROWS = KL_DEVKRON_RIGHT_ROWS,
        LANES = KL_KRON_LANES,
        MINE = KL_KRON_MINE,
    };
    const kl_devkron_op *const o = &g->b;
    const kl_devkron_span span = o->span[tile];
    const int narrow = o->narrow;
    const double *const coef = o->unit ? 0 : o->far_coef + 2 * (int64_t)span.far_first * ROWS + row,
                        *const xs = x + g->off;
    for (int m = 0; m < g->most; m++) {
        uint32_t col[MINE];
        double val[MINE];
        int any = 0;
        KL_UNROLL
        for (int i = 0; i < MINE; i++) {
            col[i] = kl_cached_u32(g->col + m * nl8 + l0 + 2 * i);
            val[i] = o->scale * kl_cached(g->val + m * nl8 + l0 + 2 * i);
            any |= val[i] != 0.0;
        }
        if (!any) continue;
        for (int k = 0; k < (int)span.far_count; k++) {
            const uint64_t f =
                kl_kron_far(o->far, narrow, ((uint64_t)span.far_first + (uint64_t)k) * ROWS + row);
            KL_UNROLL
            for (int h = 0; h < 2; h++) {
                const uint32_t e = h ? kl_kron_second(f, narrow) : kl_kron_first(f, narrow),
                               j = e & 0x7fffffffu;
                if (j == kl_kron_none(narrow)) continue;
                const double vb = o->unit ? kl_flip_sign(1.0, e) : kl_cached(coef + (2 * k + h) * ROWS);
                const double *const from = xs + (int64_t)(j / LANES) * g->nl * LANES + j % LANES;
                KL_UNROLL
                for (int i = 0; i < MINE; i++)
                    if (val[i] != 0.0) acc[i] += val[i] * vb * kl_cached(from + (int64_t)col[i] * LANES);
            }
        }
    }
}

/* y of a lane's left states, as many as `count', of a right state: as it was, and as it is to be. */
KL_DEV void kl_kron_right_old(double *old, const double *home, int count)
{
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) {
        old[i] = 0.0;
        if (i < count) old[i] = kl_once(home + 2 * KL_KRON_LANES * i);
    }
}

/* The same of a whole tile, 32 bytes by each of 16 lanes, while other work is done. */
KL_DEV void kl_kron_right_early(const double *home, int odd, int lane)
{
    kl_prefetch(home - odd * KL_KRON_LANES - lane % 8 + lane % 16 * 4);
}

KL_DEV void kl_kron_right_put(double *home, const double *acc, int count)
{
    if (count == KL_KRON_MINE) {
        KL_UNROLL
        for (int i = 0; i < KL_KRON_MINE; i++) kl_put_once(home + 2 * KL_KRON_LANES * i, acc[i]);
    } else {
        for (int i = 0; i < KL_KRON_MINE; i++)
            if (i < count) kl_put_once(home + 2 * KL_KRON_LANES * i, acc[i]);
    }
}

/* Returns dot + the lane's own x, in fast memory, times acc; then adds what y was. */
KL_DEV double kl_kron_right_dot(double *acc, const double *old, int count, uint32_t own, double dot)
{
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) {
        if (i < count) dot += acc[i] * kl_shared_one(own + 2 * KL_KRON_LANES * 8 * (uint32_t)i);
        acc[i] += old[i];
    }
    return dot;
}

/* As kl_kron_left_how; there may be pairs a (x) b; all 8 left states are there; others not NULL: y is added
   to, and what they say of x holds. */
typedef struct kl_kron_right_how {
    int unit, crosses, narrow, full;
    const kl_kron_others *others;
} kl_kron_right_how;

/* Rows of one group for 8 left states from l0 on. Returns the lane's part of x times what it makes of x,
   where there are others. */
KL_DEV double kl_kron_right_rows(const kl_devkron_block *b, uint32_t g0, int n, int64_t l0, int team,
                                 const kl_kron_right_how how, uint32_t shared, const double *x, double *y)
{
    const int unit = how.unit, crosses = how.crosses, narrow = how.narrow, full = how.full,
              beyond = how.others != 0;
    enum {
        ROWS = KL_DEVKRON_RIGHT_ROWS,
        LANES = KL_KRON_LANES,
        MINE = KL_KRON_MINE,
        AHEAD = KL_DEVKRON_NEAR_LEAST
    };
    const int lane = kl_lane_number(), odd = lane / 8 % 2, row = lane / 16 * 8 + lane % 8,
              ntile = (n + ROWS - 1) / ROWS, step = team / 32, has_far = b->right.far != 0;
    const int there = (int)(b->nl - l0 < LANES ? b->nl - l0 : (int64_t)LANES),
              count = full ? MINE : (there - odd + 1) / 2;
    const uint32_t *const span = (const uint32_t *)(b->right.span + g0 / ROWS), *const near =
                                                                                    b->right.near + row;
    const uint32_t stride = (uint32_t)(b->nl * LANES), at = shared + (uint32_t)odd * (LANES * 8);
    double *const to = y + b->off + (l0 + odd) * LANES + lane % 8;
    uint32_t now[4], next[4], w[AHEAD];
    kl_kron_right_way way = {0};
    double dot = 0.0;
    int t = kl_in_block() / 32;
    if (t >= ntile) return 0.0;
    way.x = kl_steady(x + b->off + (l0 + odd) * LANES);
    if (beyond) {
        way.others = *how.others;
        way.others.x += odd * LANES;
    }
    way.stride = stride;
    way.states = count;
    kl_cached_four(span + 4 * t, now);
    if (b->right.near) kl_cached_words(near + (uint64_t)now[0] * ROWS, ROWS * 4, w);
    if (has_far) way.word = kl_kron_far(b->right.far, narrow, (uint64_t)now[2] * ROWS + row);
    for (; t < ntile; t += step) {
        double acc[MINE], old[MINE];
        const uint32_t in_group = (uint32_t)(t * (ROWS / LANES) + lane / 16), to_tile = g0 / LANES + in_group;
        double *const home = to + (uint64_t)to_tile * stride;
        kl_cached_four(span + 4 * (t + step < ntile ? t + step : t), next);
        if (beyond && full && to_tile < (uint32_t)b->ntile) kl_kron_right_early(home, odd, lane);
        KL_UNROLL
        for (int i = 0; i < MINE; i++) acc[i] = 0.0;
        if (has_far) {
            way.far = (const char *)b->right.far + ((uint64_t)now[2] * ROWS + row) * (narrow ? 4 : 8);
            way.coef = unit ? 0 : b->right.far_coef + 2 * (uint64_t)now[2] * ROWS + row;
            way.count = (int)now[3];
            kl_kron_right_begin(&way, narrow, beyond);
        }
        int taken = 0;
        if (b->right.near) {
            const double *const coef = unit ? 0 : b->right.near_coef + 2 * (uint64_t)now[0] * ROWS + row;
            const uint32_t *p = near + (uint64_t)now[0] * ROWS;
            KL_UNROLL
            for (int k = 0; k < AHEAD; k++) {
                kl_kron_right_near(acc, w[k], at, unit, unit ? 0 : coef + 2 * k * ROWS);
                if ((int)now[1] > AHEAD) w[k] = kl_cached_u32(p + (AHEAD + k) * ROWS);
                if (has_far && k == 1) kl_kron_right_first(acc, &way, 0, unit, narrow, beyond);
                if (has_far && k == 3) kl_kron_right_second(acc, &way, 0, unit, narrow, beyond);
            }
            KL_ROLLED
            for (int first = AHEAD; first < (int)now[1]; first += AHEAD) {
                const int more = first + AHEAD < (int)now[1];
                p += AHEAD * ROWS;
                taken++;
                KL_UNROLL
                for (int k = 0; k < AHEAD; k++) {
                    if (first + k < (int)now[1])
                        kl_kron_right_near(acc, w[k], at, unit, unit ? 0 : coef + 2 * (first + k) * ROWS);
                    if (more) w[k] = kl_cached_u32(p + (AHEAD + k) * ROWS);
                    if (has_far && k == 1) kl_kron_right_first(acc, &way, taken, unit, narrow, beyond);
                    if (has_far && k == 3) kl_kron_right_second(acc, &way, taken, unit, narrow, beyond);
                }
            }
            taken++;
            kl_cached_words(near + (uint64_t)next[0] * ROWS, ROWS * 4, w);
        }
        if (has_far) {
            KL_ROLLED
            for (; taken < (int)now[3]; taken++) {
                kl_kron_right_first(acc, &way, taken, unit, narrow, beyond);
                kl_kron_right_second(acc, &way, taken, unit, narrow, beyond);
            }
            way.word = kl_kron_far(b->right.far, narrow, (uint64_t)next[2] * ROWS + row);
        }
        KL_UNROLL
        for (int k = 0; k < 4; k++) now[k] = next[k];
        if (unit) KL_UNROLL
        for (int i = 0; i < MINE; i++) acc[i] *= b->right.scale;
        if (crosses)
            for (int k = 0; k < b->ncross; k++)
                kl_kron_pairs(b->cross + k, g0 / ROWS + t, row, l0 + odd, (b->nl + LANES - 1) / LANES * LANES,
                              x, acc);
        if (to_tile >= (uint32_t)b->ntile) continue;
        if (beyond) { /* so late for want of registers: others' warps work meanwhile */
            kl_kron_right_old(old, home, full ? MINE : count);
            dot = kl_kron_right_dot(acc, old, full ? MINE : count,
                                    at + in_group * (KL_DEVKRON_PITCH * 8) + (uint32_t)lane % 8 * 8, dot);
        }
        kl_kron_right_put(home, acc, count);
    }
    return dot;
}

/* memory: KL_KRON_HEAD numbers, the group's tiles of 8 states with 8 left states each, and one that holds 0.
   plain: as in kl_devkron; others: as in kl_kron_right_how. */
KL_DEV void kl_kron_right(const kl_devkron_block *b, const kl_devkron_item it, int team, int plain,
                          const kl_kron_others *others, double *memory, const double *x, double *y)
{
    enum {
        LANES = KL_KRON_LANES,
        TILE = KL_DEVKRON_PITCH,
    };
    uint64_t *const bar = (uint64_t *)memory;
    double *const s = memory + KL_KRON_HEAD;
    const int me = kl_in_block(), beyond = others != 0;
    const uint32_t g0 = b->right.group[it.group];
    const int n = (int)(b->right.group[it.group + 1] - g0), ntile = (n + LANES - 1) / LANES;
    const int64_t l0 = (int64_t)it.strip * LANES, stride = b->nl * LANES;
    if (b->right.near != 0 || beyond) { /* by threads: pieces as small as these come slowly as bulk copies */
        if (me == 0) kl_barrier_init(bar, team);
        for (int i = me; i < TILE; i += team) s[ntile * TILE + i] = 0.0;
        kl_block_sync();
        const int mine = me % 32 * 2, there = (int)(b->nl - l0 < LANES ? b->nl - l0 : (int64_t)LANES) * LANES;
        const double *const from = x + b->off + l0 * LANES + (int64_t)(g0 / LANES) * stride + mine;
        for (int t = me / 32; t < ntile && mine < there; t += team / 32)
            kl_bring_pair(s + t * TILE + mine, from + t * stride);
        kl_barrier_brought(bar);
        kl_barrier_wait(bar, 0);
    }
    const uint32_t shared = kl_shared_address(s);
    const int full = b->nl - l0 >= LANES;
    const kl_kron_right_how whole = {1, 0, plain == 2, 1, others}, part_of = {1, 0, plain == 2, 0, others},
                            ones = {1, !beyond, b->right.narrow, full, others},
                            any = {0, !beyond, b->right.narrow, full, others};
    double dot;
    if (plain && full) dot = kl_kron_right_rows(b, g0, n, l0, team, whole, shared, x, y);
    else if (plain) dot = kl_kron_right_rows(b, g0, n, l0, team, part_of, shared, x, y);
    else if (b->right.unit) dot = kl_kron_right_rows(b, g0, n, l0, team, ones, shared, x, y);
    else dot = kl_kron_right_rows(b, g0, n, l0, team, any, shared, x, y);
    if (!beyond) return;
    double *const part = memory + 8;
    dot = kl_lane_sum(dot, 32);
    if (me % 32 == 0) part[me / 32] = dot;
    kl_block_sync();
    if (me != 0) return;
    for (int w = 1; w < team / 32; w++) dot += part[w];
    *others->partial = dot;
}

/* ---------------------------------------------------------------- the sum of what items found */

/* In a fixed order, by one team; mine: [team / 32] in shared memory. */
KL_DEV void kl_kron_sum(int64_t n, int team, const double *part, double *mine, double *result)
{
    const int me = kl_in_block();
    double a = 0.0;
    for (int64_t i = me; i < n; i += team) a += part[i];
    a = kl_lane_sum(a, 32);
    if (me % 32 == 0) mine[me / 32] = a;
    kl_block_sync();
    if (me != 0) return;
    for (int w = 1; w < team / 32; w++) a += mine[w];
    *result = a;
}
#endif
