/* V^T x and V y for tall V, the two operations that a Davidson step lives on (Alg. 4 of nemes2014): V is cut into belts of at most 32 columns, whose width is a
   constant of the kernel, so that a thread's sums are registers and every column of a belt is read in one pass over x. Sums are folded in a fixed order.
   SPDX-License-Identifier: Apache-2.0 */
#include "tall.h"
#include "bulk.cuh"
#include "fold.cuh"

enum { MOST = KL_TALL_WIDEST, BULK_STAGE = 12, BULK_ROWS = 2048, BULK_THREADS = 256 };

#define WIDTHS(F) \
    F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29) \
    F(30) F(31) F(32)

/* ---- what stays in the L2 cache ---- */

/* V is read over and over within a solve. Where it is not much larger than the cache, some of its columns are asked to stay there and the others to leave first;
   read in a circle otherwise, nothing would ever be found again. Larger ones only pass through. In sixteenths of the columns: those that stay are spread among the others, that
   memory and cache work at the same time, and are nearly the same ones when V gets one more. */
enum { SHARES = 16 };
static int share_to_keep(const kl_cuda *self, int64_t n, int64_t nvec)
{
    const int64_t room = self->l2_bytes / 8 * 5, all = 8 * n * (nvec + 1);
    if (all > 6 * room || room <= 8 * n) return 0;
    const int64_t share = SHARES * (room - 8 * n) / (8 * n * nvec + 1);
    return share < SHARES ? (int)share : SHARES;
}
static __device__ __forceinline__ bool stays(int j, int share) { return (j * 7 & (SHARES - 1)) < share; }

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

/* Of memory that no one writes while the kernel runs. */
static __device__ __forceinline__ double2 load2(const double *p, uint64_t policy)
{
    double2 v;
    asm("ld.global.nc.L2::cache_hint.v2.f64 {%0, %1}, [%2], %3;" : "=d"(v.x), "=d"(v.y) : "l"(p), "l"(policy));
    return v;
}

/* ---- V^T x ---- */

/* Sums of all threads of a block, by shuffles or by trees in shared memory; then of all blocks. */
template <int W, int T, bool TREE> static __device__ __forceinline__ void fold(double (&s)[W], double *part, double *result, int *counter)
{
    __shared__ double shared[T];
    __shared__ double sum[W];
    const int me = (int)threadIdx.x;
    if (TREE) {
        for (int j = 0; j < W; j++) {
            double a = 0.0;
#pragma unroll
            for (int k = 0; k < W; k++)
                if (k == j) a = s[k];
            shared[me] = a;
            for (int half = T / 2; half > 0; half /= 2) {
                __syncthreads();
                if (me < half) shared[me] += shared[me + half];
            }
            if (me == 0) sum[j] = shared[0];
            __syncthreads();
        }
    } else {
        __shared__ double warp[T / 32][W];
        const double a = kl_warp_sums<W>(s);
        if (me % 32 < W) warp[me / 32][me % 32] = a;
        __syncthreads();
        if (me < W) {
            double b = 0.0;
#pragma unroll
            for (int w = 0; w < T / 32; w++) b += warp[w][me];
            sum[me] = b;
        }
        __syncthreads();
    }
    kl_fold_blocks<T>(W, [&](int j) { return sum[j]; }, part, result, counter, shared);
}

/* Pairs of rows, T of them side by side, U rows of blocks at a time; even addresses. */
template <int W, int T, int U, bool TREE>
static __global__ void __launch_bounds__(T) dots(int64_t n, const double *__restrict__ v, int64_t ldv, const double *__restrict__ x, int keep, double *part, double *result, int *counter)
{
    const policies l2 = make_policies();
    const int64_t pairs = n / 2;
    double s[W];
#pragma unroll
    for (int j = 0; j < W; j++) s[j] = 0.0;
    int64_t i = (int64_t)blockIdx.x * T * U + threadIdx.x;
    for (; i + (U - 1) * T < pairs; i += (int64_t)gridDim.x * T * U) {
        double2 a[U];
#pragma unroll
        for (int u = 0; u < U; u++) a[u] = load2(x + 2 * (i + u * T), l2.stay);
#pragma unroll
        for (int j = 0; j < W; j++)
#pragma unroll
            for (int u = 0; u < U; u++) {
                const double2 p = load2(v + j * ldv + 2 * (i + u * T), stays(j, keep) ? l2.stay : l2.leave);
                s[j] += p.x * a[u].x;
                s[j] += p.y * a[u].y;
            }
    }
    for (; i < pairs; i += T) { /* the last, shorter, part of U */
        const double2 a = load2(x + 2 * i, l2.stay);
#pragma unroll
        for (int j = 0; j < W; j++) {
            const double2 p = load2(v + j * ldv + 2 * i, stays(j, keep) ? l2.stay : l2.leave);
            s[j] += p.x * a.x;
            s[j] += p.y * a.y;
        }
    }
    if (n % 2 && blockIdx.x == 0 && threadIdx.x == 0)
#pragma unroll
        for (int j = 0; j < W; j++) s[j] += v[j * ldv + n - 1] * x[n - 1];
    fold<W, T, TREE>(s, part, result, counter);
}

/* Any addresses: `have` <= W columns, the last one again where there is none, which costs no traffic. */
template <int W>
static __global__ void __launch_bounds__(256) dots_odd(int64_t n, int have, const double *__restrict__ v, int64_t ldv, const double *__restrict__ x, double *part, double *result, int *counter)
{
    __shared__ double sum[W];
    __shared__ double shared[256];
    __shared__ double warp[8][W];
    const int me = (int)threadIdx.x;
    double s[W];
#pragma unroll
    for (int j = 0; j < W; j++) s[j] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + me; i < n; i += (int64_t)gridDim.x * 256) {
        const double a = x[i];
#pragma unroll
        for (int j = 0; j < W; j++) s[j] += v[i + (j < have ? j : have - 1) * ldv] * a;
    }
    const double a = kl_warp_sums<W>(s);
    if (me % 32 < W) warp[me / 32][me % 32] = a;
    __syncthreads();
    if (me < W) {
        double b = 0.0;
        for (int w = 0; w < 8; w++) b += warp[w][me];
        sum[me] = b;
    }
    __syncthreads();
    kl_fold_blocks<256>(have, [&](int j) { return sum[j]; }, part, result, counter, shared);
}

/* A chunk of rows after the other: its part of x goes into registers, then column after column of it goes by, by bulk copies into a ring in shared memory that one warp keeps
   full. So as many bytes are under way as the ring holds, whatever the registers of the others, and memory is read in long stretches, one column at a time, all blocks
   side by side: many columns at once are many open pages, which cost up to a seventh of the bandwidth. */
template <int W>
static __global__ void __launch_bounds__(BULK_THREADS + 32)
    dots_bulk(int64_t n, int rows, const double *__restrict__ v, int64_t ldv, const double *__restrict__ x, int keep, double *part, double *result, int *counter)
{
    constexpr int R = BULK_ROWS, S = BULK_STAGE, T = BULK_THREADS, P = R / 2 / T;
    extern __shared__ __align__(128) double ring[];
    __shared__ __align__(8) uint64_t full[S], empty[S];
    __shared__ double sum[W], warp[T / 32][W], shared[T];
    const int me = (int)threadIdx.x;
    const int64_t even = n & ~INT64_C(1);
    double s[W];
#pragma unroll
    for (int j = 0; j < W; j++) s[j] = 0.0;
    if (me == 0) {
        for (int i = 0; i < S; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(kl_shared_at(full + i)));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(kl_shared_at(empty + i)), "r"(T));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int stage = 0, phase = 0;
    if (me >= T) {
        if (me == T) {
            const policies l2 = make_policies();
            for (int64_t at = (int64_t)blockIdx.x * rows; at < even; at += (int64_t)gridDim.x * rows) {
                const int bytes = 8 * (int)(even - at < rows ? even - at : rows);
                for (int j = -1; j < W; j++) {
                    kl_bulk_wait(empty + stage, phase ^ 1);
                    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(kl_shared_at(full + stage)), "r"(bytes) : "memory");
                    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(kl_shared_at(ring + stage * R)),
                                 "l"((j < 0 ? x : v + j * ldv) + at), "r"(bytes), "r"(kl_shared_at(full + stage)), "l"(j < 0 || stays(j, keep) ? l2.stay : l2.leave)
                                 : "memory");
                    if (++stage == S) stage = 0, phase ^= 1;
                }
            }
        }
    } else {
        for (int64_t at = (int64_t)blockIdx.x * rows; at < even; at += (int64_t)gridDim.x * rows) {
            const int pairs = (int)(even - at < rows ? even - at : rows) / 2;
            int which[P]; /* beyond the end the last pair again, times 0 */
            double2 a[P];
            kl_bulk_wait(full + stage, phase);
#pragma unroll
            for (int p = 0; p < P; p++) {
                const bool in = me + p * T < pairs;
                which[p] = in ? me + p * T : pairs - 1;
                a[p] = ((const double2 *)(ring + stage * R))[which[p]];
                if (!in) a[p] = make_double2(0.0, 0.0);
            }
            kl_bulk_done(empty + stage);
            if (++stage == S) stage = 0, phase ^= 1;
#pragma unroll
            for (int j = 0; j < W; j++) {
                const double2 *const column = (const double2 *)(ring + stage * R);
                double first = 0.0, second = 0.0;
                kl_bulk_wait(full + stage, phase);
#pragma unroll
                for (int p = 0; p < P; p++) {
                    const double2 b = column[which[p]];
                    first += b.x * a[p].x;
                    second += b.y * a[p].y;
                }
                kl_bulk_done(empty + stage);
                s[j] += first + second;
                if (++stage == S) stage = 0, phase ^= 1;
            }
        }
        if (n > even && blockIdx.x == 0 && me == 0)
#pragma unroll
            for (int j = 0; j < W; j++) s[j] += v[j * ldv + even] * x[even];
        const double a = kl_warp_sums<W>(s);
        if (me % 32 < W) warp[me / 32][me % 32] = a;
    }
    __syncthreads();
    if (me < W) {
        double b = 0.0;
        for (int w = 0; w < T / 32; w++) b += warp[w][me];
        sum[me] = b;
    }
    __syncthreads();
    kl_fold_blocks<T>(W, [&](int j) { return sum[j]; }, part, result, counter, shared);
}

static unsigned blocks_for(int64_t items, int64_t each, int most)
{
    const int64_t blocks = (items + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* One belt; result stands where its first column does. What a width takes was measured over widths, heights and shapes of blocks (bench gemv_trans). */
template <int W> static void belt_start(const kl_cuda *self, kl_tall_method method, int64_t n, int keep, const double *v, int64_t ldv, const double *x, double *result)
{
    constexpr int T = W <= 4 ? 512 : 256, U = W <= 4 ? 2 : 1;
    if (method == KL_TALL_AUTO) method = n >= 1000000 || n * W >= 2000000 ? KL_TALL_BULK : KL_TALL_SHUFFLE;
    const int each = n < 1000000 ? (W <= 4 ? 1 : 2) : W <= 2 ? 4 : W <= 4 ? 2 : W <= 8 ? 4 : W <= 24 ? 3 : 2; /* blocks a multiprocessor */
    const unsigned blocks = blocks_for(n / 2, T * U, each * self->nsm);
    if (method == KL_TALL_BULK) {
        const size_t bytes = (size_t)BULK_STAGE * BULK_ROWS * sizeof(double);
        const int64_t rounds = (n + (int64_t)self->nsm * BULK_ROWS - 1) / ((int64_t)self->nsm * BULK_ROWS), chunks = rounds * self->nsm;
        const int rows = (int)((n + chunks - 1) / chunks + 15) / 16 * 16; /* chunks of one length, as many as leave no block idle */
        cudaFuncSetAttribute(dots_bulk<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
        dots_bulk<W><<<blocks_for(n, rows, self->nsm), BULK_THREADS + 32, bytes, self->stream>>>(n, rows, v, ldv, x, keep, self->scratch, result, self->counter);
    } else if (method == KL_TALL_SHARED)
        dots<W, T, U, true><<<blocks, T, 0, self->stream>>>(n, v, ldv, x, keep, self->scratch, result, self->counter);
    else dots<W, T, U, false><<<blocks, T, 0, self->stream>>>(n, v, ldv, x, keep, self->scratch, result, self->counter);
}

/* A ceiling: n numbers are read, 16 bytes an access and four under way a thread; what may stay in the cache stays, as above, a share of every stretch. */
static __global__ void __launch_bounds__(512) read_all(int64_t n, const double *__restrict__ p, int share, double *out)
{
    enum { U = 4 };
    const policies l2 = make_policies();
    const int64_t pairs = n / 2, step = (int64_t)gridDim.x * 512 * U;
    double s = 0.0;
    int round = 0;
    for (int64_t i = (int64_t)blockIdx.x * 512 * U + threadIdx.x; i < pairs; i += step, round++) {
        const uint64_t policy = stays(round, share) ? l2.stay : l2.leave;
        double2 v[U];
#pragma unroll
        for (int u = 0; u < U; u++) v[u] = i + u * 512 < pairs ? load2(p + 2 * (i + u * 512), policy) : make_double2(0.0, 0.0);
#pragma unroll
        for (int u = 0; u < U; u++) s += v[u].x + v[u].y;
    }
    if (s == 1.2345e300) *out = s; /* else nothing would be read */
}

extern "C" void kl_cuda_read_start(const kl_cuda *self, int64_t n, const double *p)
{
    read_all<<<(unsigned)(4 * self->nsm), 512, 0, self->stream>>>(n, p, share_to_keep(self, 1, n - 1), self->scratch);
}

extern "C" int kl_cuda_even(const void *a, const void *b, int64_t ld) { return (((uintptr_t)a | (uintptr_t)b) & 15) == 0 && ld % 2 == 0; }

extern "C" void kl_cuda_dots_start(const kl_cuda *self, kl_tall_method method, int belt, int64_t n, int nvec, const double *v, int64_t ldv, const double *x)
{
    const bool even = kl_cuda_even(v, x, ldv);
    const int widest = !even ? 8 : belt > 0 && belt < MOST ? belt : MOST, keep = share_to_keep(self, n, nvec);
    for (int j = 0; j < nvec;) {
        const int left = nvec - j, belts = (left + widest - 1) / widest, W = (left + belts - 1) / belts; /* belts of nearly one width */
        const double *const from = v + j * ldv;
        double *const to = self->result + j;
        if (!even) dots_odd<8><<<blocks_for(n, 256, 4 * self->nsm), 256, 0, self->stream>>>(n, W, from, ldv, x, self->scratch, to, self->counter);
        else
            switch (W) {
#define BELT(K) \
    case K: belt_start<K>(self, method, n, keep, from, ldv, x, to); break;
                WIDTHS(BELT)
#undef BELT
            }
        j += W;
    }
}

extern "C" void kl_cuda_dots(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, kl_dptr xp, double *out)
{
    const kl_cuda *const self = (const kl_cuda *)ex->self;
    for (int first = 0; first < nvec; first += KL_RESULT) {
        const int most = nvec - first < KL_RESULT ? nvec - first : KL_RESULT;
        kl_cuda_dots_start(self, KL_TALL_AUTO, 0, n, most, kl_device(vp) + first * ldv, ldv, kl_device(xp));
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
static __global__ void __launch_bounds__(256) combine(int64_t n, const double *__restrict__ v, int64_t ldv, factors f, double b, int keep, double *y)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < n / 2) {
        const policies l2 = make_policies();
        double2 a = make_double2(0.0, 0.0);
        if (b != 0.0) {
            a = *(const double2 *)(y + 2 * i);
            a.x *= b;
            a.y *= b;
        }
#pragma unroll
        for (int j = 0; j < W; j++) {
            const double2 p = load2(v + j * ldv + 2 * i, stays(j, keep) ? l2.stay : l2.leave);
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

template <int W> static __global__ void __launch_bounds__(256) combine_odd(int64_t n, int have, const double *__restrict__ v, int64_t ldv, factors f, double b, double *y)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    double a = b != 0.0 ? b * y[i] : 0.0;
#pragma unroll
    for (int j = 0; j < W; j++)
        if (j < have) a += f.c[j] * v[i + j * ldv];
    y[i] = a;
}

extern "C" void kl_cuda_combine(kl_exec *ex, int64_t n, int nvec, kl_dptr vp, int64_t ldv, const double *c, double b, kl_dptr yp)
{
    const kl_cuda *const self = (const kl_cuda *)ex->self;
    double *const y = kl_device(yp);
    if (nvec == 0) {
        if (b == 0.0) kl_cuda_fill(ex, n, 0.0, yp);
        else if (b != 1.0) kl_cuda_axpby(ex, n, b, yp, 0.0, yp);
        return;
    }
    if (n == 0) return;
    const bool even = kl_cuda_even(kl_device(vp), y, ldv);
    const int widest = even ? MOST : 8, keep = share_to_keep(self, n, nvec);
    for (int j = 0; j < nvec; b = 1.0) {
        const int left = nvec - j, belts = (left + widest - 1) / widest, W = (left + belts - 1) / belts;
        const double *const v = kl_device(vp) + j * ldv;
        factors f = {};
        for (int k = 0; k < W; k++) f.c[k] = c[j + k];
        const unsigned blocks = (unsigned)(((even ? (n + 1) / 2 : n) + 255) / 256);
        if (!even) combine_odd<8><<<blocks, 256, 0, self->stream>>>(n, W, v, ldv, f, b, y);
        else
            switch (W) {
#define BELT(K) \
    case K: combine<K><<<blocks, 256, 0, self->stream>>>(n, v, ldv, f, b, keep, y); break;
                WIDTHS(BELT)
#undef BELT
            }
        j += W;
    }
}

/* ---- both at once: an orthogonalization pass and the products that the next one begins with ---- */

template <int W>
static __global__ void __launch_bounds__(256) combine_dots(int64_t n, const double *__restrict__ v, int64_t ldv, factors f, double b, int keep, double *y, double *part, double *result, int *counter)
{
    const policies l2 = make_policies();
    double s[W + 1];
#pragma unroll
    for (int j = 0; j <= W; j++) s[j] = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n / 2; i += (int64_t)gridDim.x * 256) {
        double2 a = make_double2(0.0, 0.0), p[W];
        if (b != 0.0) {
            a = *(const double2 *)(y + 2 * i);
            a.x *= b;
            a.y *= b;
        }
#pragma unroll
        for (int j = 0; j < W; j++) p[j] = load2(v + j * ldv + 2 * i, stays(j, keep) ? l2.stay : l2.leave);
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
    fold<W + 1, 256, false>(s, part, result, counter);
}

extern "C" void kl_cuda_combine_dots_start(const kl_cuda *self, int64_t n, int nvec, const double *v, int64_t ldv, const double *c, double b, double *y)
{
    const int keep = share_to_keep(self, n, nvec);
    const unsigned blocks = blocks_for(n / 2, 256, (nvec >= 16 ? 1 : nvec >= 4 ? 2 : 4) * self->nsm);
    factors f = {};
    for (int j = 0; j < nvec; j++) f.c[j] = c[j];
    switch (nvec) {
#define BELT(K) \
    case K: combine_dots<(K < MOST ? K : 1)><<<blocks, 256, 0, self->stream>>>(n, v, ldv, f, b, keep, y, self->scratch, self->result, self->counter); break;
        WIDTHS(BELT)
#undef BELT
    }
}
