/* Any number of linear combinations and inner products in one pass over memory. A tile of rows of every input
   is brought into shared memory by bulk copies, two tiles ahead of the work; combinations are made eight
   outputs at a time, so that an input is read once for all of them; inner products are the entries of 8 x 8
   blocks of the Gram matrix, which tensor cores add up: one fragment serves as either factor. Sums are added
   up in a fixed order.
   SPDX-License-Identifier: Apache-2.0 */
#include "tall.h"
#include "bulk.cuh"
#include "exec/fusedsmall.h"
#include "reduce.cuh"
#include "exec/gram.h"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    STAGE = 3, /* tiles of inputs in shared memory */
    GROUP = 8, /* outputs made together */
    PAD = 8, /* doubles between columns: the eight vectors of a fragment lie in different banks */
};

/* One launch, as the kernel reads it from device memory. Offsets in doubles are for the table of coefficients
   behind it. */
struct plan {
    int64_t n;
    int nin, nout, npair;
    int rows; /* of a tile: 16, 32, ..., 512 */
    int bulk; /* every address allows bulk copies */
    const double *in[KL_FUSE_MOST];
    double *out[KL_FUSE_MOST_OUT];
    kl_gram gram;
    double c[1]; /* [groups of outputs][nin][GROUP] */
};

/* Rows from, from + 1, .. of every input into `to`, by whoever calls: the first thread starts bulk copies
   where the GPU has them, else all threads carry single numbers. */
static __device__ void load(const plan *p, int64_t from, int rows, int ld, double *to, uint64_t *bar)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    if (p->bulk && rows == p->rows) {
        if (threadIdx.x != 0) return;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(kl_shared_at(bar)),
                     "r"(p->nin * rows * 8)
                     : "memory");
        for (int j = 0; j < p->nin; j++)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                    "r"(kl_shared_at(to + (int64_t)j * ld)),
                "l"(p->in[j] + from), "r"(rows * 8), "r"(kl_shared_at(bar))
                : "memory");
        return;
    }
#endif
    for (int e = (int)threadIdx.x; e < p->nin * p->rows; e += THREADS) {
        const int j = e / p->rows, row = e % p->rows;
        to[(int64_t)j * ld + row] = row < rows ? p->in[j][from + row] : 0.0;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(kl_shared_at(bar)) : "memory");
}

/* The outputs of a tile, GROUP of them and two rows a thread at a time. */
static __device__ __forceinline__ void combine(const plan *p, int ld, const double *c, const double *in,
                                               double *out)
{
    const int pairs = p->rows / 2, groups = (p->nout + GROUP - 1) / GROUP;
    for (int e = (int)threadIdx.x; e < groups * pairs; e += THREADS) {
        const int g = e / pairs, row = 2 * (e % pairs);
        double2 s[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++) s[k] = make_double2(0.0, 0.0);
        for (int j = 0; j < p->nin; j++) {
            const double2 a = *(const double2 *)(in + (int64_t)j * ld + row);
            const double *const f = c + (g * p->nin + j) * GROUP;
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                if (f[k] != 0.0) { /* a vector that is not asked for may hold anything */
                    s[k].x += f[k] * a.x;
                    s[k].y += f[k] * a.y;
                }
        }
        const int have = p->nout - g * GROUP < GROUP ? p->nout - g * GROUP : GROUP;
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (k < have) *(double2 *)(out + (int64_t)(g * GROUP + k) * ld + row) = s[k];
    }
}

static __device__ __forceinline__ void store(const plan *p, int64_t from, int rows, int ld, const double *out)
{
    if (p->bulk && rows == p->rows) {
        for (int e = (int)threadIdx.x; e < p->nout * (rows / 2); e += THREADS) {
            const int k = e / (rows / 2), row = 2 * (e % (rows / 2));
            *(double2 *)(p->out[k] + from + row) = *(const double2 *)(out + (int64_t)k * ld + row);
        }
        return;
    }
    for (int e = (int)threadIdx.x; e < p->nout * rows; e += THREADS)
        p->out[e / rows][from + e % rows] = out[(int64_t)(e / rows) * ld + e % rows];
}

/* Where a lane finds its vector of a fragment: an offset into the tile of inputs, or the complement of one
   into that of outputs. Vectors that are not there are the last one again: no pair asks for those entries. */
static __device__ __forceinline__ int place(const plan *p, int ld, int eight)
{
    const int lane = (int)threadIdx.x % 32, v = 8 * eight + lane / 4, all = p->nin + p->nout,
              w = v < all ? v : all - 1;
    return w < p->nin ? w * ld + 2 * (lane % 4) : ~((w - p->nin) * ld + 2 * (lane % 4));
}

static __device__ __forceinline__ double2 fragment(const double *in, const double *out, int place, int row)
{
    return *(const double2 *)((place >= 0 ? in + place : out + ~place) + row);
}

static __device__ __forceinline__ void multiply(double *s, double2 a, double2 b)
{
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(s[0]), "+d"(s[1])
        : "d"(a.x), "d"(b.x));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(s[0]), "+d"(s[1])
        : "d"(a.y), "d"(b.y));
}

/* s[b] += block b of the Gram matrix over this warp's rows of a tile: eight rows a step, two to a lane. */
template <int NB>
static __device__ __forceinline__ void gram(int rows, int slice, int slices, int have, const int *left,
                                            const int *right, const double *in, const double *out,
                                            double (*s)[2])
{
    for (int row = 8 * slice; row < rows; row += 8 * slices) {
        double2 a = make_double2(0.0, 0.0);
#pragma unroll
        for (int b = 0; b < NB; b++)
            if (b < have) {
                if (b == 0 || left[b] != left[b - 1]) a = fragment(in, out, left[b], row);
                multiply(s[b], a, left[b] == right[b] ? a : fragment(in, out, right[b], row));
            }
    }
}

/* Shared memory: barriers, coefficients, STAGE tiles of inputs, one of outputs; at the end the sums of the
   warps. */
template <int NB>
static __global__ void __launch_bounds__(THREADS)
    fused(const plan *__restrict__ p, int ld, kl_slot *slot, double *result)
{
    const uint64_t launch = kl_launch_number(slot, p->npair);
    extern __shared__ __align__(128) double memory[];
    __shared__ __align__(8) uint64_t full[STAGE];
    const int ncoef = (p->nout + GROUP - 1) / GROUP * GROUP * p->nin;
    double *const c = memory, *const tile = memory + (ncoef + 15) / 16 * 16,
                  *const out = tile + (int64_t)STAGE * p->nin * ld;
    const int64_t ntile = (p->n + p->rows - 1) / p->rows;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, first = warp % p->gram.share * NB,
              have = p->gram.nblock - first;
    int left[NB], right[NB];
    double s[NB][2];
#pragma unroll
    for (int b = 0; b < NB; b++) {
        s[b][0] = s[b][1] = 0.0;
        left[b] = b < have ? place(p, ld, p->gram.block[first + b][0]) : 0;
        right[b] = b < have ? place(p, ld, p->gram.block[first + b][1]) : 0;
    }
    for (int e = (int)threadIdx.x; e < ncoef; e += THREADS) c[e] = p->c[e];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGE; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(kl_shared_at(full + i)));
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    }
    __syncthreads();
    for (int i = 0; i < STAGE - 1; i++) {
        const int64_t t = blockIdx.x + (int64_t)i * gridDim.x, from = t * p->rows;
        if (t < ntile)
            load(p, from, (int)(p->n - from < p->rows ? p->n - from : p->rows), ld,
                 tile + (int64_t)i * p->nin * ld, full + i);
    }
    int stage = 0, phase = 0;
    for (int64_t t = blockIdx.x; t < ntile; t += gridDim.x) {
        const int64_t from = t * p->rows, next = t + (int64_t)(STAGE - 1) * gridDim.x;
        const int rows = (int)(p->n - from < p->rows ? p->n - from : p->rows),
                  ahead = (stage + STAGE - 1) % STAGE;
        if (next < ntile) /* into the tile that was done with in the round before */
            load(p, next * p->rows, (int)(p->n - next * p->rows < p->rows ? p->n - next * p->rows : p->rows),
                 ld, tile + (int64_t)ahead * p->nin * ld, full + ahead);
        const double *const in = tile + (int64_t)stage * p->nin * ld;
        kl_bulk_wait(full + stage, phase);
        if (p->nout > 0) {
            combine(p, ld, c, in, out);
            __syncthreads();
            store(p, from, rows, ld, out);
        }
        gram<NB>(p->rows, warp / p->gram.share, WARPS / p->gram.share, have, left, right, in, out, s);
        __syncthreads();
        if (++stage == STAGE) stage = 0, phase ^= 1;
    }
    if (p->npair == 0) return;

    /* The warps of one share of the blocks, in order; then the thread blocks, in order, by the first of
       them. */
    double *const mine = memory;
#pragma unroll
    for (int b = 0; b < NB; b++) {
        mine[(warp * NB + b) * 64 + 2 * lane] = s[b][0];
        mine[(warp * NB + b) * 64 + 2 * lane + 1] = s[b][1];
    }
    __syncthreads();
    static_assert(KL_FUSE_MOST_PAIR <= THREADS, "a thread a pair");
    double sum = 0.0;
    if ((int)threadIdx.x < p->npair) {
        const short *const e = p->gram.entry[threadIdx.x];
        for (int w = e[0] / NB; w < WARPS; w += p->gram.share) sum += mine[(w * NB + e[0] % NB) * 64 + e[1]];
    }
    kl_reduce_blocks(THREADS, p->npair, sum, launch, slot, result, mine + WARPS * NB * 64);
}

template <int NB>
static cudaError_t launch(const kl_cuda *self, const plan *p, const plan *there, int ld, size_t bytes)
{
    cudaError_t e = cudaFuncSetAttribute(fused<NB>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    int each = 1;
    if (e == cudaSuccess) e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, fused<NB>, THREADS, bytes);
    if (e != cudaSuccess) return e;
    const int64_t ntile = (p->n + p->rows - 1) / p->rows, most = (int64_t)(each > 2 ? 2 : each) * self->nsm;
    const unsigned blocks = (unsigned)(ntile < 1 ? 1 : ntile < most ? ntile : most);
    fused<NB><<<blocks, THREADS, bytes, self->stream>>>(there, ld, self->slot, self->result);
    return cudaGetLastError();
}

/* sum_j c_j V_j + b y into y itself, and the products of that with V and with itself: what an
   orthogonalization asks for. Every V_j is wanted, so none holds what must not be read. */
static bool is_combine_dots(int64_t n, const kl_fuse *f)
{
    const int k = f->nin - 1;
    if (f->nout != 1 || k < 1 || k >= KL_BELT || f->npair != k + 1 || f->out[0].addr != f->in[k].addr)
        return false;
    const int64_t ld = k > 1 ? (int64_t)(f->in[1].addr - f->in[0].addr) / (int64_t)sizeof(double) : 2;
    if (!kl_cuda_even(kl_device(f->in[0]), kl_device(f->out[0]), ld)) return false;
    for (int j = 0; j < k; j++)
        if (f->in[j].addr != kl_dptr_at(f->in[0], j * ld).addr || f->pair[j][0] != j ||
            f->pair[j][1] != k + 1 || f->in[j].addr == f->out[0].addr)
            return false;
    return n > 0 && f->pair[k][0] == k + 1 && f->pair[k][1] == k + 1;
}

static cudaError_t fuse(kl_cuda *self, int64_t n, const kl_fuse *f)
{
    /* of shared memory, less what the kernel has of its own */
    const size_t most = 200 * 1024, has = (size_t)self->shared_bytes - 1024, room = has < most ? has : most;
    if (is_combine_dots(n, f)) {
        const int64_t ld =
            f->nin > 2 ? (int64_t)(f->in[1].addr - f->in[0].addr) / (int64_t)sizeof(double) : 2;
        kl_cuda_combine_dots_start(self, n, f->nin - 1, kl_device(f->in[0]), ld, f->c, f->c[f->nin - 1],
                                   kl_device(f->out[0]));
        return cudaGetLastError();
    }
    const int groups = (f->nout + GROUP - 1) / GROUP, ncoef = groups * GROUP * f->nin;
    static_assert(sizeof(plan) + KL_FUSE_MOST * KL_FUSE_MOST_OUT * sizeof(double) <= KL_STAGING,
                  "a plan and all its coefficients");
    const size_t plan_bytes = sizeof(plan) + (size_t)ncoef * sizeof(double);
    plan *const p = (plan *)self->staging;
    *p = plan{};
    p->n = n, p->nin = f->nin, p->nout = f->nout, p->npair = f->npair;
    uintptr_t all = 0;
    for (int j = 0; j < f->nin; j++) {
        p->in[j] = kl_device(f->in[j]);
        all |= f->in[j].addr;
    }
    for (int k = 0; k < f->nout; k++) {
        p->out[k] = kl_device(f->out[k]);
        all |= f->out[k].addr;
    }
    p->bulk = all % 16 == 0;
    for (int k = 0; k < groups * GROUP; k++)
        for (int j = 0; j < f->nin; j++)
            p->c[(k / GROUP * f->nin + j) * GROUP + k % GROUP] = k < f->nout ? f->c[k * f->nin + j] : 0.0;
    const int each = kl_gram_choose(f, &p->gram);
    const size_t fold = f->npair ? ((size_t)WARPS * (size_t)each * 64 + THREADS) * sizeof(double) : 0;
    size_t bytes;
    for (p->rows = 512;; p->rows /= 2) {
        bytes =
            ((size_t)(ncoef + 15) / 16 * 16 + (size_t)(STAGE * f->nin + f->nout) * (size_t)(p->rows + PAD)) *
            sizeof(double);
        if (bytes <= room / 2 || (p->rows <= 128 && bytes <= room) || p->rows == 16) break;
    }
    if (bytes < fold) bytes = fold;
    cudaError_t e = cudaMemcpyAsync(self->table, p, plan_bytes, cudaMemcpyHostToDevice, self->stream);
    if (e != cudaSuccess) return e;
    const plan *const there = (const plan *)self->table;
    const int ld = p->rows + PAD;
    switch (each) {
    case 1: e = launch<1>(self, p, there, ld, bytes); break;
    case 2: e = launch<2>(self, p, there, ld, bytes); break;
    case 4: e = launch<4>(self, p, there, ld, bytes); break;
    case 8: e = launch<8>(self, p, there, ld, bytes); break;
    default: e = launch<16>(self, p, there, ld, bytes); break;
    }
    return e;
}

extern "C" void kl_cuda_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    if (kl_fused_small_takes(n, f)) {
        const bool good = kl_cuda_fused_small_start(self, n, f) == cudaSuccess &&
                          cudaStreamSynchronize(self->stream) == cudaSuccess;
        for (int q = 0; q < f->npair; q++) dots[q] = good ? kl_fused_small_dot(f, q, self->result) : nan("");
        return;
    }
    /* staging is free again */
    const bool good = fuse(self, n, f) == cudaSuccess && cudaStreamSynchronize(self->stream) == cudaSuccess;
    for (int q = 0; q < f->npair; q++) dots[q] = good ? self->result[q] : nan("");
}
