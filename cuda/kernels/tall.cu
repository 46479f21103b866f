/* V^T x and V y for tall V, the two operations that a Davidson step lives on (Alg. 4 of nemes2014): a pass
   over x reads all columns of a belt (belt.h), with a thread's sums in registers. Sums are added up in a
   fixed order.
   SPDX-License-Identifier: Apache-2.0 */
#include "tall.h"
#include "reduce.cuh"

enum { MOST = KL_BELT };

/* ---- what stays in the L2 cache ---- */

struct policies {
    uint64_t stay, leave;
};

static __device__ __forceinline__ policies make_policies()
{
    policies p;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p.stay));
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p.leave));
    return p;
}

static __device__ __forceinline__ uint64_t policy_at(const policies &l2, int64_t pair, int share)
{
    return KL_STAYS(pair, share) ? l2.stay : l2.leave;
}

/* Of memory that no one writes while the kernel runs. */
static __device__ __forceinline__ double2 load2(const double *p, uint64_t policy)
{
    double2 v;
    asm("ld.global.nc.L2::cache_hint.v2.f64 {%0, %1}, [%2], %3;"
        : "=d"(v.x), "=d"(v.y)
        : "l"(p), "l"(policy));
    return v;
}

/* ---- V^T x ---- */

/* Sums of all threads of a block, by shuffles or by trees in shared memory; then of all blocks. */
template <int W, int T, bool TREE>
static __device__ __forceinline__ void fold(double (&s)[W], uint64_t launch, kl_slot *slot, double *result)
{
    __shared__ double shared[T];
    const int me = (int)threadIdx.x;
    double mine = 0.0; /* thread j: number j of this block */
    if (TREE) {
        for (int j = 0; j < W; j++) {
            double a = 0.0;
#pragma unroll
            for (int k = 0; k < W; k++)
                if (k == j) a = s[k];
            shared[me] = a;
            kl_sum_rows(shared, 1, T);
            __syncthreads();
            if (me == j) mine = shared[0];
            __syncthreads();
        }
    } else mine = kl_block_sums<W, T>(s);
    kl_reduce_blocks(T, W, mine, launch, slot, result, shared);
}

/* T threads a block and U pairs of rows a thread, at most B blocks a multiprocessor; even addresses. The
   first `whole` pairs in rounds of all blocks side by side, then `rest` pairs a block, at most T * U. */
template <int W, int T, int U, int B, bool TREE>
static __global__ void __launch_bounds__(T, B)
    dots(int64_t n, int64_t whole, int rest, const double *__restrict__ v, int64_t ldv,
         const double *__restrict__ x, int share, kl_slot *slot, double *result)
{
    const policies l2 = make_policies();
    const uint64_t launch = kl_launch_number(slot, W);
    double s[W];
#pragma unroll
    for (int j = 0; j < W; j++) s[j] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * T * U + threadIdx.x; i < whole; i += (int64_t)gridDim.x * T * U) {
        uint64_t policy[U];
        double2 a[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            policy[u] = policy_at(l2, i + u * T, share);
            a[u] = load2(x + 2 * (i + u * T), policy[u]);
        }
#pragma unroll
        for (int j = 0; j < W; j++)
#pragma unroll
            for (int u = 0; u < U; u++) {
                const double2 p = load2(v + j * ldv + 2 * (i + u * T), policy[u]);
                s[j] += p.x * a[u].x;
                s[j] += p.y * a[u].y;
            }
    }
    const int64_t from = whole + (int64_t)blockIdx.x * rest, all = n / 2,
                  to = from + rest < all ? from + rest : all;
    if (from < to) {
        const double2 zero = make_double2(0.0, 0.0);
        uint64_t policy[U];
        double2 a[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int64_t i = from + threadIdx.x + u * T;
            policy[u] = policy_at(l2, i, share);
            a[u] = i < to ? load2(x + 2 * i, policy[u]) : zero;
        }
#pragma unroll
        for (int j = 0; j < W; j++)
#pragma unroll
            for (int u = 0; u < U; u++) {
                const int64_t i = from + threadIdx.x + u * T;
                const double2 p = i < to ? load2(v + j * ldv + 2 * i, policy[u]) : zero;
                s[j] += p.x * a[u].x;
                s[j] += p.y * a[u].y;
            }
    }
    if (n % 2 && blockIdx.x == 0 && threadIdx.x == 0)
#pragma unroll
        for (int j = 0; j < W; j++) s[j] += v[j * ldv + n - 1] * x[n - 1];
    fold<W, T, TREE>(s, launch, slot, result);
}

/* Any addresses: `have` <= W columns, the last one again where there is none, which costs no traffic. */
template <int W>
static __global__ void __launch_bounds__(256)
    dots_odd(int64_t n, int have, const double *__restrict__ v, int64_t ldv, const double *__restrict__ x,
             kl_slot *slot, double *result)
{
    const uint64_t launch = kl_launch_number(slot, W);
    __shared__ double shared[256];
    const int me = (int)threadIdx.x;
    double s[W];
#pragma unroll
    for (int j = 0; j < W; j++) s[j] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + me; i < n; i += (int64_t)gridDim.x * 256) {
        const double a = x[i];
#pragma unroll
        for (int j = 0; j < W; j++) s[j] += v[i + (j < have ? j : have - 1) * ldv] * a;
    }
    kl_reduce_blocks(256, have, kl_block_sums<W, 256>(s), launch, slot, result, shared);
}

static unsigned blocks_for(int64_t items, int64_t each, int most)
{
    const int64_t blocks = (items + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* One belt; result stands where its first column does. Threads, pairs of rows and blocks are such that all
   columns of all of them are loads in flight at once (100 KiB and more a multiprocessor), and no more than
   registers are there for, since blocks that have to wait for others leave it half empty at the end; measured
   over widths, heights and shapes of blocks (bench gemv_trans). */
template <int W, bool TREE>
static void belt_start(const kl_cuda *self, int64_t n, int share, const double *v, int64_t ldv,
                       const double *x, double *result)
{
    constexpr int T = W <= 10   ? 512
                      : W <= 14 ? 640
                      : W <= 26 ? 384
                                : 256,
                  U = W == 1    ? 3
                      : W <= 10 ? 2
                                : 1,
                  B = W <= 4 ? 2 : 1;
    const int64_t each = T * U, pairs = n / 2;
    const unsigned blocks = blocks_for(pairs, each, (n < 1000000 ? 1 : B) * self->nsm);
    const int64_t whole = pairs / (each * blocks) * each * blocks;
    const int rest = (int)((pairs - whole + blocks - 1) / blocks + 15) / 16 * 16; /* lines of 256 bytes */
    dots<W, T, U, B, TREE>
        <<<blocks, T, 0, self->stream>>>(n, whole, rest, v, ldv, x, share, self->slot, result);
}

/* A ceiling: n numbers are read, 16 bytes an access and four in flight a thread; what may stay in the cache
   stays, as above, a share of every stretch. */
static __global__ void __launch_bounds__(512)
    read_all(int64_t n, const double *__restrict__ p, int share, double *out)
{
    enum { U = 4 };
    const policies l2 = make_policies();
    const int64_t pairs = n / 2, step = (int64_t)gridDim.x * 512 * U;
    double s = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * 512 * U + threadIdx.x; i < pairs; i += step) {
        double2 v[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            v[u] = i + u * 512 < pairs ? load2(p + 2 * (i + u * 512), policy_at(l2, i + u * 512, share))
                                       : make_double2(0.0, 0.0);
#pragma unroll
        for (int u = 0; u < U; u++) s += v[u].x + v[u].y;
    }
    if (s == 1.2345e300) *out = s; /* else nothing would be read */
}

extern "C" void kl_cuda_read_start(const kl_cuda *self, int64_t n, const double *p)
{
    read_all<<<(unsigned)(4 * self->nsm), 512, 0, self->stream>>>(
        n, p, kl_share_to_keep(self->l2_bytes, n, 0), self->scratch);
}

extern "C" int kl_cuda_even(const void *a, const void *b, int64_t ld)
{
    return (((uintptr_t)a | (uintptr_t)b) & 15) == 0 && ld % 2 == 0;
}

extern "C" void kl_cuda_dots_start(kl_cuda *self, int tree, int belt, int64_t n, int nvec, const double *v,
                                   int64_t ldv, const double *x)
{
    const bool even = kl_cuda_even(v, x, ldv);
    const int widest = !even                     ? 8
                       : belt > 0 && belt < MOST ? belt
                                                 : MOST,
              share = kl_share_to_keep(self->l2_bytes, n, nvec);
    for (int j = 0; j < nvec;) {
        const int W = kl_belt(nvec - j, widest);
        const double *const from = v + j * ldv;
        double *const to = self->result + j;
        if (!even)
            dots_odd<8><<<blocks_for(n, 256, 4 * self->nsm), 256, 0, self->stream>>>(n, W, from, ldv, x,
                                                                                     self->slot, to);
        else switch (W) {
#define BELT(K)                                                        \
    case K:                                                            \
        tree ? belt_start<K, true>(self, n, share, from, ldv, x, to)   \
             : belt_start<K, false>(self, n, share, from, ldv, x, to); \
        break;
                KL_BELTS(BELT)
#undef BELT
            }
        j += W;
    }
    self->back = 1;
}

extern "C" void kl_cuda_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, kl_dptr xp,
                             double *out)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    for (int first = 0; first < nvec; first += KL_RESULT) {
        const int most = nvec - first < KL_RESULT ? nvec - first : KL_RESULT;
        kl_cuda_dots_start(self, 0, 0, n, most, kl_device(vp) + first * ldv, ldv, kl_device(xp));
        const bool good = cudaStreamSynchronize(self->stream) == cudaSuccess;
        for (int j = 0; j < most; j++) out[first + j] = good ? self->result[j] : nan("");
    }
}

/* ---- V y ---- */

struct factors {
    double c[MOST];
};

/* A pair of rows a thread; the first thread takes the last row of an odd length as well. */
template <int W>
static __global__ void __launch_bounds__(256) combine(int64_t n, const double *__restrict__ v, int64_t ldv,
                                                      factors f, double b, int share, int back, double *y)
{
    const int64_t i = (int64_t)(back ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * 256 + threadIdx.x;
    if (i < n / 2) {
        const uint64_t policy = policy_at(make_policies(), i, share);
        double2 a = make_double2(0.0, 0.0);
        if (b != 0.0) {
            a = *(const double2 *)(y + 2 * i);
            a.x *= b;
            a.y *= b;
        }
#pragma unroll
        for (int j = 0; j < W; j++) {
            const double2 p = load2(v + j * ldv + 2 * i, policy);
            a.x += f.c[j] * p.x;
            a.y += f.c[j] * p.y;
        }
        *(double2 *)(y + 2 * i) = a;
    }
    if (n % 2 && i == 0) {
        double a = b != 0.0 ? b * y[n - 1] : 0.0;
#pragma unroll
        for (int j = 0; j < W; j++) a += f.c[j] * v[j * ldv + n - 1];
        y[n - 1] = a;
    }
}

template <int W>
static __global__ void __launch_bounds__(256) combine_odd(int64_t n, int have, const double *__restrict__ v,
                                                          int64_t ldv, factors f, double b, double *y)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    double a = b != 0.0 ? b * y[i] : 0.0;
#pragma unroll
    for (int j = 0; j < W; j++)
        if (j < have) a += f.c[j] * v[i + j * ldv];
    y[i] = a;
}

extern "C" void kl_cuda_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, const double *c,
                                double b, kl_dptr yp)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    double *const y = kl_device(yp);
    if (nvec == 0) {
        if (b == 0.0) kl_cuda_fill(ex, n, 0.0, yp);
        else if (b != 1.0) kl_cuda_axpby(ex, n, b, yp, 0.0, yp);
        return;
    }
    if (n == 0) return;
    const bool even = kl_cuda_even(kl_device(vp), y, ldv);
    const int widest = even ? MOST : 8, share = kl_share_to_keep(self->l2_bytes, n, nvec);
    for (int j = 0; j < nvec; b = 1.0) {
        const int W = kl_belt(nvec - j, widest);
        const double *const v = kl_device(vp) + j * ldv;
        factors f = {};
        for (int k = 0; k < W; k++) f.c[k] = c[j + k];
        const unsigned blocks = (unsigned)(((even ? (n + 1) / 2 : n) + 255) / 256);
        const int back = even && self->back;
        if (!even) combine_odd<8><<<blocks, 256, 0, self->stream>>>(n, W, v, ldv, f, b, y);
        else switch (W) {
#define BELT(K) \
    case K: combine<K><<<blocks, 256, 0, self->stream>>>(n, v, ldv, f, b, share, back, y); break;
                KL_BELTS(BELT)
#undef BELT
            }
        self->back = !back;
        j += W;
    }
}

/* ---- both at once: an orthogonalization pass and the products that the next one begins with ---- */

template <int W>
static __global__ void __launch_bounds__(256)
    combine_dots(int64_t n, const double *__restrict__ v, int64_t ldv, factors f, double b, int share,
                 double *y, kl_slot *slot, double *result)
{
    const policies l2 = make_policies();
    const uint64_t launch = kl_launch_number(slot, W + 1);
    double s[W + 1];
#pragma unroll
    for (int j = 0; j <= W; j++) s[j] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n / 2; i += (int64_t)gridDim.x * 256) {
        const uint64_t policy = policy_at(l2, i, share);
        double2 a = make_double2(0.0, 0.0), p[W];
        if (b != 0.0) {
            a = *(const double2 *)(y + 2 * i);
            a.x *= b;
            a.y *= b;
        }
#pragma unroll
        for (int j = 0; j < W; j++) p[j] = load2(v + j * ldv + 2 * i, policy);
#pragma unroll
        for (int j = 0; j < W; j++) {
            a.x += f.c[j] * p[j].x;
            a.y += f.c[j] * p[j].y;
        }
        *(double2 *)(y + 2 * i) = a;
#pragma unroll
        for (int j = 0; j < W; j++) {
            s[j] += p[j].x * a.x;
            s[j] += p[j].y * a.y;
        }
        s[W] += a.x * a.x;
        s[W] += a.y * a.y;
    }
    if (n % 2 && blockIdx.x == 0 && threadIdx.x == 0) {
        double a = b != 0.0 ? b * y[n - 1] : 0.0;
#pragma unroll
        for (int j = 0; j < W; j++) a += f.c[j] * v[j * ldv + n - 1];
        y[n - 1] = a;
#pragma unroll
        for (int j = 0; j < W; j++) s[j] += v[j * ldv + n - 1] * a;
        s[W] += a * a;
    }
    fold<W + 1, 256, false>(s, launch, slot, result);
}

extern "C" void kl_cuda_combine_dots_start(const kl_cuda *self, int64_t n, int nvec, const double *v,
                                           int64_t ldv, const double *c, double b, double *y)
{
    const int share = kl_share_to_keep(self->l2_bytes, n, nvec);
    const unsigned blocks = blocks_for(n / 2, 256, (nvec >= 16 ? 1 : nvec >= 4 ? 2 : 4) * self->nsm);
    factors f = {};
    for (int j = 0; j < nvec; j++) f.c[j] = c[j];
    switch (nvec) {
#define BELT(K)                                                                                      \
    case K:                                                                                          \
        combine_dots<(K < MOST ? K : 1)>                                                             \
            <<<blocks, 256, 0, self->stream>>>(n, v, ldv, f, b, share, y, self->slot, self->result); \
        break;
        KL_BELTS(BELT)
#undef BELT
    }
}
