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
   [m][k], when A is transposed: the load gives k = 2t, 2t+1 of one row, and two registers change places. B
   likewise. Inside the product k and the rows are thus permuted the same way in A, B and C, which does not
   show. Halves of rows are exchanged so that no two lanes of a load meet in a bank.

   Register budget 168 (65536 / 384 threads), set for this file at its compile step; producers then give
   theirs to the others, whose sums alone are 128. ptxas heeds that only in a file compiled as a whole
   (offload/ptxas.in). A kernel of 4 registers means that the compiler emptied it.
   SPDX-License-Identifier: Apache-2.0 */
#include "products.h"
#include "target.h"

#if KL_TENSOR_COLS == 4
#define NAME(x) x##_wide
#else
#define NAME(x) x
#endif

enum {
    MT = 4,
    NT = KL_TENSOR_COLS,
    LONE = NT == 4 /* knows lone tiles: with three columns registers would not do for more */,
    DEPTH = 16,
    STAGES = NT == 4 ? 6 : 7,
    CONSUMERS = 8,
    PRODUCERS = 128 /* threads */,
    FEW_REGISTERS = 104,
    MANY_REGISTERS = 200,
    THREADS = CONSUMERS * 32 + PRODUCERS,
    BM = 128,
    BN = NT * 32,
    LDA = BM + 2,
    LDB = BN + 2,
    LDB_APART = BN + 4,
    A_SIZE = DEPTH * LDA,
    B_SIZE = DEPTH * LDB_APART,
    STAGE = (A_SIZE + B_SIZE) * 8,
    A_BYTES = A_SIZE * 8,
    ADDED = B_SIZE >= A_SIZE ? 2 * DEPTH
                             : DEPTH /* columns of a matrix that is added, a stage: B's place is free then */,
    EARLY = 8 /* steps before the end of a tile at which the next one is taken */,
    SOLO =
        12 /* units: where a step has fewer on average, the warps that load had better fill a stage each */,
    INFO = 48,
    HEADS = 8,
    LONE_COLS = 32,
    LIST = 48,
    SHARED = STAGES * STAGE + HEADS * INFO + LIST + 2 * 64 + STAGES * 16,
};

const kl_tiling_opts NAME(kl_tensor_opts) = {.unit_m = 16,
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

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

/* What a consumer must know of a piece. Read again when the piece is done, for registers are short; at most
   STAGES pieces have begun by then. */
typedef struct info {
    uint64_t c;
    int32_t ldc;
    uint32_t mn, flags;
    int32_t k;
    double factor;
    uint64_t spare[2];
} info;
_Static_assert(sizeof(info) == INFO, "the layout of shared memory counts on it");
_Static_assert(STAGES < HEADS && (int)KL_PIECE_BATCH == 32 / 4,
               "a piece's head stays until it is done; a lane holds a quarter of a record");
_Static_assert(CONSUMERS * KL_PIECE_BATCH * (int)sizeof(kl_piece) <= STAGE,
               "of a stage that is free every warp gets room for a batch");
_Static_assert(PRODUCERS / 32 <= STAGES, "a warp's next stage is at most one turn of the ring ahead");
_Static_assert(STAGE % 128 == 0 && A_BYTES % 128 == 0, "the exchange of halves works on address bits");

typedef int four __attribute__((vector_size(16)));
typedef struct two {
    double x, y;
} two;
/* Pointers that say which memory they mean: generic accesses are slower. */
typedef __attribute__((address_space(1))) double number;
typedef __attribute__((address_space(1))) kl_two pair;

ALWAYS uint32_t shared_address(const void *p)
{
    return (uint32_t)(uintptr_t)(__attribute__((address_space(3))) const char *)p;
}
ALWAYS int at_least(int a, int b) { return a > b ? a : b; }
ALWAYS int at_most(int a, int b) { return a < b ? a : b; }
/* lines lie at multiples of 16 bytes */
ALWAYS int even(uint64_t address, int ld) { return ((address & 15) | (ld & 1)) == 0; }
ALWAYS int me(void) { return (int)__nvvm_read_ptx_sreg_tid_x(); }
ALWAYS void copy16(uint32_t to, const double *from)
{
    __asm__ volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory");
}
ALWAYS void copy16_part(uint32_t to, const double *from, int bytes)
{
    __asm__ volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(bytes)
                     : "memory");
}
/* Zeros where not `is`: cheaper than a number of bytes. */
ALWAYS void copy16_if(uint32_t to, const double *from, int is)
{
    __asm__ volatile(
        "{.reg .pred p; setp.eq.s32 p,%2,0; cp.async.cg.shared.global [%0],[%1],16,p;}" ::"r"(to), "l"(from),
        "r"(is)
        : "memory");
}
ALWAYS void copy8_part(uint32_t to, const double *from, int bytes)
{
    __asm__ volatile("cp.async.ca.shared.global [%0],[%1],8,%2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
ALWAYS void barrier_init(uint32_t b, int n)
{
    __asm__ volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(b), "r"(n) : "memory");
}
ALWAYS void producers_meet(void) { __asm__ volatile("bar.sync 1,%0;" ::"n"(PRODUCERS) : "memory"); }
ALWAYS void consumers_meet(void) { __asm__ volatile("bar.sync 2,%0;" ::"n"(32 * CONSUMERS) : "memory"); }
ALWAYS void arrive(uint32_t b) { __asm__ volatile("mbarrier.arrive.shared.b64 _,[%0];" ::"r"(b) : "memory"); }
ALWAYS void arrive_after_copies(uint32_t b)
{
    __asm__ volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
}
ALWAYS void wait(uint32_t b, uint32_t phase)
{
    __asm__ volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p,[%0],%1; @!p bra W;}" ::"r"(b),
                     "r"(phase)
                     : "memory");
}
ALWAYS two load2(uint32_t a)
{
    two v;
    __asm__ volatile("ld.shared.v2.f64 {%0,%1},[%2];" : "=d"(v.x), "=d"(v.y) : "r"(a));
    return v;
}
ALWAYS double load1(uint32_t a)
{
    double v;
    __asm__ volatile("ld.shared.f64 %0,[%1];" : "=d"(v) : "r"(a));
    return v;
}
/* Four warps at once give registers back, or wait for them: of a multiprocessor's quarter one producer's and
   two consumers'. */
ALWAYS void registers(const int more)
{
#if KL_TENSOR_COLS == 4 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if (more) __asm__ volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MANY_REGISTERS));
    else __asm__ volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(FEW_REGISTERS));
#else
    (void)more;
#endif
}
ALWAYS void multiply(double *c, const double *a, const double *b)
{
    __asm__ volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

/* In place and unseen by the compiler, which else moves all sums about at the end of every piece. */
ALWAYS void zero(double *c)
{
    __asm__ volatile("mov.f64 %0,0d0000000000000000; mov.f64 %1,0d0000000000000000; mov.f64 "
                     "%2,0d0000000000000000; mov.f64 %3,0d0000000000000000;"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]));
}

/* Fragment i of A for the 8 values of k that are one half of DEPTH, and fragment j of B. ta and tb are
   constants wherever these are used: addresses then need no registers but a stage's two. Registers come in
   the order in which the product wants them: what one load brings side by side must stand side by side there,
   or every step moves registers about. */
ALWAYS void load_a(uint32_t a, const int ta, int i, int half, double *f)
{
    if (ta) { /* [m][k]: lane t takes k = t and t + 4, one number a load */
        const uint32_t at = a + (uint32_t)(i * 16 * DEPTH * 8);
        UNROLL
        for (int q = 0; q < 2; q++) {
            const uint32_t k = at ^ (uint32_t)((4 * half + 2 * q) * 16);
            f[2 * q] = load1(k);
            f[2 * q + 1] = load1(k + DEPTH * 8);
        }
    } else {
        const uint32_t at = a + (uint32_t)(half * 8 * LDA * 8 + i * 128);
        const two u = load2(at), v = load2(at + LDA * 8);
        f[0] = u.x, f[1] = u.y, f[2] = v.x, f[3] = v.y;
    }
}

ALWAYS void load_b(uint32_t b, const int ta, const int tb, int j, int half, double *f)
{
    const int ld = ta ? LDB_APART : LDB, next = ta ? 4 : 1; /* rows between the two values of k of a lane */
    if (tb) {
        const uint32_t at = b + (uint32_t)(half * 8 * ld * 8 + j * 64);
        f[0] = load1(at);
        f[1] = load1(at + (uint32_t)(next * ld * 8));
    } else if (ta) {
        const uint32_t at = b + (uint32_t)(j * 8 * DEPTH * 8);
        f[0] = load1(at ^ (uint32_t)(4 * half * 16));
        f[1] = load1(at ^ (uint32_t)((4 * half + 2) * 16));
    } else {
        const two v = load2((half ? b ^ 64 : b) + (uint32_t)(j * 8 * DEPTH * 8));
        f[0] = v.x;
        f[1] = v.y;
    }
}

ALWAYS void zero_all(double (*acc)[4], const int n)
{
    UNROLL
    for (int i = 0; i < n; i++) zero(acc[i]);
}

ALWAYS void scale(double (*acc)[4], const int n, double factor)
{
    if (factor == 1.0) return;
    UNROLL
    for (int i = 0; i < n; i++) UNROLL
    for (int e = 0; e < 4; e++) acc[i][e] *= factor;
}

/* A piece for a warp of mt x nt fragments: n steps of DEPTH, then half of one where there is a tail.
   Fragments of the next step are asked for before this one ends. Every lane gives a stage back itself, which
   costs nothing and is what tools can follow. */
ALWAYS void steps(double (*acc)[NT][4], uint32_t a0, uint32_t b0, const int ta, const int tb, const int mt,
                  const int nt, int n, int tail, int *stage, uint32_t *phase, uint32_t full)
{
    const uint32_t empty = full + 8 * STAGES;
    const int buffers = mt % 2 == 0 ? 2 : mt; /* the first of the next stage must not be in use */
    double a[3][4], b[NT][2];
    int st = *stage;
    uint32_t ph = *phase;
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
    *stage = st;
    *phase = ph;
}

/* Gives stages back unread and waits for the next, up to `to`. */
ALWAYS void pass(int *from, int to, int *st, uint32_t *ph, uint32_t full)
{
    for (; *from < to; ++*from) {
        arrive(full + 8 * STAGES + 8 * (uint32_t)*st);
        if (++*st == STAGES) *st = 0, *ph ^= 1;
        wait(full + 8 * (uint32_t)*st, *ph);
    }
}

/* A matrix that is added: its columns come as the values of k do, ADDED a stage, and a warp takes those
   blocks of 8 that are its own columns. With ta its rows are rows of the slice. Rows that a warp does not
   have are added to sums that nobody writes. */
ALWAYS void add(double (*acc)[NT][4], uint32_t a0, const int ta, int nt, int first, int k, int *st,
                uint32_t *ph, uint32_t full)
{
    int stage = 0;
    UNROLL
    for (int j = 0; j < NT; j++) {
        if (j >= nt) continue;
        const int col = (first + j) * 8;
        pass(&stage, at_most(col, k - 1) / ADDED, st, ph, full);
        const uint32_t at = a0 + (uint32_t)*st * STAGE + (uint32_t)(col % ADDED / DEPTH * A_BYTES),
                       row = ta ? at ^ (uint32_t)(col & 8) * 8 : at + (uint32_t)((col & 8) * LDA * 8);
        UNROLL
        for (int i = 0; i < MT; i++) {
            const uint32_t here = row + (uint32_t)(ta ? i * 16 * DEPTH * 8 : i * 128);
            const two u = load2(here), v = load2(here + (ta ? DEPTH * 8 : LDA * 8));
            acc[i][j][0] += u.x, acc[i][j][1] += ta ? u.y : v.x, acc[i][j][2] += ta ? v.x : u.y,
                acc[i][j][3] += v.y;
        }
    }
    pass(&stage, (k - 1) / ADDED, st, ph, full);
    arrive(full + 8 * STAGES + 8 * (uint32_t)*st);
    if (++*st == STAGES) *st = 0, *ph ^= 1;
}

/* A slice whose rows (of `width` values, `valid` of them there) are columns of memory: DEPTH rows of LD. */
ALWAYS void fetch_rows(uint32_t to, const double *from, int ld, int wide, int valid, int k, int p,
                       const int team, const int width, int LD)
{
    if (wide) {
        const int chunks = width / 2, across = at_most(chunks, team), each = team / across, row = p / across;
        const int64_t step = (int64_t)each * ld;
        if (row >= each) return;
        UNROLL
        for (int q = 0; q < chunks; q += across) {
            const int c = p % across + q, bytes = c < chunks ? at_most(valid - 2 * c, 2) * 8 : 0;
            const double *at = from + 2 * q;
            const uint32_t d = to + (uint32_t)(row * LD + 2 * c) * 8;
            if (bytes <= 0) continue;
            if (bytes == 16 && k >= DEPTH) {
                UNROLL
                for (int i = 0; i < DEPTH / each; i++, at += step)
                    copy16(d + (uint32_t)(i * each * LD * 8), at);
            } else if (bytes == 16) {
                UNROLL
                for (int i = 0; i < DEPTH / each; i++, at += step)
                    copy16_if(d + (uint32_t)(i * each * LD * 8), at, row + i * each < k);
            } else {
                UNROLL
                for (int i = 0; i < DEPTH / each; i++, at += step)
                    copy16_part(d + (uint32_t)(i * each * LD * 8), at, row + i * each < k ? bytes : 0);
            }
        }
        return;
    }
    for (int c = p; c < valid; c += team, from += team) {
        const double *at = from;
        const uint32_t d = to + (uint32_t)c * 8;
        UNROLL
        for (int i = 0; i < DEPTH; i++, at += ld) copy8_part(d + (uint32_t)(i * LD * 8), at, i < k ? 8 : 0);
    }
}

/* Which chunks of a row of 16 values of k change places: for loads of two numbers halves of odd rows, for
   loads of one number pairs of chunks by two bits of the row. apart: lanes take one number at a time; skip:
   rows of a lane are that many bits apart. */
ALWAYS int exchange(int row, const int skip, int apart)
{
    return apart ? (row >> skip & 3) << 1 : (row & 1) << 2;
}

/* A slice whose rows are rows of DEPTH values of k. */
ALWAYS void fetch_columns(uint32_t to, const double *from, int ld, int wide, int valid, int k, int p,
                          const int team, const int width, const int skip, int apart)
{
    if (wide) {
        const int each = team / 8; /* rows of a pass */
        const int c = p % 8, row = p / 8, bytes = at_most(at_least(k - 2 * c, 0), 2) * 8;
        const int64_t step = (int64_t)each * ld;
        const uint32_t d = to + (uint32_t)(row * DEPTH + 2 * (c ^ exchange(row, skip, apart))) * 8;
        /* four rows on, with skip, chunks change places otherwise; eight rows on as before */
        const uint32_t odd = skip && each == 4 ? d ^ 64 : d;
        if (bytes == 16) {
            UNROLL
            for (int i = 0; i < width / each; i++, from += step)
                if (row + each * i < valid)
                    copy16((i % 2 ? odd : d) + (uint32_t)(i * each * DEPTH * 8), from);
        } else {
            UNROLL
            for (int i = 0; i < width / each; i++, from += step)
                if (row + each * i < valid)
                    copy16_part((i % 2 ? odd : d) + (uint32_t)(i * each * DEPTH * 8), from, bytes);
        }
        return;
    }
    const int each = team / DEPTH, c = p % DEPTH, bytes = c < k ? 8 : 0;
    const int64_t step = (int64_t)each * ld;
    for (int i = p / DEPTH; i < valid; i += each, from += step)
        copy8_part(to + (uint32_t)(i * DEPTH + 2 * (c / 2 ^ exchange(i, skip, apart)) + c % 2) * 8, from,
                   bytes);
}

/* Where thread p of a team begins in an operand. */
ALWAYS const double *start_rows(const double *q, int ld, int wide, int p, const int team, const int width)
{
    const int across = at_most(width / 2, team);
    return wide ? q + 2 * (p % across) + (int64_t)(p / across) * ld : q + p;
}
ALWAYS const double *start_columns(const double *q, int ld, int wide, int p)
{
    return wide ? q + 2 * (p % 8) + (int64_t)(p / 8) * ld : q + p % DEPTH + (int64_t)(p / DEPTH) * ld;
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

/* team: threads that fill a stage together, all of them or a warp. Of four warps each then fills every fourth
   stage: what a step costs in waiting and latency, which is what small tiles take, is shared by four; but
   copies come in bursts, and large tiles are some per cent slower. The first warp also brings records and
   takes tiles. */
ALWAYS void producer(const kl_piece *piece, int ntile, int nbefore, int *counter, uint32_t ring, info *head,
                     kl_piece *rec, uint32_t full, uint32_t empty, const double *x, const double *y,
                     const int team)
{
    const int teams = PRODUCERS / team, thread = me() - CONSUMERS * 32, p = thread % team,
              mine = thread / team, lane = thread % 32, first_warp = thread < 32;
    const int block = (int)__nvvm_read_ptx_sreg_ctaid_x(), blocks = (int)__nvvm_read_ptx_sreg_nctaid_x();
    /* the first warp holds so many records, in order, a lane 16 bytes */
    int st = mine, turn = 0 /* the team of the next stage */, cur = 0, soon = -1, nth = 0, fresh = 1,
        batch = 0, held = 0;
    four look = {0, 0, 0, 0};
    uint32_t ph = 1;
    if (thread < 4) {
        look = ((const four *)(piece + block))[thread];
        if (thread == 3 && block >= ntile) look[0] = KL_P_END;
        else if (thread == 3) wait_for_first(counter, look[0], nbefore);
        ((four *)rec)[thread] = look;
    }
    producers_meet();
    for (;;) {
        const kl_piece *const r = rec + cur;
        const uint32_t flags = r->flags;
        if (flags & KL_P_END) break;
        const int more = r->next, brief = fresh && more <= 0 && r->k < EARLY * DEPTH;
        /* next: which of the records that are held is the next one */
        int then = 0, later = 0, asked = 0, next = 0, twice = 0;
        /* the next record; of brief tiles also the number of the tile after it, but never two of the second
           level, whose first ones are the longest */
        if (first_warp) {
            if (soon < 0 && brief) soon = next_tile(counter, blocks, lane);
            then = more > 0 ? more : soon;
            if (more > 0) {
                /* those of a tile follow each other but for the first; behind the last of a list there is
                   room */
                if (more < batch || more >= batch + held) {
                    batch = more, held = KL_PIECE_BATCH;
                    look = ((const four *)(piece + more))[lane];
                }
                next = more - batch;
            } else {
                held = 0;
                if (then >= 0) look = ((const four *)(piece + at_most(then, ntile - 1)))[lane & 3];
            }
            twice = brief && (nbefore == 0 || then < nbefore / CONSUMERS);
            if (twice && lane == 0) later = kl_add(counter, 1) + blocks;
        }
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
            if (first_warp && then < 0 && k <= EARLY * DEPTH) {
                if (lane == 0 && !asked) later = kl_add(counter, 1) + blocks;
                asked = 1;
                if (k <= EARLY / 2 * DEPTH) {
                    then = __nvvm_shfl_sync_idx_i32(~0u, later, 0, 31);
                    look = ((const four *)(piece + at_most(then, ntile - 1)))[lane & 3];
                }
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
            if (ta) fetch_columns(slice, pa, lda, even_a, rows, k, p, team, BM, 1, 1);
            else fetch_rows(slice, pa, lda, even_a, rows, k, p, team, BM, LDA);
            if (product && tb)
                fetch_rows(slice + A_BYTES, pb, ldb, even_b, cols, k, p, team, BN, ta ? LDB_APART : LDB);
            else if (product) fetch_columns(slice + A_BYTES, pb, ldb, even_b, cols, k, p, team, BN, 0, ta);
            else if (k > DEPTH && ta && ADDED > DEPTH)
                fetch_columns(slice + A_BYTES, pa + DEPTH, lda, even_a, rows, k - DEPTH, p, team, BM, 1, 1);
            else if (k > DEPTH && ADDED > DEPTH)
                fetch_rows(slice + A_BYTES, pa + (int64_t)DEPTH * lda, lda, even_a, rows, k - DEPTH, p, team,
                           BM, LDA);
            arrive_after_copies(full + 8 * (uint32_t)st);
            st += teams;
            if (st >= STAGES) st -= STAGES, ph ^= 1;
        }
        turn = (turn + (r->k + each - 1) / each) & (teams - 1);
        nth = (nth + 1) % HEADS;
        fresh = more <= 0;
        if (first_warp) {
            if (teams > 1 && then < 0) { /* the last stages were not the first warp's */
                if (lane == 0 && !asked) later = kl_add(counter, 1) + blocks;
                then = __nvvm_shfl_sync_idx_i32(~0u, later, 0, 31);
                look = ((const four *)(piece + at_most(then, ntile - 1)))[lane & 3];
            }
            if (lane / 4 == next) {
                if (lane % 4 == 3 && (more > 0 || then < ntile)) wait_for_first(counter, look[0], nbefore);
                ((four *)(rec + (cur ^ 1)))[lane % 4] = look;
                if (more <= 0 && then >= ntile && lane == 3) rec[cur ^ 1].flags = KL_P_END;
            }
            if (more <= 0) soon = twice ? __nvvm_shfl_sync_idx_i32(~0u, later, 0, 31) : -1;
        }
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

/* The sums of a lane, fragment i, j being acc[i * across + j]; mt x nt of most_m x across are there. */
ALWAYS void write_tile(double (*acc)[4], const int most_m, const int across, uint64_t where, int ldc,
                       uint32_t mn, uint32_t flags, int mt, int nt, int row0, int col0)
{
    const int m = kl_rows_of(mn), n = kl_cols_of(mn);
    number *const c = (number *)(uintptr_t)where;
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

/* The launch, in shared memory: in registers it would stand in the way of what comes before. */
typedef struct list {
    const kl_piece *piece;
    const double *x, *y;
    int *counter;
    int ntile, nlone;
} list;
_Static_assert(sizeof(list) <= LIST, "the layout of shared memory counts on it");

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
                write_tile(acc, 1, N, c, r->ldc, r->mn, r->flags | (even(c, r->ldc) ? KL_P_EVEN : 0), 1, N,
                           2 * (lane / 4), 2 * (lane % 4));
                zero_all(acc, N);
            }
            at = r->next;
        } while (at > 0);
    }
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
    if (me() < STAGES) {
        barrier_init(full + 8 * (uint32_t)me(), (solo ? 32 : PRODUCERS) + 1);
        barrier_init(empty + 8 * (uint32_t)me(), 32 * CONSUMERS);
        __asm__ volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (me() == 0) *launch = (list){piece, x, y, counter, ntile, nlone};
    kl_block_sync();
    const int warp = me() / 32;
    if (warp >= CONSUMERS) {
        registers(0);
        if (solo) producer(piece, ntile, nbefore, counter, ring, head, rec, full, empty, x, y, 32);
        else producer(piece, ntile, nbefore, counter, ring, head, rec, full, empty, x, y, PRODUCERS);
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
    int st = 0;
    uint32_t ph = 0;
    for (int nth = 0;; nth = (nth + 1) % HEADS) {
        volatile info *const h = head + nth;
        wait(full + 8 * (uint32_t)st, ph);
        const uint32_t flags = h->flags;
        if (flags & KL_P_END) break;
        const int k = h->k, all = (int)(flags & KL_P_ROWS), nt = (int)(flags & KL_P_COLS) >> 4,
                  mt = wm ? all / 2 : (all + 1) / 2, row0 = wm ? 16 * ((all + 1) / 2) : 0;
        const int ta = (flags & KL_P_TA) != 0, tb = (flags & KL_P_TB) != 0;
        const uint32_t a = ta ? a_turned + (uint32_t)(row0 * DEPTH * 8) : a_plain + (uint32_t)(row0 * 8);
        const uint32_t b = tb ? (ta ? b_turned_apart : b_turned) + (uint32_t)(wn * nt * 64)
                              : (ta ? b_plain_apart : b_plain) + (uint32_t)(wn * nt * 8 * DEPTH * 8);
        /* what is missing at the end of a stage counts as 0 */
        const int n = (k + DEPTH / 2 - 1) / DEPTH, tail = k - n * DEPTH;
#define STEPS(TA, TB, M, N)                                                                 \
    case TA * 32 + TB * 16 + M * 4 + N - 5:                                                 \
        if (N <= NT) steps(acc, a, b, TA, TB, M, N <= NT ? N : 1, n, tail, &st, &ph, full); \
        break;
#define ROWS_OF(TA, TB, M) STEPS(TA, TB, M, 1) STEPS(TA, TB, M, 2) STEPS(TA, TB, M, 3) STEPS(TA, TB, M, 4)
#define SHAPES(TA, TB) ROWS_OF(TA, TB, 1) ROWS_OF(TA, TB, 2) ROWS_OF(TA, TB, 3) ROWS_OF(TA, TB, 4)
        if ((flags & KL_P_ADD) && ta)
            add(acc, a_added + (uint32_t)(row0 * DEPTH * 8), 1, nt, wn * nt, k, &st, &ph, full);
        else if (flags & KL_P_ADD)
            add(acc, a_plain + (uint32_t)(row0 * 8), 0, nt, wn * nt, k, &st, &ph, full);
        else switch (mt > 0 ? ta * 32 + tb * 16 + mt * 4 + nt - 5 : -1) {
                SHAPES(0, 0)
                SHAPES(0, 1)
                SHAPES(1, 0) SHAPES(1, 1) default : /* a warp without rows passes the stages on */
                                                    for (int i = (k + DEPTH - 1) / DEPTH; i > 0;)
                {
                    arrive(empty + 8 * (uint32_t)st);
                    if (++st == STAGES) st = 0, ph ^= 1;
                    if (--i > 0) wait(full + 8 * (uint32_t)st, ph);
                }
            }
#undef SHAPES
#undef ROWS_OF
#undef STEPS
        scale(acc[0], MT * NT, h->factor);
        const uint32_t late = h->flags;
        if (late & KL_P_LAST) {
            write_tile(acc[0], MT, NT, h->c, h->ldc, h->mn, late, mt, nt, row0 + 2 * g, wn * 8 * nt + 2 * t);
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
    if (LONE) alone(launch, (kl_piece *)(shared + st * STAGE) + me() / 32 * KL_PIECE_BATCH);
    consumers_meet();
    /* the last block readies them for the next launch */
    if (me() == 0 && kl_add(counter + 1, 1) == (int)__nvvm_read_ptx_sreg_nctaid_x() - 1)
        counter[0] = counter[1] = counter[2] = counter[3] = 0;
}
#else
/* Never run: every pass of the compiler must see the region use the same variables in the same order, or
   arguments change places without a word. */
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
