/* Sparse products on the host: how rows are shared out among threads, blocks of vectors laid side by side,
   halves of symmetric matrices.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/spmv_host.h"

#include <string.h>

#include "base/isa.h"
#include "base/mem.h"
#include "base/par.h"

enum {
    MAX_CHUNK = 64,      /* rows in this many pieces of equal work, whatever the number of threads */
    /* of a symmetric half: each piece adds to rows of its own copy, summed in order afterwards */
    MAX_HALF_CHUNK = 16,
    BLOCK = 4096,        /* rows that are laid side by side, or summed, by one task */
    SMALL = 20000        /* non-zeros below which threads cost more than they bring */
};

typedef struct plan {
    const kl_spmat *m;
    kl_spmv_units *units;
    kl_spmv_rows *rows;           /* of one vector; NULL: units */
    int nchunk;
    int64_t chunk[MAX_CHUNK + 1]; /* units */
    int64_t low[MAX_HALF_CHUNK];  /* first row that a chunk of a half adds to */
    double *z[MAX_HALF_CHUNK];    /* [chunk's last row - low][nv] */
    int nv_z;
    double *x, *y;                /* [ncol][nv], [nrow][nv] */
    int nv_room;
} plan;

static int64_t unit_rows(const kl_spmat *m)
{
    return m->format == KL_SP_SELL || m->format == KL_SP_SELLR ? m->height : 1;
}

/* Entries, padding included, of units [0, u). */
static int64_t work_before(const kl_spmat *m, int64_t u)
{
    switch (m->format) {
    case KL_SP_CSR: return kl_sp_offset(m, m->start, u) + u;
    case KL_SP_HYBRID: return (u > 0 ? kl_sp_offset(m, m->end, u - 1) : 0) + u * m->width + u;
    case KL_SP_SELL:
    case KL_SP_SELLR: return kl_sp_offset(m, m->slice_off, u) + u;
    default: return u * (m->width + 1);
    }
}

static void find_lows(plan *s)
{
    const kl_spmat *const m = s->m;
    for (int c = 0; c < s->nchunk; c++) {
        s->low[c] = s->chunk[c];
        /* columns ascend: the first one is the smallest */
        for (int64_t i = s->chunk[c]; i < s->chunk[c + 1]; i++) {
            const int64_t start = kl_sp_offset(m, m->start, i), end = m->end != NULL
                                                                          ? kl_sp_offset(m, m->end, i)
                                                                          : kl_sp_offset(m, m->start, i + 1);
            const int64_t first = m->width > 0 && (m->length == NULL || m->length[i] > 0)
                                      ? kl_sp_column(m, m->column, i * m->width)
                                  : end > start ? kl_sp_column(m, m->rest_column, start)
                                                : i;
            if (first < s->low[c]) s->low[c] = first;
        }
    }
}

kl_status kl_host_spmv_prepare(kl_exec *ex, kl_spmv *spmv, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_spmat *const m = spmv->m;
    plan *s = NULL;
    if (spmv->way != KL_SPWAY_AUTO)
        return kl_fail(
            err, KL_EABSENT,
            "executor %s: products by way %s are for devices; the host has one way for each format", ex->name,
            kl_spway_name(spmv->way));
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    spmv->plan = s;
    s->m = m;
    s->units = m->index_bytes == 2 ? kl_spmv_units_16 : kl_spmv_units_32;
#if defined(__x86_64__)
    if ((m->format == KL_SP_CSR || m->format == KL_SP_HYBRID) && !m->symmetric && m->ncol <= INT32_MAX &&
        kl_isa_choose() <= KL_ISA_AVX2)
        s->rows = m->index_bytes == 2 ? kl_spmv_rows_gathered_16 : kl_spmv_rows_gathered_32;
#endif
    const int64_t nunit = (m->nrow + unit_rows(m) - 1) / unit_rows(m), work = work_before(m, nunit);
    const int64_t most = m->symmetric ? MAX_HALF_CHUNK : MAX_CHUNK;
    s->nchunk = (int)(nunit < most ? nunit : most);
    if (work < SMALL && s->nchunk > 1) s->nchunk = 1;
    for (int c = 0; c <= s->nchunk && s->nchunk > 0; c++) {
        int64_t low = c > 0 ? s->chunk[c - 1] : 0, high = nunit;
        const int64_t wanted = (int64_t)((double)work * c / s->nchunk);
        while (low < high && c < s->nchunk) { /* first unit with at least that much before it */
            const int64_t middle = low + (high - low) / 2;
            if (work_before(m, middle) < wanted) low = middle + 1;
            else high = middle;
        }
        s->chunk[c] = c < s->nchunk ? low : nunit;
    }
    if (m->symmetric) find_lows(s);
out:
    return st;
}

void kl_host_spmv_release(kl_exec *ex, kl_spmv *spmv)
{
    plan *s = spmv->plan;
    (void)ex;
    if (s == NULL) return;
    for (int c = 0; c < MAX_HALF_CHUNK; c++) kl_free(&s->z[c]);
    kl_free(&s->x);
    kl_free(&s->y);
    kl_free(&spmv->plan);
}

typedef struct product {
    plan *s;
    int nvec, nv; /* vectors, and storage for them side by side */
    const double *from;
    int64_t ldx;
    double *to;
    int64_t ldy;
    const double *x; /* [ncol][nv] */
    double *y;       /* [nrow][nv] */
} product;

static void gather_task(void *self, int64_t task, int thread)
{
    const product *const p = self;
    (void)thread;
    for (int64_t i = task * BLOCK; i < (task + 1) * BLOCK && i < p->s->m->ncol; i++)
        for (int v = 0; v < p->nv; v++) p->s->x[i * p->nv + v] = v < p->nvec ? p->from[i + v * p->ldx] : 0.0;
}

static void scatter_task(void *self, int64_t task, int thread)
{
    const product *const p = self;
    (void)thread;
    for (int64_t i = task * BLOCK; i < (task + 1) * BLOCK && i < p->s->m->nrow; i++)
        for (int v = 0; v < p->nvec; v++) p->to[i + v * p->ldy] = p->y[i * p->nv + v];
}

static void chunk_task(void *self, int64_t c, int thread)
{
    const product *const p = self;
    const plan *const s = p->s;
    (void)thread;
    double *z = NULL;
    if (s->m->symmetric) {
        memset(s->z[c], 0, (size_t)((s->chunk[c + 1] - s->low[c]) * p->nv) * sizeof(double));
        z = s->z[c] - s->low[c] * p->nv;
    }
    if (p->nv == 1 && s->rows != NULL) s->rows(s->m, s->chunk[c], s->chunk[c + 1], p->x, p->y);
    else s->units(s->m, s->chunk[c], s->chunk[c + 1], p->nv, p->x, p->y, z);
}

/* y += the mirrored halves, chunk by chunk in order. */
static void mirror_task(void *self, int64_t task, int thread)
{
    const product *const p = self;
    const plan *const s = p->s;
    (void)thread;
    const int64_t from = task * BLOCK, to = from + BLOCK < s->m->nrow ? from + BLOCK : s->m->nrow;
    for (int c = 0; c < s->nchunk; c++) {
        const int64_t low = s->low[c] > from ? s->low[c] : from,
                      high = s->chunk[c + 1] < to ? s->chunk[c + 1] : to;
        const double *const z = s->z[c];
        for (int64_t k = low * p->nv; k < high * p->nv; k++) p->y[k] += z[k - s->low[c] * p->nv];
    }
}

static kl_status make_room(plan *s, int nv, kl_err *err)
{
    kl_status st = KL_OK;
    if (nv > 1 && s->nv_room < nv) {
        s->nv_room = 0;
        KL_TRY(kl_realloc(&s->x, s->m->ncol * nv, KL_MEM_WORK, err));
        KL_TRY(kl_realloc(&s->y, s->m->nrow * nv, KL_MEM_WORK, err));
        s->nv_room = nv;
    }
    if (s->m->symmetric && s->nv_z < nv) {
        s->nv_z = 0;
        for (int c = 0; c < s->nchunk; c++)
            KL_TRY(kl_realloc(&s->z[c], (s->chunk[c + 1] - s->low[c]) * nv, KL_MEM_WORK, err));
        s->nv_z = nv;
    }
out:
    return st;
}

kl_status kl_host_spmv_apply(kl_exec *ex, kl_spmv *spmv, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                             int64_t ldy, kl_err *err)
{
    kl_status st = KL_OK;
    plan *const s = spmv->plan;
    const kl_spmat *const m = s->m;
    const int nthread = work_before(m, s->nchunk > 0 ? s->chunk[s->nchunk] : 0) < SMALL ? 1 : ex->nthread;
    const int nv = nvec == 1 ? 1 : nvec == 2 ? 2 : nvec <= 4 ? 4 : nvec <= 8 ? 8 : 16;
    KL_TRY(make_room(s, nv, err));
    product p = {.s = s,
                 .nvec = nvec,
                 .nv = nv,
                 .from = (const double *)x.addr,
                 .ldx = ldx,
                 .to = (double *)y.addr,
                 .ldy = ldy};
    p.x = nv == 1 ? p.from : s->x;
    p.y = nv == 1 ? p.to : s->y;
    if (nv > 1) kl_par_for(nthread, (m->ncol + BLOCK - 1) / BLOCK, gather_task, &p);
    kl_par_for(nthread, s->nchunk, chunk_task, &p);
    if (m->symmetric) kl_par_for(nthread, (m->nrow + BLOCK - 1) / BLOCK, mirror_task, &p);
    if (nv > 1) kl_par_for(nthread, (m->nrow + BLOCK - 1) / BLOCK, scatter_task, &p);
out:
    return st;
}
