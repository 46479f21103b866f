/* H v as a sum of Kronecker products, two kernels: `right` writes y = (1 (x) b) x and all pairs a (x) b, `left` adds (a (x) 1) x and the diagonal and takes
   x . y on the way. A team copies the part of x that belongs to its group of states into shared memory, in bulk, and walks the packed lists of devkron.h;
   what lies outside the group comes through the caches. Five passes over memory in all.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"
#include "devkron.h"
#include "random.h"

#include <stdlib.h>

enum {
    LANES = KL_KRON_LANES, PITCH = KL_DEVKRON_PITCH, LEFT_TEAM = 512, RIGHT_TEAM = 512, TEAMS = 2, /* of a multiprocessor */
    AHEAD = 4, /* pairs of near slots read before they are used */
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

/* 1 with the sign in bit 15 of e */
static __device__ __forceinline__ double sign_of(uint32_t e)
{
    return __hiloint2double((int)(0x3ff00000u | (e & 0x8000u) << 16), 0);
}

static __device__ __forceinline__ double far_sign(uint32_t e)
{
    return __hiloint2double((int)(0x3ff00000u | (e & 0x80000000u)), 0);
}

/* ---------------------------------------------------------------- (a (x) 1) x, the diagonal, x . y */

static __device__ __forceinline__ void add2(double2 &acc, double f, double2 v)
{
    acc.x = fma(f, v.x, acc.x);
    acc.y = fma(f, v.y, acc.y);
}

/* Four lanes a row, two right states a lane; `row` is the lane's row of the tile, xl the tile of x from the lane's states on. */
template <int UNIT> static __device__ __forceinline__ double2 left_row(const kl_devkron_op *o, kl_devkron_span span, int row, const double *s, const double *__restrict__ xl)
{
    enum { ROWS = KL_DEVKRON_LEFT_ROWS };
    double2 acc = make_double2(0.0, 0.0);
    const uint32_t *near = o->near + (int64_t)span.near_first * ROWS + row;
    const double *nc = UNIT ? nullptr : o->near_coef + 2 * (int64_t)span.near_first * ROWS + row;
    const uint64_t *far = o->far + (int64_t)span.far_first * ROWS + row;
    const double *fc = UNIT ? nullptr : o->far_coef + 2 * (int64_t)span.far_first * ROWS + row;
    const int nnear = (int)span.near_count, nfar = (int)span.far_count;
    uint32_t w[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) w[j] = j < nnear ? __ldg(near + j * ROWS) : 0;
    uint64_t f = nfar > 0 ? __ldg(far) : 0;
    for (int k = 0; k < nnear; k += AHEAD) {
        uint32_t next[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) next[j] = k + AHEAD + j < nnear ? __ldg(near + (k + AHEAD + j) * ROWS) : 0;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (k + j < nnear) {
                const double2 v0 = *(const double2 *)(s + (w[j] & 0x7fffu) * LANES), v1 = *(const double2 *)(s + ((w[j] >> 16) & 0x7fffu) * LANES);
                add2(acc, UNIT ? sign_of(w[j]) : __ldg(nc + 2 * (k + j) * ROWS), v0);
                add2(acc, UNIT ? sign_of(w[j] >> 16) : __ldg(nc + (2 * (k + j) + 1) * ROWS), v1);
            }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) w[j] = next[j];
    }
    for (int k = 0; k < nfar; k++) {
        const uint64_t next = k + 1 < nfar ? __ldg(far + (k + 1) * ROWS) : 0;
        const uint32_t e0 = (uint32_t)f, e1 = (uint32_t)(f >> 32), j0 = e0 & 0x7fffffffu, j1 = e1 & 0x7fffffffu;
        double2 v0 = make_double2(0.0, 0.0), v1 = v0;
        if (j0 != KL_DEVKRON_NONE) v0 = __ldg((const double2 *)(xl + (int64_t)j0 * LANES));
        if (j1 != KL_DEVKRON_NONE) v1 = __ldg((const double2 *)(xl + (int64_t)j1 * LANES));
        add2(acc, UNIT ? far_sign(e0) : __ldg(fc + 2 * k * ROWS), v0);
        add2(acc, UNIT ? far_sign(e1) : __ldg(fc + (2 * k + 1) * ROWS), v1);
        f = next;
    }
    return acc;
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

static __global__ void __launch_bounds__(LEFT_TEAM, TEAMS) left(const kl_devkron_block *__restrict__ block, const kl_devkron_item *__restrict__ item,
                                                                 const double *__restrict__ x, double *__restrict__ y, double *partial, int table_at)
{
    extern __shared__ __align__(128) double s[];
    __shared__ __align__(8) uint64_t bar;
    __shared__ double part[LEFT_TEAM / 32];
    enum { ROWS = KL_DEVKRON_LEFT_ROWS };
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int me = (int)threadIdx.x, lane = me % 32, warp = me / 32, row = lane / 4, c = lane % 4 * 2;
    const uint32_t g0 = b->left.group[it.group];
    const int n = (int)(b->left.group[it.group + 1] - g0);
    const int64_t tile = it.strip, at = b->off + tile * b->nl * LANES;
    const double *const xt = x + at;
    double *const yt = y + at;
    double *const table = s + table_at;
    const int even = b->even, nbit = b->nbit, nfeature = b->nfeature;
    if (me == 0) {
        bulk_open(&bar);
        bulk_expect(&bar, (uint32_t)n * LANES * 8);
        bulk_copy(s, xt + (int64_t)g0 * LANES, (uint32_t)n * LANES * 8, &bar);
    }
    if (me < LANES) s[(n + LANES - 1) / LANES * LANES * LANES + me] = 0.0;
    if (nbit > 0 && !even) make_tables(b, tile, table);
    const double2 dr = *(const double2 *)(b->dr + tile * LANES + c);
    const uint64_t with0 = even ? b->with[tile * LANES + c] : 0, with1 = even ? b->with[tile * LANES + c + 1] : 0;
    const double value = b->bit_value, scale = b->left.scale;
    const int unit = b->left.unit;
    __syncthreads();
    bulk_wait(&bar);
    double dot = 0.0;
    for (int t = warp; t * ROWS < n; t += LEFT_TEAM / 32) {
        const int i = t * ROWS + row;
        const bool in = i < n;
        const int64_t l = g0 + i;
        const kl_devkron_span span = b->left.span[g0 / ROWS + t];
        const double2 old = in ? __ldcs((const double2 *)(yt + l * LANES + c)) : make_double2(0.0, 0.0);
        const double2 sum = unit ? left_row<1>(&b->left, span, row, s + c, xt + c) : left_row<0>(&b->left, span, row, s + c, xt + c);
        if (!in) continue;
        const double dl = __ldg(b->dl + l);
        double2 d = make_double2(dl + dr.x, dl + dr.y);
        if (nbit > 0) {
            uint64_t mask = __ldg(b->mask + l);
            if (even) {
                d.x = fma(value, (double)__popcll(mask & with0), d.x);
                d.y = fma(value, (double)__popcll(mask & with1), d.y);
            } else {
                for (int g = 0; g * 4 < nbit; g++, mask >>= 4) {
                    const double2 v = *(const double2 *)(table + g * TABLE + (int)(mask & 15) * LANES + c);
                    d.x += v.x;
                    d.y += v.y;
                }
            }
        }
        for (int f = 0; f < nfeature; f++) add2(d, __ldg(b->fl + l * nfeature + f), __ldg((const double2 *)(b->fr + (f * b->ntile + tile) * LANES + c)));
        const double2 own = *(const double2 *)(s + i * LANES + c);
        double2 out = make_double2(fma(d.x, own.x, old.x), fma(d.y, own.y, old.y));
        add2(out, scale, sum);
        __stcs((double2 *)(yt + l * LANES + c), out);
        dot = fma(out.x, own.x, dot);
        dot = fma(out.y, own.y, dot);
    }
    for (int by = 16; by > 0; by /= 2) dot += __shfl_down_sync(~0u, dot, by);
    if (lane == 0) part[warp] = dot;
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

/* One lane a row, 8 left states; xr: x of the first of them in tile 0, `stride` doubles a tile. Far states behind the last left one are not there: `count`. */
template <int UNIT> static __device__ __forceinline__ void right_near(const kl_devkron_op *o, kl_devkron_span span, int lane, const double *s, double *acc)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    const uint32_t *near = o->near + (int64_t)span.near_first * ROWS + lane;
    const double *nc = UNIT ? nullptr : o->near_coef + 2 * (int64_t)span.near_first * ROWS + lane;
    const int n = (int)span.near_count;
    uint32_t w[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) w[j] = j < n ? __ldg(near + j * ROWS) : 0;
    for (int k = 0; k < n; k += AHEAD) {
        uint32_t next[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) next[j] = k + AHEAD + j < n ? __ldg(near + (k + AHEAD + j) * ROWS) : 0;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (k + j < n) {
                add8(acc, UNIT ? sign_of(w[j]) : __ldg(nc + 2 * (k + j) * ROWS), s + (w[j] & 0x7fffu));
                add8(acc, UNIT ? sign_of(w[j] >> 16) : __ldg(nc + (2 * (k + j) + 1) * ROWS), s + ((w[j] >> 16) & 0x7fffu));
            }
#pragma unroll
        for (int j = 0; j < AHEAD; j++) w[j] = next[j];
    }
}

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

template <int UNIT> static __device__ __forceinline__ void right_far(const kl_devkron_op *o, kl_devkron_span span, int lane, const double *__restrict__ xr, int64_t stride, int count,
                                                                     double *acc)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    const uint64_t *far = o->far + (int64_t)span.far_first * ROWS + lane;
    const double *fc = UNIT ? nullptr : o->far_coef + 2 * (int64_t)span.far_first * ROWS + lane;
    const int n = (int)span.far_count;
    uint64_t f = n > 0 ? __ldg(far) : 0;
    for (int k = 0; k < n; k++) {
        const uint64_t next = k + 1 < n ? __ldg(far + (k + 1) * ROWS) : 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint32_t e = (uint32_t)(f >> 32 * h), j = e & 0x7fffffffu;
            if (j != KL_DEVKRON_NONE) far8(acc, UNIT ? far_sign(e) : __ldg(fc + (2 * k + h) * ROWS), xr + (int64_t)(j / LANES) * stride + j % LANES, count);
        }
        f = next;
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
                const double vb = o->unit ? far_sign(e) : __ldg(fc + (2 * k + h) * ROWS);
                const double *const from = xs + (int64_t)(j / LANES) * g->nl * LANES + j % LANES;
#pragma unroll
                for (int l = 0; l < LANES; l++)
                    if (val[l] != 0.0) acc[l] = fma(val[l] * vb, __ldg(from + (int64_t)col[l] * LANES), acc[l]);
            }
        }
    }
}

/* PAIRS: blocks may have pairs a (x) b; they cost registers. */
template <int PAIRS> static __global__ void __launch_bounds__(RIGHT_TEAM, TEAMS) right(const kl_devkron_block *__restrict__ block, const kl_devkron_item *__restrict__ item,
                                                                   const double *__restrict__ x, double *__restrict__ y)
{
    extern __shared__ __align__(128) double s[];
    __shared__ __align__(8) uint64_t bar;
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int me = (int)threadIdx.x, lane = me % 32, warp = me / 32;
    const uint32_t g0 = b->right.group[it.group];
    const int n = (int)(b->right.group[it.group + 1] - g0), ntile = (n + LANES - 1) / LANES;
    const int64_t l0 = (int64_t)it.strip * LANES, stride = b->nl * LANES, nl8 = (b->nl + LANES - 1) / LANES * LANES;
    const int count = b->nl - l0 < LANES ? (int)(b->nl - l0) : LANES;
    const double *const xr = x + b->off + l0 * LANES;
    double *const yr = y + b->off + l0 * LANES;
    const double scale = b->right.scale;
    const int unit = b->right.unit;
    const bool staged = b->right.near != nullptr;
    if (staged) {
        if (me == 0) bulk_open(&bar);
        for (int i = me; i < PITCH; i += RIGHT_TEAM) s[ntile * PITCH + i] = 0.0;
        __syncthreads();
        if (warp == 0) {
            if (lane == 0) bulk_expect(&bar, (uint32_t)(ntile * count * LANES * 8));
            __syncwarp();
            const double *const from = xr + (int64_t)(g0 / LANES) * stride;
            for (int t = lane; t < ntile; t += 32) bulk_copy(s + t * PITCH, from + t * stride, (uint32_t)(count * LANES * 8), &bar);
        }
        bulk_wait(&bar);
    }
    for (int t = warp; t * ROWS < n; t += RIGHT_TEAM / 32) {
        const int64_t r = g0 + t * ROWS + lane;
        double acc[LANES];
#pragma unroll
        for (int l = 0; l < LANES; l++) acc[l] = 0.0;
        const kl_devkron_span span = b->right.span[g0 / ROWS + t];
        if (unit) {
            if (staged) right_near<1>(&b->right, span, lane, s, acc);
            right_far<1>(&b->right, span, lane, xr, stride, count, acc);
#pragma unroll
            for (int l = 0; l < LANES; l++) acc[l] *= scale;
        } else {
            if (staged) right_near<0>(&b->right, span, lane, s, acc);
            right_far<0>(&b->right, span, lane, xr, stride, count, acc);
        }
        if (PAIRS)
            for (int g = 0; g < b->ncross; g++) pairs(b->cross + g, (g0 + t * ROWS) / ROWS, lane, l0, nl8, x, acc);
        if (r / LANES >= b->ntile) continue;
        double *const to = yr + r / LANES * stride + r % LANES;
#pragma unroll
        for (int l = 0; l < LANES; l++)
            if (l < count) to[l * LANES] = acc[l];
    }
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
        if ((e & 0x7fffffffu) == (uint32_t)col) a += o->unit ? o->scale * far_sign(e) : o->far_coef[slot * ROWS + row % ROWS];
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

/* What a multiprocessor's shared memory gives each of TEAMS teams: 1 KB of a team is the system's, and what is not an array of states is small. */
static void fit(const kl_cuda *self, kl_devkron_opts *o)
{
    int all = 0;
    cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, self->device);
    const int64_t doubles = (all / TEAMS - 1024 - 256) / (int64_t)sizeof(double);
    o->left_most = (doubles - LANES) / LANES / 32 * 32;
    o->right_most = (doubles / PITCH - 1) * LANES / 32 * 32;
    const char *const wish = getenv("KRONLAT_KRON_STATES"); /* smaller groups, for tests of what crosses their borders */
    const int64_t most = wish ? strtoll(wish, nullptr, 10) / 32 * 32 : 0;
    if (most >= 64 && most < o->left_most) o->left_most = most;
    if (most >= 64 && most < o->right_most) o->right_most = most;
}

static int table_place(const kl_devkron *p)
{
    return (int)(((p->left_states + LANES - 1) / LANES * LANES + 1) * LANES);
}

static size_t left_bytes(const kl_devkron *p)
{
    return (size_t)(table_place(p) + p->tables * TABLE) * sizeof(double);
}

static size_t right_bytes(const kl_devkron *p)
{
    return (size_t)((p->right_states + LANES - 1) / LANES + 1) * PITCH * sizeof(double);
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
    if (may_share((const void *)left, left_bytes(p)) && may_share(p->pairs ? (const void *)right<1> : (const void *)right<0>, right_bytes(p))) return KL_OK;
    self->host->devkron_release(k, &self->pool);
    return kl_cuda_check(self, "shared memory for products with H", err);
}

extern "C" void kl_cuda_kron_release(kl_exec *ex, kl_kron *k)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    cudaStreamSynchronize(self->stream);
    self->host->devkron_release(k, &self->pool);
}

extern "C" kl_status kl_cuda_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr xp, kl_dptr yp, double *xy, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    if ((xp.addr | yp.addr) % 16 != 0) return self->host->fail(err, KL_EINPUT, "--exec cuda: vectors of a product with H must begin at multiples of 16 bytes");
    if (p->pairs) right<1><<<(unsigned)p->nright, RIGHT_TEAM, right_bytes(p), self->stream>>>(p->block, p->right, x, y);
    else right<0><<<(unsigned)p->nright, RIGHT_TEAM, right_bytes(p), self->stream>>>(p->block, p->right, x, y);
    left<<<(unsigned)p->nleft, LEFT_TEAM, left_bytes(p), self->stream>>>(p->block, p->left, x, y, p->partial, table_place(p));
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
