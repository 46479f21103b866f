/* All products of a launch on FP64 tensor cores (sm_80 on): blocks stay, as many as the GPU holds, and take
   tiles from a counter. In a block four warps bring slices of 16 values of k into a ring of stages (cp.async,
   mbarriers) while the others multiply them with m16n8k16; the pieces of a tile, whatever their transposes
   and coefficients, run through the same ring without a stop and are summed in registers, and so do the
   pieces of the next tile.

   A block is alone on its multiprocessor: 128 x 128, eight consumer warps with 64 x 32 each in 128 registers
   of sums a thread. Rows of a tile come in units of 16, which the two rows of warps share, unevenly if need
   be: warps w and w + 4 sit on one scheduler, so nothing is lost. Columns come in units of 8 for each of the
   four warps of a row. A warp so owns 1..MT x 1..NT fragments of 16 x 8; for each piece one of these shapes
   is chosen, times four for the transposes, each its own loop.

   Slices in shared memory. [k][m], rows padded by two: a lane's 16-byte load gives rows 2g, 2g+1 at k = 2t,
   and then at 2t + 1. [n][k]: a load gives k = 2t, 2t+1 of one column. Inside the product k and the rows are
   thus permuted alike in A, B and C, which does not show. [m][k], when A is transposed: there such
   loads would bring registers that do not belong together, so lanes take k = t and t + 4 one by one, of B
   too. 16-byte chunks of rows of 16 values are swapped by the row's number (`exchange`), so that no two
   lanes of a load meet in a bank.

   A tile whose sum over k is cut into parts, where there are too few tiles for all blocks, is added up in the
   order of the parts: equal input gives equal bits.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "mma.cuh"

namespace
{

/* WM x WN consumer warps of MT x NT fragments. 168 registers a thread at the start, of which the producers
   give most to the consumers (setmaxnreg). */
constexpr int DEPTH = 16, HEADS = 8, INFO = 48, WM = 2, WN = 4, MT = 4, NT = 4, STAGES = 4,
              FEW_REGISTERS = 40, MANY_REGISTERS = 232;
constexpr int CONSUMERS = WM * WN, THREADS = 32 * CONSUMERS + 128, BM = WM * MT * 16, BN = WN * NT * 8;
constexpr int LDA = BM + 2, LDB = BN + 2, LDB_APART = BN + 4, A_SIZE = DEPTH * LDA,
              B_SIZE = DEPTH * LDB_APART, STAGE = (A_SIZE + B_SIZE) * 8, A_BYTES = A_SIZE * 8;
constexpr int SHARED = STAGES * STAGE + HEADS * INFO + 2 * (int)sizeof(kl_piece) + STAGES * 16;
static_assert(STAGES < HEADS && STAGE % 128 == 0 && A_BYTES % 128 == 0,
              "the exchange of chunks works on address bits");

/* Of the stages: which are full, and which are empty. */
struct barriers {
    uint32_t full, empty;
};

/* What a consumer must know of a piece. Read again when the piece is done, for registers are short; fewer
   than HEADS pieces have begun by then. */
struct info {
    uint64_t c;
    int32_t ldc;
    uint32_t mn, flags;
    int32_t k;
    double factor;
    uint32_t turn, spare[3];
};
static_assert(sizeof(info) == INFO, "the layout of shared memory counts on it");

/* Fragment i of A for the 8 values of k that are one half of DEPTH, and fragment j of B. Registers come in
   the order in which the product wants them: what one load brings side by side must stand side by side there,
   or every step moves registers about. */
template <bool TA>
__device__ __forceinline__ void load_a(uint32_t a, int i, int half, double *f)
{
    if (TA) { /* [m][k]: lane t takes k = t and t + 4, one number a load */
        const uint32_t at = a + (uint32_t)(i * 16 * DEPTH * 8);
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const uint32_t k = at ^ (uint32_t)((4 * half + 2 * q) * 16);
            f[2 * q] = load1(k);
            f[2 * q + 1] = load1(k + DEPTH * 8);
        }
    } else {
        const uint32_t at = a + (uint32_t)(half * 8 * LDA * 8 + i * 128);
        const double2 u = load2(at), v = load2(at + LDA * 8);
        f[0] = u.x, f[1] = u.y, f[2] = v.x, f[3] = v.y;
    }
}
template <bool TA, bool TB>
__device__ __forceinline__ void load_b(uint32_t b, int j, int half, double *f)
{
    /* rows between the two values of k of a lane */
    constexpr int LD = TA ? LDB_APART : LDB, NEXT = TA ? 4 : 1;
    if (TB) {
        const uint32_t at = b + (uint32_t)(half * 8 * LD * 8 + j * 64);
        f[0] = load1(at);
        f[1] = load1(at + NEXT * LD * 8);
    } else if (TA) {
        const uint32_t at = b + (uint32_t)(j * 8 * DEPTH * 8);
        f[0] = load1(at ^ (uint32_t)(4 * half * 16));
        f[1] = load1(at ^ (uint32_t)((4 * half + 2) * 16));
    } else {
        const double2 v = load2((half ? b ^ 64 : b) + (uint32_t)(j * 8 * DEPTH * 8));
        f[0] = v.x;
        f[1] = v.y;
    }
}

#if KL_EQUAL_REGISTERS
/* A piece for a warp of mt x nt fragments: n steps of DEPTH, then tail < DEPTH more. A quarter as many
   registers for fragments as below, where warps that multiply have more: eight values of k at a time, one
   fragment of A. */
template <bool TA, bool TB, int mt, int nt>
__device__ __forceinline__ void steps(double (&acc)[MT][NT][4], const uint32_t a, const uint32_t b, int n,
                                      const int tail, int &st, uint32_t &ph, const uint32_t full)
{
    constexpr uint32_t empty = 8 * STAGES;
    for (int k = n * DEPTH + tail; k > 0; k -= DEPTH) {
        const uint32_t here = (uint32_t)st * STAGE;
#pragma unroll 1
        for (int half = 0; half < DEPTH / 8 && half * 8 < k; half++) {
            double af[4], bf[nt][2];
#pragma unroll
            for (int j = 0; j < nt; j++) load_b<TA, TB>(b + here, j, half, bf[j]);
#pragma unroll
            for (int i = 0; i < mt; i++) {
                load_a<TA>(a + here, i, half, af);
#pragma unroll
                for (int j = 0; j < nt; j++) multiply8(acc[i][j], af, bf[j]);
            }
        }
        arrive(full + empty + 8 * (uint32_t)st);
        if (++st == STAGES) st = 0, ph ^= 1;
        if (k > DEPTH) wait(full + 8 * (uint32_t)st, ph);
    }
}
#else
/* A piece for a warp of mt x nt fragments: n steps of DEPTH, then tail < DEPTH more. Fragments of the next
   step are asked for before this one ends. Every lane gives a stage back itself, which costs nothing and is
   what tools can follow. */
template <bool TA, bool TB, int mt, int nt>
__device__ __forceinline__ void steps(double (&acc)[MT][NT][4], const uint32_t a, const uint32_t b, int n,
                                      const int tail, int &st, uint32_t &ph, const uint32_t full)
{
    constexpr uint32_t empty = 8 * STAGES;
    constexpr int buffers = mt % 2 == 0 ? 2 : mt; /* the first of the next stage must not be in use */
    double af[buffers][8], bf[nt][4];
    if (n > 0) {
        const uint32_t first = (uint32_t)st * STAGE;
        load_a<TA>(a + first, 0, 0, af[0]), load_a<TA>(a + first, 0, 1, af[0] + 4);
#pragma unroll
        for (int j = 0; j < nt; j++)
            load_b<TA, TB>(b + first, j, 0, bf[j]), load_b<TA, TB>(b + first, j, 1, bf[j] + 2);
        for (;;) {
            const uint32_t here = (uint32_t)st * STAGE;
#pragma unroll
            for (int i = 0; i < mt - 1; i++) {
                /* else all fragments of A are loaded at once, and sums have to make room */
                if (i > 0) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
                load_a<TA>(a + here, i + 1, 0, af[(i + 1) % buffers]),
                    load_a<TA>(a + here, i + 1, 1, af[(i + 1) % buffers] + 4);
#pragma unroll
                for (int j = 0; j < nt; j++) multiply16(acc[i][j], af[i % buffers], bf[j]);
            }
            arrive(full + empty + 8 * (uint32_t)st);
            if (++st == STAGES) st = 0, ph ^= 1;
            if (--n == 0) {
#pragma unroll
                for (int j = 0; j < nt; j++) multiply16(acc[mt - 1][j], af[(mt - 1) % buffers], bf[j]);
                break;
            }
            wait(full + 8 * (uint32_t)st, ph);
            const uint32_t next = (uint32_t)st * STAGE;
            if (mt > 1) load_a<TA>(a + next, 0, 0, af[0]), load_a<TA>(a + next, 0, 1, af[0] + 4);
#pragma unroll
            for (int j = 0; j < nt; j++) {
                multiply16(acc[mt - 1][j], af[(mt - 1) % buffers], bf[j]);
                load_b<TA, TB>(b + next, j, 0, bf[j]), load_b<TA, TB>(b + next, j, 1, bf[j] + 2);
            }
            if (mt == 1) load_a<TA>(a + next, 0, 0, af[0]), load_a<TA>(a + next, 0, 1, af[0] + 4);
        }
        if (tail > 0) wait(full + 8 * (uint32_t)st, ph);
    }
    if (tail > 0) {
        const uint32_t here = (uint32_t)st * STAGE;
#pragma unroll
        for (int half = 0; half < DEPTH / 8; half++)
            if (half * 8 < tail) {
#pragma unroll
                for (int j = 0; j < nt; j++) load_b<TA, TB>(b + here, j, half, bf[j]);
#pragma unroll
                for (int i = 0; i < mt; i++) {
                    load_a<TA>(a + here, i, half, af[i % buffers]);
#pragma unroll
                    for (int j = 0; j < nt; j++) multiply8(acc[i][j], af[i % buffers], bf[j]);
                }
            }
        arrive(full + empty + 8 * (uint32_t)st);
        if (++st == STAGES) st = 0, ph ^= 1;
    }
}
#endif

/* Gives stages back unread and waits for the next, up to `to`. */
__device__ __forceinline__ void pass(int &from, int to, int &st, uint32_t &ph, const uint32_t full)
{
    for (; from < to; from++) {
        arrive(full + 8 * STAGES + 8 * (uint32_t)st);
        if (++st == STAGES) st = 0, ph ^= 1;
        wait(full + 8 * (uint32_t)st, ph);
    }
}

/* A matrix that is added: its columns come as the values of k do, DEPTH a stage, and a warp takes those
   blocks of 8 that are its own columns. With TA its rows are rows of the slice. Rows that a warp does not
   have are added to sums that nobody writes. */
template <bool TA>
__device__ __forceinline__ void add(double (&acc)[MT][NT][4], const uint32_t a, int nt, int first, int k,
                                    int &st, uint32_t &ph, const uint32_t full)
{
    int stage = 0;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        if (j >= nt) continue;
        const int col = (first + j) * 8;
        pass(stage, min(col, k - 1) / DEPTH, st, ph, full);
        const uint32_t at = a + (uint32_t)st * STAGE,
                       row = TA ? at ^ (uint32_t)(col & 8) * 8 : at + (uint32_t)((col & 8) * LDA * 8);
#pragma unroll
        for (int i = 0; i < MT; i++) {
            const uint32_t here = row + (uint32_t)(TA ? i * 16 * DEPTH * 8 : i * 128);
            const double2 u = load2(here), v = load2(here + (TA ? DEPTH * 8 : LDA * 8));
            acc[i][j][0] += u.x, acc[i][j][1] += TA ? u.y : v.x, acc[i][j][2] += TA ? v.x : u.y,
                acc[i][j][3] += v.y;
        }
    }
    pass(stage, (k - 1) / DEPTH, st, ph, full);
    arrive(full + 8 * STAGES + 8 * (uint32_t)st);
    if (++st == STAGES) st = 0, ph ^= 1;
}

/* A slice whose rows (of WIDTH values, `valid` of them there) are columns of memory: DEPTH rows of LD. */
template <int WIDTH>
__device__ __forceinline__ void fetch_rows(uint32_t to, const int LD, const double *from, int ld, bool wide,
                                           int valid, int k, int p)
{
    if (wide) {
        constexpr int chunks = WIDTH / 2, each = 128 / chunks > DEPTH ? DEPTH : 128 / chunks;
        const int c = p % chunks, row = p / chunks, bytes = min(valid - 2 * c, 2) * 8;
        int64_t step = (int64_t)each * ld;
        asm volatile("" : "+l"(step)); /* its multiples are not worth registers */
        const uint32_t d = to + (uint32_t)(row * LD + 2 * c) * 8;
        if (row >= each || bytes <= 0) return;
        if (bytes == 16 && k >= DEPTH) {
#pragma unroll
            for (int i = 0; i < DEPTH / each; i++, from += step)
                copy16(d + (uint32_t)(i * each * LD * 8), from);
        } else {
#pragma unroll
            for (int i = 0; i < DEPTH / each; i++, from += step)
                copy16_part(d + (uint32_t)(i * each * LD * 8), from, row + i * each < k ? bytes : 0);
        }
        return;
    }
    constexpr int each = 128 / WIDTH;
    const int c = p % WIDTH, row = p / WIDTH;
    if (c >= valid) return;
    int64_t step = (int64_t)each * ld;
    asm volatile("" : "+l"(step));
    const uint32_t d = to + (uint32_t)(row * LD + c) * 8;
#pragma unroll
    for (int i = 0; i < DEPTH / each; i++, from += step)
        copy8_part(d + (uint32_t)(i * each * LD * 8), from, row + i * each < k ? 8 : 0);
}

/* Which chunks of a row of 16 values of k are swapped: for loads of two numbers halves of odd rows, for
   loads of one number pairs of chunks by two bits of the row. apart: lanes take one number at a time; SKIP:
   rows of a lane are that many bits apart. */
template <int SKIP>
__device__ __forceinline__ int exchange(int row, bool apart)
{
    return apart ? (row >> SKIP & 3) << 1 : (row & 1) << 2;
}

/* A slice whose rows are rows of DEPTH values of k. */
template <int WIDTH, int SKIP>
__device__ __forceinline__ void fetch_columns(uint32_t to, const double *from, int ld, bool wide, int valid,
                                              int k, int p, bool apart)
{
    if (wide) {
        const int c = p % 8, row = p / 8, bytes = min(max(k - 2 * c, 0), 2) * 8;
        int64_t step = 16LL * ld;
        asm volatile("" : "+l"(step));
        const uint32_t d = to + (uint32_t)(row * DEPTH + 2 * (c ^ exchange<SKIP>(row, apart))) * 8;
        if (bytes == 16) {
#pragma unroll
            for (int i = 0; i < WIDTH / 16; i++, from += step)
                if (row + 16 * i < valid) copy16(d + (uint32_t)(i * 16 * DEPTH * 8), from);
        } else {
#pragma unroll
            for (int i = 0; i < WIDTH / 16; i++, from += step)
                if (row + 16 * i < valid) copy16_part(d + (uint32_t)(i * 16 * DEPTH * 8), from, bytes);
        }
        return;
    }
    const int c = p % DEPTH, row = p / DEPTH, bytes = c < k ? 8 : 0;
    const int64_t step = 8LL * ld;
    uint32_t d = to + (uint32_t)(row * DEPTH + 2 * (c / 2 ^ exchange<SKIP>(row, apart)) + c % 2) * 8;
    for (int i = row; i < valid; i += 8, from += step, d += 8 * DEPTH * 8) copy8_part(d, from, bytes);
}

/* Where thread p of the producers begins in an operand. */
template <int WIDTH>
__device__ __forceinline__ const double *start_rows(const double *q, int ld, bool wide, int p)
{
    constexpr int chunks = WIDTH / 2;
    return wide ? q + 2 * (p % chunks) + (int64_t)(p / chunks) * ld
                : q + p % WIDTH + (int64_t)(p / WIDTH) * ld;
}
__device__ __forceinline__ const double *start_columns(const double *q, int ld, bool wide, int p)
{
    return wide ? q + 2 * (p % 8) + (int64_t)(p / 8) * ld : q + p % DEPTH + (int64_t)(p / DEPTH) * ld;
}

/* Brings a piece, slice after slice; of a matrix that is added there is no B. One loop for each pair of
   transposes: registers are short. */
template <bool TA, bool TB>
__device__ __forceinline__ void bring(const kl_piece *r, uint64_t a, uint64_t b, uint32_t ring, uint32_t full,
                                      int &st, uint32_t &ph, int p)
{
    constexpr uint32_t empty = 8 * STAGES;
    const int rows = kl_rows_of(r->mn), cols = r->flags & KL_P_ADD ? 0 : kl_cols_of(r->mn), lda = r->lda,
              ldb = r->ldb;
    const bool wide_a = ((a & 15) | (lda & 1)) == 0, wide_b = ((b & 15) | (ldb & 1)) == 0;
    const double *pa = (const double *)(uintptr_t)a, *pb = (const double *)(uintptr_t)b;
    pa = TA ? start_columns(pa, lda, wide_a, p) : start_rows<BM>(pa, lda, wide_a, p);
    pb = TB ? start_rows<BN>(pb, ldb, wide_b, p) : start_columns(pb, ldb, wide_b, p);
    const int64_t step_a = TA ? DEPTH : (int64_t)DEPTH * lda, step_b = TB ? (int64_t)DEPTH * ldb : DEPTH;
    for (int k = r->k; k > 0; k -= DEPTH, pa += step_a, pb += step_b) {
        wait(full + empty + 8 * (uint32_t)st, ph);
        const uint32_t slice = ring + (uint32_t)st * STAGE;
        if (p == 0) arrive(full + 8 * (uint32_t)st);
        if (TA) fetch_columns<BM, 1>(slice, pa, lda, wide_a, rows, k, p, true);
        else fetch_rows<BM>(slice, LDA, pa, lda, wide_a, rows, k, p);
        if (TB) fetch_rows<BN>(slice + A_BYTES, TA ? LDB_APART : LDB, pb, ldb, wide_b, cols, k, p);
        else fetch_columns<BN, 0>(slice + A_BYTES, pb, ldb, wide_b, cols, k, p, TA);
        arrive_after_copies(full + 8 * (uint32_t)st);
        if (++st == STAGES) st = 0, ph ^= 1;
    }
}

__device__ __forceinline__ void producer(const kl_piece *__restrict__ piece, int ntile, int *counter,
                                         uint32_t ring, info *head, kl_piece *rec, barriers of,
                                         const double *x, const double *y)
{
    const uint32_t full = of.full, empty = of.empty;
    const int p = (int)threadIdx.x - CONSUMERS * 32;
    const bool first_warp = p < 32;
    int st = 0, cur = 0, soon = 0, nth = 0;
    uint32_t ph = 1;
    if (first_warp) { /* blocks <= ntile */
        if (p < 4) ((int4 *)rec)[p] = ((const int4 *)(piece + blockIdx.x))[p];
        if (p == 0) soon = atomicAdd(counter, 1) + (int)gridDim.x;
        soon = __shfl_sync(~0u, soon, 0);
    }
    asm volatile("bar.sync 1,128;" ::: "memory");
    for (;;) {
        const kl_piece *const r = rec + cur;
        const uint32_t flags = r->flags;
        if (flags & KL_P_END) break;
        const int more = r->next;
        int later;
        /* the next record, and the tile after it: asked for here, waited for when the piece is done, and in
           no register meanwhile but one */
        if (first_warp) {
            if (p < 4)
                copy16((uint32_t)__cvta_generic_to_shared(rec + (cur ^ 1)) + 16u * (uint32_t)p,
                       (const double *)(piece + (more > 0 ? more : min(soon, ntile - 1))) + 2 * p);
            asm volatile("cp.async.commit_group;" ::: "memory");
            /* add would be made a sum over the warp */
            if (more <= 0 && p == 0)
                asm volatile("atom.global.inc.u32 %0,[%1],0x7fffffff;"
                             : "=r"(later)
                             : "l"(counter)
                             : "memory");
        }
        const uint64_t a = kl_where(r->a, flags, KL_P_A, x, y), b = kl_where(r->b, flags, KL_P_B, x, y);
        if (p == 0) {
            info *const h = head + nth;
            const uint64_t c = kl_where(r->c, flags, KL_P_C, x, y);
            h->c = c, h->ldc = r->ldc, h->mn = r->mn,
            h->flags = flags | (((c & 15) | (r->ldc & 1)) == 0 ? KL_P_EVEN : 0), h->k = r->k,
            h->factor = r->factor, h->turn = r->turn;
        }
        switch (flags & (KL_P_TA | KL_P_TB)) {
        case 0: bring<false, false>(r, a, b, ring, full, st, ph, p); break;
        case KL_P_TB: bring<false, true>(r, a, b, ring, full, st, ph, p); break;
        case KL_P_TA: bring<true, false>(r, a, b, ring, full, st, ph, p); break;
        default: bring<true, true>(r, a, b, ring, full, st, ph, p);
        }
        nth = (nth + 1) % HEADS;
        if (first_warp) {
            asm volatile("cp.async.wait_group 0;" ::: "memory"); /* slices are in no group */
            if (more <= 0) {
                if (p == 3 && soon >= ntile) rec[cur ^ 1].flags = KL_P_END;
                soon = __shfl_sync(~0u, later, 0) + (int)gridDim.x;
            }
        }
        asm volatile("bar.sync 1,128;" ::: "memory");
        cur ^= 1;
    }
    wait(empty + 8 * (uint32_t)st, ph);
    if (p == 0) {
        head[nth].flags = KL_P_END;
        arrive(full + 8 * (uint32_t)st);
    }
    arrive_after_copies(full + 8 * (uint32_t)st);
    /* the last block readies them for the next launch */
    if (p == 0 && atomicAdd(counter + 1, 1) == (int)gridDim.x - 1) counter[0] = counter[1] = 0;
    asm volatile("cp.async.wait_all;" ::: "memory");
}

__device__ __forceinline__ void write_tile(double (&acc)[MT][NT][4], const volatile info *h, int mt, int nt,
                                           int row0, int col0)
{
    const int m = kl_rows_of(h->mn), n = kl_cols_of(h->mn), ldc = h->ldc;
    const uint32_t flags = h->flags;
    const bool beta = flags & KL_P_BETA, even = flags & KL_P_EVEN;
    double *const c = (double *)(uintptr_t)h->c;
    if (even && !beta && row0 + 16 * mt - 15 < m) { /* no edge in the rows of this thread */
        double *d = c + row0 + (int64_t)col0 * ldc;
        const int64_t seven = 7LL * ldc;
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (j < nt) {
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    if (col0 + 8 * j + e < n) {
#pragma unroll
                        for (int i = 0; i < MT; i++)
                            if (i < mt)
                                *(double2 *)(d + 16 * i) = make_double2(acc[i][j][e], acc[i][j][e + 2]);
                    }
                    d += e ? seven : (int64_t)ldc;
                }
            }
        return;
    }
#pragma unroll
    for (int i = 0; i < MT; i++)
        if (i < mt) {
#pragma unroll
            for (int j = 0; j < NT; j++)
                if (j < nt) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const int r = row0 + 16 * i, k = col0 + 8 * j + e;
                        if (k >= n || r >= m) continue;
                        double *const d = c + r + (int64_t)k * ldc;
                        double2 v = make_double2(acc[i][j][e], acc[i][j][e + 2]);
                        if (even && r + 1 < m) {
                            if (beta) {
                                /* another block may have written it in this launch */
                                const double2 o = __ldcg((const double2 *)d);
                                v.x += o.x, v.y += o.y;
                            }
                            *(double2 *)d = v;
                            continue;
                        }
                        d[0] = beta ? __ldcg(d) + v.x : v.x;
                        if (r + 1 < m) d[1] = beta ? __ldcg(d + 1) + v.y : v.y;
                    }
                }
        }
}

__device__ __forceinline__ void consumers_meet()
{
    asm volatile("bar.sync 2,%0;" ::"n"(32 * CONSUMERS) : "memory");
}

/* A tile in parts: its number counts up from 0 as they are written, and the last sets it back. Parts come in
   their order because a block that waits does so for one whose tile comes earlier in the list, which
   is taken already. */
__device__ __forceinline__ void wait_for_turn(const int *turns, uint32_t turn)
{
    if (threadIdx.x == 0) {
        int now;
        do
            asm volatile("ld.acquire.gpu.global.s32 %0,[%1];"
                         : "=r"(now)
                         : "l"(turns + (turn >> 8))
                         : "memory");
        while (now != (int)(turn & 255));
    }
    consumers_meet();
}
__device__ __forceinline__ void pass_turn(int *turns, uint32_t turn, bool last)
{
    __threadfence();
    consumers_meet();
    if (threadIdx.x == 0)
        asm volatile("st.release.gpu.global.s32 [%0],%1;" ::"l"(turns + (turn >> 8)),
                     "r"(last ? 0 : (int)(turn & 255) + 1)
                     : "memory");
}

__global__ void __launch_bounds__(THREADS, 1)
    products(const kl_piece *__restrict__ piece, int ntile, int *counter, int *turns, const double *x,
             const double *y)
{
    extern __shared__ __align__(128) char shared[];
    info *const head = (info *)(shared + STAGES * STAGE);
    kl_piece *const rec = (kl_piece *)(head + HEADS);
    const uint32_t ring = (uint32_t)__cvta_generic_to_shared(shared),
                   full = (uint32_t)__cvta_generic_to_shared(rec + 2), empty = full + 8 * STAGES;
    if (threadIdx.x < STAGES) {
        barrier_init(full + 8 * threadIdx.x, 129);
        barrier_init(empty + 8 * threadIdx.x, 32 * CONSUMERS);
        barriers_ready();
    }
    __syncthreads();
    const int warp = (int)threadIdx.x / 32;
    if (warp >= CONSUMERS) {
        fewer_registers<FEW_REGISTERS>();
        producer(piece, ntile, counter, ring, head, rec, {full, empty}, x, y);
        return;
    }
    more_registers<MANY_REGISTERS>();
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, wm = warp / WN, wn = warp % WN;
    const uint32_t b_ring = ring + A_BYTES;
    const uint32_t a_plain = ring + (uint32_t)(2 * g + 2 * t * LDA) * 8,
                   a_turned =
                       ring + (uint32_t)(2 * g * DEPTH + 2 * (t / 2 ^ exchange<1>(2 * g, true)) + t % 2) * 8;
    /* one transposed: lanes take k = 2t and 2t + 1 */
    const uint32_t a_added = ring + (uint32_t)(2 * g * DEPTH + 2 * (t ^ exchange<1>(2 * g, true))) * 8;
    const uint32_t b_plain = b_ring + (uint32_t)(g * DEPTH + 2 * (t ^ exchange<0>(g, false))) * 8,
                   b_turned = b_ring + (uint32_t)(2 * t * LDB + g) * 8;
    const uint32_t b_plain_apart =
                       b_ring + (uint32_t)(g * DEPTH + 2 * (t / 2 ^ exchange<0>(g, true)) + t % 2) * 8,
                   b_turned_apart = b_ring + (uint32_t)(t * LDB_APART + g) * 8;
    double acc[MT][NT][4];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0;
    int st = 0;
    uint32_t ph = 0;
    for (int nth = 0;; nth = (nth + 1) % HEADS) {
        const volatile info *const h = head + nth;
        wait(full + 8 * (uint32_t)st, ph);
        const uint32_t flags = h->flags;
        if (flags & KL_P_END) break;
        const int k = h->k, all = (int)(flags & KL_P_ROWS), nt = (int)(flags & KL_P_COLS) >> 4,
                  mt = wm ? all / 2 : (all + 1) / 2, row0 = wm ? 16 * ((all + 1) / 2) : 0;
        const bool ta = flags & KL_P_TA, tb = flags & KL_P_TB;
        const uint32_t a = ta ? a_turned + (uint32_t)(row0 * DEPTH * 8) : a_plain + (uint32_t)(row0 * 8);
        const uint32_t b = tb ? (ta ? b_turned_apart : b_turned) + (uint32_t)(wn * nt * 64)
                              : (ta ? b_plain_apart : b_plain) + (uint32_t)(wn * nt * 8 * DEPTH * 8);
#define STEPS(TA, TB, M, N)                                                 \
    case TA * 32 + TB * 16 + M * 4 + N - 5:                                 \
        steps<TA, TB, M, N>(acc, a, b, k / DEPTH, k % DEPTH, st, ph, full); \
        break;
        /* clang-format off */
#define SHAPES(TA, TB)                                                                              \
    STEPS(TA, TB, 1, 1) STEPS(TA, TB, 1, 2) STEPS(TA, TB, 1, 3) STEPS(TA, TB, 1, 4)                 \
    STEPS(TA, TB, 2, 1) STEPS(TA, TB, 2, 2) STEPS(TA, TB, 2, 3) STEPS(TA, TB, 2, 4)                 \
    STEPS(TA, TB, 3, 1) STEPS(TA, TB, 3, 2) STEPS(TA, TB, 3, 3) STEPS(TA, TB, 3, 4)                 \
    STEPS(TA, TB, 4, 1) STEPS(TA, TB, 4, 2) STEPS(TA, TB, 4, 3) STEPS(TA, TB, 4, 4)
        if (flags & KL_P_ADD) {
            if (ta) add<true>(acc, a_added + (uint32_t)(row0 * DEPTH * 8), nt, wn * nt, k, st, ph, full);
            else add<false>(acc, a_plain + (uint32_t)(row0 * 8), nt, wn * nt, k, st, ph, full);
        } else switch (mt > 0 ? ta * 32 + tb * 16 + mt * 4 + nt - 5 : -1) {
            SHAPES(0, 0) SHAPES(0, 1) SHAPES(1, 0) SHAPES(1, 1)
            default: /* a warp without rows passes the stages on */
                for (int i = (k + DEPTH - 1) / DEPTH; i > 0;) {
                    arrive(empty + 8 * (uint32_t)st);
                    if (++st == STAGES) st = 0, ph ^= 1;
                    if (--i > 0) wait(full + 8 * (uint32_t)st, ph);
                }
            }
#undef SHAPES
#undef STEPS
        /* clang-format on */
        const double factor = h->factor;
        if (factor != 1.0) {
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < NT; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[i][j][e] *= factor;
        }
        const uint32_t late = h->flags;
        if (late & KL_P_LAST) {
            if ((late & KL_P_PART) && (h->turn & 255)) wait_for_turn(turns, h->turn);
            write_tile(acc, h, mt, nt, row0 + 2 * g, wn * 8 * nt + 2 * t);
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int j = 0; j < NT; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0;
        }
        if (late & KL_P_OVER) pass_turn(turns, h->turn, late & KL_P_FINAL);
    }
}

} // namespace

extern "C" kl_tile_plan_opts kl_cuda_products_opts(const kl_cuda *self)
{
    kl_tile_plan_opts o = {};
    o.unit_m = 16, o.unit_n = WN * 8, o.most_m = BM / 16, o.most_n = NT, o.depth = DEPTH,
    o.nblock = self->nsm, o.together = 200, o.adds = 1, o.rate = 15;
    /* measured on one product of 1704: some 20 microseconds, write, wait and all */
    o.parts = 1, o.cost_part = 40000;
    o.cost_unit = 64, o.cost_row = 24, o.cost_col = 96, o.cost_least = 500, o.cost_tile = 1000;
    return o;
}

extern "C" int kl_cuda_products_shared(void) { return SHARED; }

extern "C" cudaError_t kl_cuda_products_init(const kl_cuda *self)
{
    (void)self;
    return cudaFuncSetAttribute(products, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
}

extern "C" void kl_cuda_products(const kl_cuda *self, const kl_piece *piece, int ntile, const double *x,
                                 double *y)
{
    if (ntile > 0)
        products<<<(unsigned)(ntile < self->nsm ? ntile : self->nsm), THREADS, SHARED, self->stream>>>(
            piece, ntile, self->counter, self->turns, x, y);
}
