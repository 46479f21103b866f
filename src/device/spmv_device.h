/* What the kernels of sparse products do on NVIDIA GPUs, once for CUDA and for bare OpenMP regions, which
   launch them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPMV_DEVICE_H
#define KL_SPMV_DEVICE_H
#include "device/ptx.h"
#include "device/spdev.h"

/* loads that a lane asks for before it uses the first: written out where it is clang's, which unrolls no such
   loop that has assembler in it */
enum { KL_AHEAD = 4 };

KL_DEV int64_t kl_column_once(const void *column, int64_t k, int index_bytes)
{
    return index_bytes == 2 ? (int64_t)kl_once_u16((const uint16_t *)column + k)
                            : (int64_t)kl_once_u32((const uint32_t *)column + k);
}

/* ---------------------------------------------------------------- a warp, or a part of one, a row */

/* This lane's share of entries [from, to) times x. */
KL_DEV double kl_sp_run(const double *value, const void *column, int index_bytes, int64_t from, int64_t to,
                        int lane, int64_t lanes, const double *x)
{
    double s = 0.0;
#ifdef __CUDACC__
#pragma unroll 4
    for (int64_t k = from + lane; k < to; k += lanes)
        s += kl_once(value + k) * kl_cached(x + kl_column_once(column, k, index_bytes));
#else
    for (int64_t k = from + lane; k < to; k += KL_AHEAD * lanes) {
        double v[KL_AHEAD];
        int64_t c[KL_AHEAD];
        KL_UNROLL
        for (int j = 0; j < KL_AHEAD; j++) {
            const int there = k + j * lanes < to;
            v[j] = there ? kl_once(value + k + j * lanes) : 0.0;
            c[j] = there ? kl_column_once(column, k + j * lanes, index_bytes) : -1;
        }
        KL_UNROLL
        for (int j = 0; j < KL_AHEAD; j++) s += c[j] >= 0 ? v[j] * kl_cached(x + c[j]) : 0.0;
    }
#endif
    return s;
}

/* The same where entries of a row lie `step` apart, for one thread. */
KL_DEV double kl_sp_column_run(const kl_spargs *a, int index_bytes, int64_t place, int64_t step, int64_t n,
                               const double *x)
{
    return kl_sp_run(a->value + place,
                     index_bytes == 2 ? (const void *)((const uint16_t *)a->column + place)
                                      : (const void *)((const uint32_t *)a->column + place),
                     index_bytes, 0, n * step, 0, step, x);
}

KL_DEV int64_t kl_sp_end(const kl_spargs *a, int64_t row) { return a->end ? a->end[row] : a->start[row + 1]; }

KL_DEV int64_t kl_sp_width(const kl_spargs *a, int64_t row)
{
    return a->length && (int64_t)a->length[row] < a->width ? (int64_t)a->length[row] : a->width;
}

/* CSR and hybrid (Alg. 7). index_bytes and lanes are constants where this is used. */
KL_DEV void kl_sp_warp(const kl_spargs *a, int index_bytes, int lanes, const double *x, double *y)
{
    const int64_t row = kl_thread_number() / lanes;
    const int lane = kl_lane_number() % lanes;
    double s = 0.0;
    if (row < a->nrow) {
        if (a->width)
            s = kl_sp_run(a->value, a->column, index_bytes, row * a->width,
                          row * a->width + kl_sp_width(a, row), lane, lanes, x);
        s += kl_sp_run(a->rest_value, a->rest_column, index_bytes, a->start[row], kl_sp_end(a, row), lane,
                       lanes, x);
    }
    s = kl_lane_sum(s, lanes);
    if (lane == 0 && row < a->nrow) y[row] = s;
}

/* Hybrid, section 4.2: even warps take the regular part, odd ones the rest; sums of the block's rows meet in
   `meet` [warps]. */
KL_DEV void kl_sp_warps(const kl_spargs *a, int index_bytes, double *meet, const double *x, double *y)
{
    const int64_t row = kl_thread_number() / 64;
    const int lane = kl_lane_number(), warp = kl_in_block() / 32;
    double s = 0.0;
    if (row < a->nrow && warp % 2 == 0)
        s = kl_sp_run(a->value, a->column, index_bytes, row * a->width, row * a->width + kl_sp_width(a, row),
                      lane, 32, x);
    else if (row < a->nrow)
        s = kl_sp_run(a->rest_value, a->rest_column, index_bytes, a->start[row], kl_sp_end(a, row), lane, 32,
                      x);
    s = kl_lane_sum(s, 32);
    if (lane == 0) meet[warp] = s;
    kl_block_sync();
    if (lane == 0 && warp % 2 == 0 && row < a->nrow) y[row] = meet[warp] + meet[warp + 1];
}

/* Elements [from, to) of a matrix. */
typedef struct kl_sp_piece {
    const double *value;
    const void *column;
    int index_bytes; /* of a column's number */
    int64_t from, to;
} kl_sp_piece;

/* One half of a symmetric matrix: y += both halves; y is 0 before. */
KL_DEV double kl_sp_run_both(kl_sp_piece p, int lane, int64_t row, const double *x, double own, double *y)
{
    double s = 0.0;
    for (int64_t k = p.from + lane; k < p.to; k += 32) {
        const double v = kl_once(p.value + k);
        const int64_t c = kl_column_once(p.column, k, p.index_bytes);
        s += v * kl_cached(x + c);
        if (c != row) kl_add_to(y + c, v * own);
    }
    return s;
}

KL_DEV void kl_sp_half(const kl_spargs *a, const double *x, double *y)
{
    const int64_t row = kl_thread_number() / 32;
    const int lane = kl_lane_number();
    if (row >= a->nrow) return;
    const double own = kl_cached(x + row);
    double s = 0.0;
    if (a->width) {
        const kl_sp_piece even = {a->value, a->column, a->index_bytes, row * a->width,
                                  row * a->width + kl_sp_width(a, row)};
        s = kl_sp_run_both(even, lane, row, x, own, y);
    }
    const kl_sp_piece rest = {a->rest_value, a->rest_column, a->index_bytes, a->start[row],
                              kl_sp_end(a, row)};
    s += kl_sp_run_both(rest, lane, row, x, own, y);
    s = kl_lane_sum(s, 32);
    if (lane == 0) kl_add_to(y + row, s);
}

/* ---------------------------------------------------------------- a thread a row */

/* Where the k-th row of ELL or sliced ELL lies: its elements from `place` on, `step` apart. */
typedef struct kl_sp_slot {
    int64_t row, place, step, width;
} kl_sp_slot;

KL_DEV kl_sp_slot kl_sp_slot_of(const kl_spargs *a, int64_t k)
{
    kl_sp_slot at = {a->order ? (int64_t)a->order[k] : k, k, a->nrow, a->width};
    if (a->slice_off) {
        const int64_t slice = k / a->height, from = a->slice_off[slice];
        at.place = from + k % a->height;
        at.step = a->height;
        at.width = (a->slice_off[slice + 1] - from) / a->height;
    }
    if (a->length) at.width = (int64_t)a->length[at.row];
    return at;
}

/* ELL and sliced ELL, with or without lengths. */
KL_DEV void kl_sp_thread(const kl_spargs *a, int index_bytes, const double *x, double *y)
{
    const int64_t k = kl_thread_number();
    if (k >= a->nrow) return;
    const kl_sp_slot at = kl_sp_slot_of(a, k);
    y[at.row] = kl_sp_column_run(a, index_bytes, at.place, at.step, at.width, x);
}

/* ---------------------------------------------------------------- PACKED */

enum { KL_PACKS = 1 }; /* groups that a lane calls for at a time; as many again are worked on meanwhile */

typedef struct kl_pack { /* one group */
    kl_pair v[4];
    uint64_t step[2];
    uint32_t base;
} kl_pack;

typedef struct kl_packed_at {
    int row, nwarp; /* row that is called for */
    uint32_t first, n, g; /* its groups, and the next one of this lane, from its first */
    uint32_t next_first, next_end; /* of the row after, read ahead */
    /* of the sum of the row that is worked on; block of x by count, and its first column */
    int slot, part, low;
    double sum;
    const uint32_t *group; /* of the block of x that is worked on */
    double *row_sum; /* one for each row of this block of threads */
    int lane;
} kl_packed_at;

KL_DEV void kl_packed_call(const kl_spargs *a, int step_bytes, const kl_packed_at *t, kl_pack *to)
{
    KL_UNROLL
    for (int k = 0; k < KL_PACKS; k++) {
        const uint32_t g = t->g + 32 * k;
        kl_pack *const p = to + k;
        KL_UNROLL
        for (int j = 0; j < 4; j++) p->v[j].a = p->v[j].b = 0.0;
        p->step[0] = p->step[1] = 0;
        p->base = 0;
        if (g >= t->n) continue;
        const double *const v = a->packed + 8 * (int64_t)t->first + 2 * (int64_t)g;
        KL_UNROLL
        for (int j = 0; j < 4; j++) p->v[j] = kl_once_pair(v + 2 * (int64_t)j * t->n);
        if (step_bytes == 1) p->step[0] = kl_once_u64((const char *)a->step + 8 * ((int64_t)t->first + g));
        else kl_once_two_u64((const char *)a->step + 16 * ((int64_t)t->first + g), &p->step[0], &p->step[1]);
        p->base = kl_once_u16(a->base + t->first + g);
    }
}

KL_DEV double kl_packed_use(const kl_spargs *a, int step_bytes, const kl_packed_at *t, const kl_pack *p,
                            const double *x, const double *xs)
{
    const uint32_t nshared = (uint32_t)a->nshared;
    double s = 0.0;
    KL_UNROLL
    for (int k = 0; k < KL_PACKS; k++) {
        uint32_t c = p[k].base << (8 * step_bytes);
        KL_UNROLL
        for (int j = 0; j < 8; j++) {
            c += step_bytes == 1 ? (uint32_t)(p[k].step[0] >> (8 * j)) & 0xff
                                 : (uint32_t)(p[k].step[j / 4] >> (16 * (j % 4))) & 0xffff;
            const double v = j % 2 ? p[k].v[j / 2].b : p[k].v[j / 2].a;
            const uint32_t at = c - (uint32_t)t->low;
            s += v * (at < nshared ? xs[at] : kl_cached(x + c));
        }
    }
    return s;
}

/* The next row's groups, and where those of the row after lie. */
KL_DEV void kl_packed_next(const kl_spargs *a, const uint32_t *group, kl_packed_at *t, int lane)
{
    t->first = t->next_first;
    t->n = t->next_end - t->next_first;
    t->g = (uint32_t)lane;
    t->next_first = t->next_end = 0;
    if (t->row + t->nwarp >= a->nrow) return;
    t->next_first = group[t->row + t->nwarp];
    t->next_end = group[t->row + t->nwarp + 1];
}

KL_DEV void kl_packed_begin(const kl_spargs *a, const uint32_t *group, kl_packed_at *t, int lane)
{
    t->row = (int)(kl_thread_number() / 32);
    t->next_first = t->next_end = 0;
    if (t->row < a->nrow) {
        t->next_first = group[t->row];
        t->next_end = group[t->row + 1];
    }
    t->slot = kl_in_block() / 32;
    kl_packed_next(a, group, t, lane);
}

/* Calls for the groups after these, then works on these. */
KL_DEV void kl_packed_step(const kl_spargs *a, int step_bytes, kl_packed_at *t, kl_pack *call,
                           const kl_pack *use, const double *x, const double *xs, double *y)
{
    const uint32_t *const group = t->group;
    double *const sum = t->row_sum;
    const int lane = t->lane;
    const int row = t->row;
    t->g += 32 * KL_PACKS;
    const int last = t->g - (uint32_t)lane >= t->n;
    if (last) {
        t->row += t->nwarp;
        kl_packed_next(a, group, t, lane);
    }
    kl_packed_call(a, step_bytes, t, call);
    t->sum += kl_packed_use(a, step_bytes, t, use, x, xs);
    if (last) {
        double s = kl_lane_sum(t->sum, 32);
        if (lane == 0) {
            if (t->part > 0) s += sum[t->slot];
            if (t->part + 1 < a->nxblock) sum[t->slot] = s;
            else y[row] = s;
        }
        t->sum = 0.0;
        t->slot += kl_block_size() / 32;
    }
}

/* n elements of x from `low` on, by one thread, to memory for n + 2; where x has an odd address the element
   before comes first. */
KL_DEV void kl_bring_block(double *to, const double *x, int64_t low, int n, int odd, uint64_t *bar)
{
    const int all = n + odd, even = all / 2 * 2;
    if (all > even) to[even] = kl_cached(x + low - odd + even);
    kl_barrier_expect(bar, 8 * even);
    if (even > 0) kl_bring(to, x + low - odd, 8 * even, bar);
}

KL_DEV int kl_odd_address(const double *x) { return (int)((uintptr_t)x / 8 % 2); }

KL_DEV int kl_block_columns(const kl_spargs *a, int64_t low, int width)
{
    return (int)(a->ncol - low < width ? a->ncol - low : width);
}

/* Sums [rows of a block of threads], a block of x, a barrier. */
static inline int kl_packed_sums(const kl_spargs *a, int nblock, int nwarp)
{
    return a->nxblock > 1 ? (int)((a->nrow / nwarp / nblock + 2) * nwarp + 1) / 2 * 2 : 0;
}
static inline int kl_packed_shared_bytes(const kl_spargs *a, int nblock, int nwarp)
{
    return 8 * (kl_packed_sums(a, nblock, nwarp) + a->nshared + 2) + 16;
}

/* Each block of threads begins with another block of x, so that not all of them wait for memory at the same
   time. */
KL_DEV void kl_sp_packed(const kl_spargs *a, int step_bytes, int nsum, double *shared, const double *x,
                         double *y)
{
    double *const sum = shared, *const block = sum + nsum, *const xs = block + kl_odd_address(x);
    uint64_t *const full = (uint64_t *)(block + a->nshared + 2);
    const int lane = kl_lane_number(), nx = a->nxblock;
    kl_packed_at t = {0};
    kl_pack p[KL_PACKS], q[KL_PACKS];
    t.nwarp = kl_block_count() * (kl_block_size() / 32);
    t.row_sum = sum;
    t.lane = lane;
    if (kl_in_block() == 0) kl_barrier_init(full, 1);
    kl_block_sync();
    for (t.part = 0; t.part < nx; t.part++) {
        const int b = (t.part + kl_block_number()) % nx;
        const uint32_t *const group = a->group + (int64_t)b * a->nrow;
        t.low = b * a->nshared;
        t.group = group;
        if (kl_in_block() == 0)
            kl_bring_block(block, x, t.low, kl_block_columns(a, t.low, a->nshared), kl_odd_address(x), full);
        kl_packed_begin(a, group, &t, lane);
        kl_packed_call(a, step_bytes, &t, p); /* in flight while x comes */
        kl_barrier_wait(full, t.part % 2);
        while (t.row < a->nrow) {
            kl_packed_step(a, step_bytes, &t, q, p, x, xs, y);
            if (t.row >= a->nrow) break;
            kl_packed_step(a, step_bytes, &t, p, q, x, xs, y);
        }
        kl_block_sync();
    }
}

/* ---------------------------------------------------------------- TILES */

/* Steps of a warp in flight: two are 2.5 per cent faster than one, and more registers than target regions
   have. */
#ifdef __CUDACC__
enum { KL_QUADS = 2 };
#else
enum { KL_QUADS = 1 };
#endif

typedef struct kl_quads {
    kl_pair v[KL_QUADS][2];
    uint64_t c[KL_QUADS][2];
} kl_quads;

KL_DEV void kl_quads_call(const double *value, const void *column, int index_bytes, uint32_t quad,
                          uint32_t end, int lane, kl_quads *to)
{
    KL_UNROLL
    for (int k = 0; k < KL_QUADS; k++) {
        to->v[k][0].a = to->v[k][0].b = to->v[k][1].a = to->v[k][1].b = 0.0;
        to->c[k][0] = to->c[k][1] = 0;
        if (quad + k >= end) continue;
        const double *const v = value + (int64_t)(quad + k) * 128 + 2 * lane;
        to->v[k][0] = kl_once_pair(v);
        to->v[k][1] = kl_once_pair(v + 64);
        if (index_bytes == 2)
            to->c[k][0] = kl_once_u64((const char *)column + (int64_t)(quad + k) * 256 + 8 * lane);
        else
            kl_once_two_u64((const char *)column + (int64_t)(quad + k) * 512 + 16 * lane, &to->c[k][0],
                            &to->c[k][1]);
    }
}

typedef struct kl_tile_at {
    uint32_t from, to, slice;
    uint32_t row, next_row; /* of this lane, in this slice and the one after */
    double sum;
} kl_tile_at;

KL_DEV void kl_quads_use(const kl_quads *q, int index_bytes, uint32_t quad, kl_tile_at *t,
                         const uint16_t *row_of, const double *x, double *out, int lane)
{
    KL_UNROLL
    for (int k = 0; k < KL_QUADS; k++) KL_UNROLL
    for (int j = 0; j < 4; j++) {
        const uint32_t step = 4 * (quad + k) + j;
        const uint32_t word = index_bytes == 2 ? (uint32_t)(q->c[k][0] >> (16 * j)) & 0xffff
                                               : (uint32_t)(q->c[k][j / 2] >> (32 * (j % 2)));
        const uint32_t mark = index_bytes == 2 ? 0x8000 : 0x80000000;
        if (step < t->from || step >= t->to) continue;
        const uint32_t c = word & ~mark;
        const double v = j % 2 ? q->v[k][j / 2].b : q->v[k][j / 2].a;
        t->sum += v * (index_bytes == 2 ? x[c] : kl_cached(x + c));
        if (!(word & mark)) continue;
        if (t->row != KL_TILE_NO_ROW) {
            if (index_bytes == 2) out[t->row] += t->sum;
            else out[t->row] = t->sum;
        }
        t->sum = 0.0;
        t->row = t->next_row;
        t->slice++;
        t->next_row = row_of[32 * (int64_t)(t->slice + 1) + lane];
    }
}

/* One share: 16-bit columns add to sums in shared memory, 32-bit ones are those of the last part and write
   y. */
KL_DEV void kl_tile_share(const kl_spshare *share, int index_bytes, const double *value, const void *column,
                          const uint16_t *row_of, const double *x, double *out, int lane)
{
    kl_tile_at t = {share->from, share->to, share->slice, 0, 0, 0.0};
    if (t.from == t.to) return;
    const uint32_t end = (t.to + 3) / 4;
    uint32_t quad = t.from / 4;
    kl_quads p, q;
    t.row = row_of[32 * (int64_t)t.slice + lane];
    t.next_row = row_of[32 * (int64_t)(t.slice + 1) + lane];
    kl_quads_call(value, column, index_bytes, quad, end, lane, &p);
    for (;;) {
        kl_quads_call(value, column, index_bytes, quad + KL_QUADS, end, lane, &q);
        kl_quads_use(&p, index_bytes, quad, &t, row_of, x, out, lane);
        quad += KL_QUADS;
        if (quad >= end) break;
        kl_quads_call(value, column, index_bytes, quad + KL_QUADS, end, lane, &p);
        kl_quads_use(&q, index_bytes, quad, &t, row_of, x, out, lane);
        quad += KL_QUADS;
        if (quad >= end) break;
    }
}

/* Bytes of shared memory, and where things lie in it: sums [most_rows], a block of x (one element more, for
   odd addresses), two barriers. */
static inline int kl_tile_shared_bytes(const kl_spargs *a)
{
    return 8 * (a->most_rows + a->dense_width + 2) + 16;
}

/* The last warp brings block after block of x; the others work on it, and between two blocks on a piece of
   the last part, so that nobody waits. Every other range begins with such a piece: memory and the second
   cache, which the two kinds of work ask for most, are then busy at the same time. */
KL_DEV void kl_sp_tiles(const kl_spargs *a, double *shared, const double *x, double *y)
{
    double *const sum = shared, *const block = sum + a->most_rows;
    uint64_t *const bar = (uint64_t *)(block + a->dense_width + 2), *const full = bar, *const empty = bar + 1;
    const int warp = kl_in_block() / 32, lane = kl_lane_number(), range = kl_block_number();
    const int ndense = a->ndense, nrest = ndense > 0 ? ndense : 1;
    const int64_t first = a->range[range];
    const int nrow = (int)((int64_t)a->range[range + 1] - first);
    const int odd = kl_odd_address(x);
    for (int i = kl_in_block(); i < nrow; i += kl_block_size()) sum[i] = 0.0;
    if (kl_in_block() == 0) {
        kl_barrier_init(full, 1);
        kl_barrier_init(empty, a->nworker);
    }
    kl_block_sync();
    if (warp == a->nworker) {
        for (int b = 0; b < ndense && lane == 0; b++) {
            const int64_t low = (int64_t)b * a->dense_width;
            if (b > 0) kl_barrier_wait(empty, (b - 1) % 2);
            kl_bring_block(block, x, low, kl_block_columns(a, low, a->dense_width), odd, full);
        }
    } else if (warp < a->nworker) {
        for (int piece = 0; piece < ndense + nrest; piece++) {
            const int b = piece / 2;
            if ((piece + range) % 2 == 0 && b < ndense) {
                kl_barrier_wait(full, b % 2);
                kl_tile_share(a->share + ((int64_t)range * ndense + b) * a->nworker + warp, 2, a->dense_value,
                              a->dense_column, a->dense_row, block + odd, sum, lane);
                kl_warp_sync();
                if (lane == 0) kl_barrier_arrive(empty);
            } else {
                kl_tile_share(a->rest + ((int64_t)range * nrest + b) * a->nworker + warp, 4, a->far_value,
                              a->far_column, a->far_row, x, y + first, lane);
            }
        }
    }
    kl_block_sync();
    for (int i = kl_in_block(); i < nrow && ndense > 0; i += kl_block_size()) y[first + i] += sum[i];
}

/* ---------------------------------------------------------------- blocks of vectors */

/* xs[ncol][nv] = the vectors side by side, zeros behind the last. */
KL_DEV void kl_sp_gather(int64_t ncol, int nvec, int nv, const double *x, int64_t ldx, double *xs)
{
    const int64_t k = kl_thread_number(), i = k / nv;
    const int v = (int)(k % nv);
    if (i < ncol) xs[k] = v < nvec ? x[i + v * ldx] : 0.0;
}

/* Two vectors a lane, v and v + 1; entries from + at, and every `step` on. */
KL_DEV kl_pair kl_block_run(kl_sp_piece p, int nv, int64_t at, int64_t step, int v, const double *xs)
{
    kl_pair s = {0.0, 0.0};
    for (int64_t k = p.from + at; k < p.to; k += KL_AHEAD * step) {
        double w[KL_AHEAD];
        kl_pair x[KL_AHEAD];
        KL_UNROLL
        for (int j = 0; j < KL_AHEAD; j++) {
            w[j] = x[j].a = x[j].b = 0.0;
            if (k + j * step >= p.to) continue;
            w[j] = kl_once(p.value + k + j * step);
            x[j] = kl_cached_pair(xs + kl_column_once(p.column, k + j * step, p.index_bytes) * nv + v);
        }
        KL_UNROLL
        for (int j = 0; j < KL_AHEAD; j++) {
            s.a += w[j] * x[j].a;
            s.b += w[j] * x[j].b;
        }
    }
    return s;
}

/* Sums over the lanes of one pair of vectors, then to the columns of y. */
KL_DEV void kl_block_store(kl_pair s, int nv, int nvec, int lane, double *y, int64_t ldy, int64_t row)
{
    const int per = nv / 2, v = 2 * lane;
    for (int by = 16; by >= per; by /= 2) {
        s.a += kl_lane_below(s.a, by);
        s.b += kl_lane_below(s.b, by);
    }
    if (lane >= per) return;
    if (v < nvec) y[row + v * ldy] = s.a;
    if (v + 1 < nvec) y[row + (v + 1) * ldy] = s.b;
}

KL_DEV void kl_sp_warp_block(const kl_spargs *a, int index_bytes, int nv, int nvec, const double *xs,
                             double *y, int64_t ldy)
{
    const int64_t row = kl_thread_number() / 32;
    /* `per` lanes for each non-zero, 32 / per non-zeros at a time */
    const int lane = kl_lane_number(), per = nv / 2, at = lane / per, v = 2 * (lane % per);
    if (row >= a->nrow) return;
    kl_pair s = {0.0, 0.0};
    if (a->width) {
        const kl_sp_piece even = {a->value, a->column, index_bytes, row * a->width,
                                  row * a->width + kl_sp_width(a, row)};
        s = kl_block_run(even, nv, at, 32 / per, v, xs);
    }
    const kl_sp_piece rest = {a->rest_value, a->rest_column, index_bytes, a->start[row], kl_sp_end(a, row)};
    const kl_pair r = kl_block_run(rest, nv, at, 32 / per, v, xs);
    s.a += r.a;
    s.b += r.b;
    kl_block_store(s, nv, nvec, lane, y, ldy, row);
}

KL_DEV void kl_sp_packed_block(const kl_spargs *a, int step_bytes, int nv, int nvec, const double *xs,
                               double *y, int64_t ldy)
{
    const int64_t row = kl_thread_number() / 32;
    const int lane = kl_lane_number(), per = nv / 2, v = 2 * (lane % per);
    if (row >= a->nrow) return;
    kl_pair s = {0.0, 0.0};
    for (int b = 0; b < a->nxblock; b++) {
        const uint32_t *const group = a->group + (int64_t)b * a->nrow + row;
        const uint32_t first = group[0], n = group[1] - first;
        for (uint32_t g = (uint32_t)(lane / per); g < n; g += (uint32_t)(32 / per)) {
            const double *const value = a->packed + 8 * (int64_t)first + 2 * (int64_t)g;
            uint64_t step[2] = {0, 0};
            kl_pair w[4];
            KL_UNROLL
            for (int j = 0; j < 4; j++) w[j] = kl_once_pair(value + 2 * (int64_t)j * n);
            if (step_bytes == 1) step[0] = kl_once_u64((const char *)a->step + 8 * ((int64_t)first + g));
            else kl_once_two_u64((const char *)a->step + 16 * ((int64_t)first + g), &step[0], &step[1]);
            uint32_t c = kl_once_u16(a->base + first + g) << (8 * step_bytes);
            KL_UNROLL
            for (int j = 0; j < 8; j++) {
                c += step_bytes == 1 ? (uint32_t)(step[0] >> (8 * j)) & 0xff
                                     : (uint32_t)(step[j / 4] >> (16 * (j % 4))) & 0xffff;
                const kl_pair xv = kl_cached_pair(xs + (int64_t)c * nv + v);
                const double f = j % 2 ? w[j / 2].b : w[j / 2].a;
                s.a += f * xv.a;
                s.b += f * xv.b;
            }
        }
    }
    kl_block_store(s, nv, nvec, lane, y, ldy, row);
}

/* ELL and sliced ELL: a thread for two vectors of a row. */
KL_DEV void kl_sp_thread_block(const kl_spargs *a, int index_bytes, int nv, int nvec, const double *xs,
                               double *y, int64_t ldy)
{
    const int per = nv / 2;
    const int64_t k = kl_thread_number() / per;
    const int v = 2 * (int)(kl_thread_number() % per);
    if (k >= a->nrow) return;
    const kl_sp_slot at = kl_sp_slot_of(a, k);
    const kl_sp_piece all = {a->value, a->column, index_bytes, at.place, at.place + at.width * at.step};
    const kl_pair s = kl_block_run(all, nv, 0, at.step, v, xs);
    if (v < nvec) y[at.row + v * ldy] = s.a;
    if (v + 1 < nvec) y[at.row + (v + 1) * ldy] = s.b;
}

#endif
