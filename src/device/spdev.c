/* Lays sparse matrices out for devices.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/spdev.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/par.h"

enum {
    GROUP = 8,
    MANY = 256,      /* rows at least this long keep a warp busy */
    /* threads of a block where a warp takes a row: a block's rows follow each other and have much the same
       columns, so that more of x comes from the first cache (N2 with seven-fold excitations 2.7 ms, with 128
       threads 3.7; elsewhere the same) */
    NEIGHBOURS = 512
};

/* ---------------------------------------------------------------- choice */

/* Figures of one H200 and 16 cores, where this machine was not measured. Short rows go by TILES (0.353
   instead of 0.735 ms for 91 million non-zeros), long ones of a short x by PACKED (0.078 instead of 0.098 ms
   for 31 million); long rows of a long x come as fast by a warp each (N2 with seven-fold excitations: 2.6 ms,
   TILES 2.7). */
static const kl_layout_cost elsewhere[2] = {{50000, 4.2}, {28000, 0.6}};

kl_spway kl_spway_choose(const kl_spmachine *machine, const kl_spmat *m, int64_t products, int nthread,
                         const kl_layout_cost cost[2], int64_t *pays)
{
    const int is_long = m->nnz >= MANY * m->nrow,
              is_short_x = m->ncol <= KL_PACKED_COLUMNS * KL_PACKED_BLOCKS;
    const kl_layout_cost c = cost[is_long].lay_out > 0 ? cost[is_long] : elsewhere[is_long];
    *pays = 0;
    if (machine->warps == 0) return KL_SPWAY_THREAD;
    if (m->format == KL_SP_HYBRID) return KL_SPWAY_WARP;
    if (m->format != KL_SP_CSR) return KL_SPWAY_THREAD;
    if (m->symmetric || m->nnz < 1000000 || (is_long && !is_short_x)) return KL_SPWAY_WARP;
    const double needed = c.lay_out / c.gain / (nthread > 1 ? nthread : 1);
    if (!(c.gain > 0 && needed < 0x1p62)) return KL_SPWAY_WARP;
    *pays = (int64_t)needed;
    return products < *pays ? KL_SPWAY_WARP : is_long ? KL_SPWAY_PACKED : KL_SPWAY_TILES;
}

/* ---------------------------------------------------------------- to the device */

/* Bytes to a new array of the device; whole doubles, as executors count. */
static kl_status send(kl_exec *ex, kl_spdev *d, const void *from, int64_t bytes, const void **to, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = bytes / 8, rest = bytes - 8 * n;
    kl_dptr *const p = &d->array[d->narray];
    *to = NULL;
    if (bytes == 0) return KL_OK;
    KL_TRY(ex->vt.alloc(ex, n + 1, p, err));
    d->narray++;
    d->bytes += bytes;
    if (n > 0) KL_TRY(ex->vt.upload(ex, *p, from, n, err));
    if (rest > 0) {
        double last = 0;
        memcpy(&last, (const char *)from + 8 * n, (size_t)rest);
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(*p, n), &last, 1, err));
    }
    *to = (const void *)p->addr;
out:
    return st;
}

static kl_status send_offsets(kl_exec *ex, kl_spdev *d, const kl_spmat *m, const void *array, int64_t n,
                              const int64_t **to, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *wide = NULL;
    KL_TRY(kl_alloc(&wide, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) wide[i] = kl_sp_offset(m, array, i);
    KL_TRY(send(ex, d, wide, 8 * n, (const void **)to, err));
out:
    kl_free(&wide);
    return st;
}

static kl_status send_stored(kl_exec *ex, kl_spdev *d, const kl_spmat *m, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spargs *const a = &d->args;
    a->width = m->width;
    a->height = m->height;
    a->nslice = m->nslice;
    KL_TRY(send(ex, d, m->value, 8 * m->nplace, (const void **)&a->value, err));
    KL_TRY(send(ex, d, m->column, m->index_bytes * m->nplace, &a->column, err));
    KL_TRY(send(ex, d, m->rest_value, 8 * m->nrest, (const void **)&a->rest_value, err));
    KL_TRY(send(ex, d, m->rest_column, m->index_bytes * m->nrest, &a->rest_column, err));
    if (m->length != NULL) KL_TRY(send(ex, d, m->length, 4 * m->nrow, (const void **)&a->length, err));
    if (m->order != NULL) KL_TRY(send(ex, d, m->order, 4 * m->nrow, (const void **)&a->order, err));
    if (m->slice_off != NULL) KL_TRY(send_offsets(ex, d, m, m->slice_off, m->nslice + 1, &a->slice_off, err));
    if (m->start != NULL)
        KL_TRY(send_offsets(ex, d, m, m->start, m->nrow + (m->end == NULL), &a->start, err));
    if (m->end != NULL) KL_TRY(send_offsets(ex, d, m, m->end, m->nrow, &a->end, err));
out:
    return st;
}

/* ---------------------------------------------------------------- PACKED */

typedef struct packing {
    const kl_spmat *m;
    int step_bytes, nblock;
    int64_t width; /* columns of a block */
    uint32_t *group; /* [nblock * nrow + 1]: counts, then offsets */
    double *value;
    void *step;
    uint16_t *base;
} packing;

enum { PACK_ROWS = 512 };

/* index of row i's first non-zero in this column or behind it */
static int64_t first_from(const kl_spmat *m, int64_t i, int64_t column)
{
    int64_t low = kl_sp_offset(m, m->start, i), high = kl_sp_offset(m, m->start, i + 1);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (kl_sp_column(m, m->rest_column, middle) < column) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Groups of a run; writes them where p->value is there. */
static uint32_t pack_run(const packing *p, int64_t run)
{
    const kl_spmat *const m = p->m;
    const int64_t i = run % m->nrow, block = run / m->nrow, longest = p->step_bytes == 1 ? 255 : 65535;
    const int64_t from = block > 0 ? first_from(m, i, block * p->width) : kl_sp_offset(m, m->start, i);
    const int64_t to =
        block + 1 < p->nblock ? first_from(m, i, (block + 1) * p->width) : kl_sp_offset(m, m->start, i + 1);
    const int write = p->value != NULL;
    const int64_t first = write ? p->group[run] : 0, n = write ? p->group[run + 1] - p->group[run] : 0;
    int64_t g = -1, at = 0; /* the group begun last, and the column that it has come to */
    int filled = GROUP;
    for (int64_t k = from; k < to; k++) {
        const int64_t c = kl_sp_column(m, m->rest_column, k);
        const double v = m->rest_value[k];
        if (filled < GROUP && (c - at - 1) / longest >= GROUP - filled) { /* no bridge within the group */
            while (write && filled < GROUP) {
                p->value[8 * first + (filled / 2 * n + g) * 2 + filled % 2] = 0.0;
                filled++;
            }
            filled = GROUP;
        }
        if (filled == GROUP) {
            g++;
            filled = 0;
            at = p->step_bytes == 1 ? c & ~INT64_C(255) : c & ~INT64_C(65535);
            if (write) p->base[first + g] = (uint16_t)(c >> (8 * p->step_bytes));
        }
        for (;;) {
            const int64_t step = c - at <= longest ? c - at : longest;
            const int there = at + step == c;
            if (write) {
                p->value[8 * first + (filled / 2 * n + g) * 2 + filled % 2] = there ? v : 0.0;
                if (p->step_bytes == 1) ((uint8_t *)p->step)[8 * (first + g) + filled] = (uint8_t)step;
                else ((uint16_t *)p->step)[8 * (first + g) + filled] = (uint16_t)step;
            }
            filled++;
            at += step;
            if (there) break;
        }
    }
    return (uint32_t)(g + 1); /* what is not written of the last group is 0: arrays come so */
}

static void pack_task(void *self, int64_t task, int thread)
{
    const packing *const p = self;
    (void)thread;
    for (int64_t run = task * PACK_ROWS; run < (task + 1) * PACK_ROWS && run < p->nblock * p->m->nrow;
         run++) {
        const uint32_t n = pack_run(p, run);
        if (p->value == NULL) p->group[run + 1] = n;
    }
}

static int64_t count_groups(packing *p, int nthread, int step_bytes)
{
    int64_t n = 0;
    p->step_bytes = step_bytes;
    kl_par_for(nthread, (p->nblock * p->m->nrow + PACK_ROWS - 1) / PACK_ROWS, pack_task, p);
    for (int64_t run = 0; run < p->nblock * p->m->nrow; run++) n += p->group[run + 1];
    return n;
}

static kl_status make_packed(kl_exec *ex, const kl_spmachine *machine, kl_spdev *d, const kl_spmat *m,
                             kl_err *err)
{
    enum { KEEP = 4096 };
    kl_status st = KL_OK;
    packing p = {.m = m, .nblock = 1};
    if (m->nrow > INT32_MAX)
        return kl_fail(err, KL_EABSENT, "way packed holds 2^31 rows; this matrix has %lld",
                       (long long)m->nrow);
    if (m->ncol <= KL_PACKED_COLUMNS * KL_PACKED_BLOCKS &&
        m->nrow <= (int64_t)KL_PACKED_ROWS * machine->nblock)
        p.nblock = (int)((m->ncol + KL_PACKED_COLUMNS - 1) / KL_PACKED_COLUMNS);
    if (p.nblock < 1) p.nblock = 1;
    p.width = ((m->ncol + p.nblock - 1) / p.nblock + 1) / 2 * 2;
    const int64_t nrun = p.nblock * m->nrow, ntask = (nrun + PACK_ROWS - 1) / PACK_ROWS;
    KL_TRY(kl_alloc(&p.group, nrun + 1, KL_MEM_MATRIX, err));
    const int64_t narrow = m->ncol <= 1 << 24 ? count_groups(&p, ex->nthread, 1) : INT64_MAX / 74,
                  wide = count_groups(&p, ex->nthread, 2);
    int64_t n = wide;
    if (narrow * 74 <= wide * 82) n = count_groups(&p, ex->nthread, 1);
    if (n > UINT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT, "%lld groups of non-zeros; way packed has room for %u", (long long)n,
                       UINT32_MAX));
    for (int64_t run = 0; run < nrun; run++) p.group[run + 1] += p.group[run];
    KL_TRY(kl_alloc(&p.value, n * GROUP, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc_bytes(&p.step, n * GROUP, (size_t)p.step_bytes, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&p.base, n, KL_MEM_MATRIX, err));
    kl_par_for(ex->nthread, ntask, pack_task, &p);
    kl_spargs *const a = &d->args;
    a->step_bytes = p.step_bytes;
    a->nxblock = p.nblock;
    a->nshared = (int)(p.width <= KL_PACKED_COLUMNS ? p.width : KEEP);
    KL_TRY(send(ex, d, p.value, n * GROUP * 8, (const void **)&a->packed, err));
    KL_TRY(send(ex, d, p.step, n * GROUP * p.step_bytes, &a->step, err));
    KL_TRY(send(ex, d, p.base, 2 * n, (const void **)&a->base, err));
    KL_TRY(send(ex, d, p.group, 4 * (nrun + 1), (const void **)&a->group, err));
out:
    kl_free(&p.group);
    kl_free(&p.value);
    kl_free(&p.step);
    kl_free(&p.base);
    return st;
}

/* ---------------------------------------------------------------- TILES */

typedef struct part {
    uint32_t nstep, nslice; /* of one range */
    uint32_t first_step, first_slice;
} part;

typedef struct tiling {
    const kl_spmat *m;
    int nrange, ndense, nworker;
    int64_t width; /* columns of a dense block */
    uint32_t *range;
    part *part; /* [nrange][ndense + 1] */
    kl_spshare *share, *rest;
    double *value[2]; /* dense, far */
    uint16_t *dense_column;
    uint32_t *far_column;
    uint16_t *row[2];
    struct scratch *scratch; /* [nthread] */
    int writing;
} tiling;

typedef struct scratch {
    int64_t at[KL_TILE_ROWS]; /* next non-zero of a row */
    uint32_t count[KL_TILE_ROWS]; /* in this part */
    uint16_t order[KL_TILE_ROWS];
    uint32_t bound[KL_TILE_ROWS / 32 + 2]; /* steps up to the end of a slice */
    uint32_t place[KL_TILE_ROWS / 32 + 1], from[KL_TILE_ROWS / 32 + 1];
    uint16_t owner[KL_TILE_ROWS / 32 + 1];
    uint32_t *bucket; /* [longest + 2] */
    uint32_t *load, *have; /* [shares of a part] */
} scratch;

/* Longest first, rows of one length in their order. */
static void sort_by_count(scratch *w, int nrow, int64_t longest)
{
    memset(w->bucket, 0, (size_t)(longest + 2) * sizeof(*w->bucket));
    for (int r = 0; r < nrow; r++) w->bucket[w->count[r]]++;
    uint32_t before = 0;
    for (int64_t c = longest; c >= 0; c--) {
        const uint32_t n = w->bucket[c];
        w->bucket[c] = before;
        before += n;
    }
    for (int r = 0; r < nrow; r++) w->order[w->bucket[w->count[r]]++] = (uint16_t)r;
}

/* Deals the slices out to n shares, the widest first, each to the share that has least; bound: where slices
   end when they lie as sorted. Afterwards place[s] is the slice's number in the layout, from[s] its first
   step. */
static void deal(scratch *w, const part *p, int n, kl_spshare *out)
{
    for (int k = 0; k < n; k++) w->load[k] = w->have[k] = 0;
    for (uint32_t s = 0; s < p->nslice; s++) {
        int least = 0;
        for (int k = 1; k < n; k++)
            if (w->load[k] < w->load[least]) least = k;
        w->owner[s] = (uint16_t)least;
        w->load[least] += w->bound[s] - (s > 0 ? w->bound[s - 1] : 0);
        w->have[least]++;
    }
    uint32_t slice = 0, step = 0;
    for (int k = 0; k < n; k++) {
        out[k] =
            (kl_spshare){p->first_step + step, p->first_step + step + w->load[k], p->first_slice + slice, 0};
        step += w->load[k];
        slice += w->have[k];
        w->load[k] = out[k].from;
        w->have[k] = out[k].slice;
    }
    for (uint32_t s = 0; s < p->nslice; s++) {
        const int k = w->owner[s];
        w->place[s] = w->have[k]++;
        w->from[s] = w->load[k];
        w->load[k] += w->bound[s] - (s > 0 ? w->bound[s - 1] : 0);
    }
}

static void put_step(tiling *t, int far, int64_t step, int lane, double value, int64_t column, int last)
{
    const int64_t quad = step / 4, k = step % 4;
    t->value[far][quad * 128 + k / 2 * 64 + lane * 2 + k % 2] = value;
    if (far) t->far_column[quad * 128 + lane * 4 + k] = (uint32_t)column | (last ? UINT32_C(1) << 31 : 0);
    else t->dense_column[quad * 128 + lane * 4 + k] = (uint16_t)((uint32_t)column | (last ? 1U << 15 : 0));
}

static void tile_task(void *self, int64_t range, int thread)
{
    tiling *const t = self;
    const kl_spmat *const m = t->m;
    scratch *const w = &t->scratch[thread];
    const int64_t first = t->range[range], nrow = t->range[range + 1] - first;
    for (int64_t r = 0; r < nrow; r++) w->at[r] = kl_sp_offset(m, m->start, first + r);
    for (int b = 0; b <= t->ndense; b++) {
        const int far = b == t->ndense;
        part *const p = &t->part[range * (t->ndense + 1) + b];
        const int64_t low = far ? 0 : b * t->width, high = far ? m->ncol : low + t->width;
        for (int64_t r = 0; r < nrow; r++) {
            const int64_t end = kl_sp_offset(m, m->start, first + r + 1);
            int64_t k = w->at[r];
            if (far) k = end;
            else
                while (k < end && kl_sp_column(m, m->rest_column, k) < high) k++;
            w->count[r] = (uint32_t)(k - w->at[r]);
        }
        sort_by_count(w, (int)nrow, m->longest);
        uint32_t nslice = 0, nstep = 0;
        for (int64_t i = 0; i < nrow; i += 32) {
            uint32_t wide = w->count[w->order[i]];
            if (wide == 0 && far) wide = 1; /* every row of y is written */
            if (wide == 0) break;
            nstep += wide;
            w->bound[nslice++] = nstep;
        }
        if (t->writing) {
            kl_spshare *const out = far ? t->rest + range * (t->ndense > 0 ? t->ndense : 1) * t->nworker
                                        : t->share + (range * t->ndense + b) * t->nworker;
            deal(w, p, far ? (t->ndense > 0 ? t->ndense : 1) * t->nworker : t->nworker, out);
            for (uint32_t s = 0; s < nslice; s++) {
                const uint32_t wide = w->bound[s] - (s > 0 ? w->bound[s - 1] : 0);
                for (int lane = 0; lane < 32; lane++) {
                    const int64_t i = 32 * (int64_t)s + lane;
                    const int64_t r = i < nrow ? w->order[i] : 0, n = i < nrow ? w->count[r] : 0;
                    t->row[far][32 * (int64_t)w->place[s] + lane] = i < nrow ? (uint16_t)r : KL_TILE_NO_ROW;
                    for (uint32_t k = 0; k < wide; k++) {
                        const int64_t at = w->at[r] + k;
                        const int here = k < n;
                        put_step(t, far, (int64_t)w->from[s] + k, lane, here ? m->rest_value[at] : 0.0,
                                 here ? kl_sp_column(m, m->rest_column, at) - low : 0, k + 1 == wide);
                    }
                }
            }
        } else {
            p->nslice = nslice;
            p->nstep = nstep;
        }
        for (int64_t r = 0; r < nrow; r++) w->at[r] += w->count[r];
    }
}

/* Ranges of equal work, a multiple of `nblock` of them, none longer than KL_TILE_ROWS. */
static kl_status cut_ranges(tiling *t, int nblock, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_spmat *const m = t->m;
    for (int64_t n = nblock; n <= m->nrow + nblock; n += nblock) {
        int64_t longest = 0;
        KL_TRY(kl_realloc(&t->range, n + 1, KL_MEM_MATRIX, err));
        const int64_t all = kl_sp_offset(m, m->start, m->nrow) + 4 * m->nrow;
        t->range[0] = 0;
        for (int64_t k = 1; k <= n; k++) {
            int64_t low = t->range[k - 1], high = m->nrow;
            const double wanted = (double)all * (double)k / (double)n;
            while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if ((double)(kl_sp_offset(m, m->start, middle) + 4 * middle) < wanted) low = middle + 1;
                else high = middle;
            }
            t->range[k] = (uint32_t)(k == n ? m->nrow : low);
            if (t->range[k] - t->range[k - 1] > longest) longest = t->range[k] - t->range[k - 1];
        }
        t->nrange = (int)n;
        if (longest <= KL_TILE_ROWS) break;
    }
out:
    return st;
}

/* Columns from 0 on that are dense enough to pay for bringing x to every range. */
static kl_status dense_columns(const kl_spmat *m, int nrange, int64_t *out, kl_err *err)
{
    enum { STRIP = 1024 };
    kl_status st = KL_OK;
    int64_t *count = NULL;
    const int64_t nstrip = (m->ncol + STRIP - 1) / STRIP;
    KL_TRY(kl_alloc(&count, nstrip, KL_MEM_WORK, err));
    for (int64_t k = 0; k < m->nnz; k++) count[kl_sp_column(m, m->rest_column, k) / STRIP]++;
    int64_t s = 0;
    /* a gather moves 32 bytes, bringing an element 8 for each range: even at nrange / 4 */
    while (s < nstrip && count[s] >= (int64_t)nrange * STRIP) s++;
    *out = s * STRIP < m->ncol ? s * STRIP : m->ncol;
out:
    kl_free(&count);
    return st;
}

static kl_status make_tiles(kl_exec *ex, const kl_spmachine *machine, kl_spdev *d, const kl_spmat *m,
                            kl_err *err)
{
    kl_status st = KL_OK;
    tiling t = {.m = m, .nworker = KL_TILE_WARPS - 1};
    int64_t dense = 0, nstep[2] = {0, 0}, nslice[2] = {0, 0}, most_rows = 0;
    if (m->ncol > INT32_MAX)
        return kl_fail(err, KL_EABSENT, "way tiles holds columns below 2^31; this matrix has %lld",
                       (long long)m->ncol);
    KL_TRY(cut_ranges(&t, machine->nblock, err));
    KL_TRY(dense_columns(m, t.nrange, &dense, err));
    t.ndense = (int)((dense + KL_TILE_COLUMNS - 1) / KL_TILE_COLUMNS);
    t.width = t.ndense > 0 ? ((dense + t.ndense - 1) / t.ndense + 1) / 2 * 2 : 0;
    const int nthread = ex->nthread, npart = t.ndense + 1, nrest = t.ndense > 0 ? t.ndense : 1;
    KL_TRY(kl_alloc(&t.part, (int64_t)t.nrange * npart, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&t.scratch, nthread, KL_MEM_WORK, err));
    for (int k = 0; k < nthread; k++) {
        KL_TRY(kl_alloc(&t.scratch[k].bucket, m->longest + 2, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&t.scratch[k].load, nrest * t.nworker, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&t.scratch[k].have, nrest * t.nworker, KL_MEM_WORK, err));
    }
    kl_par_for(nthread, t.nrange, tile_task, &t);
    for (int64_t k = 0; k < (int64_t)t.nrange * npart; k++) {
        const int far = k % npart == t.ndense;
        part *const p = &t.part[k];
        p->first_step = (uint32_t)nstep[far];
        p->first_slice = (uint32_t)nslice[far];
        nstep[far] = (nstep[far] + p->nstep + 3) / 4 * 4; /* parts begin with a quad of their own */
        nslice[far] += p->nslice;
    }
    if (nstep[0] > UINT32_MAX || nstep[1] > UINT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT, "way tiles: %lld steps; 2^32 are supported",
                       (long long)(nstep[0] + nstep[1])));
    for (int far = 0; far < 2; far++) {
        KL_TRY(kl_alloc(&t.value[far], nstep[far] * 32, KL_MEM_MATRIX, err));
        /* kernels read a slice ahead */
        KL_TRY(kl_alloc(&t.row[far], (nslice[far] + 2) * 32, KL_MEM_MATRIX, err));
    }
    KL_TRY(kl_alloc(&t.dense_column, nstep[0] * 32, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&t.far_column, nstep[1] * 32, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&t.share, (int64_t)t.nrange * t.ndense * t.nworker, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&t.rest, (int64_t)t.nrange * nrest * t.nworker, KL_MEM_MATRIX, err));
    t.writing = 1;
    kl_par_for(nthread, t.nrange, tile_task, &t);
    for (int k = 0; k < t.nrange; k++)
        if ((int64_t)t.range[k + 1] - t.range[k] > most_rows)
            most_rows = (int64_t)t.range[k + 1] - t.range[k];
    kl_spargs *const a = &d->args;
    a->nrange = t.nrange;
    a->ndense = t.ndense;
    a->dense_width = (int)t.width;
    a->most_rows = (int)((most_rows + 1) / 2 * 2);
    a->nworker = t.nworker;
    KL_TRY(send(ex, d, t.range, 4 * (t.nrange + 1), (const void **)&a->range, err));
    KL_TRY(send(ex, d, t.share, (int64_t)sizeof(*t.share) * t.nrange * t.ndense * t.nworker,
                (const void **)&a->share, err));
    KL_TRY(send(ex, d, t.rest, (int64_t)sizeof(*t.rest) * t.nrange * nrest * t.nworker,
                (const void **)&a->rest, err));
    KL_TRY(send(ex, d, t.value[0], nstep[0] * 256, (const void **)&a->dense_value, err));
    KL_TRY(send(ex, d, t.value[1], nstep[1] * 256, (const void **)&a->far_value, err));
    KL_TRY(send(ex, d, t.dense_column, nstep[0] * 64, (const void **)&a->dense_column, err));
    KL_TRY(send(ex, d, t.far_column, nstep[1] * 128, (const void **)&a->far_column, err));
    KL_TRY(send(ex, d, t.row[0], (nslice[0] + 2) * 64, (const void **)&a->dense_row, err));
    KL_TRY(send(ex, d, t.row[1], (nslice[1] + 2) * 64, (const void **)&a->far_row, err));
out:
    kl_free(&t.range);
    kl_free(&t.part);
    kl_free(&t.share);
    kl_free(&t.rest);
    for (int far = 0; far < 2; far++) {
        kl_free(&t.value[far]);
        kl_free(&t.row[far]);
    }
    kl_free(&t.dense_column);
    kl_free(&t.far_column);
    for (int k = 0; k < ex->nthread && t.scratch != NULL; k++) {
        kl_free(&t.scratch[k].bucket);
        kl_free(&t.scratch[k].load);
        kl_free(&t.scratch[k].have);
    }
    kl_free(&t.scratch);
    return st;
}

/* ---------------------------------------------------------------- prepare */

static void clear(kl_exec *ex, kl_spdev **spdev)
{
    kl_spdev *const d = *spdev;
    if (d == NULL) return;
    clear(ex, &d->block);
    for (int k = 0; k < d->narray; k++) ex->vt.release(ex, &d->array[k]);
    ex->vt.release(ex, &d->device_args);
    ex->vt.release(ex, &d->x);
    kl_free(spdev);
}

static kl_status make(kl_exec *ex, const kl_spmachine *machine, const kl_spmat *m, kl_spway way, int threads,
                      kl_spdev **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spdev *d = NULL;
    KL_TRY(kl_alloc(&d, 1, KL_MEM_MISC, err));
    d->way = way;
    d->threads = threads > 0 ? threads : way == KL_SPWAY_WARP ? NEIGHBOURS : 128;
    d->args = (kl_spargs){
        .nrow = m->nrow, .ncol = m->ncol, .index_bytes = m->index_bytes, .symmetric = m->symmetric};
    const int64_t mean = m->nrow > 0 ? m->nnz / m->nrow : 0;
    d->lanes = m->format == KL_SP_HYBRID || mean >= 48 ? 32 : mean >= 24 ? 16 : mean >= 8 ? 8 : 4;
    if (d->threads < d->lanes)
        d->lanes = d->threads; /* a block of 16 is half of a warp (mahmoud2018, Table 6) */
    if (way == KL_SPWAY_PACKED) KL_TRY(make_packed(ex, machine, d, m, err));
    else if (way == KL_SPWAY_TILES) KL_TRY(make_tiles(ex, machine, d, m, err));
    else if (way < KL_SPWAY_CUSPARSE) KL_TRY(send_stored(ex, d, m, err));
    KL_TRY(ex->vt.alloc(ex, (int64_t)sizeof(d->args) / 8, &d->device_args, err));
    KL_TRY(ex->vt.upload(ex, d->device_args, (const double *)&d->args, (int64_t)sizeof(d->args) / 8, err));
    *out = d;
    return KL_OK;
out:
    clear(ex, &d);
    return st;
}

kl_status kl_spdev_prepare(kl_exec *ex, const kl_spmachine *machine, kl_spmv *s, kl_err *err)
{
    const kl_spmat *const m = s->m;
    const kl_spway way = s->way == KL_SPWAY_AUTO
                             ? kl_spway_choose(machine, m, s->products, ex->nthread, ex->layout, &s->pays)
                             : s->way;
    const int rows = m->format == KL_SP_CSR || m->format == KL_SP_HYBRID;
    const int known = way == KL_SPWAY_THREAD  ? !rows || machine->warps == 0
                      : machine->warps == 0   ? 0
                      : way == KL_SPWAY_WARP  ? rows
                      : way == KL_SPWAY_WARPS ? m->format == KL_SP_HYBRID && !m->symmetric
                                              : m->format == KL_SP_CSR && !m->symmetric;
    if (!known)
        return kl_fail(err, KL_EABSENT, "executor %s: no way '%s' for a matrix in format %s%s", ex->name,
                       kl_spway_name(way), kl_spformat_name(m->format), m->symmetric ? " (one half)" : "");
    s->way = way;
    return make(ex, machine, m, way, s->threads, (kl_spdev **)&s->plan, err);
}

void kl_spdev_explain(const kl_exec *ex, const kl_spmachine *machine, const kl_call *call, kl_choice *c)
{
    int64_t pays;
    const kl_spway way =
        kl_spway_choose(machine, call->matrix, call->products, ex->nthread, ex->layout, &pays);
    c->kernel = kl_spway_name(way);
    c->nlaunch = 1;
    if (call->products < pays)
        snprintf(c->why, sizeof c->why, "another layout would pay from %lld products on; here are %lld",
                 (long long)pays, (long long)call->products);
    else if (pays > 0)
        snprintf(c->why, sizeof c->why, "laid out anew, which pays from %lld products on", (long long)pays);
    else
        snprintf(c->why, sizeof c->why, "no other layout is faster for format %s and such rows",
                 kl_spformat_name(call->matrix->format));
}

void kl_spdev_release(kl_exec *ex, kl_spmv *s) { clear(ex, (kl_spdev **)&s->plan); }

kl_status kl_spdev_ready(kl_exec *ex, kl_spmv *s, int nvec, kl_spdev **out, int *nv, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spdev *d = s->plan;
    kl_spmat *sliced = NULL;
    *nv = nvec == 1 ? 1 : nvec == 2 ? 2 : nvec <= 4 ? 4 : nvec <= 8 ? 8 : 16;
    /* rows are short: vectors side by side want a few threads a row, and are read through the caches */
    if (*nv > 1 && d->way == KL_SPWAY_TILES) {
        if (d->block == NULL) {
            static const kl_spmachine machine = {.warps = 1};
            KL_TRY(kl_spmat_convert(s->m, &(kl_spopts){.format = KL_SP_SELLR, .nthread = ex->nthread},
                                    &sliced, err));
            KL_TRY(make(ex, &machine, sliced, KL_SPWAY_THREAD, s->threads, &d->block, err));
        }
        d = d->block;
    }
    if (*nv > 1 && d->nv_room < *nv) {
        ex->vt.release(ex, &d->x);
        d->nv_room = 0;
        KL_TRY(ex->vt.alloc(ex, s->m->ncol * *nv, &d->x, err));
        d->nv_room = *nv;
    }
    *out = d;
out:
    kl_spmat_destroy(&sliced);
    return st;
}
