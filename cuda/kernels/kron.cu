/* H v as a sum of Kronecker products by CUDA: launches of the two kernels in src/device/kron_device.h, and
   what else the vectors of such a space need.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "device/kron_device.h"
#include "base/random.h"

enum {
    LANES = KL_KRON_LANES,
    VECTOR_TEAM = 384,
    SUM_TEAM = 1024,
};

/* Threads of a multiprocessor, all its teams together: what needs more than 64 registers a thread has 80. */
template <int PLAIN>
static constexpr int left_threads = PLAIN ? 1024 : 768;
template <int PLAIN>
static constexpr int right_threads = PLAIN == 2 ? 1024 : 768;
template <int PLAIN>
static constexpr int beyond_threads = right_threads<PLAIN>; /* groups of rows are made for as many */

/* PLAIN: as in kl_devkron; what the others have to do costs registers, and so does what is read of a block
   that is not an argument. The device starts teams in order, so that those of a strip run together and find
   each other's parts of x in the second-level cache. */
template <int PLAIN, int ADDS>
static __global__ void __launch_bounds__(left_threads<PLAIN>, 1)
    left(const __grid_constant__ kl_devkron_block only, const kl_devkron_block *__restrict__ block,
         const kl_devkron_item *__restrict__ item, int table_at, const double *__restrict__ x,
         double *__restrict__ y, double *partial)
{
    extern __shared__ __align__(128) double memory[];
    const kl_devkron_item it = item[blockIdx.x];
    const kl_kron_room room = {memory, table_at};
    kl_kron_left(PLAIN ? &only : block + it.block, it, kl_block_size(), PLAIN, ADDS, room, x, y,
                 partial + blockIdx.x);
}

template <int PLAIN>
static __global__ void __launch_bounds__(right_threads<PLAIN>, 1)
    right(const __grid_constant__ kl_devkron_block only, const kl_devkron_block *__restrict__ block,
          const kl_devkron_item *__restrict__ item, const double *__restrict__ x, double *__restrict__ y)
{
    extern __shared__ __align__(128) double memory[];
    const kl_devkron_item it = item[blockIdx.x];
    kl_kron_right(PLAIN ? &only : block + it.block, it, kl_block_size(), PLAIN, NULL, memory, x, y);
}

/* The same of a product in parts; items from a strip on, whose first left state is that of others.x. */
template <int PLAIN>
static __global__ void __launch_bounds__(beyond_threads<PLAIN>, 1)
    beyond(const __grid_constant__ kl_devkron_block only, const kl_devkron_item *__restrict__ item,
           const __grid_constant__ kl_kron_others others, const double *__restrict__ x, double *y)
{
    extern __shared__ __align__(128) double memory[];
    const kl_devkron_item it = item[blockIdx.x];
    kl_kron_others mine = others;
    mine.x += (uint64_t)(it.strip - item[0].strip) * (LANES * LANES);
    mine.partial += blockIdx.x;
    kl_kron_right(&only, it, kl_block_size(), PLAIN, &mine, memory, x, y);
}

static __global__ void __launch_bounds__(SUM_TEAM)
    sum_up(int64_t n, const double *__restrict__ part, double *result)
{
    __shared__ double mine[SUM_TEAM / 32];
    kl_kron_sum(n, SUM_TEAM, part, mine, result);
}

/* ---------------------------------------------------------------- vectors of a space */

/* One team a part of a tile, as in `left'. */
static __global__ void random_tiles(const kl_devkron_block *__restrict__ block,
                                    const kl_devkron_item *__restrict__ item, uint64_t seed, int64_t first,
                                    double *__restrict__ v)
{
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int64_t at = b->off + it.strip * b->nl * LANES, end = (int64_t)b->left.group[it.group + 1] * LANES;
    for (int64_t i = (int64_t)b->left.group[it.group] * LANES + threadIdx.x; i < end; i += blockDim.x)
        v[at + i] = (int64_t)it.strip * LANES + i % LANES < b->nr ? kl_random_at(seed, first + at + i) : 0.0;
}

static __device__ double entry_at(const kl_devkron_op *o, int64_t row, int64_t col)
{
    enum { ROWS = KL_DEVKRON_RIGHT_ROWS };
    const kl_devkron_span span = o->span[row / ROWS];
    double a = 0.0;
    for (int k = 0; k < 2 * (int)span.far_count; k++) {
        const uint32_t e = kl_devkron_far(o, span.far_first, k, ROWS, (int)(row % ROWS));
        if ((e & 0x7fffffffu) == (uint32_t)col)
            a += o->unit ? kl_flip_sign(o->scale, e)
                         : o->far_coef[(2 * (int64_t)span.far_first + k) * ROWS + row % ROWS];
    }
    return a;
}

static __device__ double diagonal_at(const kl_devkron_block *b, int64_t l, int64_t r)
{
    const int64_t width = b->ntile * LANES, nl8 = (b->nl + LANES - 1) / LANES * LANES;
    double d = (b->dl ? b->dl[l] : 0.0) + b->dr[r];
    if (b->nbit > 0 && b->even) d += b->bit_value * (double)__popcll(kl_devkron_mask(b, l) & b->with[r]);
    for (int k = 0; k < b->nbit && !b->even; k++)
        if (kl_devkron_mask(b, l) >> k & 1) d += b->bits[k * width + r];
    for (int f = 0; f < b->nfeature; f++) d += b->fl[l * b->nfeature + f] * b->fr[f * width + r];
    for (int c = 0; c < b->ncross && r < b->nr; c++) {
        const kl_devkron_cross *const g = b->cross + c;
        for (int m = 0; m < g->most && g->off == b->off; m++)
            if (g->col[m * nl8 + l] == (uint32_t)l && g->val[m * nl8 + l] != 0.0)
                d += g->val[m * nl8 + l] * entry_at(&g->b, r, r);
    }
    return d;
}

static __global__ void diagonal_tiles(const kl_devkron_block *__restrict__ block,
                                      const kl_devkron_item *__restrict__ item, double *__restrict__ d)
{
    const kl_devkron_item it = item[blockIdx.x];
    const kl_devkron_block *const b = block + it.block;
    const int64_t at = b->off + it.strip * b->nl * LANES, end = (int64_t)b->left.group[it.group + 1] * LANES;
    for (int64_t i = (int64_t)b->left.group[it.group] * LANES + threadIdx.x; i < end; i += blockDim.x)
        d[at + i] = diagonal_at(b, i / LANES, (int64_t)it.strip * LANES + i % LANES);
}

/* ---------------------------------------------------------------- the executor's entries */

/* Of each team's part of a multiprocessor's shared memory 1 KB is the system's. */
static void fit(const kl_cuda *self, kl_devkron_opts *o)
{
    int all = 0;
    cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, self->device);
    kl_kron_fit(all, 1024, left_threads<2>, right_threads<2>, o);
}

/* What a kernel may take is its own, whatever list it runs: no less than an earlier list wants. */
static bool may_share(const void *kernel, size_t bytes)
{
    cudaFuncAttributes now;
    if (cudaFuncGetAttributes(&now, kernel) != cudaSuccess) return false;
    const int most = (int)bytes > now.maxDynamicSharedSizeBytes ? (int)bytes : now.maxDynamicSharedSizeBytes;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) == cudaSuccess &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutMaxShared) == cudaSuccess;
}

static const void *left_kernel(const kl_devkron *p, int adds)
{
    if (p->plain_left == 2) return adds ? (const void *)left<2, 1> : (const void *)left<2, 0>;
    if (p->plain_left) return adds ? (const void *)left<1, 1> : (const void *)left<1, 0>;
    return adds ? (const void *)left<0, 1> : (const void *)left<0, 0>;
}

extern "C" kl_status kl_cuda_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    kl_devkron_opts o;
    fit(self, &o);
    const kl_status st = self->host->devkron_prepare(k, &o, &self->pool, err);
    if (st != KL_OK) return st;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    if (may_share(left_kernel(p, 1), (size_t)kl_kron_left_bytes(p)) &&
        may_share(left_kernel(p, 0), (size_t)kl_kron_left_bytes(p)) &&
        (k->nblock > 1 || may_share(p->plain_right == 2 ? (const void *)beyond<2>
                                    : p->plain_right    ? (const void *)beyond<1>
                                                        : (const void *)beyond<0>,
                                    (size_t)kl_kron_right_bytes(p))) &&
        may_share(p->plain_right == 2 ? (const void *)right<2>
                  : p->plain_right    ? (const void *)right<1>
                                      : (const void *)right<0>,
                  (size_t)kl_kron_right_bytes(p)))
        return KL_OK;
    self->host->devkron_release(k, &self->pool);
    return kl_cuda_check(self, "shared memory for products with H", err);
}

extern "C" void kl_cuda_kron_release(kl_exec *ex, kl_kron *k)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    cudaStreamSynchronize(self->stream);
    self->host->devkron_release(k, &self->pool);
}

static bool aligned(kl_dptr x, kl_dptr y, kl_dptr z) { return (x.addr | y.addr | z.addr) % 16 == 0; }

static kl_status unaligned(const kl_cuda *self, kl_err *err)
{
    return self->host->fail(err, KL_EINPUT,
                            "--exec cuda: vectors of a product with H must begin at multiples of 16 bytes");
}

extern "C" void kl_cuda_kron_half(const kl_cuda *self, const kl_kron *k, int is_right, const double *x,
                                  double *y)
{
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const unsigned n = (unsigned)(is_right ? p->nright : p->nleft);
    const size_t bytes = (size_t)(is_right ? kl_kron_right_bytes(p) : kl_kron_left_bytes(p));
    const int teams = is_right ? kl_kron_right_teams(p->right_room) : kl_kron_left_teams(p->left_room);
    const cudaStream_t st = self->stream;
    if (is_right && p->plain_right == 2)
        right<2><<<n, right_threads<2> / teams, bytes, st>>>(p->only, p->block, p->right, x, y);
    else if (is_right && p->plain_right)
        right<1><<<n, right_threads<1> / teams, bytes, st>>>(p->only, p->block, p->right, x, y);
    else if (is_right)
        right<0><<<n, right_threads<0> / teams, bytes, st>>>(p->only, p->block, p->right, x, y);
    else if (p->plain_left == 2)
        left<2, 1><<<n, left_threads<2> / teams, bytes, st>>>(p->only, p->block, p->left, kl_kron_table_at(p),
                                                              x, y, p->partial);
    else if (p->plain_left)
        left<1, 1><<<n, left_threads<1> / teams, bytes, st>>>(p->only, p->block, p->left, kl_kron_table_at(p),
                                                              x, y, p->partial);
    else
        left<0, 1><<<n, left_threads<0> / teams, bytes, st>>>(p->only, p->block, p->left, kl_kron_table_at(p),
                                                              x, y, p->partial);
}

extern "C" kl_status kl_cuda_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr xp, kl_dptr yp, double *xy,
                                        kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    if (!aligned(xp, yp, yp)) return unaligned(self, err);
    kl_cuda_kron_half(self, k, 1, x, y);
    kl_cuda_kron_half(self, k, 0, x, y);
    if (xy) {
        sum_up<<<1, SUM_TEAM, 0, self->stream>>>(p->nleft, p->partial, self->result);
        *xy = cudaStreamSynchronize(self->stream) == cudaSuccess ? self->result[0] : nan("");
    }
    return kl_cuda_check(self, "a product with H", err);
}

extern "C" kl_status kl_cuda_kron_left(kl_exec *ex, const kl_kron *k, int adds, kl_dptr xp, kl_dptr yp,
                                       kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    const unsigned n = (unsigned)p->nleft;
    const size_t bytes = (size_t)kl_kron_left_bytes(p);
    const int teams = kl_kron_left_teams(p->left_room), at = kl_kron_table_at(p);
    const cudaStream_t st = self->stream;
    if (!aligned(xp, yp, yp)) return unaligned(self, err);
    if (adds) kl_cuda_kron_half(self, k, 0, x, y);
    else if (p->plain_left == 2)
        left<2, 0>
            <<<n, left_threads<2> / teams, bytes, st>>>(p->only, p->block, p->left, at, x, y, p->partial);
    else if (p->plain_left)
        left<1, 0>
            <<<n, left_threads<1> / teams, bytes, st>>>(p->only, p->block, p->left, at, x, y, p->partial);
    else
        left<0, 0>
            <<<n, left_threads<0> / teams, bytes, st>>>(p->only, p->block, p->left, at, x, y, p->partial);
    return kl_cuda_check(self, "a product with H", err);
}

extern "C" kl_status kl_cuda_kron_beyond(kl_exec *ex, const kl_kron *k, const kl_kron_beyond *b, kl_dptr xp,
                                         kl_dptr yp, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    const int64_t per = p->only.right.ngroup, from = b->first / LANES * per,
                  to = (b->last + LANES - 1) / LANES * per;
    const kl_kron_others others = {kl_device(b->x), (uint32_t)((b->last - b->first) * LANES),
                                   (uint32_t)p->only.ntile, p->partial + p->nleft + from};
    const unsigned n = (unsigned)(to - from);
    const int teams = kl_kron_right_teams(p->right_room);
    const size_t bytes = (size_t)kl_kron_right_bytes(p);
    const kl_devkron_item *const item = p->right + from;
    const cudaStream_t st = self->stream;
    if (!aligned(xp, yp, b->x)) return unaligned(self, err);
    if (n == 0) return KL_OK;
    if (p->plain_right == 2)
        beyond<2><<<n, beyond_threads<2> / teams, bytes, st>>>(p->only, item, others, x, y);
    else if (p->plain_right)
        beyond<1><<<n, beyond_threads<1> / teams, bytes, st>>>(p->only, item, others, x, y);
    else beyond<0><<<n, beyond_threads<0> / teams, bytes, st>>>(p->only, item, others, x, y);
    return kl_cuda_check(self, "a product with H", err);
}

extern "C" kl_status kl_cuda_kron_dot(kl_exec *ex, const kl_kron *k, double *xy, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    sum_up<<<1, SUM_TEAM, 0, self->stream>>>(p->nleft + p->nright, p->partial, self->result);
    *xy = cudaStreamSynchronize(self->stream) == cudaSuccess ? self->result[0] : nan("");
    return kl_cuda_check(self, "a product with H", err);
}

extern "C" kl_status kl_cuda_kron_random(kl_exec *ex, const kl_kron *k, uint64_t seed, int64_t first,
                                         kl_dptr v, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    random_tiles<<<(unsigned)p->nleft, VECTOR_TEAM, 0, self->stream>>>(p->block, p->left, seed, first,
                                                                       kl_device(v));
    return kl_cuda_check(self, "a random vector", err);
}

extern "C" kl_status kl_cuda_kron_diagonal(kl_exec *ex, const kl_kron *k, kl_dptr d, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_devkron *const p = (const kl_devkron *)k->device;
    diagonal_tiles<<<(unsigned)p->nleft, VECTOR_TEAM, 0, self->stream>>>(p->block, p->left, kl_device(d));
    return kl_cuda_check(self, "the diagonal of H", err);
}
