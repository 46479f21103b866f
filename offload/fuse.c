/* Any number of linear combinations and inner products in one pass over memory. In a bare region a block
   brings tiles of rows of all vectors into shared memory by asynchronous copies, two tiles ahead of the work;
   combinations are made eight outputs at a time, so that an input is read once for all of them; inner
   products are entries of 8 x 8 blocks of the Gram matrix (gram.h), which tensor cores add up, a fragment
   serving as either factor. Vectors may be inputs and outputs at once. A few vectors are fusedsmall.c's.
   Elsewhere a thread takes whole rows, with its sums in memory.
   SPDX-License-Identifier: Apache-2.0 */
#include "fusedsmall.h"
#include "exec/gram.h"
#include "target.h"
#include <string.h>

enum {
    PART = KL_OFFLOAD_PART,
    MOST = KL_FUSE_MOST,
    MOST_OUT = KL_FUSE_MOST_OUT,
    MOST_PAIR = KL_FUSE_MOST_PAIR,
    WARPS = KL_BLOCK / 32,
    STAGE = 3 /* tiles of inputs in shared memory */,
    GROUP = 8 /* outputs made together */,
    PAD = 8 /* doubles between columns: the vectors of a fragment lie in different banks */
};

#define ALWAYS static inline __attribute__((always_inline))

/* n rows of a launch, which begin at `from`; vectors and products of a step; a tile has 1 << log_rows rows;
   wide: addresses are multiples of 16. */
typedef struct extent {
    int n;
    int64_t from;
    int nin, nout, npair, log_rows, wide;
} extent;

/* What a kernel must know of a step, in one piece of device memory p: addresses of the vectors, inputs first;
   c[nout][nin]; the pairs. For tiles c is [groups of outputs][nin][GROUP], and a kl_gram replaces
   the pairs. */
enum { WORDS = MOST + MOST_OUT + MOST * MOST_OUT + MOST_PAIR + (int)sizeof(kl_gram) / 8 + 1 };
_Static_assert(WORDS * 8 <= KL_STEP_BYTES, "a step fits into its place on the device");
ALWAYS double *vector(const uint64_t *p, int j, int64_t from) { return (double *)(uintptr_t)p[j] + from; }
ALWAYS const double *factors(const uint64_t *p, int nin, int nout)
{
    return (const double *)(p + nin + nout);
}
ALWAYS const int (*pairs(const uint64_t *p, int nin, int nout))[2]
{
    return (const int (*)[2])(p + nin + nout + nin * nout);
}
ALWAYS int padded(int nout) { return (nout + GROUP - 1) / GROUP * GROUP; }

#if KL_OFFLOAD_BARE
#ifdef __NVPTX__
_Static_assert(MOST_PAIR <= KL_BLOCK, "a thread a pair");

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
ALWAYS const kl_gram *gram_of(const uint64_t *p, int nin, int nout)
{
    return (const kl_gram *)(p + nin + nout + nin * padded(nout));
}
/* Addresses in shared memory are 32 bits; generic accesses would be slower. */
ALWAYS kl_two get_two(uint32_t at)
{
    double x, y;
    __asm__ volatile("ld.shared.v2.f64 {%0,%1},[%2];" : "=d"(x), "=d"(y) : "r"(at) : "memory");
    return (kl_two){x, y};
}
ALWAYS void put_two(uint32_t at, kl_two v)
{
    __asm__ volatile("st.shared.v2.f64 [%0],{%1,%2};" ::"r"(at), "d"(v[0]), "d"(v[1]) : "memory");
}

/* The two rows from row on of a column, of which `have` are there; the others become 0. */
ALWAYS void copy_two(uint32_t t, const double *from, int have, int wide)
{
    const int bytes = have >= 2 ? 16 : have > 0 ? 8 : 0, second = bytes == 16 ? 8 : 0;
    if (wide)
        __asm__ volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(t), "l"(from), "r"(bytes)
                         : "memory");
    else {
        __asm__ volatile("cp.async.ca.shared.global [%0],[%1],8,%2;" ::"r"(t), "l"(from),
                         "r"(bytes > 0 ? 8 : 0)
                         : "memory");
        __asm__ volatile("cp.async.ca.shared.global [%0],[%1],8,%2;" ::"r"(t + 8),
                         "l"(from + (second ? 1 : 0)), "r"(second)
                         : "memory");
    }
}

/* Rows row, row + 1, .. of all inputs, whose addresses stand in shared memory; what lies past the end is 0.
   One group of copies a call, also where there is nothing to copy. */
ALWAYS void load(uint32_t inputs, int row, int n, int nin, int log_rows, int ld, int wide, uint32_t to)
{
    const int all = row < n ? nin << (log_rows - 1) : 0, whole = n - row >= 1 << log_rows;
    for (int first = (int)__nvvm_read_ptx_sreg_tid_x(); first < all; first += 4 * KL_BLOCK) {
#pragma clang loop unroll(full)
        for (int q = 0; q < 4; q++) {
            const int e = first + q * KL_BLOCK, j = e >> (log_rows - 1),
                      r = 2 * (e & ((1 << (log_rows - 1)) - 1)), have = whole ? 2 : n - row - r;
            uint64_t at;
            if (e >= all) continue;
            __asm__("ld.shared.b64 %0,[%1];" : "=l"(at) : "r"(inputs + (uint32_t)j * 8));
            copy_two(to + (uint32_t)(j * ld + r) * 8,
                     (const double *)(uintptr_t)at + (have > 0 ? row + r : 0), have, wide);
        }
    }
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
}

/* The outputs of a tile, GROUP of them and two rows a thread at a time. */
ALWAYS void combine(int nin, int nout, int log_rows, int ld, uint32_t c, uint32_t in, uint32_t out)
{
    const int half = 1 << (log_rows - 1), groups = padded(nout) / GROUP;
    for (int e = (int)__nvvm_read_ptx_sreg_tid_x(); e < groups * half; e += KL_BLOCK) {
        const int g = e >> (log_rows - 1), row = 2 * (e & (half - 1));
        kl_two s[GROUP];
#pragma clang loop unroll(full)
        for (int k = 0; k < GROUP; k++) s[k] = (kl_two){0.0, 0.0};
        for (int j = 0; j < nin; j++) {
            const kl_two a = get_two(in + (uint32_t)(j * ld + row) * 8);
#pragma clang loop unroll(full)
            for (int k = 0; k < GROUP; k += 2) {
                const kl_two f = get_two(c + (uint32_t)((g * nin + j) * GROUP + k) * 8);
                if (f[0] != 0.0) s[k] += f[0] * a; /* a vector that is not asked for may hold anything */
                if (f[1] != 0.0) s[k + 1] += f[1] * a;
            }
        }
#pragma clang loop unroll(full)
        for (int k = 0; k < GROUP; k++)
            if (g * GROUP + k < nout) put_two(out + (uint32_t)((g * GROUP + k) * ld + row) * 8, s[k]);
    }
}

/* Outputs of the tile at `row`, from shared memory. */
ALWAYS void store(const uint64_t *p, int row, extent x, int ld, uint32_t out)
{
    const int64_t from = x.from;
    const int n = x.n, nin = x.nin, nout = x.nout, log_rows = x.log_rows, wide = x.wide;
    for (int e = (int)__nvvm_read_ptx_sreg_tid_x(); e < nout << (log_rows - 1); e += KL_BLOCK) {
        const int k = e >> (log_rows - 1), r = 2 * (e & ((1 << (log_rows - 1)) - 1)), have = n - row - r;
        double *const to = vector(p, nin + k, from) + row + r;
        const kl_two v = get_two(out + (uint32_t)(k * ld + r) * 8);
        if (wide && have >= 2) *(kl_two *)to = v;
        else {
            if (have > 0) to[0] = v[0];
            if (have > 1) to[1] = v[1];
        }
    }
}

/* Where a lane finds its vector of a fragment: an offset in bytes into the tile of inputs, or the complement
   of one into that of outputs. Vectors that are not there are the last one again: no pair asks for those
   entries. */
ALWAYS int place(int nin, int nout, int ld, int eight)
{
    const int lane = (int)__nvvm_read_ptx_sreg_tid_x() % 32, v = 8 * eight + lane / 4,
              w = v < nin + nout ? v : nin + nout - 1;
    return w < nin ? (w * ld + 2 * (lane % 4)) * 8 : ~(((w - nin) * ld + 2 * (lane % 4)) * 8);
}

ALWAYS void multiply(double *s, kl_two a, kl_two b)
{
    __asm__("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(s[0]), "+d"(s[1])
            : "d"(a[0]), "d"(b[0]));
    __asm__("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(s[0]), "+d"(s[1])
            : "d"(a[1]), "d"(b[1]));
}

/* s[b] += block b of the Gram matrix over eight rows. */
ALWAYS void gram(const int NB, int have, const int *left, const int *right, uint32_t in, uint32_t out,
                 double (*s)[2])
{
    kl_two a = {0.0, 0.0};
#pragma clang loop unroll(full)
    for (int b = 0; b < NB; b++)
        if (b < have) {
            if (b == 0 || left[b] != left[b - 1])
                a = get_two(left[b] >= 0 ? in + (uint32_t)left[b] : out + (uint32_t)~left[b]);
            multiply(s[b], a,
                     left[b] == right[b]
                         ? a
                         : get_two(right[b] >= 0 ? in + (uint32_t)right[b] : out + (uint32_t)~right[b]));
        }
}

/* Shared memory: addresses of inputs, coefficients, STAGE tiles of inputs, one of outputs; at the end the
   sums of the warps. NB, the blocks of a warp, is a constant where this is used. */
ALWAYS void tiles(const int NB, extent x, const uint64_t *p, kl_slot *slot, double *result)
{
    const int64_t from = x.from;
    const int n = x.n, nin = x.nin, nout = x.nout, npair = x.npair, log_rows = x.log_rows, wide = x.wide;
    double *const memory = llvm_omp_target_dynamic_shared_alloc();
    const uint64_t launch = kl_launch_number(slot, npair);
    const int rows = 1 << log_rows, ld = rows + PAD, ncoef = nin * padded(nout);
    const uint32_t inputs = (uint32_t)(uintptr_t)(__attribute__((address_space(3))) double *)memory,
                   c = inputs + MOST * 8, tile = c + (uint32_t)(ncoef + 15) / 16 * 128,
                   size = (uint32_t)(nin * ld) * 8, out = tile + STAGE * size;
    const kl_gram *const g = gram_of(p, nin, nout);
    const int me = (int)__nvvm_read_ptx_sreg_tid_x(), blocks = (int)__nvvm_read_ptx_sreg_nctaid_x(),
              lane = me % 32, warp = me / 32, step = blocks * rows;
    const int share = g->share, first = warp % share * NB, have = g->nblock - first;
    int left[KL_GRAM_MOST], right[KL_GRAM_MOST];
    /* sums of rows in turn, where registers allow: a product need not wait for the one before */
    const int two = NB <= 4;
    double s[KL_GRAM_MOST][2], u[4][2] = {{0}};
#pragma clang loop unroll(full)
    for (int b = 0; b < NB; b++) {
        s[b][0] = s[b][1] = 0.0;
        left[b] = b < have ? place(nin, nout, ld, g->block[first + b][0]) : 0;
        right[b] = b < have ? place(nin, nout, ld, g->block[first + b][1]) : 0;
    }
    for (int e = me; e < ncoef; e += KL_BLOCK) memory[MOST + e] = factors(p, nin, nout)[e];
    for (int j = me; j < nin; j += KL_BLOCK)
        ((uint64_t *)memory)[j] = (uint64_t)(uintptr_t)vector(p, j, from);
    kl_block_sync();
    int row = (int)__nvvm_read_ptx_sreg_ctaid_x() * rows;
    for (int i = 0; i < STAGE - 1; i++)
        load(inputs, row + i * step, n, nin, log_rows, ld, wide, tile + (uint32_t)i * size);
    for (int stage = 0; row < n; row += step) {
        /* parts of a vector are short enough for int */
        const int ahead = (stage + STAGE - 1) % STAGE, next = row + (STAGE - 1) * step;
        const uint32_t in = tile + (uint32_t)stage * size;
        __asm__ volatile("cp.async.wait_group %0;" ::"n"(STAGE - 2) : "memory");
        kl_block_sync(); /* and nobody reads the tile of the round before */
        load(inputs, next, n, nin, log_rows, ld, wide, tile + (uint32_t)ahead * size);
        if (nout > 0) {
            combine(nin, nout, log_rows, ld, c, in, out);
            kl_block_sync();
            store(p, row, x, ld, out);
        }
        const int apart = 8 * (WARPS / share);
        for (int r = 8 * (warp / share); r < rows; r += two ? 2 * apart : apart) {
            gram(NB, have, left, right, in + (uint32_t)r * 8, out + (uint32_t)r * 8, s);
            if (two && r + apart < rows)
                gram(NB, have, left, right, in + (uint32_t)(r + apart) * 8, out + (uint32_t)(r + apart) * 8,
                     u);
        }
        if (nout > 0) kl_block_sync(); /* outputs are read until here */
        if (++stage == STAGE) stage = 0;
    }
    __asm__ volatile("cp.async.wait_all;" ::: "memory");
    kl_block_sync();
    if (npair == 0) return;
    /* the warps of one share of the blocks, in order; then the thread blocks, in order, by the first of
       them */
    double *const mine = memory;
#pragma clang loop unroll(full)
    for (int b = 0; b < NB; b++)
        *(kl_two *)(mine + (warp * NB + b) * 64 + 2 * lane) =
            (kl_two){s[b][0] + (two ? u[b % 4][0] : 0.0), s[b][1] + (two ? u[b % 4][1] : 0.0)};
    kl_block_sync();
    double sum = 0.0;
    if (me < npair) {
        const int block = g->entry[me][0];
        for (int w = block / NB; w < WARPS; w += share)
            sum += mine[(w * NB + block % NB) * 64 + g->entry[me][1]];
    }
    kl_reduce_blocks(KL_BLOCK, npair, sum, launch, slot, result, mine + WARPS * NB * 64);
}
#else
ALWAYS void tiles(const int NB, extent x, const uint64_t *p, kl_slot *slot, double *result)
{
    (void)NB, (void)x, (void)p, (void)slot, (void)result;
}
#endif
#else
/* Never run: every pass of the compiler must see a region use the same variables in the same order. */
ALWAYS void tiles(const int NB, extent x, const uint64_t *p, kl_slot *slot, double *result)
{
    (void)NB, (void)x, (void)p, (void)slot, (void)result;
}
#endif

static void fuse_tiles(const kl_offload *self, int n, int64_t from, const kl_fuse *f, int each, int wide,
                       const uint64_t *p)
{
    enum { ROOM = 200 << 10 /* of a multiprocessor */ };
    kl_slot *const slot = self->slot;
    double *const result = self->result;
    const int nin = f->nin, nout = f->nout, npair = f->npair,
              fixed = (MOST + (nin * padded(nout) + 15) / 16 * 16) * 8,
              sums = (WARPS * each * 64 + KL_BLOCK) * 8;
    int bytes, log_rows = 9;
    for (;; log_rows--) {
        bytes = fixed + (STAGE * nin + nout) * ((1 << log_rows) + PAD) * 8;
        if (bytes <= ROOM / 2 || (log_rows <= 7 && bytes <= ROOM) || log_rows == 4) break;
    }
    if (bytes < sums) bytes = sums;
    const int most = (n + (1 << log_rows) - 1) >> log_rows, want = (bytes <= ROOM / 2 ? 2 : 1) * self->nsm,
              teams = want < most ? want : most;
#define TILES(NB)                                                                                       \
    case NB:                                                                                            \
        KL_BARE(teams, 256, bytes,                                                                      \
                is_device_ptr(p, slot, result) firstprivate(n, from, nin, nout, npair, log_rows, wide)) \
        {                                                                                               \
            tiles(NB, (extent){n, from, nin, nout, npair, log_rows, wide}, p, slot, result);            \
        }                                                                                               \
        break;
    switch (each) {
        TILES(1) TILES(2) TILES(4) TILES(8) TILES(16)
    }
#undef TILES
}
#endif

/* Rows t, t + T, ...: outputs in a buffer of the thread's own, sums in part[pair][T]. */
ALWAYS void rows(int t, int T, int n, int64_t from, int nin, int nout, int npair, const uint64_t *p,
                 double *part)
{
    const double *const factor = factors(p, nin, nout);
    const int (*const pair)[2] = pairs(p, nin, nout);
    double to[MOST_OUT];
    for (int q = 0; q < npair; q++) part[q * T + t] = 0.0;
    for (int i = t; i < n; i += T) {
        for (int k = 0; k < nout; k++) {
            to[k] = 0.0;
            for (int j = 0; j < nin; j++) {
                const double c = factor[k * nin + j];
                if (c != 0.0) to[k] += c * vector(p, j, from)[i];
            }
        }
        for (int q = 0; q < npair; q++) {
            const int a = pair[q][0], b = pair[q][1];
            part[q * T + t] += (a < nin ? vector(p, a, from)[i] : to[a - nin]) *
                               (b < nin ? vector(p, b, from)[i] : to[b - nin]);
        }
        for (int k = 0; k < nout; k++) vector(p, nin + k, from)[i] = to[k];
    }
}

/* Sums of every thread to memory, FOLD sums of those, and the rest here: an order that depends on the launch
   alone, so that equal input gives equal bits. */
static void fuse_flat(const kl_offload *self, int n, int64_t from, const kl_fuse *f, const uint64_t *p,
                      double *sum)
{
    enum {
        FOLD = 64,
        THREADS = KL_SCRATCH / MOST_PAIR - FOLD,
    };
    double *const part = self->scratch, *const folded = part + MOST_PAIR * THREADS, host[FOLD * MOST_PAIR];
    const int nin = f->nin, nout = f->nout, npair = f->npair,
              want = KL_BLOCK * kl_teams_of(self, 8 * self->nsm), all = want < THREADS ? want : THREADS;
    const int teams = (all + KL_BLOCK - 1) / KL_BLOCK, folders = kl_teams_of(self, 8), nfold = FOLD * npair;
    KL_FLAT(teams, is_device_ptr(p, part) firstprivate(n, from, nin, nout, npair, all))
    for (int t = 0; t < all; t++) rows(t, all, n, from, nin, nout, npair, p, part);
    if (npair == 0) return;
    KL_FLAT(folders, is_device_ptr(part, folded) firstprivate(nfold, all))
    for (int g = 0; g < nfold; g++) {
        double a = 0.0;
        for (int t = g % FOLD; t < all; t += FOLD) a += part[g / FOLD * all + t];
        folded[g] = a;
    }
    /* then no answer may look like one */
    const int lost = kl_offload_get(self, host, folded, nfold * (int64_t)sizeof(double));
    for (int q = 0; q < npair; q++) {
        sum[q] = lost ? __builtin_nan("") : 0.0;
        for (int g = 0; g < FOLD; g++) sum[q] += host[q * FOLD + g];
    }
}

void kl_offload_fuse(kl_exec *ex, int64_t all, const kl_fuse *f, double *dots)
{
    kl_offload *const self = ex->self;
    uint64_t host[WORDS], *const p = self->step, addresses = 0;
    int words = 0, each = 0;
    if (self->bare && kl_fused_small_takes(all, f)) {
        kl_offload_fused_small(self, all, f, dots);
        return;
    }
    for (int j = 0; j < f->nin; j++) addresses |= host[words++] = f->in[j].addr;
    for (int k = 0; k < f->nout; k++) addresses |= host[words++] = f->out[k].addr;
    double *const c = (double *)(host + words);
#if KL_OFFLOAD_BARE
    const int by_tiles = self->bare && self->arch >= 80;
#else
    const int by_tiles = 0;
#endif
    if (by_tiles) {
        for (int k = 0; k < padded(f->nout); k++)
            for (int j = 0; j < f->nin; j++)
                c[(k / GROUP * f->nin + j) * GROUP + k % GROUP] = k < f->nout ? f->c[k * f->nin + j] : 0.0;
        words += f->nin * padded(f->nout);
        each = kl_gram_choose(f, (kl_gram *)(host + words));
        words += ((int)sizeof(kl_gram) + 7) / 8;
    } else {
        if (f->nout > 0) memcpy(c, f->c, (size_t)(f->nout * f->nin) * sizeof(double));
        words += f->nout * f->nin;
        if (f->npair > 0) memcpy(host + words, f->pair, (size_t)f->npair * sizeof f->pair[0]);
        words += f->npair;
    }
    const int lost = kl_offload_put(self, p, host, words * (int64_t)sizeof *host);
    for (int q = 0; q < f->npair; q++) dots[q] = 0.0; /* not before: the coefficients may stand there */
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        double flat[MOST_PAIR], *sum = flat;
#if KL_OFFLOAD_BARE
        if (by_tiles) fuse_tiles(self, n, from, f, each, addresses % 16 == 0, p), sum = self->result;
        else
#endif
            fuse_flat(self, n, from, f, p, flat);
        for (int q = 0; q < f->npair; q++) dots[q] += lost ? __builtin_nan("") : sum[q];
    }
    (void)each, (void)addresses;
}
