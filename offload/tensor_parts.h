/* What the kernel of tensor.c is made of: shared memory, copies, barriers, fragments of the tensor cores.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TENSOR_PARTS_H
#define KL_TENSOR_PARTS_H
#include "products.h"
#include "target.h"

#ifndef KL_TENSOR_COLS
#define KL_TENSOR_COLS 4
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
                             : DEPTH /* columns of an added matrix, a stage: B's memory is free then */,
    EARLY = 8 /* steps before the end of a tile at which the next one is taken */,
    SOLO =
        12 /* units: where a step has fewer on average, the warps that load had better fill a stage each */,
    INFO = 48,
    HEADS = 8,
    LONE_COLS = 32,
    LIST = 48,
    SHARED = STAGES * STAGE + HEADS * INFO + LIST + 2 * 64 + STAGES * 16,
};

#if KL_OFFLOAD_BARE && defined(__NVPTX__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

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

/* Where a thread reads its part of an operand: from here, lines ld apart, 16 bytes at once where wide; rows
   that are there are valid. */
typedef struct operand {
    const double *from;
    int ld, wide, valid;
} operand;

/* A slice whose rows (of `width` values) are columns of memory: DEPTH rows of LD. */
ALWAYS void fetch_rows(uint32_t to, const operand o, int k, int p, const int team, const int width, int LD)
{
    const double *from = o.from;
    const int ld = o.ld, wide = o.wide, valid = o.valid;
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

/* Which chunks of a row of 16 values of k are swapped: for loads of two numbers halves of odd rows, for
   loads of one number pairs of chunks by two bits of the row. apart: lanes take one number at a time; skip:
   rows of a lane are that many bits apart. */
ALWAYS int exchange(int row, const int skip, int apart)
{
    return apart ? (row >> skip & 3) << 1 : (row & 1) << 2;
}

/* A slice whose rows are rows of DEPTH values of k. */
ALWAYS void fetch_columns(uint32_t to, const operand o, int k, int p, const int team, const int width,
                          const int skip, int apart)
{
    const double *from = o.from;
    const int ld = o.ld, wide = o.wide, valid = o.valid;
    if (wide) {
        const int each = team / 8; /* rows of a pass */
        const int c = p % 8, row = p / 8, bytes = at_most(at_least(k - 2 * c, 0), 2) * 8;
        const int64_t step = (int64_t)each * ld;
        const uint32_t d = to + (uint32_t)(row * DEPTH + 2 * (c ^ exchange(row, skip, apart))) * 8;
        /* four rows on, with skip, chunks are swapped otherwise; eight rows on as before */
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

#endif
#endif
