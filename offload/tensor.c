/* Products on NVIDIA's FP64 tensor cores (sm_90 and later) from a bare target region: as many blocks as the
   device has multiprocessors stay and take tiles from a counter. In a block four warps bring slices of 16
   values of k into a ring of stages (cp.async, mbarriers), a stage all together or, where tiles are small,
   each its own, while eight warps multiply them with m16n8k8; all pieces of a tile, whatever their transposes
   and coefficients, run through the same ring without a stop and are summed in registers.

   Rows of a tile come in units of 16: warps w and w + 4, which share a scheduler, split them, unevenly if
   need be. Columns come in units of 32, 8 for each of four warps. A warp so owns 1..4 x 1..4 fragments of 16
   x 8, and for each piece one of sixteen loops is chosen, times four for the transposes. Compiled twice: so,
   and with three columns of units, for which the registers suffice as they are.

   Tiles of one unit with short sums wait for memory and for instructions rather than multiply. Those come
   last in a list and are left to the warps: each does one by itself, what it multiplies coming straight from
   memory.

   Slices in shared memory. [k][m], rows padded by two: a lane's 16-byte load gives rows 2g, 2g+1 at one k.
   [m][k], when A is transposed: the load gives k = 2t, 2t+1 of one row, and two registers are swapped. B
   likewise. Inside the product k and the rows are thus permuted alike in A, B and C, which does not
   show. Halves of rows are exchanged so that no two lanes of a load meet in a bank.

   Register budget 168 (65536 / 384 threads), set for this file at its compile step; producers then give
   theirs to the others, whose sums alone are 128. ptxas heeds that only in a file compiled as a whole
   (offload/ptxas.in). A kernel of 4 registers means that the compiler emptied it.
   SPDX-License-Identifier: Apache-2.0 */
#include "tensor_parts.h"

#if KL_TENSOR_COLS == 4
#define NAME(x) x##_wide
#else
#define NAME(x) x
#endif

const kl_tile_plan_opts NAME(kl_tensor_opts) = {.unit_m = 16,
                                                .unit_n = 32,
                                                .most_m = BM / 16,
                                                .most_n = NT,
                                                .depth = DEPTH,
                                                .nblock = 132,
                                                .adds = 1,
                                                .levels = 1,
#if KL_TENSOR_COLS == 4
                                                .rate = 18,
                                                .cost_unit = 67,
                                                .cost_least = 1000,
                                                .cost_piece = 2300,
                                                .cost_tile = 1000,
                                                .cost_lone = 300,
                                                .most_lone = 40};
#else
                                                .rate = 25,
                                                .cost_unit = 64,
                                                .cost_row = 24,
                                                .cost_col = 96,
                                                .cost_least = 700,
                                                .cost_tile = 1000};
#endif

#if KL_OFFLOAD_BARE
#if defined(__NVPTX__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* The loop that a warp takes: which operands are transposed, and its fragments. */
typedef struct loop {
    int ta, tb, mt, nt;
} loop;

/* A consumer's place in the ring: its stage, the phase of that, and the barriers of stages that are full,
   behind which lie those of empty ones. */
typedef struct place {
    int stage;
    uint32_t phase, full;
} place;

/* A piece for a warp of mt x nt fragments: n steps of DEPTH, then half of one where there is a tail.
   Fragments of the next step are asked for before this one ends. Every lane gives a stage back itself, which
   costs nothing and is what tools can follow. */
ALWAYS void steps(double (*acc)[NT][4], uint32_t a0, uint32_t b0, const loop l, int n, int tail, place *here)
{
    const int ta = l.ta, tb = l.tb, mt = l.mt, nt = l.nt;
    const uint32_t full = here->full, empty = full + 8 * STAGES;
    const int buffers = mt % 2 == 0 ? 2 : mt; /* the first of the next stage must not be in use */
    double a[3][4], b[NT][2];
    int st = here->stage;
    uint32_t ph = here->phase;
    if (n > 0) {
        load_a(a0 + (uint32_t)st * STAGE, ta, 0, 0, a[0]);
        UNROLL
        for (int j = 0; j < nt; j++) load_b(b0 + (uint32_t)st * STAGE, ta, tb, j, 0, b[j]);
        for (;;) {
            const uint32_t at = (uint32_t)st * STAGE;
            uint32_t next = at;
            UNROLL
            for (int half = 0; half < DEPTH / 8; half++) {
                UNROLL
                for (int i = 0; i < mt - 1; i++) {
                    load_a(a0 + at, ta, i + 1, half, a[(i + 1) % buffers]);
                    UNROLL
                    for (int j = 0; j < nt; j++) multiply(acc[i][j], a[i % buffers], b[j]);
                }
                if (half == DEPTH / 8 - 1) {
                    arrive(empty + 8 * (uint32_t)st);
                    if (++st == STAGES) st = 0, ph ^= 1;
                    if (--n == 0) break;
                    wait(full + 8 * (uint32_t)st, ph);
                    next = (uint32_t)st * STAGE;
                }
                const int then = (half + 1) % (DEPTH / 8);
                if (mt > 1) load_a(a0 + next, ta, 0, then, a[0]);
                UNROLL
                for (int j = 0; j < nt; j++) {
                    multiply(acc[mt - 1][j], a[(mt - 1) % buffers], b[j]);
                    load_b(b0 + next, ta, tb, j, then, b[j]);
                }
                if (mt == 1) load_a(a0 + next, ta, 0, then, a[0]);
            }
            if (n == 0) break;
        }
        UNROLL
        for (int j = 0; j < nt; j++) multiply(acc[mt - 1][j], a[(mt - 1) % buffers], b[j]);
        if (tail > 0) wait(full + 8 * (uint32_t)st, ph);
    }
    if (tail > 0) {
        const uint32_t at = (uint32_t)st * STAGE;
        UNROLL
        for (int j = 0; j < nt; j++) load_b(b0 + at, ta, tb, j, 0, b[j]);
        UNROLL
        for (int i = 0; i < mt; i++) {
            load_a(a0 + at, ta, i, 0, a[0]);
            UNROLL
            for (int j = 0; j < nt; j++) multiply(acc[i][j], a[0], b[j]);
        }
        arrive(empty + 8 * (uint32_t)st);
        if (++st == STAGES) st = 0, ph ^= 1;
    }
    here->stage = st;
    here->phase = ph;
}

/* Gives stages back unread and waits for the next, up to `to`. */
ALWAYS void pass(int *from, int to, place *here)
{
    for (; *from < to; ++*from) {
        arrive(here->full + 8 * STAGES + 8 * (uint32_t)here->stage);
        if (++here->stage == STAGES) here->stage = 0, here->phase ^= 1;
        wait(here->full + 8 * (uint32_t)here->stage, here->phase);
    }
}

/* A matrix that is added: its columns come as the values of k do, ADDED a stage, and a warp takes those
   blocks of 8 that are its own columns. With ta its rows are rows of the slice. Rows that a warp does not
   have are added to sums that nobody writes. */
ALWAYS void add(double (*acc)[NT][4], uint32_t a0, const int ta, int nt, int first, int k, place *here)
{
    int stage = 0;
    UNROLL
    for (int j = 0; j < NT; j++) {
        if (j >= nt) continue;
        const int col = (first + j) * 8;
        pass(&stage, at_most(col, k - 1) / ADDED, here);
        const uint32_t at = a0 + (uint32_t)here->stage * STAGE + (uint32_t)(col % ADDED / DEPTH * A_BYTES),
                       row = ta ? at ^ (uint32_t)(col & 8) * 8 : at + (uint32_t)((col & 8) * LDA * 8);
        UNROLL
        for (int i = 0; i < MT; i++) {
            const uint32_t first_row = row + (uint32_t)(ta ? i * 16 * DEPTH * 8 : i * 128);
            const two u = load2(first_row), v = load2(first_row + (ta ? DEPTH * 8 : LDA * 8));
            acc[i][j][0] += u.x, acc[i][j][1] += ta ? u.y : v.x, acc[i][j][2] += ta ? v.x : u.y,
                acc[i][j][3] += v.y;
        }
    }
    pass(&stage, (k - 1) / ADDED, here);
    arrive(here->full + 8 * STAGES + 8 * (uint32_t)here->stage);
    if (++here->stage == STAGES) here->stage = 0, here->phase ^= 1;
}

/* A tile of the second level: all of the first are taken already, and done some time. */
ALWAYS void wait_for_first(const int *counter, int flags, int nbefore)
{
    int now = nbefore;
    if (flags & KL_P_NEXT) do
            __asm__ volatile("ld.acquire.gpu.global.s32 %0,[%1];" : "=r"(now) : "l"(counter + 2) : "memory");
        while (now != nbefore);
}

ALWAYS int next_tile(int *counter, int blocks, int p)
{
    int t = 0;
    if (p == 0) t = kl_add(counter, 1) + blocks;
    return __nvvm_shfl_sync_idx_i32(~0u, t, 0, 31);
}

/* The launch; for lone tiles in shared memory: in registers it would slow down what comes before. */
typedef struct list {
    const kl_piece *piece;
    const double *x, *y;
    int *counter;
    int ntile, nlone;
} list;
_Static_assert(sizeof(list) <= LIST, "the layout of shared memory counts on it");

/* What a block has in shared memory: stages, heads of pieces, two records, and barriers of full and of empty
   stages. */
typedef struct block_room {
    uint32_t ring, full, empty;
    info *head;
    kl_piece *rec;
} block_room;

/* What the first warp of producers knows of records to come. look: what its lanes hold of them, 16 bytes
   each, of a batch of `held' from number `batch' on, or of the next one alone. */
typedef struct coming {
    four look;
    int batch, held;
    int next; /* which of those is the next record */
    int then; /* its number, -1: its tile is not taken yet */
    int soon; /* the tile after this one, taken already, or -1 */
    int later, asked; /* a tile that the first lane has asked for */
    int twice; /* 1: that is for the tile after the next */
} coming;

/* The first record of a block. */
ALWAYS void first_record(const list all, int nbefore, kl_piece *rec, int thread, int block)
{
    if (thread >= 4) return;
    four look = ((const four *)(all.piece + block))[thread];
    if (thread == 3 && block >= all.ntile) look[0] = KL_P_END;
    else if (thread == 3) wait_for_first(all.counter, look[0], nbefore);
    ((four *)rec)[thread] = look;
}

/* Asks for the record behind r; of brief tiles also for the number of the tile after it, but never for two of
   the second level, whose first ones are the longest. */
ALWAYS void ask_next(coming *c, const list all, int nbefore, int blocks, int more, int brief, int lane)
{
    if (c->soon < 0 && brief) c->soon = next_tile(all.counter, blocks, lane);
    c->then = more > 0 ? more : c->soon;
    if (more > 0) {
        /* those of a tile follow each other but for the first; behind the last of a list there is room */
        if (more < c->batch || more >= c->batch + c->held) {
            c->batch = more, c->held = KL_PIECE_BATCH;
            c->look = ((const four *)(all.piece + more))[lane];
        }
        c->next = more - c->batch;
    } else {
        c->held = 0;
        if (c->then >= 0) c->look = ((const four *)(all.piece + at_most(c->then, all.ntile - 1)))[lane & 3];
    }
    c->twice = brief && (nbefore == 0 || c->then < nbefore / CONSUMERS);
    if (c->twice && lane == 0) c->later = kl_add(all.counter, 1) + blocks;
}

/* Takes the tile that was asked for. */
ALWAYS void take_later(coming *c, const list all, int lane)
{
    c->then = __nvvm_shfl_sync_idx_i32(~0u, c->later, 0, 31);
    c->look = ((const four *)(all.piece + at_most(c->then, all.ntile - 1)))[lane & 3];
}

ALWAYS void ask_later(coming *c, const list all, int blocks, int lane)
{
    if (lane == 0 && !c->asked) c->later = kl_add(all.counter, 1) + blocks;
    c->asked = 1;
}

/* Lays the next record down. apart: the last stages were not the first warp's. */
ALWAYS void hand_over(coming *c, const list all, int nbefore, int blocks, int more, int apart, int lane,
                      kl_piece *to)
{
    if (apart && c->then < 0) {
        ask_later(c, all, blocks, lane);
        take_later(c, all, lane);
    }
    if (lane / 4 == c->next) {
        if (lane % 4 == 3 && (more > 0 || c->then < all.ntile))
            wait_for_first(all.counter, c->look[0], nbefore);
        ((four *)to)[lane % 4] = c->look;
        if (more <= 0 && c->then >= all.ntile && lane == 3) to->flags = KL_P_END;
    }
    if (more <= 0) c->soon = c->twice ? __nvvm_shfl_sync_idx_i32(~0u, c->later, 0, 31) : -1;
}

/* team: threads that fill a stage together, all of them or a warp. Of four warps each then fills every fourth
   stage: what a step costs in waiting and latency, which is what small tiles take, is shared by four; but
   copies come in bursts, and large tiles are some per cent slower. The first warp also brings records and
   takes tiles. */
ALWAYS void producer(const list all, int nbefore, const block_room room, const int team)
{
    const double *const x = all.x, *const y = all.y;
    const uint32_t ring = room.ring, full = room.full, empty = room.empty;
    info *const head = room.head;
    kl_piece *const rec = room.rec;
    const int teams = PRODUCERS / team, thread = me() - CONSUMERS * 32, p = thread % team,
              mine = thread / team, lane = thread % 32, first_warp = thread < 32;
    const int block = (int)__nvvm_read_ptx_sreg_ctaid_x(), blocks = (int)__nvvm_read_ptx_sreg_nctaid_x();
    int st = mine, turn = 0 /* the team of the next stage */, cur = 0, nth = 0, fresh = 1;
    coming q = {.soon = -1};
    uint32_t ph = 1;
    first_record(all, nbefore, rec, thread, block);
    producers_meet();
    for (;;) {
        const kl_piece *const r = rec + cur;
        const uint32_t flags = r->flags;
        if (flags & KL_P_END) break;
        const int more = r->next, brief = fresh && more <= 0 && r->k < EARLY * DEPTH;
        q.then = q.later = q.asked = q.next = q.twice = 0;
        if (first_warp) ask_next(&q, all, nbefore, blocks, more, brief, lane);
        const int rows = kl_rows_of(r->mn), cols = kl_cols_of(r->mn), lda = r->lda, ldb = r->ldb,
                  ta = (flags & KL_P_TA) != 0, tb = (flags & KL_P_TB) != 0, product = !(flags & KL_P_ADD);
        const uint64_t c = kl_where(r->c, flags, KL_P_C, x, y), a = kl_where(r->a, flags, KL_P_A, x, y),
                       b = kl_where(r->b, flags, KL_P_B, x, y);
        const int even_a = even(a, lda), even_b = even(b, ldb), even_c = even(c, r->ldc);
        const double *pa = (const double *)(uintptr_t)a, *pb = (const double *)(uintptr_t)b;
        pa = ta ? start_columns(pa, lda, even_a, p) : start_rows(pa, lda, even_a, p, team, BM);
        pb = tb ? start_rows(pb, ldb, even_b, p, team, BN) : start_columns(pb, ldb, even_b, p);
        /* stages of other teams */
        const int each = product ? DEPTH : ADDED, before = (mine - turn) & (teams - 1);
        const int64_t step_a = ta ? each : (int64_t)each * lda, step_b = tb ? (int64_t)DEPTH * ldb : DEPTH;
        pa += before * step_a, pb += before * step_b;
        for (int k = r->k - before * each; k > 0;
             k -= teams * each, pa += teams * step_a, pb += teams * step_b) {
            wait(empty + 8 * (uint32_t)st, ph);
            const uint32_t slice = ring + (uint32_t)st * STAGE;
            /* a tile is taken when this one is nearly done, so that nobody sits on work that others could
               do */
            if (first_warp && q.then < 0 && k <= EARLY * DEPTH) {
                ask_later(&q, all, blocks, lane);
                if (k <= EARLY / 2 * DEPTH) take_later(&q, all, lane);
            }
            if (p == 0) {
                if (k == r->k)
                    head[nth] = (info){.c = c,
                                       .ldc = r->ldc,
                                       .mn = r->mn,
                                       .flags = flags | (even_c ? KL_P_EVEN : 0),
                                       .k = k,
                                       .factor = r->factor};
                arrive(full + 8 * (uint32_t)st);
            }
            const operand oa = {pa, lda, even_a, rows}, ob = {pb, ldb, even_b, cols},
                          added = {ta ? pa + DEPTH : pa + (int64_t)DEPTH * lda, lda, even_a, rows};
            if (ta) fetch_columns(slice, oa, k, p, team, BM, 1, 1);
            else fetch_rows(slice, oa, k, p, team, BM, LDA);
            if (product && tb) fetch_rows(slice + A_BYTES, ob, k, p, team, BN, ta ? LDB_APART : LDB);
            else if (product) fetch_columns(slice + A_BYTES, ob, k, p, team, BN, 0, ta);
            else if (k > DEPTH && ta && ADDED > DEPTH)
                fetch_columns(slice + A_BYTES, added, k - DEPTH, p, team, BM, 1, 1);
            else if (k > DEPTH && ADDED > DEPTH)
                fetch_rows(slice + A_BYTES, added, k - DEPTH, p, team, BM, LDA);
            arrive_after_copies(full + 8 * (uint32_t)st);
            st += teams;
            if (st >= STAGES) st -= STAGES, ph ^= 1;
        }
        turn = (turn + (r->k + each - 1) / each) & (teams - 1);
        nth = (nth + 1) % HEADS;
        fresh = more <= 0;
        if (first_warp) hand_over(&q, all, nbefore, blocks, more, teams > 1, lane, rec + (cur ^ 1));
        producers_meet();
        cur ^= 1;
    }
    if (mine == turn) {
        wait(empty + 8 * (uint32_t)st, ph);
        if (p == 0) {
            head[nth].flags = KL_P_END;
            arrive(full + 8 * (uint32_t)st);
        }
        arrive_after_copies(full + 8 * (uint32_t)st);
    }
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
}

/* An output: its address, distance of columns, rows and columns, and flags of its piece. */
typedef struct output {
    uint64_t c;
    int ldc;
    uint32_t mn, flags;
} output;

/* The sums of a lane, fragment i, j being acc[i * across + j]; mt x nt of most_m x across are there. */
ALWAYS void write_tile(double (*acc)[4], const int most_m, const int across, const output o, int mt, int nt,
                       int row0, int col0)
{
    const int m = kl_rows_of(o.mn), n = kl_cols_of(o.mn), ldc = o.ldc;
    const uint32_t flags = o.flags;
    number *const c = (number *)(uintptr_t)o.c;
    /* no edge in the rows of this thread */
    if ((flags & KL_P_EVEN) && !(flags & KL_P_BETA) && row0 + 16 * mt - 15 < m) {
        number *d = c + row0 + (int64_t)col0 * ldc;
        const int64_t seven = 7LL * ldc;
        UNROLL
        for (int j = 0; j < across; j++)
            if (j < nt) {
                UNROLL
                for (int e = 0; e < 2; e++) {
                    if (col0 + 8 * j + e < n) {
                        UNROLL
                        for (int i = 0; i < most_m; i++)
                            if (i < mt)
                                *(pair *)(d + 16 * i) =
                                    (kl_two){acc[i * across + j][e], acc[i * across + j][e + 2]};
                    }
                    d += e ? seven : ldc;
                }
            }
        return;
    }
    UNROLL
    for (int i = 0; i < most_m; i++)
        if (i < mt) {
            UNROLL
            for (int j = 0; j < across; j++)
                if (j < nt) {
                    UNROLL
                    for (int e = 0; e < 2; e++) {
                        const int r = row0 + 16 * i, k = col0 + 8 * j + e;
                        if (k >= n) continue;
                        number *const d = c + r + (int64_t)k * ldc;
                        if (r < m) d[0] = acc[i * across + j][e] + (flags & KL_P_BETA ? d[0] : 0.0);
                        if (r + 1 < m) d[1] = acc[i * across + j][e + 2] + (flags & KL_P_BETA ? d[1] : 0.0);
                    }
                }
        }
}

/* Four values of k, 4 apart, where `is`; else what was there, which nobody uses. */
ALWAYS void load_four(double *v, const double *p, int64_t next, int is)
{
    __asm__ volatile("{.reg .pred p; setp.ne.s32 p,%8,0; @p ld.global.f64 %0,[%4]; @p ld.global.f64 %1,[%5]; "
                     "@p ld.global.f64 %2,[%6]; @p ld.global.f64 %3,[%7];}"
                     : "=&d"(v[0]), "=&d"(v[1]), "=&d"(v[2]), "=&d"(v[3])
                     : "l"(p), "l"(p + next), "l"(p + 2 * next), "l"(p + 3 * next), "r"(is)
                     : "memory");
}
/* Two of them, or 0 behind the end of k. */
ALWAYS void load_rest(double *v, const double *p, int64_t next, int first, int second)
{
    __asm__ volatile(
        "{.reg .pred p,q; setp.ne.s32 p,%4,0; setp.ne.s32 q,%5,0; mov.f64 %0,0d0000000000000000; mov.f64 "
        "%1,0d0000000000000000; @p ld.global.f64 %0,[%2]; @q ld.global.f64 %1,[%3];}"
        : "=&d"(v[0]), "=&d"(v[1])
        : "l"(p), "l"(p + next), "r"(first), "r"(second)
        : "memory");
}

/* A piece of a lone tile. Rows and columns that are not there are read as the last one that is, and added to
   sums that nobody writes. */
ALWAYS void lone_piece(double (*acc)[4], const kl_piece *r, const list *all)
{
    enum { N = LONE_COLS / 8 };
    const int lane = me() % 32, g = lane / 4, t = lane % 4;
    const uint32_t flags = r->flags;
    const int m = kl_rows_of(r->mn), n = kl_cols_of(r->mn), lda = r->lda, ldb = r->ldb,
              ta = (flags & KL_P_TA) != 0, tb = (flags & KL_P_TB) != 0;
    int cols = (n + 7) / 8;
    const int64_t row = ta ? lda : 1, col = ta ? 1 : lda, deep = tb ? ldb : 1, wide = tb ? 1 : ldb;
    const double *const base = (const double *)(uintptr_t)kl_where(r->a, flags, KL_P_A, all->x, all->y);
    const double *a[2], *b[N];
    UNROLL
    for (int e = 0; e < 2; e++) a[e] = base + at_most(2 * g + e, m - 1) * row;
    if (flags & KL_P_ADD) {
        UNROLL
        for (int j = 0; j < N; j++) UNROLL
        for (int e = 0; e < 4; e++) {
            const number *const from =
                (const number *)(uintptr_t)(a[e / 2] + at_most(8 * j + 2 * t + e % 2, n - 1) * col);
            acc[j][e] += *from;
        }
        scale(acc, N, r->factor);
        return;
    }
    const double *const second = (const double *)(uintptr_t)kl_where(r->b, flags, KL_P_B, all->x, all->y);
    UNROLL
    for (int e = 0; e < 2; e++) a[e] += t * col;
    UNROLL
    for (int j = 0; j < N; j++) b[j] = second + at_most(8 * j + g, n - 1) * wide + t * deep;
    double fa[2][4], fb[N][4];
    int left = r->k;
    for (; left >= DEPTH; left -= DEPTH) {
        __asm__ volatile("" : "+r"(cols)); /* or there will be a loop for every number of them */
        UNROLL
        for (int e = 0; e < 2; e++) load_four(fa[e], a[e], 4 * col, 1), a[e] += DEPTH * col;
        UNROLL
        for (int j = 0; j < N; j++) load_four(fb[j], b[j], 4 * deep, j < cols), b[j] += DEPTH * deep;
        UNROLL
        for (int half = 0; half < DEPTH / 8; half++) UNROLL
        for (int j = 0; j < N; j++)
            if (j < cols)
                multiply(
                    acc[j],
                    (double[]){fa[0][2 * half], fa[1][2 * half], fa[0][2 * half + 1], fa[1][2 * half + 1]},
                    fb[j] + 2 * half);
    }
    for (; left > 0; left -= DEPTH / 2) {
        __asm__ volatile("" : "+r"(cols));
        UNROLL
        for (int e = 0; e < 2; e++)
            load_rest(fa[e], a[e], 4 * col, t < left, t + 4 < left), a[e] += DEPTH / 2 * col;
        UNROLL
        for (int j = 0; j < N; j++)
            load_rest(fb[j], b[j], 4 * deep, j < cols && t < left, j < cols && t + 4 < left),
                b[j] += DEPTH / 2 * deep;
        UNROLL
        for (int j = 0; j < N; j++)
            if (j < cols) multiply(acc[j], (double[]){fa[0][0], fa[1][0], fa[0][1], fa[1][1]}, fb[j]);
    }
    scale(acc, N, r->factor);
}

/* Lone tiles until all are taken, by whichever warp is free: who reserves one before that keeps it from the
   others. A step takes a warp some 1250 cycles; where all multiprocessors are at it the cache gives no more
   than one in 300 to each, however it is asked. rec has room for a batch of records. */
ALWAYS void alone(volatile const list *launch, kl_piece *rec)
{
    enum { N = LONE_COLS / 8 };
    const list all = {launch->piece, launch->x, launch->y, launch->counter, launch->ntile, launch->nlone};
    const int lane = me() % 32;
    double acc[N][4];
    zero_all(acc, N);
    for (;;) {
        int nth = all.nlone;
        if (lane == 0 && nth > 0) nth = kl_add(all.counter + 3, 1);
        nth = __nvvm_shfl_sync_idx_i32(~0u, nth, 0, 31);
        if (nth >= all.nlone) break;
        int at = all.ntile + nth, batch = -(int)KL_PIECE_BATCH; /* the first of the records that are held */
        do {
            if (at < batch || at >= batch + (int)KL_PIECE_BATCH) {
                __nvvm_bar_warp_sync(~0u);
                ((four *)rec)[lane] = ((const four *)(all.piece + at))[lane];
                __nvvm_bar_warp_sync(~0u);
                batch = at;
            }
            const kl_piece *const r = rec + (at - batch);
            lone_piece(acc, r, &all);
            if (r->flags & KL_P_LAST) {
                const uint64_t c = kl_where(r->c, r->flags, KL_P_C, all.x, all.y);
                const output o = {c, r->ldc, r->mn, r->flags | (even(c, r->ldc) ? KL_P_EVEN : 0)};
                write_tile(acc, 1, N, o, 1, N, 2 * (lane / 4), 2 * (lane % 4));
                zero_all(acc, N);
            }
            at = r->next;
        } while (at > 0);
    }
}

ALWAYS void ready_barriers(uint32_t full, uint32_t empty, int solo)
{
    if (me() >= STAGES) return;
    barrier_init(full + 8 * (uint32_t)me(), (solo ? 32 : PRODUCERS) + 1);
    barrier_init(empty + 8 * (uint32_t)me(), 32 * CONSUMERS);
    __asm__ volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

ALWAYS void tensor(const kl_piece *piece, int ntile, int nlone, int nbefore, int solo, int *counter,
                   const double *x, const double *y)
{
    char *const shared = llvm_omp_target_dynamic_shared_alloc();
    info *const head = (info *)(shared + STAGES * STAGE);
    kl_piece *const rec = (kl_piece *)(head + HEADS);
    list *const launch = (list *)(rec + 2);
    const uint32_t ring = shared_address(shared), full = ring + STAGES * STAGE + HEADS * INFO + 2 * 64 + LIST,
                   empty = full + 8 * STAGES;
    ready_barriers(full, empty, solo);
    const list all = {piece, x, y, counter, ntile, nlone};
    if (me() == 0) *launch = all;
    kl_block_sync();
    const int warp = me() / 32;
    if (warp >= CONSUMERS) {
        registers(0);
        const block_room room = {ring, full, empty, head, rec};
        if (solo) producer(all, nbefore, room, 32);
        else producer(all, nbefore, room, PRODUCERS);
        return;
    }
    registers(1);
    const int lane = me() % 32, g = lane / 4, t = lane % 4, wm = warp / 4, wn = warp % 4;
    const uint32_t b_ring = ring + A_BYTES;
    const uint32_t a_plain = ring + (uint32_t)(2 * g + 2 * t * LDA) * 8,
                   a_turned =
                       ring + (uint32_t)(2 * g * DEPTH + 2 * (t / 2 ^ exchange(2 * g, 1, 1)) + t % 2) * 8;
    /* one transposed: lanes take k = 2t and 2t + 1 */
    const uint32_t a_added = ring + (uint32_t)(2 * g * DEPTH + 2 * (t ^ exchange(2 * g, 1, 1))) * 8;
    const uint32_t b_plain = b_ring + (uint32_t)(g * DEPTH + 2 * (t ^ exchange(g, 0, 0))) * 8,
                   b_turned = b_ring + (uint32_t)(2 * t * LDB + g) * 8;
    const uint32_t b_plain_apart =
                       b_ring + (uint32_t)(g * DEPTH + 2 * (t / 2 ^ exchange(g, 0, 1)) + t % 2) * 8,
                   b_turned_apart = b_ring + (uint32_t)(t * LDB_APART + g) * 8;
    double acc[MT][NT][4];
    UNROLL
    for (int i = 0; i < MT; i++) UNROLL
    for (int j = 0; j < NT; j++) UNROLL
    for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0;
    place here = {0, 0, full};
    for (int nth = 0;; nth = (nth + 1) % HEADS) {
        volatile info *const h = head + nth;
        wait(full + 8 * (uint32_t)here.stage, here.phase);
        const uint32_t flags = h->flags;
        if (flags & KL_P_END) break;
        const int k = h->k, units = (int)(flags & KL_P_ROWS), nt = (int)(flags & KL_P_COLS) >> 4,
                  mt = wm ? units / 2 : (units + 1) / 2, row0 = wm ? 16 * ((units + 1) / 2) : 0;
        const int ta = (flags & KL_P_TA) != 0, tb = (flags & KL_P_TB) != 0;
        const uint32_t a = ta ? a_turned + (uint32_t)(row0 * DEPTH * 8) : a_plain + (uint32_t)(row0 * 8);
        const uint32_t b = tb ? (ta ? b_turned_apart : b_turned) + (uint32_t)(wn * nt * 64)
                              : (ta ? b_plain_apart : b_plain) + (uint32_t)(wn * nt * 8 * DEPTH * 8);
        /* what is missing at the end of a stage counts as 0 */
        const int n = (k + DEPTH / 2 - 1) / DEPTH, tail = k - n * DEPTH;
#define STEPS(TA, TB, M, N)                                                                \
    case TA * 32 + TB * 16 + M * 4 + N - 5:                                                \
        if (N <= NT) steps(acc, a, b, (loop){TA, TB, M, N <= NT ? N : 1}, n, tail, &here); \
        break;
#define ROWS_OF(TA, TB, M) STEPS(TA, TB, M, 1) STEPS(TA, TB, M, 2) STEPS(TA, TB, M, 3) STEPS(TA, TB, M, 4)
#define SHAPES(TA, TB) ROWS_OF(TA, TB, 1) ROWS_OF(TA, TB, 2) ROWS_OF(TA, TB, 3) ROWS_OF(TA, TB, 4)
        if ((flags & KL_P_ADD) && ta)
            add(acc, a_added + (uint32_t)(row0 * DEPTH * 8), 1, nt, wn * nt, k, &here);
        else if (flags & KL_P_ADD) add(acc, a_plain + (uint32_t)(row0 * 8), 0, nt, wn * nt, k, &here);
        else switch (mt > 0 ? ta * 32 + tb * 16 + mt * 4 + nt - 5 : -1) {
                SHAPES(0, 0)
                SHAPES(0, 1)
                SHAPES(1, 0)
                SHAPES(1, 1)
            default: /* a warp without rows passes the stages on */
                for (int i = (k + DEPTH - 1) / DEPTH; i > 0;) {
                    arrive(empty + 8 * (uint32_t)here.stage);
                    if (++here.stage == STAGES) here.stage = 0, here.phase ^= 1;
                    if (--i > 0) wait(full + 8 * (uint32_t)here.stage, here.phase);
                }
            }
#undef SHAPES
#undef ROWS_OF
#undef STEPS
        scale(acc[0], MT * NT, h->factor);
        const uint32_t late = h->flags;
        if (late & KL_P_LAST) {
            const output o = {h->c, h->ldc, h->mn, late};
            write_tile(acc[0], MT, NT, o, mt, nt, row0 + 2 * g, wn * 8 * nt + 2 * t);
            zero_all(acc[0], MT * NT);
        }
        if (late & KL_P_FIRST) { /* each warp by itself */
            __nvvm_membar_gl();
            __nvvm_bar_warp_sync(~0u);
            if (me() % 32 == 0)
                __asm__ volatile("red.release.gpu.global.add.s32 [%0],%1;" ::"l"(counter + 2), "r"(1)
                                 : "memory");
        }
    }
    /* in the stage that said END lies no slice */
    if (LONE) alone(launch, (kl_piece *)(shared + here.stage * STAGE) + me() / 32 * KL_PIECE_BATCH);
    consumers_meet();
    /* the last block readies them for the next launch */
    if (me() == 0 && kl_add(counter + 1, 1) == (int)__nvvm_read_ptx_sreg_nctaid_x() - 1)
        counter[0] = counter[1] = counter[2] = counter[3] = 0;
}
#else
/* Never run: every pass of the compiler must see the region use the same variables in the same order, or
   arguments are swapped without a word. */
static inline void tensor(const kl_piece *piece, int ntile, int nlone, int nbefore, int solo, int *counter,
                          const double *x, const double *y)
{
    (void)piece, (void)ntile, (void)nlone, (void)nbefore, (void)solo, (void)counter, (void)x, (void)y;
}
#endif

void NAME(kl_offload_tensor)(const kl_offload *self, const kl_launch *l, const kl_piece *piece,
                             const double *x, double *y)
{
    int *const counter = self->counter;
    const int n = (int)l->n, nlone = (int)l->nlone, ntile = n - nlone, blocks = n < self->nsm ? n : self->nsm,
              said = (int)l->nbefore * CONSUMERS /* every warp says it */, solo = l->units < (double)SOLO;
    if (n == 0) return;
    KL_BARE(blocks, THREADS, SHARED,
            is_device_ptr(piece, counter, x, y) firstprivate(ntile, nlone, said, solo))
    {
        tensor(piece, ntile, nlone, said, solo, counter, x, y);
    }
}
#else
/* Images for other devices have no such kernel, and the executor's probe never chooses it. */
void NAME(kl_offload_tensor)(const kl_offload *self, const kl_launch *l, const kl_piece *piece,
                             const double *x, double *y)
{
    kl_offload_plain(self, piece, (int)l->n, x, y);
}
#endif
