/* Products so small that all that counts is to have many in flight: a warp a tile of up to 32 x 32, operands
   straight from memory into the registers of FP64 tensor cores (m8n8k4), no shared memory, no barriers. A
   tile's pieces are summed in registers.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"

namespace
{

enum {
    WARPS = 4,
    UNITS = 4, /* of 8 rows or columns */
    DEPTH = 4,
};

__device__ __forceinline__ void multiply(double (&c)[2], double a, double b)
{
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}

/* A factor of a product, and how far apart two of its rows (of B: columns) and two values of k are. */
struct factor {
    const double *at;
    int64_t across, along;
};

/* One piece for mt x nt units: lane 4g + t has row g of A and column g of B at k = t, and columns 2t, 2t + 1
   of C's row g. What lies off the edge counts as 0. */
template <int mt, int nt>
__device__ __forceinline__ void add(double (&c)[UNITS][UNITS][2], factor left, factor right, int m, int n,
                                    int k, int g, int t)
{
    const double *const a = left.at + g * left.across + t * left.along,
                        *const b = right.at + g * right.across + t * right.along;
    /* two steps of loads are asked for before the first is used */
    for (int step = 0; step < k; step += 2 * DEPTH) {
        double u[2][mt], v[2][nt];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const bool in = step + DEPTH * h + t < k;
#pragma unroll
            for (int i = 0; i < mt; i++)
                u[h][i] = in && 8 * i + g < m
                              ? __ldg(a + 8 * i * left.across + (step + DEPTH * h) * left.along)
                              : 0.0;
#pragma unroll
            for (int j = 0; j < nt; j++)
                v[h][j] = in && 8 * j + g < n
                              ? __ldg(b + 8 * j * right.across + (step + DEPTH * h) * right.along)
                              : 0.0;
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int i = 0; i < mt; i++)
#pragma unroll
                for (int j = 0; j < nt; j++) multiply(c[i][j], u[h][i], v[h][j]);
    }
}

template <bool ADDS>
__global__ void __launch_bounds__(32 * WARPS)
    small(const kl_piece *__restrict__ piece, int ntile, const double *x, const double *y)
{
    const int tile = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32,
              g = lane / 4, t = lane % 4;
    if (tile >= ntile) return;
    double c[UNITS][UNITS][2];
#pragma unroll
    for (int i = 0; i < UNITS; i++)
#pragma unroll
        for (int j = 0; j < UNITS; j++) c[i][j][0] = c[i][j][1] = 0.0;
    for (const kl_piece *p = piece + tile;; p = piece + p->next) {
        const int m = kl_rows_of(p->mn), n = kl_cols_of(p->mn), k = p->k, lda = p->lda, ldb = p->ldb,
                  ldc = p->ldc;
        const uint32_t flags = p->flags;
        const bool ta = flags & KL_P_TA, tb = flags & KL_P_TB;
        const double *const a = (const double *)(uintptr_t)kl_where(p->a, flags, KL_P_A, x, y),
                            *const b = (const double *)(uintptr_t)kl_where(p->b, flags, KL_P_B, x, y);
        const int64_t below = ta ? lda : 1, under_a = ta ? 1 : lda, right = tb ? 1 : ldb,
                      under_b = tb ? ldb : 1;
        if (ADDS && (flags & KL_P_ADD)) {
#pragma unroll
            for (int i = 0; i < UNITS; i++)
#pragma unroll
                for (int j = 0; j < UNITS; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        if (8 * i + g < m && 8 * j + 2 * t + e < n)
                            c[i][j][e] += a[(8 * i + g) * below + (8 * j + 2 * t + e) * under_a];
        } else
#define SHAPE(M, N) \
    case M * 4 + N - 5: add<M, N>(c, {a, below, under_a}, {b, right, under_b}, m, n, k, g, t); break;
            switch ((m + 7) / 8 * 4 + (n + 7) / 8 - 5) {
                SHAPE(1, 1)
                SHAPE(1, 2)
                SHAPE(1, 3)
                SHAPE(1, 4)
                SHAPE(2, 1) SHAPE(2, 2) SHAPE(2, 3) SHAPE(2, 4) SHAPE(3, 1) SHAPE(3, 2) SHAPE(3, 3)
                    SHAPE(3, 4) SHAPE(4, 1) SHAPE(4, 2) SHAPE(4, 3) SHAPE(4, 4)
            }
#undef SHAPE
        const double f = p->factor;
        double *const to = (double *)(uintptr_t)kl_where(p->c, flags, KL_P_C, x, y);
        const bool write = flags & KL_P_LAST, beta = flags & KL_P_BETA;
#pragma unroll
        for (int i = 0; i < UNITS; i++)
#pragma unroll
            for (int j = 0; j < UNITS; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int row = 8 * i + g, col = 8 * j + 2 * t + e;
                    c[i][j][e] *= f;
                    if (!write) continue;
                    double *const d = to + row + (int64_t)col * ldc;
                    if (row < m && col < n) *d = c[i][j][e] + (beta ? *d : 0.0);
                    c[i][j][e] = 0.0;
                }
        if (p->next <= 0) return;
    }
}

} // namespace

/* A tile takes its warp some microseconds whatever it is, and 16 warps of a multiprocessor are in flight at a
   time; the cores give half of what they give to larger fragments. Costs are in the unit of gemm.cu's. */
extern "C" kl_tile_plan_opts kl_cuda_small_opts(const kl_cuda *self)
{
    kl_tile_plan_opts o = {};
    o.unit_m = o.unit_n = 8, o.most_m = o.most_n = UNITS, o.depth = 2 * DEPTH, o.nblock = 16 * self->nsm;
    o.cost_unit = 190, o.cost_row = o.cost_col = 48, o.cost_least = 1200, o.cost_tile = 3000;
    return o;
}

extern "C" void kl_cuda_small(const kl_cuda *self, const kl_piece *piece, int ntile, int adds,
                              const double *x, double *y)
{
    if (ntile > 0)
        (adds ? small<true>
              : small<false>)<<<(unsigned)((ntile + WARPS - 1) / WARPS), 32 * WARPS, 0, self->stream>>>(
            piece, ntile, x, y);
}
