/* CSR5 as a yardstick: Liu and Vinter, ICS 2015. Tiles of 32 lanes times `sigma` non-zeros, transposed so
   that lanes read side by side; bits that say where rows begin; sums that cross lanes by a scan; what a tile
   leaves for the row before it is added by a second kernel. Rows without non-zeros stay 0.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"

enum { LANES = 32 };

/* What a tile knows: of each lane which of its non-zeros begin a row, how many rows begin in lanes before,
   how many lanes behind begin none. */
struct tile {
    uint32_t bits[LANES];
    uint32_t rows[LANES]; /* before | after << 16 */
};

struct csr5 {
    int64_t nrow, ntile, tail, nnz; /* tail: first non-zero behind the tiles */
    int sigma;
    double *value, *carry;          /* [nnz]; [ntile + 1] */
    uint32_t *column, *first;       /* [nnz]; [ntile + 1] row that a tile begins in */
    /* rows that begin, in order: those without non-zeros are not among them */
    uint32_t *begun;
    uint32_t *begun_first;          /* [ntile] where a tile's begin in that list */
    tile *about;                    /* [ntile] */
    uint32_t *start;                /* [nrow + 1] */
};

namespace
{

__device__ double scan(double v, int lane)
{
    for (int by = 1; by < LANES; by *= 2) {
        const double w = __shfl_up_sync(~0u, v, by);
        if (lane >= by) v += w;
    }
    return v;
}

template <int sigma>
__global__ void __launch_bounds__(256) tiles(csr5 m, const double *__restrict__ x, double *__restrict__ y)
{
    const int64_t t = ((int64_t)blockIdx.x * 256 + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    if (t >= m.ntile) return;
    const double *const value = m.value + t * LANES * sigma + lane;
    const uint32_t *const column = m.column + t * LANES * sigma + lane;
    const uint32_t bits = m.about[t].bits[lane], rows = m.about[t].rows[lane];
    const uint32_t *row = m.begun + m.begun_first[t] + (rows & 0xffff); /* the next row that begins here */
    double sum = 0.0, head = 0.0;
    bool begun = false;
#pragma unroll
    for (int i = 0; i < sigma; i++) {
        if (bits >> i & 1) {
            if (begun) y[*row++] = sum; /* began and ended in this lane */
            else head = sum;
            begun = true;
            sum = 0.0;
        }
        sum += value[i * LANES] * __ldg(x + column[i * LANES]);
    }
    if (!begun) head = sum;
    const double before = scan(head, lane);           /* heads of lanes up to this one */
    const int until = lane + 1 + (int)(rows >> 16); /* the lane whose head is the last of this lane's row */
    const double ahead = __shfl_sync(~0u, before, until < LANES ? until : LANES - 1);
    if (begun) y[*row] = sum + (ahead - before);
    const uint32_t any = __ballot_sync(~0u, begun);
    const int first = any ? __ffs((int)any) - 1 : LANES - 1;
    if (lane == first) m.carry[t] = before;
}

/* Adds what tiles left for rows that began before them, and what lies behind the tiles, in order. */
__global__ void finish(csr5 m, const double *__restrict__ x, double *__restrict__ y)
{
    const int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (t > m.ntile) return;
    /* the first tile of a run adds for all */
    if (t > 0 && t < m.ntile && m.first[t - 1] == m.first[t]) return;
    if (t < m.ntile) {
        double sum = 0.0;
        for (int64_t k = t; k < m.ntile && m.first[k] == m.first[t]; k++) sum += m.carry[k];
        atomicAdd(y + m.first[t], sum);
        return;
    }
    for (int64_t r = m.first[m.ntile]; r < m.nrow && m.tail < m.nnz; r++) {
        const int64_t from = m.start[r] > m.tail ? m.start[r] : m.tail;
        double sum = 0.0;
        for (int64_t k = from; k < m.start[r + 1]; k++) sum += m.value[k] * x[m.column[k]];
        atomicAdd(y + r, sum);
    }
}

} // namespace

extern "C" void kl_cuda_csr5(const kl_cuda *self, const kl_spdev *d, const double *x, double *y)
{
    const csr5 &m = *(const csr5 *)d->library;
    const unsigned blocks = (unsigned)((m.ntile * LANES + 255) / 256);
    cudaMemsetAsync(y, 0, (size_t)m.nrow * sizeof(double), self->stream);
    if (m.ntile > 0) switch (m.sigma) {
        case 4: tiles<4><<<blocks, 256, 0, self->stream>>>(m, x, y); break;
        case 8: tiles<8><<<blocks, 256, 0, self->stream>>>(m, x, y); break;
        case 16: tiles<16><<<blocks, 256, 0, self->stream>>>(m, x, y); break;
        default: tiles<32><<<blocks, 256, 0, self->stream>>>(m, x, y); break;
        }
    finish<<<(unsigned)(m.ntile / 128 + 1), 128, 0, self->stream>>>(m, x, y);
}

/* The paper's choice for double precision on NVIDIA GPUs, to the next power of two. */
static int choose_sigma(int64_t mean)
{
    return mean > 256 ? 4 : mean > 16 ? 32 : mean > 8 ? 16 : mean > 4 ? 8 : 4;
}

extern "C" kl_status kl_cuda_csr5_prepare(kl_exec *ex, const kl_spmat *m, kl_spdev *d, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const kl_cuda_host *const host = self->host;
    kl_status st = KL_OK;
    uint32_t *start = NULL, *column = NULL, *first = NULL, *begun = NULL, *begun_first = NULL;
    double *value = NULL, *zero = NULL;
    tile *about = NULL;
    csr5 *c = NULL;
    int64_t ntile = 0, size = 0, row = 0, nbegun = 0;
    if (m->nnz >= INT32_MAX || m->ncol > INT32_MAX)
        return host->fail(err, KL_EABSENT, "way csr5 has 32-bit indices; this matrix has %lld non-zeros",
                          (long long)m->nnz);
#define TRY(call)                  \
    do {                           \
        st = (call);               \
        if (st != KL_OK) goto out; \
    } while (0)
#define NEW(p, n) TRY(host->alloc_bytes((void **)&p, (n), sizeof(*p), KL_MEM_WORK, err))
    NEW(c, 1);
    d->library = c;
    c->nrow = m->nrow;
    c->nnz = m->nnz;
    c->sigma = choose_sigma(m->nrow > 0 ? m->nnz / m->nrow : 0);
    size = LANES * c->sigma;
    ntile = c->ntile = m->nnz / size;
    c->tail = ntile * size;
    NEW(start, m->nrow + 1);
    NEW(column, m->nnz);
    NEW(value, m->nnz);
    NEW(first, ntile + 1);
    NEW(begun, m->nrow + 1);
    NEW(begun_first, ntile + 1);
    NEW(about, ntile + 1);
    NEW(zero, ntile + 1);
    for (int64_t i = 0; i <= m->nrow; i++) start[i] = (uint32_t)kl_sp_offset(m, m->start, i);
    for (int64_t k = 0; k < m->nnz; k++) {
        const int64_t t = k / size, within = k % size,
                      at = k < c->tail ? t * size + within % c->sigma * LANES + within / c->sigma : k;
        column[at] = (uint32_t)kl_sp_column(m, m->rest_column, k);
        value[at] = m->rest_value[k];
    }
    for (int64_t t = 0; t <= ntile; t++) {
        while (row < m->nrow && start[row + 1] <= t * size) row++;
        first[t] = (uint32_t)(row < m->nrow ? row : m->nrow - 1);
        begun_first[t] = (uint32_t)nbegun;
        if (t == ntile) break;
        for (int64_t r = row; r < m->nrow && start[r] < (t + 1) * size; r++) {
            if (start[r] < t * size || start[r + 1] == start[r]) continue;
            const int64_t within = start[r] - t * size;
            about[t].bits[within / c->sigma] |= 1u << (within % c->sigma);
            begun[nbegun++] = (uint32_t)r;
        }
        uint32_t before = 0;
        for (int lane = 0; lane < LANES; lane++) {
            int after = 0;
            while (lane + 1 + after < LANES && about[t].bits[lane + 1 + after] == 0) after++;
            about[t].rows[lane] = before | (uint32_t)after << 16;
            before += (uint32_t)__builtin_popcount(about[t].bits[lane]);
        }
    }
    TRY(kl_cuda_send(ex, d, value, 8 * m->nnz, &c->value, err));
    TRY(kl_cuda_send(ex, d, column, 4 * m->nnz, &c->column, err));
    TRY(kl_cuda_send(ex, d, start, 4 * (m->nrow + 1), &c->start, err));
    TRY(kl_cuda_send(ex, d, first, 4 * (ntile + 1), &c->first, err));
    TRY(kl_cuda_send(ex, d, begun, 4 * (m->nrow + 1), &c->begun, err));
    TRY(kl_cuda_send(ex, d, begun_first, 4 * (ntile + 1), &c->begun_first, err));
    TRY(kl_cuda_send(ex, d, about, (int64_t)sizeof(tile) * (ntile + 1), &c->about, err));
    TRY(kl_cuda_send(ex, d, zero, 8 * (ntile + 1), &c->carry, err));
out:
    host->free_ptr((void **)&start);
    host->free_ptr((void **)&column);
    host->free_ptr((void **)&value);
    host->free_ptr((void **)&first);
    host->free_ptr((void **)&begun);
    host->free_ptr((void **)&begun_first);
    host->free_ptr((void **)&about);
    host->free_ptr((void **)&zero);
    return st;
}
