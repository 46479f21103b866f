/* Sums of Kronecker products on an offload device. On NVIDIA GPUs from sm_90 on bare regions around the two
   kernels of kron_device.h. On any other one launch, a thread for each element of y, which gathers what its
   row of each operator names: a team works on 32 left states of one tile of 8 right ones, so what a left
   operator gathers are runs of 64 bytes and what a right one gathers lies in tiles that its neighbours read
   too.
   SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"
#include "device/kron_device.h"
#include "offload.h"
#include "target.h"

/* ---------------------------------------------------------------- any target */

enum {
    LANES = KL_KRON_LANES,
    ROWS = KL_GATHER_ROWS,
    MOST_UNITS = 1 << 22 /* of a launch: indices stay int */
};

_Static_assert(ROWS *LANES == KL_BLOCK, "a unit is a team");

static inline int64_t column(const kl_gather_op *o, uint32_t p)
{
    return o->idx16 ? (int64_t)((const uint16_t *)(uintptr_t)o->idx16)[p]
                    : (int64_t)((const uint32_t *)(uintptr_t)o->idx32)[p];
}

static inline double factor(const kl_gather_op *o, int64_t row, uint32_t p)
{
    if (o->coef) return ((const double *)(uintptr_t)o->coef)[p];
    return p < ((const uint32_t *)(uintptr_t)o->minus)[row] ? o->scale : -o->scale;
}

/* Element c of a column of x: one run of memory for left states, tiles of nl for right ones (transposed). */
static inline double of_column(const double *from, int64_t c, int transposed, int64_t nl)
{
    return from[transposed ? c / LANES * nl * LANES + c % LANES : c * LANES];
}

/* Row `row` of an operator times a column of x. */
static inline double row_sum(const kl_gather_op *o, int64_t row, const double *from, int transposed,
                             int64_t nl)
{
    const uint32_t *const ptr = (const uint32_t *)(uintptr_t)o->ptr;
    const uint32_t end = ptr[row + 1];
    uint32_t p = ptr[row];
    double s = 0.0, t = 0.0;
    if (p == end) return 0.0;
    if (o->coef) {
        const double *const coef = (const double *)(uintptr_t)o->coef;
        for (; p < end; p++) s += coef[p] * of_column(from, column(o, p), transposed, nl);
        return s;
    }
    const uint32_t minus = ((const uint32_t *)(uintptr_t)o->minus)[row];
    for (; p < minus; p++) s += of_column(from, column(o, p), transposed, nl);
    for (; p < end; p++) t += of_column(from, column(o, p), transposed, nl);
    return o->scale * (s - t);
}

static inline double diagonal(const kl_gather_block *b, int64_t l, int64_t r)
{
    const int64_t pitch = (b->nr + LANES - 1) / LANES * LANES;
    double d = ((const double *)(uintptr_t)b->dl)[l] + ((const double *)(uintptr_t)b->dr)[r];
    if (b->weight != 0.0) {
        d += b->weight * __builtin_popcountll(((const uint64_t *)(uintptr_t)b->mask)[l] &
                                              ((const uint64_t *)(uintptr_t)b->transposed)[r]);
    } else if (b->nbit > 0) {
        const double *const bits = (const double *)(uintptr_t)b->bits;
        for (uint64_t m = ((const uint64_t *)(uintptr_t)b->mask)[l]; m; m &= m - 1)
            d += bits[__builtin_ctzll(m) * pitch + r];
    }
    for (int f = 0; f < b->nfeature; f++)
        d += ((const double *)(uintptr_t)b->fl)[l * b->nfeature + f] *
             ((const double *)(uintptr_t)b->fr)[f * pitch + r];
    return d;
}

/* Element e of a unit. */
static inline void element(int64_t unit, int e, int nblock, const kl_gather_block *list,
                           const kl_gather_op *ops, const kl_gather_cross *crosses, const double *x,
                           double *y)
{
    /* blocks without units share a number with the next: the last one that begins here is meant */
    int low = 0, high = nblock;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (list[middle].unit <= unit) low = middle;
        else high = middle;
    }
    const kl_gather_block *const b = &list[low];
    const int64_t chunks = (b->nl + ROWS - 1) / ROWS, tile = (unit - b->unit) / chunks,
                  l = (unit - b->unit) % chunks * ROWS + e / LANES, r = tile * LANES + e % LANES;
    if (l >= b->nl) return;
    const int64_t at = b->off + (tile * b->nl + l) * LANES + e % LANES;
    double s = diagonal(b, l, r) * x[at];
    if (b->a >= 0) s += row_sum(&ops[b->a], l, x + b->off + tile * b->nl * LANES + e % LANES, 0, 0);
    if (r >= b->nr) { /* the unused end of the last tile; its diagonal lies above all of H (kron.h) */
        y[at] = s;
        return;
    }
    if (b->b >= 0) s += row_sum(&ops[b->b], r, x + b->off + l * LANES, 1, b->nl);
    for (int c = 0; c < b->ncross; c++) {
        const kl_gather_cross *const g = &crosses[b->first_cross + c];
        const kl_gather_op *const a = &ops[g->a];
        const kl_gather_block *const from = &list[g->source];
        const uint32_t end = ((const uint32_t *)(uintptr_t)a->ptr)[l + 1];
        for (uint32_t p = ((const uint32_t *)(uintptr_t)a->ptr)[l]; p < end; p++)
            s += factor(a, l, p) * row_sum(&ops[g->b], r, x + from->off + column(a, p) * LANES, 1, from->nl);
    }
    y[at] = s;
}

static void apply_gathering(const kl_offload *self, const kl_gather *h, const double *x, double *y)
{
    const int nblock = h->nblock;
    const kl_gather_block *const list = h->block;
    const kl_gather_op *const ops = h->op;
    const kl_gather_cross *const crosses = h->cross;
    for (int64_t first = 0; first < h->nunit; first += MOST_UNITS) {
        const int n = (int)(h->nunit - first < MOST_UNITS ? h->nunit - first : MOST_UNITS) * KL_BLOCK;
        KL_KERNEL(self, n, element(first + t / KL_BLOCK, t % KL_BLOCK, nblock, list, ops, crosses, x, y),
                  is_device_ptr(list, ops, crosses, x, y) firstprivate(first, nblock));
    }
}

/* ---------------------------------------------------------------- bare regions */

#if KL_OFFLOAD_BARE

enum {
    THREADS = 1024, /* of all teams of a multiprocessor; 64 registers a thread: see src/meson.build */
    SUM_TEAM = 1024,
    SHARED_BYTES = 228 << 10,
    TAKEN = 2048 /* of a team's shared memory, by the system and by the runtime */
};

#ifdef __NVPTX__
#define SHARED ((double *)llvm_omp_target_dynamic_shared_alloc())
#else
#define SHARED ((double *)0)
#endif

static void apply_right(const kl_devkron *p, const double *x, double *y)
{
    const kl_devkron_block *const block = p->block;
    const kl_devkron_item *const item = p->right;
    const int teams = (int)p->nright, bytes = kl_kron_right_bytes(p),
              team = THREADS / kl_kron_right_teams(p->right_room);
    if (p->plain_right == 2) {
        KL_BARE(teams, team, bytes, is_device_ptr(block, item, x, y))
        kl_kron_right(block, item[kl_block_number()], kl_block_size(), 2, NULL, SHARED, x, y);
    } else if (p->plain_right) {
        KL_BARE(teams, team, bytes, is_device_ptr(block, item, x, y))
        kl_kron_right(block, item[kl_block_number()], kl_block_size(), 1, NULL, SHARED, x, y);
    } else {
        KL_BARE(teams, team, bytes, is_device_ptr(block, item, x, y))
        kl_kron_right(block + item[kl_block_number()].block, item[kl_block_number()], kl_block_size(), 0,
                      NULL, SHARED, x, y);
    }
}

static void apply_left(const kl_devkron *p, const double *x, double *y)
{
    const kl_devkron_block *const block = p->block;
    const kl_devkron_item *const item = p->left;
    double *const partial = p->partial;
    const int teams = (int)p->nleft, bytes = kl_kron_left_bytes(p), table_at = kl_kron_table_at(p),
              team = THREADS / kl_kron_left_teams(p->left_room);
    if (p->plain_left == 2) {
        KL_BARE(teams, team, bytes, is_device_ptr(block, item, x, y, partial) firstprivate(table_at))
        kl_kron_left(block, item[kl_block_number()], kl_block_size(), 2, 1, (kl_kron_room){SHARED, table_at},
                     x, y, partial + kl_block_number());
    } else if (p->plain_left) {
        KL_BARE(teams, team, bytes, is_device_ptr(block, item, x, y, partial) firstprivate(table_at))
        kl_kron_left(block, item[kl_block_number()], kl_block_size(), 1, 1, (kl_kron_room){SHARED, table_at},
                     x, y, partial + kl_block_number());
    } else {
        KL_BARE(teams, team, bytes, is_device_ptr(block, item, x, y, partial) firstprivate(table_at))
        kl_kron_left(block + item[kl_block_number()].block, item[kl_block_number()], kl_block_size(), 0, 1,
                     (kl_kron_room){SHARED, table_at}, x, y, partial + kl_block_number());
    }
}

static void apply_packed(const kl_offload *self, const kl_devkron *p, const double *x, double *y, double *xy)
{
    apply_right(p, x, y);
    apply_left(p, x, y);
    if (!xy) return;
    const double *const part = p->partial;
    double *const result = self->result;
    const int64_t n = p->nleft;
    KL_BARE(1, SUM_TEAM, 256, is_device_ptr(part, result) firstprivate(n))
    kl_kron_sum(n, SUM_TEAM, part, SHARED, result);
    *xy = *result;
}
#endif

/* ---------------------------------------------------------------- the table */

kl_status kl_offload_kron_apply(kl_exec *ex, const kl_kron *k, kl_dptr xp, kl_dptr yp, double *xy,
                                kl_err *err)
{
    const kl_offload *const self = ex->self;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
#if KL_OFFLOAD_BARE
    if (self->tensor) {
        if ((xp.addr | yp.addr) % 16 != 0)
            return kl_fail(err, KL_EINPUT,
                           "--exec offload: vectors of a product with H must begin at multiples of 16 bytes");
        apply_packed(self, k->device, x, y, xy);
        return KL_OK;
    }
#endif
    (void)err;
    apply_gathering(self, k->device, x, y);
    if (xy) kl_offload_dots(ex, k->n, 1, xp, k->n, yp, xy);
    return KL_OK;
}

kl_status kl_offload_kron_prepare(kl_exec *ex, kl_kron *k, kl_err *err)
{
    kl_offload *const self = ex->self;
#if KL_OFFLOAD_BARE
    if (self->tensor) {
        kl_devkron_opts o;
        kl_kron_fit(SHARED_BYTES, TAKEN, THREADS, THREADS, &o);
        return kl_devkron_prepare(k, &o, &self->pool, err);
    }
#endif
    return kl_gather_prepare(k, &self->pool, err);
}

void kl_offload_kron_release(kl_exec *ex, kl_kron *k)
{
    kl_offload *const self = ex->self;
    if (self->tensor) kl_devkron_release(k, &self->pool);
    else kl_gather_release(k, &self->pool);
}
