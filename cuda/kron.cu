/* H v as a sum of Kronecker products, two kernels: `right` writes y = (1 (x) b) x and all pairs a (x) b, `left` adds (a (x) 1) x and the diagonal and takes
   x . y on the way. A team copies the part of x that belongs to its group of states into shared memory, in bulk, and walks the packed lists of devkron.h;
   what lies outside the group comes through the caches. Five passes over memory in all.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"
#include "devkron.h"
#include "random.h"

#include <stdlib.h>

enum {
    LANES = KL_KRON_LANES, PITCH = KL_DEVKRON_PITCH,
    LEFT_TEAM = 384, RIGHT_TEAM = 256, LEFT_TEAMS = 2, RIGHT_TEAMS = 3, /* threads of a team, teams of a multiprocessor: 80 registers a thread */
    LEFT_WORDS = 6, RIGHT_WORDS = 6, /* pairs of near slots read ahead; devkron.c leaves room behind the last one */
    SUM_TEAM = 1024, TABLE = 16 * LANES
};

/* ---------------------------------------------------------------- shared memory filled in bulk */

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* One thread says how many bytes are to come, any threads start copies, all wait. */
static __device__ __forceinline__ void bulk_open(uint64_t *bar)
{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(bar)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void bulk_expect(uint64_t *bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void bulk_copy(double *to, const double *from, uint32_t bytes, uint64_t *bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)), "l"(from), "r"(bytes),
                 "r"(shared_address(bar))
                 : "memory");
}

static __device__ __forceinline__ void bulk_wait(uint64_t *bar)
{
    uint32_t done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(shared_address(bar)) : "memory");
}

/* Addresses are worked out by hand where lists are walked: what the compiler makes of array indices is twice as many instructions. */
static __device__ __forceinline__ double2 two_at(uint32_t shared)
{
    double2 v;
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(v.x), "=d"(v.y) : "r"(shared));
    return v;
}

static __device__ __forceinline__ uint32_t word_at(const uint32_t *p)
{
    uint32_t w;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(w) : "l"(p));
    return w;
}

/* 1 with the sign of bit 15, or of bit 31. */
static __device__ __forceinline__ double low_sign(uint32_t e)
{
    return __hiloint2double((int)((e << 16 & 0x80000000u) | 0x3ff00000u), 0);
}

static __device__ __forceinline__ double high_sign(uint32_t e)
{
    return __hiloint2double((int)((e & 0x80000000u) | 0x3ff00000u), 0);
}

static __device__ __forceinline__ void add2(double2 &acc, double f, double2 v)
{
    acc.x = fma(f, v.x, acc.x);
    acc.y = fma(f, v.y, acc.y);
}

/* ---------------------------------------------------------------- (a (x) 1) x, the diagonal, x . y */

/* Both entries of a near pair; at: the lane's two right states of the group's first row. coef: of the pair's first slot, NULL for signs. */
template <int UNIT> static __device__ __forceinline__ void left_near(double2 &acc, uint32_t w, uint32_t at, const double *coef)
{
    enum { ROWS = KL_DEVKRON_LEFT_ROWS };
    const double2 v0 = two_at(at + ((w & 0x7fffu) << 6)), v1 = two_at(at + (w >> 10 & 0x1fffc0u));
    add2(acc, UNIT ? low_sign(w) : __ldg(coef), v0);
    add2(acc, UNIT ? high_sign(w) : __ldg(coef + ROWS), v1);
}

static __device__ __forceinline__ double2 left_from(uint32_t e, const double *__restrict__ xl)
{
    const uint32_t j = e & 0x7fffffffu;
    return j == KL_DEVKRON_NONE ? make_double2(0.0, 0.0) : __ldg((const double2 *)(xl + (int64_t)j * LANES));
}

/* table[g][m][lane] = sum of the bits 4 g + i that are set in m. */
static __device__ void make_tables(const kl_devkron_block *b, int64_t tile, double *table)
{
    const int64_t width = b->ntile * LANES;
    for (int i = (int)threadIdx.x; i < (b->nbit + 3) / 4 * TABLE; i += (int)blockDim.x) {
        const int g = i / TABLE, m = i / LANES % 16, lane = i % LANES;
        double a = 0.0;
        for (int k = 0; k < 4 && 4 * g + k < b->nbit; k++)
            if (m >> k & 1) a += b->bits[(4 * g + k) * width + tile * LANES + lane];
        table[i] = a;
    }
}

/* Rows of one group on one tile: four lanes a row, two right states a lane; neighbouring warps have neighbouring rows, whose far entries are neighbours too.
   Words of the next rows are on their way while these are worked on. Returns the lane's part of x . y. */
template <int UNIT, int FEW> static __device__ __forceinline__ double left_rows(const kl_devkron_block *__restrict__ b, int64_t tile, uint32_t g0, int n, const double *s, const double *table,
                                                                       const double *__restrict__ xt, double *__restrict__ yt)
{
    enum { ROWS = KL_DEVKRON_LEFT_ROWS, STEP = LEFT_TEAM / 32 };
    const int lane = (int)threadIdx.x % 32, row = lane / 4, c = lane % 4 * 2, ntile = (n + ROWS - 1) / ROWS;
    int t = (int)threadIdx.x / 32;
    double dot = 0.0;
    if (t >= ntile) return dot;
    const uint4 *const span = (const uint4 *)b->left.span + g0 / ROWS;
    const uint32_t *const near = b->left.near;
    const uint64_t *const far = b->left.far;
    const double *const nc = b->left.near_coef + row, *const fc = b->left.far_coef + row;
    const double *const dl = b->dl + g0 + row;
    const uint64_t *const mask = b->mask + g0 + row;
    const double value = b->bit_value, scale = b->left.scale;
    const int nbit = b->nbit, nfeature = b->nfeature;
    const bool even = FEW || b->even, has_near = near != nullptr, has_far = far != nullptr;
    const double2 dr = __ldg((const double2 *)(b->dr + tile * LANES + c));
    const uint64_t with0 = even && nbit > 0 ? __ldg(b->with + tile * LANES + c) : 0, with1 = even && nbit > 0 ? __ldg(b->with + tile * LANES + c + 1) : 0;
    const uint32_t at = shared_address(s + c);
    xt += c;
    yt += (int64_t)g0 * LANES + lane * 2;
    uint4 now = __ldg(span + t);
    uint32_t w[LEFT_WORDS];
    uint64_t f = 0;
    if (has_near)
#pragma unroll
        for (int k = 0; k < LEFT_WORDS; k++) w[k] = word_at(near + (int64_t)now.x * ROWS + row + k * ROWS);
    if (has_far) f = __ldg(far + (int64_t)now.z * ROWS + row);
    for (; t < ntile; t += STEP) {
        const uint4 next = __ldg(span + (t + STEP < ntile ? t + STEP : t));
        const int i = t * ROWS + row;
        const bool is = i < n;
        double2 v0 = make_double2(0.0, 0.0), v1 = v0, old = v0, sum = v0;
        uint64_t m = 0, f1 = 0;
        double d0 = 0.0;
        const uint32_t e0 = (uint32_t)f, e1 = (uint32_t)(f >> 32);
        if (has_far) {
            v0 = left_from(e0, xt);
            v1 = left_from(e1, xt);
            f1 = __ldg(far + ((int64_t)now.z + 1) * ROWS + row);
        }
        if (is) {
            old = __ldcs((const double2 *)(yt + (int64_t)t * (ROWS * LANES)));
            d0 = __ldg(dl + t * ROWS);
            if (nbit > 0) m = FEW ? (uint64_t)__ldg((const uint32_t *)(mask + t * ROWS)) : __ldg(mask + t * ROWS);
        }
        if (has_near) {
            const double *const coef = UNIT ? nullptr : nc + 2 * (int64_t)now.x * ROWS;
#pragma unroll
            for (int k = 0; k < LEFT_WORDS; k++)
                if (k < KL_DEVKRON_NEAR_LEAST || k < (int)now.y) left_near<UNIT>(sum, w[k], at, UNIT ? nullptr : coef + 2 * k * ROWS);
            for (int k = LEFT_WORDS; k < (int)now.y; k++)
                left_near<UNIT>(sum, __ldg(near + ((int64_t)now.x + k) * ROWS + row), at, UNIT ? nullptr : coef + 2 * k * ROWS);
#pragma unroll
            for (int k = 0; k < LEFT_WORDS; k++) w[k] = word_at(near + (int64_t)next.x * ROWS + row + k * ROWS);
        }
        if (has_far) {
            const double *const q = UNIT ? nullptr : fc + 2 * (int64_t)now.z * ROWS;
            f = __ldg(far + (int64_t)next.z * ROWS + row);
            add2(sum, UNIT ? high_sign(e0) : __ldg(q), v0);
            add2(sum, UNIT ? high_sign(e1) : __ldg(q + ROWS), v1);
            for (int k = 1; k < (int)now.w; k++) {
                const uint32_t g0 = (uint32_t)f1, g1 = (uint32_t)(f1 >> 32);
                if (k + 1 < (int)now.w) f1 = __ldg(far + ((int64_t)now.z + k + 1) * ROWS + row);
                v0 = left_from(g0, xt);
                v1 = left_from(g1, xt);
                add2(sum, UNIT ? high_sign(g0) : __ldg(q + 2 * k * ROWS), v0);
                add2(sum, UNIT ? high_sign(g1) : __ldg(q + (2 * k + 1) * ROWS), v1);
            }
        }
        now = next;
        if (!is) continue;
        double2 d = make_double2(d0 + dr.x, d0 + dr.y);
        if (FEW) {
            d.x = fma(value, (double)__popc((uint32_t)m & (uint32_t)with0), d.x);
            d.y = fma(value, (double)__popc((uint32_t)m & (uint32_t)with1), d.y);
        } else {
            if (even && nbit > 0) {
                d.x = fma(value, (double)__popcll(m & with0), d.x);
                d.y = fma(value, (double)__popcll(m & with1), d.y);
            }
            for (int g = 0; g * 4 < nbit && !even; g++, m >>= 4) {
                const double2 v = *(const double2 *)(table + g * TABLE + (int)(m & 15) * LANES + c);
                d.x += v.x;
                d.y += v.y;
            }
            for (int k = 0; k < nfeature; k++)
                add2(d, __ldg(b->fl + (int64_t)(g0 + i) * nfeature + k), __ldg((const double2 *)(b->fr + (k * b->ntile + tile) * LANES + c)));
        }
        const double2 own = two_at(at + (uint32_t)i * (LANES * 8));
        double2 out = make_double2(fma(d.x, own.x, old.x), fma(d.y, own.y, old.y));
        add2(out, scale, sum);
        __stcs((double2 *)(yt + (int64_t)t * (ROWS * LANES)), out);
        dot = fma(out.x, own.x, dot);
        dot = fma(out.y, own.y, dot);
    }
    return dot;
}

/* A team an item: the device starts them in order, so that those of a strip run together and find each other's parts of x in the second-level cache. PLAIN: no
   block has entries of several sizes, features, more than 32 bits or bits of unequal worth. */
template <int PLAIN> static __global__ void __launch_bounds__(LEFT_TEAM, LEFT_TEAMS) left(const kl_devkron_block *__restrict__ block, const kl_devkron_item *__restrict__ item,
                                                                 const double *__restrict__ x, double *__restrict__ y, double *partial, int table_at)
{
    extern __shared__ __align__(128) double s[];
    __shared__ __align__(8) uint64_t bar;
    __shared__ double part[LEFT_TEAM / 32];
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int me = (int)threadIdx.x;
    const uint32_t g0 = b->left.group[it.group];
    const int n = (int)(b->left.group[it.group + 1] - g0);
    const int64_t tile = it.strip, at = b->off + tile * b->nl * LANES;
    const double *const xt = x + at;
    if (me == 0) {
        bulk_open(&bar);
        bulk_expect(&bar, (uint32_t)n * LANES * 8);
        bulk_copy(s, xt + (int64_t)g0 * LANES, (uint32_t)n * LANES * 8, &bar);
    }
    if (me < 2 * LANES) s[(n + LANES - 1) / LANES * LANES * LANES + me] = 0.0;
    if (!PLAIN && !b->even && b->nbit > 0) make_tables(b, tile, s + table_at);
    __syncthreads();
    bulk_wait(&bar);
    double dot;
    if (PLAIN) dot = left_rows<1, 1>(b, tile, g0, n, s, nullptr, xt, y + at);
    else if (b->left.unit) dot = left_rows<1, 0>(b, tile, g0, n, s, s + table_at, xt, y + at);
    else dot = left_rows<0, 0>(b, tile, g0, n, s, s + table_at, xt, y + at);
    for (int by = 16; by > 0; by /= 2) dot += __shfl_down_sync(~0u, dot, by);
    if (me % 32 == 0) part[me / 32] = dot;
    __syncthreads();
    if (me == 0) {
        for (int w = 1; w < LEFT_TEAM / 32; w++) dot += part[w];
        partial[blockIdx.x] = dot;
    }
}

/* In a fixed order. */
static __global__ void __launch_bounds__(SUM_TEAM) sum_up(int64_t n, const double *__restrict__ part, double *result)
{
    __shared__ double mine[SUM_TEAM / 32];
    const int me = (int)threadIdx.x;
    double a = 0.0;
    for (int64_t i = me; i < n; i += SUM_TEAM) a += part[i];
    for (int by = 16; by > 0; by /= 2) a += __shfl_down_sync(~0u, a, by);
    if (me % 32 == 0) mine[me / 32] = a;
    __syncthreads();
    if (me == 0) {
        for (int w = 1; w < SUM_TEAM / 32; w++) a += mine[w];
        *result = a;
    }
}

/* ---------------------------------------------------------------- (1 (x) b) x and pairs */

/* acc[l] += f v[8 l] */
static __device__ __forceinline__ void add8(double *acc, double f, const double *v)
{
#pragma unroll
    for (int l = 0; l < LANES; l++) acc[l] = fma(f, v[l * LANES], acc[l]);
}

/* Far states of a row, `count` of 8 being there. */
static __device__ __forceinline__ void far8(double *acc, double f, const double *__restrict__ x, int count)
{
    if (count == LANES) {
#pragma unroll
        for (int l = 0; l < LANES; l++) acc[l] = fma(f, __ldg(x + l * LANES), acc[l]);
    } else {
#pragma unroll
        for (int l = 0; l < LANES; l++)
            if (l < count) acc[l] = fma(f, __ldg(x + l * LANES), acc[l]);
    }
}

template <int UNIT> static __device__ __forceinline__ void right_near(double *acc, uint32_t w, const double *s, const double *coef)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    add8(acc, UNIT ? low_sign(w) : __ldg(coef), s + (w & 0x7fffu));
    add8(acc, UNIT ? high_sign(w) : __ldg(coef + ROWS), s + (w >> 16 & 0x7fffu));
}

template <int UNIT> static __device__ __forceinline__ void right_far(double *acc, uint64_t f, const double *__restrict__ xr, int64_t stride, int count, const double *coef)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t e = (uint32_t)(f >> 32 * h), j = e & 0x7fffffffu;
        if (j != KL_DEVKRON_NONE) far8(acc, UNIT ? high_sign(e) : __ldg(coef + h * ROWS), xr + (int64_t)(j / LANES) * stride + j % LANES, count);
    }
}

/* acc[l] += sum over entries (l', va) of a's row l and (r', vb) of b's row: va vb x(l', r'). Rows of a are the same for a whole strip, so those without an
   entry cost nothing. */
static __device__ void pairs(const kl_devkron_cross *g, int64_t tile, int lane, int64_t l0, int64_t nl8, const double *__restrict__ x, double *acc)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    const kl_devkron_op *const o = &g->b;
    const kl_devkron_span span = o->span[tile];
    const uint64_t *far = o->far + (int64_t)span.far_first * ROWS + lane;
    const double *fc = o->unit ? nullptr : o->far_coef + 2 * (int64_t)span.far_first * ROWS + lane;
    const double *const xs = x + g->off;
    for (int m = 0; m < g->most; m++) {
        uint32_t col[LANES];
        double val[LANES];
        bool any = false;
#pragma unroll
        for (int l = 0; l < LANES; l++) {
            col[l] = __ldg(g->col + m * nl8 + l0 + l);
            val[l] = o->scale * __ldg(g->val + m * nl8 + l0 + l);
            any |= val[l] != 0.0;
        }
        if (!any) continue;
        for (int k = 0; k < (int)span.far_count; k++) {
            const uint64_t f = __ldg(far + k * ROWS);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const uint32_t e = (uint32_t)(f >> 32 * h), j = e & 0x7fffffffu;
                if (j == KL_DEVKRON_NONE) continue;
                const double vb = o->unit ? high_sign(e) : __ldg(fc + (2 * k + h) * ROWS);
                const double *const from = xs + (int64_t)(j / LANES) * g->nl * LANES + j % LANES;
#pragma unroll
                for (int l = 0; l < LANES; l++)
                    if (val[l] != 0.0) acc[l] = fma(val[l] * vb, __ldg(from + (int64_t)col[l] * LANES), acc[l]);
            }
        }
    }
}

/* Rows of one group for 8 left states: a lane a row. */
template <int UNIT, int PAIRS> static __device__ __forceinline__ void right_rows(const kl_devkron_block *__restrict__ b, uint32_t g0, int n, int64_t l0, const double *s,
                                                                        const double *__restrict__ x, double *__restrict__ y)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS, STEP = RIGHT_TEAM / 32 };
    const int lane = (int)threadIdx.x % 32, ntile = (n + ROWS - 1) / ROWS;
    int t = (int)threadIdx.x / 32;
    if (t >= ntile) return;
    const uint4 *const span = (const uint4 *)b->right.span + g0 / ROWS;
    const uint32_t *const near = b->right.near;
    const uint64_t *const far = b->right.far;
    const double *const nc = b->right.near_coef + lane, *const fc = b->right.far_coef + lane;
    const int64_t stride = b->nl * LANES;
    const int count = b->nl - l0 < LANES ? (int)(b->nl - l0) : LANES;
    const double *const xr = x + b->off + l0 * LANES;
    double *const yr = y + b->off + l0 * LANES + lane % LANES;
    const double scale = b->right.scale;
    const uint32_t width = (uint32_t)b->ntile;
    const bool has_near = near != nullptr, has_far = far != nullptr;
    uint4 now = __ldg(span + t);
    uint32_t w[RIGHT_WORDS];
    uint64_t f = 0;
    if (has_near)
#pragma unroll
        for (int k = 0; k < RIGHT_WORDS; k++) w[k] = word_at(near + (int64_t)now.x * ROWS + lane + k * ROWS);
    if (has_far) f = __ldg(far + (int64_t)now.z * ROWS + lane);
    for (; t < ntile; t += STEP) {
        const uint4 next = __ldg(span + (t + STEP < ntile ? t + STEP : t));
        double acc[LANES];
#pragma unroll
        for (int l = 0; l < LANES; l++) acc[l] = 0.0;
        if (has_near) {
            const double *const coef = UNIT ? nullptr : nc + 2 * (int64_t)now.x * ROWS;
#pragma unroll
            for (int k = 0; k < RIGHT_WORDS; k++)
                if (k < KL_DEVKRON_NEAR_LEAST || k < (int)now.y) right_near<UNIT>(acc, w[k], s, UNIT ? nullptr : coef + 2 * k * ROWS);
            for (int k = RIGHT_WORDS; k < (int)now.y; k++)
                right_near<UNIT>(acc, __ldg(near + ((int64_t)now.x + k) * ROWS + lane), s, UNIT ? nullptr : coef + 2 * k * ROWS);
#pragma unroll
            for (int k = 0; k < RIGHT_WORDS; k++) w[k] = word_at(near + (int64_t)next.x * ROWS + lane + k * ROWS);
        }
        if (has_far) {
            const double *const q = UNIT ? nullptr : fc + 2 * (int64_t)now.z * ROWS;
            for (int k = 0; k < (int)now.w; k++) {
                const uint64_t g = k + 1 < (int)now.w ? __ldg(far + ((int64_t)now.z + k + 1) * ROWS + lane) : __ldg(far + (int64_t)next.z * ROWS + lane);
                right_far<UNIT>(acc, f, xr, stride, count, UNIT ? nullptr : q + 2 * k * ROWS);
                f = g;
            }
        }
        now = next;
        if (UNIT) {
#pragma unroll
            for (int l = 0; l < LANES; l++) acc[l] *= scale;
        }
        if (PAIRS)
            for (int c = 0; c < b->ncross; c++) pairs(b->cross + c, g0 / ROWS + t, lane, l0, (b->nl + LANES - 1) / LANES * LANES, x, acc);
        const uint32_t to_tile = g0 / LANES + t * (ROWS / LANES) + lane / LANES;
        if (to_tile >= width) continue;
        double *const to = yr + (int64_t)to_tile * stride;
#pragma unroll
        for (int l = 0; l < LANES; l++)
            if (l < count) to[l * LANES] = acc[l];
    }
}

/* PLAIN: no block has entries of several sizes, or pairs a (x) b; those cost registers. */
template <int PLAIN> static __global__ void __launch_bounds__(RIGHT_TEAM, RIGHT_TEAMS) right(const kl_devkron_block *__restrict__ block, const kl_devkron_item *__restrict__ item,
                                                                   const double *__restrict__ x, double *__restrict__ y)
{
    extern __shared__ __align__(128) double s[];
    __shared__ __align__(8) uint64_t bar;
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int me = (int)threadIdx.x;
    const uint32_t g0 = b->right.group[it.group];
    const int n = (int)(b->right.group[it.group + 1] - g0), ntile = (n + LANES - 1) / LANES;
    const int64_t l0 = (int64_t)it.strip * LANES, stride = b->nl * LANES;
    if (b->right.near != nullptr) {
        if (me == 0) bulk_open(&bar);
        for (int i = me; i < 2 * PITCH; i += RIGHT_TEAM) s[ntile * PITCH + i] = 0.0;
        __syncthreads();
        if (me < 32) {
            const int bytes = (int)(b->nl - l0 < LANES ? b->nl - l0 : LANES) * LANES * 8;
            if (me == 0) bulk_expect(&bar, (uint32_t)(ntile * bytes));
            __syncwarp();
            const double *const from = x + b->off + l0 * LANES + (int64_t)(g0 / LANES) * stride;
            for (int t = me; t < ntile; t += 32) bulk_copy(s + t * PITCH, from + t * stride, (uint32_t)bytes, &bar);
        }
        bulk_wait(&bar);
    }
    if (PLAIN) right_rows<1, 0>(b, g0, n, l0, s, x, y);
    else if (b->right.unit) right_rows<1, 1>(b, g0, n, l0, s, x, y);
    else right_rows<0, 1>(b, g0, n, l0, s, x, y);
}

/* ---------------------------------------------------------------- vectors of a space */

/* One team a part of a tile, as in `left'. */
static __global__ void random_tiles(const kl_devkron_block *__restrict__ block, const kl_devkron_item *__restrict__ item, uint64_t seed, double *__restrict__ v)
{
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int64_t at = b->off + it.strip * b->nl * LANES, end = (int64_t)b->left.group[it.group + 1] * LANES;
    for (int64_t i = (int64_t)b->left.group[it.group] * LANES + threadIdx.x; i < end; i += blockDim.x)
        v[at + i] = (int64_t)it.strip * LANES + i % LANES < b->nr ? kl_random_at(seed, at + i) : 0.0;
}

static __device__ double entry_at(const kl_devkron_op *o, int64_t row, int64_t col)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    const kl_devkron_span span = o->span[row / ROWS];
    double a = 0.0;
    for (int64_t k = 0; k < 2 * (int64_t)span.far_count; k++) {
        const int64_t slot = 2 * (int64_t)span.far_first + k;
        const uint32_t e = (uint32_t)(o->far[slot / 2 * ROWS + row % ROWS] >> 32 * (slot % 2));
        if ((e & 0x7fffffffu) == (uint32_t)col) a += o->unit ? o->scale * high_sign(e) : o->far_coef[slot * ROWS + row % ROWS];
    }
    return a;
}

static __device__ double diagonal_at(const kl_devkron_block *b, int64_t l, int64_t r)
{
    const int64_t width = b->ntile * LANES, nl8 = (b->nl + LANES - 1) / LANES * LANES;
    double d = b->dl[l] + b->dr[r];
    if (b->nbit > 0 && b->even) d += b->bit_value * (double)__popcll(b->mask[l] & b->with[r]);
    for (int k = 0; k < b->nbit && !b->even; k++)
        if (b->mask[l] >> k & 1) d += b->bits[k * width + r];
    for (int f = 0; f < b->nfeature; f++) d += b->fl[l * b->nfeature + f] * b->fr[f * width + r];
    for (int c = 0; c < b->ncross && r < b->nr; c++) {
        const kl_devkron_cross *const g = b->cross + c;
        for (int m = 0; m < g->most && g->off == b->off; m++)
            if (g->col[m * nl8 + l] == (uint32_t)l && g->val[m * nl8 + l] != 0.0) d += g->val[m * nl8 + l] * entry_at(&g->b, r, r);
    }
    return d;
}

static __global__ void diagonal_tiles(const kl_devkron_block *__restrict__ block, const kl_devkron_item *__restrict__ item, double *__restrict__ d)
{
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int64_t at = b->off + it.strip * b->nl * LANES, end = (int64_t)b->left.group[it.group + 1] * LANES;
    for (int64_t i = (int64_t)b->left.group[it.group] * LANES + threadIdx.x; i < end; i += blockDim.x)
        d[at + i] = diagonal_at(b, i / LANES, (int64_t)it.strip * LANES + i % LANES);
}

/* ---------------------------------------------------------------- the executor's entries */

/* What a multiprocessor's shared memory gives each of its teams: 1 KB of a team is the system's, and what is not an array of states is small. */
static void fit(const kl_cuda *self, kl_devkron_opts *o)
{
    int all = 0;
    cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, self->device);
    const int64_t for_left = (all / LEFT_TEAMS - 1024 - 256) / (int64_t)sizeof(double), for_right = (all / RIGHT_TEAMS - 1024 - 128) / (int64_t)sizeof(double);
    o->left_most = (for_left / LANES - 2) / 32 * 32;
    o->right_most = (for_right / PITCH - 2) * LANES / 32 * 32;
    const char *const wish = getenv("KRONLAT_KRON_STATES"); /* smaller groups, for tests of what crosses their borders */
    const int64_t most = wish ? strtoll(wish, nullptr, 10) / 32 * 32 : 0;
    if (most >= 64 && most < o->left_most) o->left_most = most;
    if (most >= 64 && most < o->right_most) o->right_most = most;
}

static int table_place(const kl_devkron *p)
{
    return (int)(((p->left_states + LANES - 1) / LANES * LANES + 2) * LANES);
}

static size_t left_bytes(const kl_devkron *p)
{
    return (size_t)(table_place(p) + p->tables * TABLE) * sizeof(double);
}

static size_t right_bytes(const kl_devkron *p)
{
    return (size_t)((p->right_states + LANES - 1) / LANES + 2) * PITCH * sizeof(double);
}

static bool may_share(const void *kernel, size_t bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) == cudaSuccess &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared) == cudaSuccess;
}

extern "C" kl_status kl_cuda_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    kl_devkron_opts o;
    fit(self, &o);
    const kl_status st = self->host->devkron_prepare(k, &o, &self->pool, err);
    if (st != KL_OK) return st;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    if (may_share(p->plain_left ? (const void *)left<1> : (const void *)left<0>, left_bytes(p)) &&
        may_share(p->plain_right ? (const void *)right<1> : (const void *)right<0>, right_bytes(p))) return KL_OK;
    self->host->devkron_release(k, &self->pool);
    return kl_cuda_check(self, "shared memory for products with H", err);
}

extern "C" void kl_cuda_kron_release(kl_exec *ex, kl_kron *k)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    cudaStreamSynchronize(self->stream);
    self->host->devkron_release(k, &self->pool);
}

extern "C" void kl_cuda_kron_half(const kl_cuda *self, const kl_kron *k, int is_right, const double *x, double *y)
{
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const unsigned n = (unsigned)(is_right ? p->nright : p->nleft);
    const size_t bytes = is_right ? right_bytes(p) : left_bytes(p);
    if (is_right && p->plain_right) right<1><<<n, RIGHT_TEAM, bytes, self->stream>>>(p->block, p->right, x, y);
    else if (is_right) right<0><<<n, RIGHT_TEAM, bytes, self->stream>>>(p->block, p->right, x, y);
    else if (p->plain_left) left<1><<<n, LEFT_TEAM, bytes, self->stream>>>(p->block, p->left, x, y, p->partial, table_place(p));
    else left<0><<<n, LEFT_TEAM, bytes, self->stream>>>(p->block, p->left, x, y, p->partial, table_place(p));
}

extern "C" kl_status kl_cuda_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr xp, kl_dptr yp, double *xy, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    if ((xp.addr | yp.addr) % 16 != 0) return self->host->fail(err, KL_EINPUT, "--exec cuda: vectors of a product with H must begin at multiples of 16 bytes");
    kl_cuda_kron_half(self, k, 1, x, y);
    kl_cuda_kron_half(self, k, 0, x, y);
    if (xy) {
        sum_up<<<1, SUM_TEAM, 0, self->stream>>>(p->nleft, p->partial, self->result);
        *xy = cudaStreamSynchronize(self->stream) == cudaSuccess ? self->result[0] : nan("");
    }
    return kl_cuda_check(self, "a product with H", err);
}

extern "C" kl_status kl_cuda_kron_random(kl_exec *ex, const kl_kron *k, uint64_t seed, kl_dptr v, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    random_tiles<<<(unsigned)p->nleft, LEFT_TEAM, 0, self->stream>>>(p->block, p->left, seed, kl_device(v));
    return kl_cuda_check(self, "a random vector", err);
}

extern "C" kl_status kl_cuda_kron_diagonal(kl_exec *ex, const kl_kron *k, kl_dptr d, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    diagonal_tiles<<<(unsigned)p->nleft, LEFT_TEAM, 0, self->stream>>>(p->block, p->left, kl_device(d));
    return kl_cuda_check(self, "the diagonal of H", err);
}
