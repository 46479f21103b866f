/* Any number of linear combinations and inner products in one pass over memory. Where there are bare regions a block brings 64 rows of all vectors into
   shared memory, forms outputs and sums there and writes; vectors may so be inputs and outputs at once. The step of a Lanczos recurrence (four vectors at
   most) keeps everything in registers. Elsewhere a thread takes whole rows, with its sums in memory.
   SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "target.h"
#include <string.h>

enum { PART = KL_OFFLOAD_PART, MOST = KL_FUSE_MOST, MOST_OUT = KL_FUSE_MOST_OUT, MOST_PAIR = KL_FUSE_MOST_PAIR, TILE = 64, WARPS = KL_BLOCK / 32, FEW = 4, FEW_OUT = 2, FEW_PAIR = 4 };

#define ALWAYS static inline __attribute__((always_inline))

/* What a kernel must know of a step, in one piece of device memory p: addresses of the vectors, inputs first; c[nout][nin]; the pairs. */
enum { WORDS = MOST + MOST_OUT + MOST * MOST_OUT + MOST_PAIR };
_Static_assert(WORDS * 8 <= KL_STEP_BYTES, "a step fits into its place on the device");
ALWAYS double *vector(const uint64_t *p, int j, int64_t from) { return (double *)(uintptr_t)p[j] + from; }
ALWAYS const double *factors(const uint64_t *p, int nin, int nout) { return (const double *)(p + nin + nout); }
ALWAYS const int (*pairs(const uint64_t *p, int nin, int nout))[2] { return (const int(*)[2])(p + nin + nout + nin * nout); }

#if KL_OFFLOAD_BARE
#ifdef __NVPTX__
ALWAYS double of_warp(double a)
{
    for (int by = 16; by > 0; by /= 2) a += kl_shuffle_down(a, by);
    return a;
}

/* part[block][npair], summed by the last block in the order of blocks: the bits do not depend on which one it was. */
ALWAYS void fold(int npair, double *part, int *counter, double *result, volatile int *flag)
{
    const int me = (int)__nvvm_read_ptx_sreg_tid_x(), blocks = (int)__nvvm_read_ptx_sreg_nctaid_x();
    if (npair == 0 || !kl_last_block(counter, flag)) return;
    for (int p = me; p < npair; p += KL_BLOCK) {
        double a = 0.0;
        for (int b = 0; b < blocks; b++) a += ((volatile double *)part)[b * npair + p];
        result[p] = a;
    }
}

ALWAYS void tiles(int n, int64_t from, int nin, int nout, int npair, const uint64_t *p, double *part, int *counter, double *result)
{
    enum { EACH = MOST_PAIR / WARPS };
    const double *const factor = factors(p, nin, nout);
    const int (*const pair)[2] = pairs(p, nin, nout);
    double *const tile = llvm_omp_target_dynamic_shared_alloc();
    volatile int *const flag = (volatile int *)(tile + (nin + nout) * TILE);
    const int me = (int)__nvvm_read_ptx_sreg_tid_x(), block = (int)__nvvm_read_ptx_sreg_ctaid_x(), blocks = (int)__nvvm_read_ptx_sreg_nctaid_x(), warp = me / 32, lane = me % 32;
    const int share = (npair + WARPS - 1) / WARPS, first = warp * share, mine = npair - first < share ? npair - first : share; /* neighbours often share a vector */
    double sum[EACH];
#pragma clang loop unroll(full)
    for (int i = 0; i < EACH; i++) sum[i] = 0.0;
    for (int row = block * TILE; row < n; row += blocks * TILE) {
        const int rows = n - row < TILE ? n - row : TILE;
        for (int i = me; i < nin * TILE; i += KL_BLOCK) {
            const int r = i % TILE;
            tile[i] = r < rows ? vector(p, i / TILE, from)[row + r] : 0.0;
        }
        kl_sync();
        for (int k = 4 * (warp / 2); k < nout; k += 4 * (WARPS / 2)) { /* a warp: 32 rows of four outputs */
            const int r = warp % 2 * 32 + lane, have = nout - k < 4 ? nout - k : 4;
            double a[4] = {0.0, 0.0, 0.0, 0.0};
            for (int j = 0; j < nin; j++) {
                const double v = tile[j * TILE + r];
#pragma clang loop unroll(full)
                for (int q = 0; q < 4; q++) {
                    const double c = q < have ? factor[(k + q) * nin + j] : 0.0;
                    if (c != 0.0) a[q] += c * v; /* a coefficient 0 reads nothing, whatever stands there */
                }
            }
#pragma clang loop unroll(full)
            for (int q = 0; q < 4; q++) {
                if (q >= have) continue;
                tile[(nin + k + q) * TILE + r] = r < rows ? a[q] : 0.0;
                if (r < rows) vector(p, nin + k + q, from)[row + r] = a[q];
            }
        }
        if (nout > 0) kl_sync();
        int last = -1;
        double u = 0.0, v = 0.0;
#pragma clang loop unroll(full)
        for (int i = 0; i < EACH; i++) {
            if (i >= mine) continue;
            const int *const q = pair[first + i];
            if (q[0] != last) {
                last = q[0];
                u = tile[last * TILE + lane];
                v = tile[last * TILE + lane + 32];
            }
            sum[i] += u * tile[q[1] * TILE + lane] + v * tile[q[1] * TILE + lane + 32];
        }
        kl_sync();
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < EACH; i++) {
        const double a = of_warp(sum[i]);
        if (i < mine && lane == 0) part[block * npair + first + i] = a;
    }
    fold(npair, part, counter, result, flag);
}

ALWAYS double pick(const double *v, int j) { return j == 0 ? v[0] : j == 1 ? v[1] : j == 2 ? v[2] : j == 3 ? v[3] : j == 4 ? v[4] : v[5]; }

/* Two rows at a time; what is not there is the first vector again, times nothing. */
ALWAYS void few(int t, int T, int n, int64_t from, int nin, int nout, int npair, const uint64_t *p, double *part, int *counter, double *result)
{
    double *const shared = llvm_omp_target_dynamic_shared_alloc();
    volatile int *const flag = (volatile int *)(shared + WARPS * FEW_PAIR);
    const int me = t % KL_BLOCK, block = t / KL_BLOCK;
    const double *in[FEW];
    double *out[FEW_OUT], c[FEW_OUT][FEW], sum[FEW_PAIR] = {0.0, 0.0, 0.0, 0.0};
    int side[FEW_PAIR][2];
#pragma clang loop unroll(full)
    for (int j = 0; j < FEW; j++) in[j] = vector(p, j < nin ? j : 0, from);
#pragma clang loop unroll(full)
    for (int k = 0; k < FEW_OUT; k++) {
        out[k] = vector(p, k < nout ? nin + k : 0, from);
#pragma clang loop unroll(full)
        for (int j = 0; j < FEW; j++) c[k][j] = k < nout && j < nin ? factors(p, nin, nout)[k * nin + j] : 0.0;
    }
#pragma clang loop unroll(full)
    for (int q = 0; q < FEW_PAIR; q++)
        for (int s = 0; s < 2; s++) { /* outputs are numbered from nin on, and stand from FEW on */
            const int j = q < npair ? pairs(p, nin, nout)[q][s] : 0;
            side[q][s] = j < nin ? j : j - nin + FEW;
        }
    for (int i = t; i < n; i += T) {
        double v[FEW + FEW_OUT];
#pragma clang loop unroll(full)
        for (int j = 0; j < FEW; j++) v[j] = j < nin ? in[j][i] : 0.0;
#pragma clang loop unroll(full)
        for (int k = 0; k < FEW_OUT; k++) {
            v[FEW + k] = 0.0;
#pragma clang loop unroll(full)
            for (int j = 0; j < FEW; j++)
                if (c[k][j] != 0.0) v[FEW + k] += c[k][j] * v[j];
            if (k < nout) out[k][i] = v[FEW + k];
        }
#pragma clang loop unroll(full)
        for (int q = 0; q < FEW_PAIR; q++)
            if (q < npair) sum[q] += pick(v, side[q][0]) * pick(v, side[q][1]);
    }
#pragma clang loop unroll(full)
    for (int q = 0; q < FEW_PAIR; q++) {
        const double a = of_warp(sum[q]);
        if (me % 32 == 0) shared[me / 32 * FEW_PAIR + q] = a;
    }
    kl_sync();
    if (me < npair) {
        double a = 0.0;
        for (int w = 0; w < WARPS; w++) a += shared[w * FEW_PAIR + me];
        part[block * npair + me] = a;
    }
    fold(npair, part, counter, result, flag);
}
#else
/* Never run: every pass of the compiler must see a region use the same variables in the same order. */
ALWAYS void tiles(int n, int64_t from, int nin, int nout, int npair, const uint64_t *p, double *part, int *counter, double *result)
{
    (void)n, (void)from, (void)nin, (void)nout, (void)npair, (void)p, (void)part, (void)counter, (void)result;
}
ALWAYS void few(int t, int T, int n, int64_t from, int nin, int nout, int npair, const uint64_t *p, double *part, int *counter, double *result)
{
    (void)t, (void)T, (void)n, (void)from, (void)nin, (void)nout, (void)npair, (void)p, (void)part, (void)counter, (void)result;
}
#endif

static void fuse_bare(const kl_offload *self, int n, int64_t from, const kl_fuse *f, const uint64_t *p)
{
    enum { SHARED = 200 << 10 /* of a multiprocessor */ };
    double *const part = self->scratch, *const result = self->result;
    int *const counter = self->counter;
    const int nin = f->nin, nout = f->nout, npair = f->npair, bytes = (nin + nout) * TILE * 8 + 16;
    if (nin <= FEW && nout <= FEW_OUT && npair <= FEW_PAIR) {
        const int most = (n + KL_BLOCK - 1) / KL_BLOCK, want = 6 * self->nsm, teams = want < most ? want : most;
        KL_BARE(teams, 256, 1024, is_device_ptr(p, part, counter, result) firstprivate(n, from, nin, nout, npair))
        {
            few(kl_thread(), kl_threads(), n, from, nin, nout, npair, p, part, counter, result);
        }
        return;
    }
    const int each = SHARED / bytes < 1 ? 1 : SHARED / bytes > 6 ? 6 : SHARED / bytes, most = (n + TILE - 1) / TILE, teams = each * self->nsm < most ? each * self->nsm : most;
    KL_BARE(teams, 256, bytes, is_device_ptr(p, part, counter, result) firstprivate(n, from, nin, nout, npair))
    {
        tiles(n, from, nin, nout, npair, p, part, counter, result);
    }
}
#endif

/* Rows t, t + T, ...: outputs in a buffer of the thread's own, sums in part[pair][T]. */
ALWAYS void rows(int t, int T, int n, int64_t from, int nin, int nout, int npair, const uint64_t *p, double *part)
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
            part[q * T + t] += (a < nin ? vector(p, a, from)[i] : to[a - nin]) * (b < nin ? vector(p, b, from)[i] : to[b - nin]);
        }
        for (int k = 0; k < nout; k++) vector(p, nin + k, from)[i] = to[k];
    }
}

/* In the order of the threads, so that equal input gives equal bits. */
static void fuse_flat(const kl_offload *self, int n, int64_t from, const kl_fuse *f, const uint64_t *p, double *sum)
{
    enum { THREADS = (KL_SCRATCH - MOST_PAIR) / MOST_PAIR };
    double *const part = self->scratch, *const folded = part + KL_SCRATCH - MOST_PAIR;
    const int nin = f->nin, nout = f->nout, npair = f->npair, all = self->nthread < THREADS ? self->nthread : THREADS, teams = (all + KL_BLOCK - 1) / KL_BLOCK;
    KL_FLAT(teams, is_device_ptr(p, part) firstprivate(n, from, nin, nout, npair, all))
    for (int t = 0; t < all; t++) rows(t, all, n, from, nin, nout, npair, p, part);
    if (npair == 0) return;
    KL_FLAT(1, is_device_ptr(part, folded) firstprivate(npair, all))
    for (int q = 0; q < npair; q++) {
        double a = 0.0;
        for (int t = 0; t < all; t++) a += part[q * all + t];
        folded[q] = a;
    }
    if (kl_offload_get(self, sum, folded, npair * (int64_t)sizeof(double)) != 0) /* the device is lost: no answer may look like one */
        for (int q = 0; q < npair; q++) sum[q] = __builtin_nan("");
}

void kl_offload_fuse(kl_exec *ex, int64_t all, const kl_fuse *f, double *dots)
{
    kl_offload *const self = ex->self;
    uint64_t host[WORDS], *const p = self->step;
    int words = 0;
    for (int q = 0; q < f->npair; q++) dots[q] = 0.0;
    for (int j = 0; j < f->nin; j++) host[words++] = f->in[j].addr;
    for (int k = 0; k < f->nout; k++) host[words++] = f->out[k].addr;
    if (f->nout > 0) memcpy(host + words, f->c, (size_t)(f->nout * f->nin) * sizeof(double));
    words += f->nout * f->nin;
    if (f->npair > 0) memcpy(host + words, f->pair, (size_t)f->npair * sizeof f->pair[0]);
    words += f->npair;
    const int lost = kl_offload_put(self, p, host, words * (int64_t)sizeof *host);
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        double flat[MOST_PAIR], *sum = flat;
#if KL_OFFLOAD_BARE
        if (self->bare) {
            fuse_bare(self, n, from, f, p);
            sum = self->result;
        } else
#endif
            fuse_flat(self, n, from, f, p, flat);
        for (int q = 0; q < f->npair; q++) dots[q] += lost ? __builtin_nan("") : sum[q];
    }
}
