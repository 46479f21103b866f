/* Products on NVIDIA's FP64 tensor cores (sm_90 and later) from a bare target region: as many blocks as the device has multiprocessors stay and take
   tiles from a counter. In a block four warps bring slices of 16 values of k into a ring of four stages (cp.async, mbarriers) while eight warps multiply
   them with m16n8k8; all pieces of a tile, whatever their transposes and coefficients, run through the same ring without a stop and are summed in registers.

   Rows of a tile come in units of 16: warps w and w + 4, which share a scheduler, split them, unevenly if need be. Columns come in units of 32, 8 for each of
   four warps. A warp so owns 1..4 x 1..3 fragments of 16 x 8, and for each piece one of twelve loops is chosen, times four for the transposes.

   Slices in shared memory. [k][m], rows padded by two: a lane's 16-byte load gives rows 2g, 2g+1 at one k. [m][k], when A is transposed: the load gives k = 2t,
   2t+1 of one row, and two registers change places. B likewise. Inside the product k and the rows are thus permuted the same way in A, B and C, which
   does not show. Halves of rows are exchanged so that no two lanes of a load meet in a bank.

   Register budget 168 (65536 / 384 threads), set for this file at its compile step; a kernel of 4 registers means that the compiler emptied it.
   SPDX-License-Identifier: Apache-2.0 */
#include "products.h"
#include "target.h"

enum {
    MT = 4, NT = 3, DEPTH = 16, STAGES = 4, CONSUMERS = 8, THREADS = CONSUMERS * 32 + 128, BM = 128, BN = 96,
    LDA = BM + 2, LDB = BN + 2, A_SIZE = DEPTH * LDA, B_SIZE = DEPTH * LDB, STAGE = (A_SIZE + B_SIZE) * 8, A_BYTES = A_SIZE * 8,
    INFO = 48, HEADS = 8, SHARED = STAGES * STAGE + HEADS * INFO + 2 * 64 + STAGES * 16,
};

const kl_tiling_opts kl_tensor_opts = {.unit_m = 16, .unit_n = 32, .most_m = BM / 16, .most_n = NT, .depth = DEPTH, .nblock = 132, .parts = 0,
                                     .cost_unit = 64, .cost_row = 24, .cost_col = 96, .cost_least = 500, .cost_tile = 1000};

#if KL_OFFLOAD_BARE
#if defined(__NVPTX__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

/* What a consumer must know of a piece. Read again when the piece is done, for registers are short; at most STAGES pieces have begun by then. */
typedef struct info {
    uint64_t c;
    int32_t ldc;
    uint32_t mn, flags;
    int32_t k;
    double factor;
    uint32_t turn, spare[3];
} info;
_Static_assert(sizeof(info) == INFO, "the layout of shared memory counts on it");
_Static_assert(STAGE % 128 == 0 && A_BYTES % 128 == 0, "the exchange of halves works on address bits");

typedef struct two {
    double x, y;
} two;

ALWAYS uint32_t shared_address(const void *p) { return (uint32_t)(uintptr_t)(__attribute__((address_space(3))) const char *)p; }
ALWAYS int at_least(int a, int b) { return a > b ? a : b; }
ALWAYS int at_most(int a, int b) { return a < b ? a : b; }
ALWAYS int me(void) { return (int)__nvvm_read_ptx_sreg_tid_x(); }
ALWAYS void copy16(uint32_t to, const double *from) { __asm__ volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory"); }
ALWAYS void copy16_part(uint32_t to, const double *from, int bytes)
{
    __asm__ volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
ALWAYS void copy8_part(uint32_t to, const double *from, int bytes)
{
    __asm__ volatile("cp.async.ca.shared.global [%0],[%1],8,%2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
ALWAYS void barrier_init(uint32_t b, int n) { __asm__ volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(b), "r"(n) : "memory"); }
ALWAYS void arrive(uint32_t b) { __asm__ volatile("mbarrier.arrive.shared.b64 _,[%0];" ::"r"(b) : "memory"); }
ALWAYS void arrive_after_copies(uint32_t b) { __asm__ volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory"); }
ALWAYS void wait(uint32_t b, uint32_t phase)
{
    __asm__ volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p,[%0],%1; @!p bra W;}" ::"r"(b), "r"(phase) : "memory");
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
ALWAYS void multiply(double *c, double a0, double a1, double a2, double a3, const double *b)
{
    __asm__ volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                     : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                     : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b[0]), "d"(b[1]));
}

/* Fragments i, j of the 8 values of k that are one half of DEPTH. ta and tb are constants wherever these are used: addresses then need no registers
   but a stage's two. */
ALWAYS void load_a(uint32_t a, const int ta, int i, int half, two *f)
{
    const uint32_t at = ta ? (half ? a ^ 64 : a) + (uint32_t)(i * 16 * DEPTH * 8) : a + (uint32_t)(half * 8 * LDA * 8 + i * 128);
    f[0] = load2(at);
    f[1] = load2(at + (ta ? DEPTH * 8 : LDA * 8));
}

ALWAYS void load_b(uint32_t b, const int tb, int j, int half, double *f)
{
    if (tb) {
        const uint32_t at = b + (uint32_t)(half * 8 * LDB * 8 + j * 64);
        f[0] = load1(at);
        f[1] = load1(at + LDB * 8);
    } else {
        const two v = load2((half ? b ^ 64 : b) + (uint32_t)(j * 8 * DEPTH * 8));
        f[0] = v.x;
        f[1] = v.y;
    }
}

ALWAYS void multiply_by(double *c, const int ta, const two *f, const double *b)
{
    multiply(c, f[0].x, ta ? f[1].x : f[0].y, ta ? f[0].y : f[1].x, f[1].y, b);
}

/* A piece for a warp of mt x nt fragments: n steps of DEPTH, then tail < DEPTH more. Fragments of the next step are asked for before this one ends. */
ALWAYS void steps(double (*acc)[NT][4], uint32_t a0, uint32_t b0, const int ta, const int tb, const int mt, const int nt, int n, int tail, int *stage,
                  uint32_t *phase, uint32_t full, int lane0)
{
    const uint32_t empty = full + 8 * STAGES;
    const int buffers = mt % 2 == 0 ? 2 : mt; /* the first of the next stage must not be in use */
    two a[3][2];
    double b[NT][2];
    int st = *stage;
    uint32_t ph = *phase;
    if (n > 0) {
        load_a(a0 + (uint32_t)st * STAGE, ta, 0, 0, a[0]);
        UNROLL
        for (int j = 0; j < nt; j++) load_b(b0 + (uint32_t)st * STAGE, tb, j, 0, b[j]);
        for (;;) {
            const uint32_t at = (uint32_t)st * STAGE;
            uint32_t next = at;
            int more = 1;
            UNROLL
            for (int half = 0; half < DEPTH / 8; half++) {
                UNROLL
                for (int i = 0; i < mt - 1; i++) {
                    load_a(a0 + at, ta, i + 1, half, a[(i + 1) % buffers]);
                    UNROLL
                    for (int j = 0; j < nt; j++) multiply_by(acc[i][j], ta, a[i % buffers], b[j]);
                }
                if (half == DEPTH / 8 - 1) {
                    __nvvm_bar_warp_sync(~0u);
                    if (lane0) arrive(empty + 8 * (uint32_t)st);
                    if (++st == STAGES) st = 0, ph ^= 1;
                    more = --n > 0;
                    next = (uint32_t)st * STAGE;
                    if (more) wait(full + 8 * (uint32_t)st, ph); /* else the loads below read what may be in flight, and nobody uses it */
                }
                const int then = (half + 1) % (DEPTH / 8);
                if (mt > 1) load_a(a0 + next, ta, 0, then, a[0]);
                UNROLL
                for (int j = 0; j < nt; j++) {
                    multiply_by(acc[mt - 1][j], ta, a[(mt - 1) % buffers], b[j]);
                    load_b(b0 + next, tb, j, then, b[j]);
                }
                if (mt == 1) load_a(a0 + next, ta, 0, then, a[0]);
            }
            if (!more) break;
        }
        if (tail > 0) wait(full + 8 * (uint32_t)st, ph);
    }
    if (tail > 0) {
        const uint32_t at = (uint32_t)st * STAGE;
        UNROLL
        for (int half = 0; half < DEPTH / 8; half++)
            if (half * 8 < tail) {
                UNROLL
                for (int j = 0; j < nt; j++) load_b(b0 + at, tb, j, half, b[j]);
                UNROLL
                for (int i = 0; i < mt; i++) {
                    load_a(a0 + at, ta, i, half, a[0]);
                    UNROLL
                    for (int j = 0; j < nt; j++) multiply_by(acc[i][j], ta, a[0], b[j]);
                }
            }
        __nvvm_bar_warp_sync(~0u);
        if (lane0) arrive(empty + 8 * (uint32_t)st);
        if (++st == STAGES) st = 0, ph ^= 1;
    }
    *stage = st;
    *phase = ph;
}

/* A slice whose rows (of `width` values, `valid` of them there) are columns of memory: DEPTH rows of LD. */
ALWAYS void fetch_rows(uint32_t to, const double *from, int ld, int wide, int valid, int k, int p, const int width, const int LD)
{
    if (wide) {
        const int chunks = width / 2, each = 128 / chunks, c = p % chunks, row = p / chunks, bytes = at_most(valid - 2 * c, 2) * 8;
        const int64_t step = (int64_t)each * ld;
        const uint32_t d = to + (uint32_t)(row * LD + 2 * c) * 8;
        if (row >= each || bytes <= 0) return;
        if (bytes == 16 && k >= DEPTH) {
            UNROLL
            for (int i = 0; i < DEPTH / each; i++, from += step) copy16(d + (uint32_t)(i * each * LD * 8), from);
        } else {
            UNROLL
            for (int i = 0; i < DEPTH / each; i++, from += step) copy16_part(d + (uint32_t)(i * each * LD * 8), from, row + i * each < k ? bytes : 0);
        }
        return;
    }
    if (p >= valid) return; /* one row a pass: width is at most 128 */
    const uint32_t d = to + (uint32_t)p * 8;
    UNROLL
    for (int i = 0; i < DEPTH; i++, from += ld) copy8_part(d + (uint32_t)(i * LD * 8), from, i < k ? 8 : 0);
}

/* A slice whose rows are rows of DEPTH values of k; `bit` of the row's number exchanges its halves. */
ALWAYS void fetch_columns(uint32_t to, const double *from, int ld, int wide, int valid, int k, int p, const int width, const int bit)
{
    if (wide) {
        const int c = p % 8, row = p / 8, bytes = at_most(at_least(k - 2 * c, 0), 2) * 8;
        const int64_t step = 16LL * ld;
        const uint32_t d = to + (uint32_t)(row * DEPTH + 2 * (c ^ (row >> bit & 1) << 2)) * 8;
        if (bytes == 16) {
            UNROLL
            for (int i = 0; i < width / 16; i++, from += step)
                if (row + 16 * i < valid) copy16(d + (uint32_t)(i * 16 * DEPTH * 8), from);
        } else {
            UNROLL
            for (int i = 0; i < width / 16; i++, from += step)
                if (row + 16 * i < valid) copy16_part(d + (uint32_t)(i * 16 * DEPTH * 8), from, bytes);
        }
        return;
    }
    const int c = p % DEPTH, row = p / DEPTH, bytes = c < k ? 8 : 0;
    const int64_t step = 8LL * ld;
    uint32_t d = to + (uint32_t)(row * DEPTH + 2 * (c / 2 ^ (row >> bit & 1) << 2) + c % 2) * 8;
    for (int i = row; i < valid; i += 8, from += step, d += 8 * DEPTH * 8) copy8_part(d, from, bytes);
}

/* Where thread p of the producers begins in an operand. */
ALWAYS const double *start_rows(const double *q, int ld, int wide, int p, const int width)
{
    const int chunks = width / 2;
    return wide ? q + 2 * (p % chunks) + (int64_t)(p / chunks) * ld : q + p;
}
ALWAYS const double *start_columns(const double *q, int ld, int wide, int p)
{
    return wide ? q + 2 * (p % 8) + (int64_t)(p / 8) * ld : q + p % DEPTH + (int64_t)(p / DEPTH) * ld;
}

ALWAYS void producer(const kl_piece *piece, int ntile, int *counter, uint32_t ring, info *head, kl_piece *rec, uint32_t full, uint32_t empty,
                     const double *x, const double *y)
{
    typedef int four __attribute__((vector_size(16)));
    const int p = me() - CONSUMERS * 32, first_warp = p < 32, block = (int)__nvvm_read_ptx_sreg_ctaid_x(), blocks = (int)__nvvm_read_ptx_sreg_nctaid_x();
    int st = 0, cur = 0, soon = 0, nth = 0;
    uint32_t ph = 1;
    if (first_warp) { /* blocks <= ntile */
        if (p < 4) ((four *)rec)[p] = ((const four *)(piece + block))[p];
        if (p == 0) soon = kl_add(counter, 1) + blocks;
        soon = __nvvm_shfl_sync_idx_i32(~0u, soon, 0, 31);
    }
    __asm__ volatile("bar.sync 1,128;" ::: "memory");
    for (;;) {
        const kl_piece *const r = rec + cur;
        const uint32_t flags = r->flags;
        if (flags & KL_P_END) break;
        const int more = r->next;
        four look = {0, 0, 0, 0};
        int then = 0, later = 0;
        if (first_warp) { /* the next record, and the tile after it */
            then = more > 0 ? more : soon;
            look = ((const four *)(piece + (more > 0 ? then : at_most(then, ntile - 1))))[p & 3];
            if (more <= 0 && p == 0) later = kl_add(counter, 1) + blocks;
        }
        const int rows = (int)(r->mn & 0xffff), cols = (int)(r->mn >> 16), lda = r->lda, ldb = r->ldb, ta = (flags & KL_P_TA) != 0, tb = (flags & KL_P_TB) != 0;
        const uint64_t c = kl_where(r->c, flags, KL_P_C, x, y), a = kl_where(r->a, flags, KL_P_A, x, y), b = kl_where(r->b, flags, KL_P_B, x, y);
        const int even_a = ((a & 15) | (lda & 1)) == 0, even_b = ((b & 15) | (ldb & 1)) == 0, even_c = ((c & 15) | (r->ldc & 1)) == 0;
        const double *pa = (const double *)(uintptr_t)a, *pb = (const double *)(uintptr_t)b;
        pa = ta ? start_columns(pa, lda, even_a, p) : start_rows(pa, lda, even_a, p, BM);
        pb = tb ? start_rows(pb, ldb, even_b, p, BN) : start_columns(pb, ldb, even_b, p);
        const int64_t step_a = ta ? DEPTH : (int64_t)DEPTH * lda, step_b = tb ? (int64_t)DEPTH * ldb : DEPTH;
        for (int k = r->k; k > 0; k -= DEPTH, pa += step_a, pb += step_b) {
            wait(empty + 8 * (uint32_t)st, ph);
            const uint32_t slice = ring + (uint32_t)st * STAGE;
            if (p == 0) {
                if (k == r->k) head[nth] = (info){.c = c, .ldc = r->ldc, .mn = r->mn, .flags = flags | (even_c ? KL_P_EVEN : 0), .k = k, .factor = r->factor, .turn = r->turn};
                arrive(full + 8 * (uint32_t)st);
            }
            if (ta) fetch_columns(slice, pa, lda, even_a, rows, k, p, BM, 1);
            else fetch_rows(slice, pa, lda, even_a, rows, k, p, BM, LDA);
            if (tb) fetch_rows(slice + A_BYTES, pb, ldb, even_b, cols, k, p, BN, LDB);
            else fetch_columns(slice + A_BYTES, pb, ldb, even_b, cols, k, p, BN, 0);
            arrive_after_copies(full + 8 * (uint32_t)st);
            if (++st == STAGES) st = 0, ph ^= 1;
        }
        nth = (nth + 1) % HEADS;
        if (first_warp) {
            if (p < 4) {
                ((four *)(rec + (cur ^ 1)))[p] = look;
                if (more <= 0 && then >= ntile && p == 3) rec[cur ^ 1].flags = KL_P_END;
            }
            if (more <= 0) soon = __nvvm_shfl_sync_idx_i32(~0u, later, 0, 31);
        }
        __asm__ volatile("bar.sync 1,128;" ::: "memory");
        cur ^= 1;
    }
    wait(empty + 8 * (uint32_t)st, ph);
    if (p == 0) {
        head[nth].flags = KL_P_END;
        arrive(full + 8 * (uint32_t)st);
    }
    arrive_after_copies(full + 8 * (uint32_t)st);
    if (p == 0 && kl_add(counter + 1, 1) == blocks - 1) counter[0] = counter[1] = 0; /* the last block readies them for the next launch */
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
}

ALWAYS void store(double *to, double v, int beta) { *to = beta ? *to + v : v; }

ALWAYS void write_tile(double (*acc)[NT][4], volatile const info *h, int mt, int nt, int row0, int col0)
{
    const int m = (int)(h->mn & 0xffff), n = (int)(h->mn >> 16), ldc = h->ldc, beta = (h->flags & KL_P_BETA) != 0;
    double *const c = (double *)(uintptr_t)h->c;
    if ((h->flags & KL_P_EVEN) && row0 + 16 * mt - 15 < m) { /* no edge in the rows of this thread */
        double *d = c + row0 + (int64_t)col0 * ldc;
        const int64_t seven = 7LL * ldc;
        UNROLL
        for (int j = 0; j < NT; j++)
            if (j < nt) {
                UNROLL
                for (int e = 0; e < 2; e++) {
                    if (col0 + 8 * j + e < n) {
                        UNROLL
                        for (int i = 0; i < MT; i++)
                            if (i < mt) {
                                kl_two *const to = (kl_two *)(d + 16 * i);
                                const kl_two v = {acc[i][j][e], acc[i][j][e + 2]};
                                *to = beta ? *to + v : v;
                            }
                    }
                    d += e ? seven : ldc;
                }
            }
        return;
    }
    UNROLL
    for (int i = 0; i < MT; i++)
        if (i < mt) {
            UNROLL
            for (int j = 0; j < NT; j++)
                if (j < nt) {
                    UNROLL
                    for (int e = 0; e < 2; e++) {
                        const int r = row0 + 16 * i, k = col0 + 8 * j + e;
                        if (k >= n) continue;
                        double *const d = c + r + (int64_t)k * ldc;
                        if (r < m) store(d, acc[i][j][e], beta);
                        if (r + 1 < m) store(d + 1, acc[i][j][e + 2], beta);
                    }
                }
        }
}

ALWAYS void consumers_meet(void) { __asm__ volatile("bar.sync 2,256;" ::: "memory"); }

/* A tile in parts: its number counts up from 0 as they are written, and the last sets it back. Parts come in their order because a block that waits does so for one whose
   tile has an earlier place in the list, which is taken already. */
ALWAYS void wait_for_turn(const int *turns, uint32_t turn)
{
    if (me() == 0) {
        int now;
        do __asm__ volatile("ld.acquire.gpu.global.s32 %0,[%1];" : "=r"(now) : "l"(turns + (turn >> 8)) : "memory");
        while (now != (int)(turn & 255));
    }
    consumers_meet();
}
ALWAYS void pass_turn(int *turns, uint32_t turn, int last)
{
    __nvvm_membar_gl();
    consumers_meet();
    if (me() == 0) __asm__ volatile("st.release.gpu.global.s32 [%0],%1;" ::"l"(turns + (turn >> 8)), "r"(last ? 0 : (int)(turn & 255) + 1) : "memory");
}

ALWAYS void tensor(const kl_piece *piece, int ntile, int *counter, const double *x, const double *y)
{
    char *const shared = llvm_omp_target_dynamic_shared_alloc();
    info *const head = (info *)(shared + STAGES * STAGE);
    kl_piece *const rec = (kl_piece *)(head + HEADS);
    const uint32_t ring = shared_address(shared), full = shared_address(rec + 2), empty = full + 8 * STAGES;
    if (me() < STAGES) {
        barrier_init(full + 8 * (uint32_t)me(), 129);
        barrier_init(empty + 8 * (uint32_t)me(), CONSUMERS);
        __asm__ volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    kl_sync();
    const int warp = me() / 32;
    if (warp >= CONSUMERS) {
        producer(piece, ntile, counter, ring, head, rec, full, empty, x, y);
        return;
    }
    const int lane = me() % 32, g = lane / 4, t = lane % 4, wm = warp / 4, wn = warp % 4;
    const uint32_t a_plain = ring + (uint32_t)(2 * g + 2 * t * LDA) * 8, a_turned = ring + (uint32_t)(2 * g * DEPTH + 2 * (t ^ (g & 1) << 2)) * 8;
    const uint32_t b_plain = ring + A_BYTES + (uint32_t)(g * DEPTH + 2 * (t ^ (g & 1) << 2)) * 8, b_turned = ring + A_BYTES + (uint32_t)(2 * t * LDB + g) * 8;
    double acc[MT][NT][4];
    UNROLL
    for (int i = 0; i < MT; i++)
        UNROLL
        for (int j = 0; j < NT; j++)
            UNROLL
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0;
    int st = 0;
    uint32_t ph = 0;
    for (int nth = 0;; nth = (nth + 1) % HEADS) {
        volatile info *const h = head + nth;
        wait(full + 8 * (uint32_t)st, ph);
        const uint32_t flags = h->flags;
        if (flags & KL_P_END) break;
        const int k = h->k, all = (int)(flags & KL_P_ROWS), nt = (int)(flags & KL_P_COLS) >> 4, mt = wm ? all / 2 : (all + 1) / 2, row0 = wm ? 16 * ((all + 1) / 2) : 0;
        const int ta = (flags & KL_P_TA) != 0, tb = (flags & KL_P_TB) != 0;
        const uint32_t a = ta ? a_turned + (uint32_t)(row0 * DEPTH * 8) : a_plain + (uint32_t)(row0 * 8);
        const uint32_t b = tb ? b_turned + (uint32_t)(wn * nt * 64) : b_plain + (uint32_t)(wn * nt * 8 * DEPTH * 8);
        const int n = k / DEPTH, tail = k % DEPTH;
#define STEPS(TA, TB, M, N) \
    case TA * 32 + TB * 16 + M * 4 + N - 4: steps(acc, a, b, TA, TB, M, N, n, tail, &st, &ph, full, lane == 0); break;
#define SHAPES(TA, TB)                                                                                                            \
    STEPS(TA, TB, 1, 1) STEPS(TA, TB, 1, 2) STEPS(TA, TB, 1, 3) STEPS(TA, TB, 2, 1) STEPS(TA, TB, 2, 2) STEPS(TA, TB, 2, 3)       \
    STEPS(TA, TB, 3, 1) STEPS(TA, TB, 3, 2) STEPS(TA, TB, 3, 3) STEPS(TA, TB, 4, 1) STEPS(TA, TB, 4, 2) STEPS(TA, TB, 4, 3)
        switch (mt > 0 ? ta * 32 + tb * 16 + mt * 4 + nt - 4 : -1) {
            SHAPES(0, 0) SHAPES(0, 1) SHAPES(1, 0) SHAPES(1, 1)
        default: /* a warp without rows passes the stages on */
            for (int i = (k + DEPTH - 1) / DEPTH; i > 0;) {
                if (lane == 0) arrive(empty + 8 * (uint32_t)st);
                if (++st == STAGES) st = 0, ph ^= 1;
                if (--i > 0) wait(full + 8 * (uint32_t)st, ph);
            }
        }
#undef SHAPES
#undef STEPS
        const double factor = h->factor;
        if (factor != 1.0) {
            UNROLL
            for (int i = 0; i < MT; i++)
                UNROLL
                for (int j = 0; j < NT; j++)
                    UNROLL
                    for (int e = 0; e < 4; e++) acc[i][j][e] *= factor;
        }
        const uint32_t late = h->flags;
        if (late & KL_P_LAST) {
            if ((late & KL_P_PART) && (h->turn & 255)) wait_for_turn(counter + KL_TURNS_AT, h->turn);
            write_tile(acc, h, mt, nt, row0 + 2 * g, wn * 8 * nt + 2 * t);
            UNROLL
            for (int i = 0; i < MT; i++)
                UNROLL
                for (int j = 0; j < NT; j++)
                    UNROLL
                    for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0;
        }
        if (late & KL_P_OVER) pass_turn(counter + KL_TURNS_AT, h->turn, (late & KL_P_FINAL) != 0);
    }
}
#else
/* Never run: every pass of the compiler must see the region use the same variables in the same order, or arguments change places without a word. */
static inline void tensor(const kl_piece *piece, int ntile, int *counter, const double *x, const double *y)
{
    (void)piece, (void)ntile, (void)counter, (void)x, (void)y;
}
#endif

void kl_offload_tensor(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y)
{
    int *const counter = self->counter;
    const int blocks = ntile < self->nsm ? ntile : self->nsm;
    if (ntile == 0) return;
    KL_BARE(blocks, THREADS, SHARED, is_device_ptr(piece, counter, x, y) firstprivate(ntile))
    {
        tensor(piece, ntile, counter, x, y);
    }
}
#else
/* Images for other devices have no such kernel, and the executor's probe never chooses it. */
void kl_offload_tensor(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y) { kl_offload_plain(self, piece, ntile, x, y); }
#endif
