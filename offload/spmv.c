/* Sparse products on an offload device: bare regions around the kernels of spmv_device.h on NVIDIA GPUs, and
   a thread a row in plain OpenMP on any other.
   SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "device/spdev.h"
#include "target.h"

#include "device/spmv_device.h"

#include <limits.h>

/* ---------------------------------------------------------------- any target */

static inline int64_t column_of(const void *column, int64_t k, int bytes)
{
    return bytes == 2 ? (int64_t)((const uint16_t *)column)[k] : (int64_t)((const uint32_t *)column)[k];
}

static inline void add_atomically(double *p, double v)
{
#pragma omp atomic update
    *p += v;
}

/* Entries [from, ...) of a row, `step` apart; the mirrored half of a symmetric matrix goes to y. */
static inline double plain_run(const kl_spargs *a, const double *value, const void *column, int64_t from,
                               int64_t n, int64_t step, int64_t row, const double *x, double *y)
{
    double s = 0.0;
    for (int64_t j = 0, k = from; j < n; j++, k += step) {
        const int64_t c = column_of(column, k, a->index_bytes);
        s += value[k] * x[c];
        if (a->symmetric && c != row) add_atomically(y + c, value[k] * x[row]);
    }
    return s;
}

static inline void plain_row(int t, const kl_spargs *a, const double *x, double *y)
{
    const int64_t row = a->order ? (int64_t)a->order[t] : t;
    double s = 0.0;
    if (a->start) { /* CSR, and both parts of the hybrid */
        const int64_t end = a->end ? a->end[row] : a->start[row + 1];
        if (a->width)
            s = plain_run(a, a->value, a->column, row * a->width, kl_sp_width(a, row), 1, row, x, y);
        s += plain_run(a, a->rest_value, a->rest_column, a->start[row], end - a->start[row], 1, row, x, y);
    } else {
        int64_t place = t, step = a->nrow, width = a->width;
        if (a->slice_off) {
            const int64_t slice = t / a->height;
            width = (a->slice_off[slice + 1] - a->slice_off[slice]) / a->height;
            place = a->slice_off[slice] + t % a->height;
            step = a->height;
        }
        if (a->length) width = (int64_t)a->length[row];
        s = plain_run(a, a->value, a->column, place, width, step, row, x, y);
    }
    if (a->symmetric) add_atomically(y + row, s);
    else y[row] = s;
}

static void apply_plain(const kl_offload *self, const kl_spdev *d, const double *x, double *y)
{
    const kl_spargs *const a = (const kl_spargs *)d->device_args.addr;
    const int n = (int)d->args.nrow;
    const int teams = kl_teams_of(self, (n + KL_BLOCK - 1) / KL_BLOCK);
    if (n == 0) return;
    KL_FLAT(teams, is_device_ptr(a, x, y) firstprivate(n))
    for (int t = 0; t < n; t++) plain_row(t, a, x, y);
}

/* ---------------------------------------------------------------- bare regions */

#if KL_OFFLOAD_BARE

/* 64 registers a thread: see src/meson.build */
enum {
    PACKED_THREADS = 1024,
    TILE_THREADS = 32 * KL_TILE_WARPS,
    GATHER = 256,
};

#ifdef __NVPTX__
#define SHARED ((double *)llvm_omp_target_dynamic_shared_alloc())
#else
#define SHARED ((double *)0)
#endif

static int blocks(int64_t threads, int size) { return (int)((threads + size - 1) / size); }

/* What kernels read of a matrix, field by field: arguments of a region are constants to it, where a field
   behind a pointer takes a load and a register, which is 3 to 15 per cent of a product. Implementations that
   are seldom taken read theirs by device_args. */
#define STORED_FIELDS(d)                                                                     \
    const int64_t nrow = (d)->args.nrow, width = (d)->args.width;                            \
    const double *const value = (d)->args.value, *const rest_value = (d)->args.rest_value;   \
    const void *const column = (d)->args.column, *const rest_column = (d)->args.rest_column; \
    const uint32_t *const length = (d)->args.length;                                         \
    const int64_t *const start = (d)->args.start, *const end = (d)->args.end
#define STORED_POINTERS value, column, length, rest_value, rest_column, start, end
#define STORED                   \
    {.nrow = nrow,               \
     .width = width,             \
     .value = value,             \
     .column = column,           \
     .length = length,           \
     .rest_value = rest_value,   \
     .rest_column = rest_column, \
     .start = start,             \
     .end = end}

static void apply_warp(const kl_spdev *d, const double *x, double *y)
{
    STORED_FIELDS(d);
    const int bytes = d->args.index_bytes, lanes = d->lanes, threads = d->threads,
              grid = blocks(nrow * lanes, threads);
    if (bytes == 4 && lanes == 32) {
        KL_BARE(grid, threads, 0, is_device_ptr(STORED_POINTERS, x, y) firstprivate(nrow, width))
        {
            const kl_spargs a = STORED;
            kl_sp_warp(&a, 4, 32, x, y);
        }
    } else if (lanes == 32) {
        KL_BARE(grid, threads, 0, is_device_ptr(STORED_POINTERS, x, y) firstprivate(nrow, width))
        {
            const kl_spargs a = STORED;
            kl_sp_warp(&a, 2, 32, x, y);
        }
    } else {
        KL_BARE(grid, threads, 0,
                is_device_ptr(STORED_POINTERS, x, y) firstprivate(nrow, width, bytes, lanes))
        {
            const kl_spargs a = STORED;
            kl_sp_warp(&a, bytes, lanes, x, y);
        }
    }
}

static void apply_packed(const kl_offload *self, const kl_spdev *d, const double *x, double *y)
{
    const int64_t nrow = d->args.nrow, ncol = d->args.ncol;
    const int nxblock = d->args.nxblock, nshared = d->args.nshared;
    const double *const packed = d->args.packed;
    const void *const step = d->args.step;
    const uint16_t *const base = d->args.base;
    const uint32_t *const group = d->args.group;
    const int grid = self->nsm, nsum = kl_packed_sums(&d->args, grid, PACKED_THREADS / 32),
              shared = kl_packed_shared_bytes(&d->args, grid, PACKED_THREADS / 32);
    if (d->args.step_bytes == 1) {
        KL_BARE(grid, 1024, shared,
                is_device_ptr(packed, step, base, group, x, y)
                    firstprivate(nrow, ncol, nxblock, nshared, nsum))
        {
            const kl_spargs a = {.nrow = nrow,
                                 .ncol = ncol,
                                 .nxblock = nxblock,
                                 .nshared = nshared,
                                 .packed = packed,
                                 .step = step,
                                 .base = base,
                                 .group = group};
            kl_sp_packed(&a, 1, nsum, SHARED, x, y);
        }
    } else {
        KL_BARE(grid, 1024, shared,
                is_device_ptr(packed, step, base, group, x, y)
                    firstprivate(nrow, ncol, nxblock, nshared, nsum))
        {
            const kl_spargs a = {.nrow = nrow,
                                 .ncol = ncol,
                                 .nxblock = nxblock,
                                 .nshared = nshared,
                                 .packed = packed,
                                 .step = step,
                                 .base = base,
                                 .group = group};
            kl_sp_packed(&a, 2, nsum, SHARED, x, y);
        }
    }
}

static void apply_one(const kl_offload *self, const kl_spdev *d, const double *x, double *y)
{
    const kl_spargs *const a = (const kl_spargs *)d->device_args.addr;
    const int bytes = d->args.index_bytes, threads = d->threads;
    if (d->args.symmetric) {
        const int grid = blocks(d->args.nrow * 32, threads);
        KL_BARE(grid, threads, 0, is_device_ptr(a, x, y))
        kl_sp_half(a, x, y);
    } else if (d->way == KL_SPWAY_THREAD) {
        const int grid = blocks(d->args.nrow, threads);
        KL_BARE(grid, threads, 0, is_device_ptr(a, x, y) firstprivate(bytes))
        kl_sp_thread(a, bytes, x, y);
    } else if (d->way == KL_SPWAY_WARPS) {
        const int grid = blocks(d->args.nrow * 64, threads), shared = threads / 32 * 8;
        KL_BARE(grid, threads, shared, is_device_ptr(a, x, y) firstprivate(bytes))
        kl_sp_warps(a, bytes, SHARED, x, y);
    } else if (d->way == KL_SPWAY_TILES) {
        const int grid = d->args.nrange, shared = kl_tile_shared_bytes(&d->args);
        KL_BARE(grid, TILE_THREADS, shared, is_device_ptr(a, x, y))
        kl_sp_tiles(a, SHARED, x, y);
    } else if (d->way == KL_SPWAY_PACKED) apply_packed(self, d, x, y);
    else apply_warp(d, x, y);
}

/* ---------------------------------------------------------------- blocks of vectors */

#define WARP_BLOCK(BYTES, NV)                                                                               \
    {KL_BARE(grid, threads, 0, is_device_ptr(STORED_POINTERS, xs, y) firstprivate(nrow, width, nvec, ldy)){ \
        const kl_spargs a = STORED;                                                                         \
    kl_sp_warp_block(&a, BYTES, NV, nvec, xs, y, ldy);                                                      \
    }                                                                                                       \
    }

static void warp_block(const kl_spdev *d, int nvec, int nv, const double *xs, double *y, int64_t ldy)
{
    STORED_FIELDS(d);
    const int bytes = d->args.index_bytes, threads = d->threads, grid = blocks(nrow * 32, threads);
    KL_BY_SIZE(WARP_BLOCK, 2, 4, bytes, nv);
}

static void thread_block(const kl_spdev *d, int nvec, int nv, const double *xs, double *y, int64_t ldy)
{
    const kl_spargs *const a = (const kl_spargs *)d->device_args.addr;
    const int bytes = d->args.index_bytes, threads = d->threads,
              grid = blocks(d->args.nrow * nv / 2, threads);
    KL_BARE(grid, threads, 0, is_device_ptr(a, xs, y) firstprivate(bytes, nv, nvec, ldy))
    if (bytes == 4 && nv == 8) kl_sp_thread_block(a, 4, 8, nvec, xs, y, ldy);
    else kl_sp_thread_block(a, bytes, nv, nvec, xs, y, ldy);
}

static void apply_block(const kl_spdev *d, int nvec, int nv, const double *x, int64_t ldx, double *y,
                        int64_t ldy)
{
    double *const xs = kl_device(d->x);
    const int64_t ncol = d->args.ncol;
    const int grid = blocks(ncol * nv, GATHER);
    KL_BARE(grid, 256, 0, is_device_ptr(x, xs) firstprivate(ncol, nvec, nv, ldx))
    kl_sp_gather(ncol, nvec, nv, x, ldx, xs);
    if (d->way == KL_SPWAY_PACKED) kl_offload_packed_block(d, nvec, nv, xs, y, ldy);
    else if (d->way == KL_SPWAY_THREAD) thread_block(d, nvec, nv, xs, y, ldy);
    else warp_block(d, nvec, nv, xs, y, ldy);
}
#endif

/* ---------------------------------------------------------------- the table */

kl_spmachine kl_offload_spmachine(const kl_offload *self)
{
    /* from sm_90 on, where bulk copies are; older GPUs take the kernels that need neither */
    enum { SHARED_BYTES = 227 << 10 };
    return (kl_spmachine){.warps = self->tensor, .nblock = self->nsm, .shared_bytes = SHARED_BYTES};
}

kl_status kl_offload_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const kl_spmachine machine = kl_offload_spmachine(self);
    if (s->m->nrow > INT_MAX)
        return kl_fail(err, KL_EABSENT, "--exec offload: a matrix of %lld rows; 2^31 - 1 are supported",
                       (long long)s->m->nrow);
    if (s->way >= KL_SPWAY_CUSPARSE)
        return kl_fail(err, KL_EABSENT, "--exec offload: way %s belongs to --exec cuda",
                       kl_spway_name(s->way));
    return kl_spdev_prepare(ex, &machine, s, err);
}

void kl_offload_spmv_release(kl_exec *ex, kl_spmv *s) { kl_spdev_release(ex, s); }

kl_status kl_offload_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr xp, int64_t ldx, kl_dptr yp,
                                int64_t ldy, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    kl_spdev *d = s->plan;
    int nv = 1;
    const int bare = KL_OFFLOAD_BARE && self->tensor;
    if (bare && !d->args.symmetric) {
        const kl_status st = kl_spdev_ready(ex, s, nvec, &d, &nv, err);
        if (st != KL_OK) return st;
    }
#if KL_OFFLOAD_BARE
    if (bare && nv > 1) {
        apply_block(d, nvec, nv, x, ldx, y, ldy);
        return KL_OK;
    }
#endif
    for (int v = 0; v < nvec; v++) {
        if (d->args.symmetric) kl_offload_fill(ex, s->m->nrow, 0.0, kl_dptr_at(yp, v * ldy));
#if KL_OFFLOAD_BARE
        if (bare) {
            apply_one(self, d, x + v * ldx, y + v * ldy);
            continue;
        }
#endif
        apply_plain(self, d, x + v * ldx, y + v * ldy);
    }
    return KL_OK;
}
