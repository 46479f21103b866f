/* The two kernels of H v as a sum of Kronecker products on NVIDIA GPUs from sm_90 on, once for CUDA and for bare OpenMP regions: who includes this says what
   KL_DEV is (ptx.h) and launches them, a team an item. `right` writes y = (1 (x) b) x and all pairs a (x) b, `left` adds (a (x) 1) x and the diagonal and takes x . y
   on the way: five passes over memory in all. A team brings the part of x that belongs to its group of states into shared memory, in bulk, and walks the packed lists
   of devkron.h; what lies outside the group comes through the caches.

   What limits them, and what is done about it: accesses of shared memory and caches are counted in runs of 128 bytes, so lanes lie such that 8 neighbours in a tile
   of x and two left states fill one; latency is hidden by asking for several values before the first is added up, which takes registers, so arguments
   that are the same for all come as they do: `unit', `few' and the like are constants where these functions are called.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRON_DEVICE_H
#define KL_KRON_DEVICE_H
#include "devkron.h"
#include "ptx.h"

enum {
    KL_KRON_HEAD = 48,                   /* numbers at the beginning of shared memory: a barrier, and from 8 on a sum of each warp */
    KL_KRON_TABLE = 16 * KL_KRON_LANES,  /* numbers of a table of sums of bits */
    KL_KRON_AHEAD = 6,                   /* pairs of near slots read ahead, see kl_cached_six; devkron.c leaves room behind the last one */
    KL_KRON_MINE = KL_KRON_LANES / 2     /* left states of a lane of `right', see kl_cached_apart */
};

/* ---------------------------------------------------------------- sizes, for who launches */

/* Groups as large as so many bytes of shared memory hold. */
static inline void kl_kron_fit(int64_t left_bytes, int64_t right_bytes, kl_devkron_opts *o)
{
    const int64_t left = left_bytes / 8 - KL_KRON_HEAD, right = right_bytes / 8 - KL_KRON_HEAD;
    o->left_most = (left / KL_KRON_LANES - 2) / 32 * 32;
    o->right_most = (right / KL_DEVKRON_PITCH - 1) * KL_KRON_LANES / 32 * 32;
}

static inline int kl_kron_table_at(const kl_devkron *p)
{
    return KL_KRON_HEAD + (int)((p->left_states + KL_KRON_LANES - 1) / KL_KRON_LANES * KL_KRON_LANES + 2) * KL_KRON_LANES;
}

static inline int kl_kron_left_bytes(const kl_devkron *p) { return 8 * (kl_kron_table_at(p) + p->tables * KL_KRON_TABLE); }

static inline int kl_kron_right_bytes(const kl_devkron *p)
{
    return 8 * (KL_KRON_HEAD + ((int)((p->right_states + KL_KRON_LANES - 1) / KL_KRON_LANES) + 1) * KL_DEVKRON_PITCH);
}

/* ---------------------------------------------------------------- far entries */

/* A pair as it lies in the list, and its entries: a column, in bit 31 a sign. */
KL_DEV uint64_t kl_kron_far(const void *far, int narrow, uint64_t at) { return narrow ? kl_cached_u32((const uint32_t *)far + at) : kl_cached_u64((const uint64_t *)far + at); }
KL_DEV uint32_t kl_kron_first(uint64_t pair, int narrow) { return narrow ? ((uint32_t)pair & 0x7fffu) | ((uint32_t)pair << 16 & 0x80000000u) : (uint32_t)pair; }
KL_DEV uint32_t kl_kron_second(uint64_t pair, int narrow) { return narrow ? ((uint32_t)pair >> 16 & 0x7fffu) | ((uint32_t)pair & 0x80000000u) : (uint32_t)(pair >> 32); }
KL_DEV uint32_t kl_kron_none(int narrow) { return narrow ? KL_DEVKRON_NARROW_NONE : KL_DEVKRON_NONE; }

/* ---------------------------------------------------------------- (a (x) 1) x, the diagonal, x . y */

/* Both entries of a near pair; at: the lane's two right states of the group's first row. coef: of the pair's first slot, where not unit. */
KL_DEV void kl_kron_left_near(double *sum, uint32_t w, uint32_t at, int unit, const double *coef)
{
    const kl_pair v0 = kl_shared_pair(at + ((w & 0x7fffu) << 6)), v1 = kl_shared_pair(at + (w >> 10 & 0x1fffc0u));
    if (unit) {
        sum[0] += kl_turned(v0.a, w << 16), sum[1] += kl_turned(v0.b, w << 16);
        sum[0] += kl_turned(v1.a, w), sum[1] += kl_turned(v1.b, w);
    } else {
        const double f0 = kl_cached(coef), f1 = kl_cached(coef + KL_DEVKRON_LEFT_ROWS);
        sum[0] += f0 * v0.a, sum[1] += f0 * v0.b;
        sum[0] += f1 * v1.a, sum[1] += f1 * v1.b;
    }
}

KL_DEV kl_pair kl_kron_left_from(uint32_t e, int narrow, const double *x)
{
    const uint32_t j = e & 0x7fffffffu;
    kl_pair v = {0.0, 0.0};
    if (j != kl_kron_none(narrow)) v = kl_cached_pair(x + (uint64_t)j * KL_KRON_LANES);
    return v;
}

KL_DEV void kl_kron_left_far(double *sum, uint32_t e, kl_pair v, int unit, const double *coef)
{
    if (unit) {
        sum[0] += kl_turned(v.a, e), sum[1] += kl_turned(v.b, e);
    } else {
        const double f = kl_cached(coef);
        sum[0] += f * v.a, sum[1] += f * v.b;
    }
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

/* The diagonal beyond dl + dr for one left state of the group's block and a lane's two right ones. */
KL_DEV void kl_kron_bits(const kl_devkron_block *b, int64_t tile, int64_t l, int c, uint64_t m, const uint64_t *with, const double *table, double *d)
{
    if (b->even && b->nbit > 0) {
        for (int i = 0; i < 2; i++) d[i] += b->bit_value * (kl_bits((uint32_t)(m & with[i])) + kl_bits((uint32_t)((m & with[i]) >> 32)));
    }
    for (int g = 0; g * 4 < b->nbit && !b->even; g++, m >>= 4)
        for (int i = 0; i < 2; i++) d[i] += table[g * KL_KRON_TABLE + (int)(m & 15) * KL_KRON_LANES + c + i];
    for (int k = 0; k < b->nfeature; k++) {
        const double f = kl_cached(b->fl + l * b->nfeature + k);
        for (int i = 0; i < 2; i++) d[i] += f * kl_cached(b->fr + (k * b->ntile + tile) * KL_KRON_LANES + c + i);
    }
}

/* Rows of one group on one tile: four lanes a row, two right states a lane; neighbouring warps have neighbouring rows, whose far entries are neighbours too.
   Words of the next rows are on their way while these are worked on. few: a popcount of 32 bits makes the diagonal. Returns the lane's part of x . y. */
KL_DEV double kl_kron_left_rows(const kl_devkron_block *b, int64_t tile, uint32_t g0, int n, int team, int unit, int few, int narrow, uint32_t shared, const double *table, const double *x, double *y)
{
    enum { ROWS = KL_DEVKRON_LEFT_ROWS, LANES = KL_KRON_LANES };
    const int row = kl_lane_number() / 4, c = kl_lane_number() % 4 * 2, ntile = (n + ROWS - 1) / ROWS, step = team / 32;
    const int has_near = b->left.near != 0, has_far = b->left.far != 0;
    const uint32_t *const span = (const uint32_t *)(b->left.span + g0 / ROWS), *const near = b->left.near + row, at = shared + (uint32_t)c * 8;
    const void *const far = b->left.far;
    uint64_t with[2] = {0, 0};
    double dr[2], dot = 0.0;
    uint32_t now[4], next[4], w[KL_KRON_AHEAD];
    uint64_t f = 0;
    int t = kl_in_block() / 32;
    if (t >= ntile) return 0.0;
    for (int i = 0; i < 2; i++) {
        dr[i] = kl_cached(b->dr + tile * LANES + c + i);
        if (b->even && b->nbit > 0) with[i] = kl_cached_u64(b->with + tile * LANES + c + i);
    }
    x += c;
    y += (int64_t)g0 * LANES + row * LANES + c;
    kl_cached_four(span + 4 * t, now);
    if (has_near)
        KL_UNROLL
        for (int k = 0; k < KL_KRON_AHEAD; k++) w[k] = kl_cached_u32(near + (uint64_t)now[0] * ROWS + k * ROWS);
    if (has_far) f = kl_kron_far(far, narrow, (uint64_t)now[2] * ROWS + row);
    for (; t < ntile; t += step) {
        const int i = t * ROWS + row, is = i < n;
        double sum[2] = {0.0, 0.0}, d = 0.0;
        kl_pair v0 = {0.0, 0.0}, v1 = {0.0, 0.0}, old = {0.0, 0.0};
        uint64_t m = 0, f1 = 0;
        const uint32_t e0 = kl_kron_first(f, narrow), e1 = kl_kron_second(f, narrow);
        kl_cached_four(span + 4 * (t + step < ntile ? t + step : t), next);
        if (has_far) {
            v0 = kl_kron_left_from(e0, narrow, x);
            v1 = kl_kron_left_from(e1, narrow, x);
            f1 = kl_kron_far(far, narrow, ((uint64_t)now[2] + 1) * ROWS + row);
        }
        if (is) {
            old = kl_once_pair(y + (int64_t)t * (ROWS * LANES));
            if (b->dl) d = kl_cached(b->dl + g0 + i);
            if (b->nbit > 0) m = few || b->nbit <= 32 ? kl_cached_u32((const uint32_t *)b->mask + g0 + i) : kl_cached_u64((const uint64_t *)b->mask + g0 + i);
        }
        if (has_near) {
            const double *const coef = unit ? 0 : b->left.near_coef + 2 * (uint64_t)now[0] * ROWS + row;
            KL_UNROLL
            for (int k = 0; k < KL_KRON_AHEAD; k++)
                if (k < KL_DEVKRON_NEAR_LEAST || k < (int)now[1]) kl_kron_left_near(sum, w[k], at, unit, unit ? 0 : coef + 2 * k * ROWS);
            for (int k = KL_KRON_AHEAD; k < (int)now[1]; k++)
                kl_kron_left_near(sum, kl_cached_u32(near + ((uint64_t)now[0] + (uint64_t)k) * ROWS), at, unit, unit ? 0 : coef + 2 * k * ROWS);
            KL_UNROLL
            for (int k = 0; k < KL_KRON_AHEAD; k++) w[k] = kl_cached_u32(near + (uint64_t)next[0] * ROWS + k * ROWS);
        }
        if (has_far) {
            const double *const coef = unit ? 0 : b->left.far_coef + 2 * (uint64_t)now[2] * ROWS + row;
            f = kl_kron_far(far, narrow, (uint64_t)next[2] * ROWS + row);
            kl_kron_left_far(sum, e0, v0, unit, coef);
            kl_kron_left_far(sum, e1, v1, unit, unit ? 0 : coef + ROWS);
            for (int k = 1; k < (int)now[3]; k++) {
                const uint32_t a0 = kl_kron_first(f1, narrow), a1 = kl_kron_second(f1, narrow);
                if (k + 1 < (int)now[3]) f1 = kl_kron_far(far, narrow, ((uint64_t)now[2] + (uint64_t)k + 1) * ROWS + row);
                v0 = kl_kron_left_from(a0, narrow, x);
                v1 = kl_kron_left_from(a1, narrow, x);
                kl_kron_left_far(sum, a0, v0, unit, unit ? 0 : coef + 2 * k * ROWS);
                kl_kron_left_far(sum, a1, v1, unit, unit ? 0 : coef + (2 * k + 1) * ROWS);
            }
        }
        KL_UNROLL
        for (int k = 0; k < 4; k++) now[k] = next[k];
        if (!is) continue;
        double diagonal[2] = {d + dr[0], d + dr[1]};
        if (few) {
            diagonal[0] += b->bit_value * kl_bits((uint32_t)m & (uint32_t)with[0]);
            diagonal[1] += b->bit_value * kl_bits((uint32_t)m & (uint32_t)with[1]);
        } else {
            kl_kron_bits(b, tile, g0 + i, c, m, with, table, diagonal);
        }
        const kl_pair own = kl_shared_pair(at + (uint32_t)i * (LANES * 8));
        const kl_pair out = {old.a + diagonal[0] * own.a + b->left.scale * sum[0], old.b + diagonal[1] * own.b + b->left.scale * sum[1]};
        kl_put_once_pair(y + (int64_t)t * (ROWS * LANES), out);
        dot += out.a * own.a;
        dot += out.b * own.b;
    }
    return dot;
}

/* memory: KL_KRON_HEAD numbers, the group's states and two that hold 0, and from table_at on the tables of bits. plain: as in kl_devkron. *partial: the item's part of x . y. */
KL_DEV void kl_kron_left(const kl_devkron_block *b, int64_t tile, uint32_t group, int team, int plain, double *memory, int table_at, const double *x, double *y, double *partial)
{
    enum { LANES = KL_KRON_LANES };
    uint64_t *const bar = (uint64_t *)memory;
    double *const part = memory + 8, *const s = memory + KL_KRON_HEAD, *const table = memory + table_at;
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
    if (!plain && !b->even && b->nbit > 0) kl_kron_tables(b, tile, team, table);
    kl_block_sync();
    kl_barrier_wait(bar, 0);
    const uint32_t shared = kl_shared_address(s);
    double dot;
    if (plain) dot = kl_kron_left_rows(b, tile, g0, n, team, 1, 1, plain == 2, shared, table, x + at, y + at);
    else if (b->left.unit) dot = kl_kron_left_rows(b, tile, g0, n, team, 1, 0, b->left.narrow, shared, table, x + at, y + at);
    else dot = kl_kron_left_rows(b, tile, g0, n, team, 0, 0, b->left.narrow, shared, table, x + at, y + at);
    dot = kl_lane_sum(dot, 32);
    if (me % 32 == 0) part[me / 32] = dot;
    kl_block_sync();
    if (me != 0) return;
    for (int w = 1; w < team / 32; w++) dot += part[w];
    *partial = dot;
}

/* ---------------------------------------------------------------- (1 (x) b) x and pairs */

/* A lane of `right' has one of 16 rows, 8 neighbours side by side, and every other one of 8 left states. Both entries of a near pair; at: the lane's first left
   state of the group's first row. */
KL_DEV void kl_kron_right_near(double *acc, uint32_t w, uint32_t at, int unit, const double *coef)
{
    enum { STEP = 2 * KL_KRON_LANES * 8 };
    const uint32_t a0 = at + (kl_masked(w, 0x7fffu) << 3), a1 = at + (w >> 13 & 0x3fff8u);
    double v0[KL_KRON_MINE], v1[KL_KRON_MINE];
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) v0[i] = kl_shared_one(a0 + STEP * i);
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) v1[i] = kl_shared_one(a1 + STEP * i);
    const double f0 = unit ? kl_turned(1.0, w << 16) : kl_cached(coef), f1 = unit ? kl_turned(1.0, w) : kl_cached(coef + KL_DEVKRON_RIGHT_ROWS);
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) acc[i] += f0 * v0[i];
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) acc[i] += f1 * v1[i];
}

/* The lane's left states, `count' of which are there, of right state j. */
KL_DEV void kl_kron_right_from(double *v, uint32_t e, int narrow, const double *x, uint32_t stride, int count)
{
    const uint32_t j = e & 0x7fffffffu;
    const double *const from = x + (uint64_t)(j / KL_KRON_LANES) * stride + j % KL_KRON_LANES;
    const int is = j != kl_kron_none(narrow);
    if (count == KL_KRON_MINE) {
        kl_cached_apart(from, 2 * KL_KRON_LANES * 8, is, v);
    } else {
        KL_UNROLL
        for (int i = 0; i < KL_KRON_MINE; i++) {
            v[i] = 0.0;
            if (is && i < count) v[i] = kl_cached(from + 2 * KL_KRON_LANES * i);
        }
    }
}

KL_DEV void kl_kron_right_far(double *acc, uint32_t e, const double *v, int unit, const double *coef)
{
    const double f = unit ? kl_turned(1.0, e) : kl_cached(coef);
    KL_UNROLL
    for (int i = 0; i < KL_KRON_MINE; i++) acc[i] += f * v[i];
}

/* acc[i] += sum over entries (l', va) of a's row l0 + 2 i and (r', vb) of b's row: va vb x(l', r'). Rows of a are the same for a whole strip, so those without an
   entry cost nothing. */
KL_DEV void kl_kron_pairs(const kl_devkron_cross *g, int64_t tile, int row, int64_t l0, int64_t nl8, const double *x, double *acc)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS, LANES = KL_KRON_LANES, MINE = KL_KRON_MINE };
    const kl_devkron_op *const o = &g->b;
    const kl_devkron_span span = o->span[tile];
    const int narrow = o->narrow;
    const double *const coef = o->unit ? 0 : o->far_coef + 2 * (int64_t)span.far_first * ROWS + row, *const xs = x + g->off;
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
            const uint64_t f = kl_kron_far(o->far, narrow, ((uint64_t)span.far_first + (uint64_t)k) * ROWS + row);
            KL_UNROLL
            for (int h = 0; h < 2; h++) {
                const uint32_t e = h ? kl_kron_second(f, narrow) : kl_kron_first(f, narrow), j = e & 0x7fffffffu;
                if (j == kl_kron_none(narrow)) continue;
                const double vb = o->unit ? kl_turned(1.0, e) : kl_cached(coef + (2 * k + h) * ROWS);
                const double *const from = xs + (int64_t)(j / LANES) * g->nl * LANES + j % LANES;
                KL_UNROLL
                for (int i = 0; i < MINE; i++)
                    if (val[i] != 0.0) acc[i] += val[i] * vb * kl_cached(from + (int64_t)col[i] * LANES);
            }
        }
    }
}

/* Rows of one group for 8 left states from l0 on. crosses: there may be pairs a (x) b; full: all 8 states are there. */
KL_DEV void kl_kron_right_rows(const kl_devkron_block *b, uint32_t g0, int n, int64_t l0, int team, int unit, int crosses, int narrow, int full, uint32_t shared, const double *x, double *y)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS, LANES = KL_KRON_LANES, MINE = KL_KRON_MINE };
    const int lane = kl_lane_number(), odd = lane / 8 % 2, row = lane / 16 * 8 + lane % 8, ntile = (n + ROWS - 1) / ROWS, step = team / 32;
    const int there = (int)(b->nl - l0 < LANES ? b->nl - l0 : (int64_t)LANES), count = full ? MINE : (there - odd + 1) / 2;
    const int has_near = b->right.near != 0, has_far = b->right.far != 0;
    const uint32_t *const span = (const uint32_t *)(b->right.span + g0 / ROWS), *const near = b->right.near + row;
    const void *const far = b->right.far;
    const uint32_t stride = (uint32_t)(b->nl * LANES), at = shared + (uint32_t)odd * (LANES * 8);
    const double *const from = x + b->off + (l0 + odd) * LANES;
    double *const to = y + b->off + (l0 + odd) * LANES + lane % 8;
    uint32_t now[4], next[4], w[KL_KRON_AHEAD];
    uint64_t f = 0;
    int t = kl_in_block() / 32;
    if (t >= ntile) return;
    kl_cached_four(span + 4 * t, now);
    if (has_near) kl_cached_six(near + (uint64_t)now[0] * ROWS, ROWS * 4, w);
    if (has_far) f = kl_kron_far(far, narrow, (uint64_t)now[2] * ROWS + row);
    for (; t < ntile; t += step) {
        double acc[MINE], v0[MINE], v1[MINE];
        uint64_t f1 = 0;
        uint32_t e0 = kl_kron_first(f, narrow), e1 = kl_kron_second(f, narrow);
        kl_cached_four(span + 4 * (t + step < ntile ? t + step : t), next);
        KL_UNROLL
        for (int i = 0; i < MINE; i++) acc[i] = 0.0;
        if (has_far) {
            kl_kron_right_from(v0, e0, narrow, from, stride, count);
            kl_kron_right_from(v1, e1, narrow, from, stride, count);
            f1 = kl_kron_far(far, narrow, ((uint64_t)now[2] + 1) * ROWS + row);
        }
        if (has_near) {
            const double *const coef = unit ? 0 : b->right.near_coef + 2 * (uint64_t)now[0] * ROWS + row;
            KL_UNROLL
            for (int k = 0; k < KL_KRON_AHEAD; k++)
                if (k < KL_DEVKRON_NEAR_LEAST || k < (int)now[1]) kl_kron_right_near(acc, w[k], at, unit, unit ? 0 : coef + 2 * k * ROWS);
            KL_ROLLED
            for (int k = KL_KRON_AHEAD; k < (int)now[1]; k++)
                kl_kron_right_near(acc, kl_cached_u32(near + ((uint64_t)now[0] + (uint64_t)k) * ROWS), at, unit, unit ? 0 : coef + 2 * k * ROWS);
            kl_cached_six(near + (uint64_t)next[0] * ROWS, ROWS * 4, w);
        }
        if (has_far) {
            const double *const coef = unit ? 0 : b->right.far_coef + 2 * (uint64_t)now[2] * ROWS + row;
            f = kl_kron_far(far, narrow, (uint64_t)next[2] * ROWS + row);
            KL_ROLLED
            for (int k = 0;;) {
                kl_kron_right_far(acc, e0, v0, unit, unit ? 0 : coef + 2 * k * ROWS);
                kl_kron_right_far(acc, e1, v1, unit, unit ? 0 : coef + (2 * k + 1) * ROWS);
                if (++k >= (int)now[3]) break;
                e0 = kl_kron_first(f1, narrow), e1 = kl_kron_second(f1, narrow);
                kl_kron_right_from(v0, e0, narrow, from, stride, count);
                kl_kron_right_from(v1, e1, narrow, from, stride, count);
                if (k + 1 < (int)now[3]) f1 = kl_kron_far(far, narrow, ((uint64_t)now[2] + (uint64_t)k + 1) * ROWS + row);
            }
        }
        KL_UNROLL
        for (int k = 0; k < 4; k++) now[k] = next[k];
        if (unit)
            KL_UNROLL
            for (int i = 0; i < MINE; i++) acc[i] *= b->right.scale;
        if (crosses)
            for (int k = 0; k < b->ncross; k++) kl_kron_pairs(b->cross + k, g0 / ROWS + t, row, l0 + odd, (b->nl + LANES - 1) / LANES * LANES, x, acc);
        const uint32_t to_tile = g0 / LANES + (uint32_t)(t * (ROWS / LANES) + lane / 16);
        if (to_tile >= (uint32_t)b->ntile) continue;
        double *const p = to + (uint64_t)to_tile * stride;
        if (count == MINE) {
            KL_UNROLL
            for (int i = 0; i < MINE; i++) kl_put_once(p + 2 * LANES * i, acc[i]);
        } else {
            for (int i = 0; i < MINE; i++)
                if (i < count) kl_put_once(p + 2 * LANES * i, acc[i]);
        }
    }
}

/* memory: KL_KRON_HEAD numbers, the group's tiles of 8 states with 8 left states each, and one that holds 0. plain: as in kl_devkron. */
KL_DEV void kl_kron_right(const kl_devkron_block *b, int64_t strip, uint32_t group, int team, int plain, double *memory, const double *x, double *y)
{
    enum { LANES = KL_KRON_LANES, TILE = KL_DEVKRON_PITCH };
    uint64_t *const bar = (uint64_t *)memory;
    double *const s = memory + KL_KRON_HEAD;
    const int me = kl_in_block();
    const uint32_t g0 = b->right.group[group];
    const int n = (int)(b->right.group[group + 1] - g0), ntile = (n + LANES - 1) / LANES;
    const int64_t l0 = strip * LANES, stride = b->nl * LANES;
    if (b->right.near != 0) {
        if (me == 0) {
            kl_barrier_init(bar, 1);
            kl_barrier_ready();
        }
        for (int i = me; i < TILE; i += team) s[ntile * TILE + i] = 0.0;
        kl_block_sync();
        if (me < 32) {
            const int bytes = (int)(b->nl - l0 < LANES ? b->nl - l0 : (int64_t)LANES) * LANES * 8;
            const double *const from = x + b->off + l0 * LANES + (int64_t)(g0 / LANES) * stride;
            if (me == 0) kl_barrier_expect(bar, ntile * bytes);
            kl_warp_sync();
            for (int t = me; t < ntile; t += 32) kl_bring(s + t * TILE, from + t * stride, bytes, bar);
        }
        kl_barrier_wait(bar, 0);
    }
    const uint32_t shared = kl_shared_address(s);
    const int full = b->nl - l0 >= LANES;
    if (plain && full) kl_kron_right_rows(b, g0, n, l0, team, 1, 0, plain == 2, 1, shared, x, y);
    else if (plain) kl_kron_right_rows(b, g0, n, l0, team, 1, 0, plain == 2, 0, shared, x, y);
    else if (b->right.unit) kl_kron_right_rows(b, g0, n, l0, team, 1, 1, b->right.narrow, full, shared, x, y);
    else kl_kron_right_rows(b, g0, n, l0, team, 0, 1, b->right.narrow, full, shared, x, y);
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
