/* Bond expansion: see expand.h. Outline, for every wavefunction psi:
     1. a few random columns Omega for each sector of the near side, the first of those that all sectors have,
        and K_b = Omega^T (near operator b)
     2. G = Omega^T H psi = sum over b of K_b psi (far operator b)^T, without what the known basis holds
     3. singular values of G say which of its rows are worth a state; these, orthonormal to what is known
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/expand.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/random.h"
#include "comm/ranks.h"
#include "dmrg/channel.h"
#include "dmrg/gramcolumns.h"
#include "dmrg/sectorfill.h"
#include "exec/eigmany.h"
#include "phase.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPARE = 2, /* rows of a sector's sketch beyond its share of the states to add; */
    SPARE_FULL = 8, /* and where sectors are filled up */
    CLEANINGS = 2, /* projections out of the known basis: one leaves rounding of what it takes away */
    FEWER = 4, /* rows of a wanted wavefunction over those of a light one */
    TOGETHER = 1 << 15 /* random numbers a thread makes at a time */
};
#define ROUNDING 1e-28 /* of |G|^2 before it was cleaned: what rounding leaves of a row in the known basis */

/* A sector of the far side and its partner on the near one. */
typedef struct strip {
    int near, far;
    int rows, few; /* of the sketch, of a wavefunction, and of a light one; 0: there is nothing to add */
    int dim, known; /* states of the enlarged block here; of the known basis */
    int sec; /* of the known basis, or -1 */
    int64_t g; /* [nstate rows x dim] */
    int count, taken, most; /* rows of all wavefunctions; states that are added, that could be */
    int64_t gram, first; /* [count x count] of `small`, [count] of `value` */
    int64_t e; /* the states taken: [dim x taken] */
} strip;

typedef struct sketch {
    kl_exec *ex;
    const kl_expand_opts *o;
    const kl_basis *near, *far;
    int nstrip;
    strip *strip; /* [sectors of the near side] */
    int ldomega; /* rows of Omega, those of the largest sector */
    int64_t nomega, ng, ne;
    kl_dptr omega, k, g, e;
    int64_t *kplace; /* [operators of the cut][adjoint 0, 1][near sectors]: of K, or -1 */
    int64_t nk;
    double *guess, *small, *value; /* of Omega; eigenvectors of G G^T, and values, ascending */
    double square; /* |G|^2 before the known basis was taken out of it */
} sketch;

static int known_sector(const kl_isometry *iso, int c)
{
    for (int k = 0; k < iso->basis.nsec; k++)
        if (iso->sec[k] == c) return k;
    return -1;
}

/* Rows of wavefunction v, and of those before it. */
static int rows_of(const sketch *t, const strip *s, int v)
{
    return v < t->o->nstate - t->o->nlight ? s->rows : s->few;
}
static int rows_before(const sketch *t, const strip *s, int v)
{
    const int heavy = t->o->nstate - t->o->nlight;
    return v < heavy ? v * s->rows : heavy * s->rows + (v - heavy) * s->few;
}

/* How many rows each sector's sketch has, and where all of it lies. */
static kl_status lay_out(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = t->o->wave.layout;
    const kl_isometry *const known = t->o->known.iso;
    const int left = t->o->side == KL_LEFT;
    int columns = 0;
    t->nstrip = t->near->nsec;
    KL_TRY(kl_alloc(&t->strip, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        strip *const s = &t->strip[e];
        *s = (strip){.near = e, .far = left ? lay->back[e] : lay->pair[e], .sec = -1};
        if (s->far < 0) continue;
        s->dim = t->far->dim[s->far];
        s->sec = known_sector(known, s->far);
        s->known = s->sec < 0 ? 0 : known->basis.dim[s->sec];
        const int room = s->dim - s->known < t->near->dim[e] ? s->dim - s->known : t->near->dim[e];
        const double share = (double)t->o->more * s->known / (double)known->basis.total;
        s->rows = (t->o->full ? SPARE_FULL : SPARE) + (int)ceil(1.2 * share);
        if (s->rows > room) s->rows = room;
        s->few = (s->rows + FEWER - 1) / FEWER;
        s->count = rows_before(t, s, t->o->nstate);
        s->g = t->ng;
        if (t->near->dim[e] > t->ldomega) t->ldomega = t->near->dim[e];
        if (s->rows > columns) columns = s->rows;
        t->ng += (int64_t)s->count * s->dim;
    }
    t->ldomega += t->ldomega % 2; /* pairs of numbers are moved together */
    t->nomega = (int64_t)t->ldomega * columns;
out:
    return st;
}

/* 1. Omega, of variance 1. */
static void guess_task(void *self, int64_t i, int thread)
{
    const sketch *const t = self;
    const int64_t from = i * TOGETHER, to = from + TOGETHER < t->nomega ? from + TOGETHER : t->nomega;
    (void)thread;
    for (int64_t k = from; k < to; k++) t->guess[k] = sqrt(3.0) * kl_random_at(t->o->seed, k);
}

static kl_status guess(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&t->guess, t->nomega, KL_MEM_WORK, err));
    kl_par_for(t->nomega > TOGETHER ? t->ex->nthread : 1, (t->nomega + TOGETHER - 1) / TOGETHER, guess_task,
               t);
    KL_TRY(kl_exec_copy_in(t->ex, t->guess, t->nomega, &t->omega, err));
out:
    kl_free(&t->guess);
    return st;
}

/* Sector that operator b of the near side, or its transpose, leads from into sector e. */
static int source(const kl_bigop *g, int b, int adjoint, int e)
{
    const int n = g->enlarged->basis.nsec;
    return adjoint ? g->dst[b * n + e] : g->src[b * n + e];
}

static int has_adjoint(const sketch *t, int b)
{
    const kl_bigop *const g = t->o->near;
    return g->block->mpo->op[g->cut][b].self ? 0 : 1;
}

static kl_part adjoint_part(kl_part p)
{
    return (kl_part){p.col, p.ncol, p.row, p.nrow, p.ld, !p.dag, p.packed, p.off, p.coef};
}

/* 1. K of operator b into sector s->near: Omega^T times each of its parts. */
static kl_status near_records(const sketch *t, const strip *s, int b, int adjoint, kl_batch *q, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const g = t->o->near;
    const int n = t->near->nsec, from = source(g, b, adjoint, s->near);
    const int64_t to = t->kplace[((int64_t)b * 2 + adjoint) * n + s->near],
                  at = (int64_t)b * n + (adjoint ? s->near : from);
    KL_TRY(kl_batch_open_group(q, to, (int64_t)s->rows * t->near->dim[from], err));
    KL_TRY(kl_batch_reserve(q, g->first[at + 1] - g->first[at], err));
    for (int64_t i = g->first[at]; i < g->first[at + 1]; i++) {
        const kl_part p = adjoint ? adjoint_part(g->part[i]) : g->part[i];
        kl_rec *const r = kl_batch_push(q);
        *r = (kl_rec){.kind = KL_REC_ADD,
                      .ta = 1,
                      .beta = 1,
                      .at_a = KL_AT_X,
                      .at_c = KL_AT_Y,
                      .m = s->rows,
                      .n = p.ncol,
                      .lda = t->ldomega,
                      .ldc = s->rows,
                      .a = p.row,
                      .c = to + (int64_t)p.col * s->rows,
                      .alpha = p.coef};
        if (p.off < 0) continue;
        r->kind = KL_REC_GEMM;
        r->tb = p.dag;
        r->at_b = (uint8_t)kl_bigop_at(g, &p);
        r->k = p.nrow;
        r->ldb = p.ld;
        r->b = p.off;
    }
    kl_batch_close_group(q, 0);
out:
    return st;
}

/* 1. All K that a segment of the wavefunction meets. */
static kl_status compress(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const near = t->o->near, *const far = t->o->far;
    const int n = t->near->nsec;
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(kl_alloc(&t->kplace, (int64_t)near->nop * 2 * n, KL_MEM_WORK, err));
    for (int b = 0; b < near->nop; b++)
        for (int adjoint = 0; adjoint <= 1; adjoint++)
            for (int e = 0; e < n; e++) {
                const strip *const s = &t->strip[e];
                int64_t *const place = &t->kplace[((int64_t)b * 2 + adjoint) * n + e];
                *place = -1;
                if (adjoint > has_adjoint(t, b) || s->rows == 0) continue;
                const int i = source(near, b, adjoint, e), j = source(far, b, adjoint, s->far);
                if (i < 0 || j < 0 || t->strip[i].far != j) continue;
                *place = t->nk;
                KL_TRY(near_records(t, s, b, adjoint, &q, err));
                t->nk += (int64_t)s->rows * t->near->dim[i];
            }
    q.zero = 1, q.nx = t->nomega, q.ny = t->nk;
    kl_bigop_bases(near, &q);
    if (t->nk > 0) {
        KL_TRY(t->ex->vt.alloc(t->ex, t->nk, &t->k, err));
        KL_TRY(kl_batch_run(&q, t->ex, t->omega, t->k, err));
    }
out:
    kl_batch_clear(&q);
    return st;
}

/* 2. The rows of wavefunction v, times one part of the far operator. */
static kl_rec far_record(const sketch *t, const strip *s, kl_part p, int v)
{
    const int ld = s->count, rows = rows_of(t, s, v);
    const int64_t to = s->g + rows_before(t, s, v) + (int64_t)p.row * ld;
    kl_rec r = {.kind = KL_REC_ADD,
                .beta = 1,
                .at_a = KL_AT_WORK,
                .at_c = KL_AT_Y,
                .m = rows,
                .n = p.nrow,
                .lda = s->rows,
                .ldc = ld,
                .a = (int64_t)p.col * s->rows,
                .c = to,
                .alpha = p.coef};
    if (p.off < 0) return r;
    r.kind = KL_REC_GEMM;
    r.tb = (uint8_t)!p.dag;
    r.at_b = (uint8_t)kl_bigop_at(t->o->far, &p);
    r.k = p.ncol;
    r.ldb = p.ld;
    r.b = p.off;
    return r;
}

/* 2. What operator b adds to the sketch of sector s->near, whose segment comes from sector `from`. */
static kl_status product_records(const sketch *t, const strip *s, int b, int adjoint, kl_batch *q,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const g = t->o->far;
    const kl_mpo *const m = g->block->mpo;
    const kl_cut_op *const o = &m->op[g->cut][b];
    const int n = t->far->nsec, from = source(t->o->near, b, adjoint, s->near);
    const int left = t->o->side == KL_LEFT, odd[2] = {o->odd, o->odd};
    const kl_layout *const lay = t->o->wave.layout;
    const strip *const x = &t->strip[from];
    /* rows of the wavefunction, of its segment before and after */
    const int row_from = left ? x->far : from, row_to = left ? s->far : s->near;
    const kl_basis *const row = left ? t->far : t->near;
    const double alpha =
        kl_phase_record(o->odd, kl_qn_odd(m->model, row->q[row_from])) *
        (adjoint ? kl_phase_adjoint(2, odd) : 1) *
        kl_channel_scalar(m, o, adjoint ? row_to : row_from, adjoint ? row_from : row_to, row);
    const int64_t at = (int64_t)b * n + (adjoint ? s->far : x->far);
    KL_TRY(kl_batch_reserve(q, t->o->nstate * (g->first[at + 1] - g->first[at] + 1), err));
    for (int v = 0; v < t->o->nstate; v++) {
        *kl_batch_push(q) = (kl_rec){.kind = KL_REC_GEMM,
                                     .tb = (uint8_t)left,
                                     .at_a = left ? KL_AT_RIGHT : KL_AT_LEFT,
                                     .at_b = KL_AT_X,
                                     .at_c = KL_AT_WORK,
                                     .m = rows_of(t, s, v),
                                     .n = x->dim,
                                     .k = t->near->dim[from],
                                     .lda = s->rows,
                                     .ldb = row->dim[row_from],
                                     .ldc = s->rows,
                                     .a = t->kplace[((int64_t)b * 2 + adjoint) * t->near->nsec + s->near],
                                     .b = v * lay->n + lay->off[row_from],
                                     .alpha = alpha * sqrt((double)s->rows / rows_of(t, s, v))};
        for (int64_t i = g->first[at]; i < g->first[at + 1]; i++)
            *kl_batch_push(q) = far_record(t, s, adjoint ? adjoint_part(g->part[i]) : g->part[i], v);
    }
out:
    return st;
}

/* 2. G. */
static kl_status multiply(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->near->nsec;
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < n; e++) {
        const strip *const s = &t->strip[e];
        int64_t most = 0;
        if (s->rows == 0) continue;
        KL_TRY(kl_batch_open_group(&q, s->g, (int64_t)s->count * s->dim, err));
        for (int b = 0; b < t->o->near->nop; b++)
            for (int adjoint = 0; adjoint <= 1; adjoint++) {
                if (t->kplace[((int64_t)b * 2 + adjoint) * n + e] < 0) continue;
                const strip *const x = &t->strip[source(t->o->near, b, adjoint, e)];
                KL_TRY(product_records(t, s, b, adjoint, &q, err));
                if (x->dim > most) most = x->dim;
            }
        kl_batch_close_group(&q, most * s->rows);
    }
    q.zero = 1, q.nx = t->o->wave.layout->n * t->o->nstate, q.ny = t->ng;
    kl_bigop_bases(t->o->far, &q);
    q.base[t->o->side == KL_LEFT ? KL_AT_RIGHT : KL_AT_LEFT] = t->k;
    KL_TRY(t->ex->vt.alloc(t->ex, t->ng, &t->g, err));
    KL_TRY(kl_batch_run(&q, t->ex, t->o->wave.psi, t->g, err));
out:
    kl_batch_clear(&q);
    return st;
}

/* One product of the two that take the known basis B out of columns A: WORK = B^T A, A -= B WORK; or out of
   rows, A^T instead of A. */
static void push_clean(const sketch *t, const strip *s, int rows, int count, int64_t at, kl_batch *q)
{
    const int ld = rows ? count : s->dim, known = s->known;
    const int64_t b = t->o->known.iso->off[s->sec];
    *kl_batch_push(q) = (kl_rec){.kind = KL_REC_GEMM,
                                 .ta = 1,
                                 .tb = (uint8_t)rows,
                                 .at_a = KL_AT_LEFT,
                                 .at_b = KL_AT_X,
                                 .at_c = KL_AT_WORK,
                                 .m = known,
                                 .n = count,
                                 .k = s->dim,
                                 .lda = s->dim,
                                 .ldb = ld,
                                 .ldc = known,
                                 .a = b,
                                 .b = at,
                                 .alpha = 1};
    *kl_batch_push(q) = (kl_rec){.kind = KL_REC_GEMM,
                                 .ta = (uint8_t)rows,
                                 .tb = (uint8_t)rows,
                                 .beta = 1,
                                 .at_a = rows ? KL_AT_WORK : KL_AT_LEFT,
                                 .at_b = rows ? KL_AT_LEFT : KL_AT_WORK,
                                 .at_c = KL_AT_Y,
                                 .m = rows ? count : s->dim,
                                 .n = rows ? s->dim : count,
                                 .k = known,
                                 .lda = rows ? known : s->dim,
                                 .ldb = rows ? s->dim : known,
                                 .ldc = ld,
                                 .a = rows ? 0 : b,
                                 .b = rows ? b : 0,
                                 .c = at,
                                 .alpha = -1};
}

/* Takes the known basis out of all rows of G, or out of all columns of E. */
static kl_status clean(sketch *t, int rows, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = rows ? t->ng : t->ne;
    const kl_dptr data = rows ? t->g : t->e;
    kl_dptr copy = {0};
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < t->nstrip; e++) {
        const strip *const s = &t->strip[e];
        const int count = rows ? s->count : s->taken;
        const int64_t at = rows ? s->g : s->e;
        if (count == 0 || s->known == 0) continue;
        KL_TRY(kl_batch_open_group(&q, at, (int64_t)count * s->dim, err));
        KL_TRY(kl_batch_reserve(&q, 2, err));
        push_clean(t, s, rows, count, at, &q);
        kl_batch_close_group(&q, (int64_t)s->known * count);
    }
    if (q.ngroup == 0) goto out;
    KL_TRY(t->ex->vt.alloc(t->ex, n, &copy, err));
    t->ex->vt.copy(t->ex, n, data, copy);
    q.nx = q.ny = n;
    q.base[KL_AT_LEFT] = t->o->known.data;
    KL_TRY(kl_batch_run(&q, t->ex, copy, data, err));
out:
    kl_batch_clear(&q);
    t->ex->vt.release(t->ex, &copy);
    return st;
}

/* G G^T of every sector, and its eigenvectors, largest last, on the host: squares are good enough to choose
   by, and the states are made orthonormal afterwards. */
static kl_status decompose(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr gram = {0};
    kl_batch q;
    int64_t n = 0, nvalue = 0, *off = NULL;
    int *count = NULL;
    kl_batch_init(&q);
    KL_TRY(kl_alloc(&off, t->nstrip, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        strip *const s = &t->strip[e];
        s->gram = off[e] = n;
        s->first = nvalue;
        count[e] = s->count;
        n += (int64_t)s->count * s->count;
        nvalue += s->count;
        if (s->count == 0) continue;
        KL_TRY(kl_batch_open_group(&q, s->gram, (int64_t)s->count * s->count, err));
        KL_TRY(kl_batch_reserve(&q, 1, err));
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                      .tb = 1,
                                      .at_a = KL_AT_X,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = s->count,
                                      .n = s->count,
                                      .k = s->dim,
                                      .lda = s->count,
                                      .ldb = s->count,
                                      .ldc = s->count,
                                      .a = s->g,
                                      .b = s->g,
                                      .c = s->gram,
                                      .alpha = 1};
        kl_batch_close_group(&q, 0);
    }
    q.nx = t->ng, q.ny = n;
    KL_TRY(kl_realloc(&t->small, n, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&t->value, nvalue, KL_MEM_WORK, err));
    KL_TRY(t->ex->vt.alloc(t->ex, n, &gram, err));
    KL_TRY(kl_batch_run(&q, t->ex, t->g, gram, err));
    const kl_eigen_many many = {t->nstrip, count, off, n, gram, t->small, t->value};
    KL_TRY(kl_eigen_many_find(t->ex, &many, kl_ranks_size(t->ex) == 1, err));
out:
    kl_batch_clear(&q);
    kl_free(&off);
    kl_free(&count);
    t->ex->vt.release(t->ex, &gram);
    return st;
}

typedef struct candidate {
    double w;
    int strip;
} candidate;

static int by_weight(const void *pa, const void *pb)
{
    const candidate *const a = pa, *const b = pb;
    if (a->w != b->w) return a->w < b->w ? 1 : -1;
    return a->strip - b->strip;
}

/* The value up to which a row of a sector's sketch is rounding, of what was taken out of it or of squares of
   the largest. It may lie in the known basis: made orthonormal, it would be there twice. */
static double rounding(const sketch *t, const strip *s)
{
    const double largest = s->count > 0 ? t->value[s->first + s->count - 1] : 0;
    return fmax(ROUNDING * t->square, DBL_EPSILON * s->count * largest);
}

/* States that the sketch of a sector has to give. */
static int there_are(const sketch *t, const strip *s)
{
    const int most = s->dim - s->known < s->count ? s->dim - s->known : s->count;
    int n = 0;
    while (n < most && t->value[s->first + s->count - 1 - n] > rounding(t, s)) n++;
    return n;
}

/* Further states of sectors that are expanded, up to whole tiles as far as there are some; how many. */
static int fill(sketch *t)
{
    int added = 0;
    for (int e = 0; e < t->nstrip; e++) {
        strip *const s = &t->strip[e];
        if (s->taken == 0) continue;
        const int all = s->known + s->taken, most = s->known + s->most;
        int to = all;
        for (int unit = kl_sector_unit(all); to == all && unit > 1; unit /= 2)
            if ((all + unit - 1) / unit * unit <= most) to = (all + unit - 1) / unit * unit;
        added += to - all;
        s->taken = to - s->known;
    }
    return added;
}

/* 3. How many states of each sector are taken, those of the largest weight of all. */
static kl_status choose(sketch *t, kl_expand_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    candidate *c = NULL;
    int64_t n = 0;
    KL_TRY(decompose(t, err));
    for (int e = 0; e < t->nstrip; e++) n += t->strip[e].count;
    KL_TRY(kl_alloc(&c, n, KL_MEM_WORK, err));
    n = 0;
    for (int e = 0; e < t->nstrip; e++) {
        strip *const s = &t->strip[e];
        s->most = there_are(t, s);
        for (int i = 0; i < s->count; i++) {
            /* every row of the sketch sees all of the norm */
            c[n++] = (candidate){fmax(t->value[s->first + i], 0) / s->rows / t->o->nstate, e};
            info->residual += c[n - 1].w;
        }
    }
    qsort(c, (size_t)n, sizeof *c, by_weight);
    for (int64_t i = 0; i < n && info->added < t->o->more; i++) {
        strip *const s = &t->strip[c[i].strip];
        if (s->taken == s->most) continue;
        s->taken++;
        info->added++;
    }
    if (t->o->full) info->added += fill(t);
    for (int e = 0; e < t->nstrip; e++) {
        t->strip[e].e = t->ne;
        t->ne += (int64_t)t->strip[e].taken * t->strip[e].dim;
    }
out:
    kl_free(&c);
    return st;
}

/* 3. G^T times the eigenvectors that are taken, the largest first, each of norm 1. */
static kl_status turn_back(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    int64_t n = 0;
    kl_dptr u = {0};
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < t->nstrip; e++) n += (int64_t)t->strip[e].taken * t->strip[e].count;
    KL_TRY(kl_realloc(&host, n, KL_MEM_WORK, err));
    n = 0;
    for (int e = 0; e < t->nstrip; e++) {
        const strip *const s = &t->strip[e];
        if (s->taken == 0) continue;
        KL_TRY(kl_batch_open_group(&q, s->e, (int64_t)s->taken * s->dim, err));
        KL_TRY(kl_batch_reserve(&q, 1, err));
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                      .ta = 1,
                                      .at_a = KL_AT_X,
                                      .at_b = KL_AT_LEFT,
                                      .at_c = KL_AT_Y,
                                      .m = s->dim,
                                      .n = s->taken,
                                      .k = s->count,
                                      .lda = s->count,
                                      .ldb = s->count,
                                      .ldc = s->dim,
                                      .a = s->g,
                                      .b = n,
                                      .c = s->e,
                                      .alpha = 1};
        kl_batch_close_group(&q, 0);
        for (int c = s->count - 1; c >= s->count - s->taken; c--) {
            const double *const from = t->small + s->gram + (int64_t)c * s->count;
            const double factor = 1 / sqrt(t->value[s->first + c]);
            for (int i = 0; i < s->count; i++) host[n++] = factor * from[i];
        }
    }
    KL_TRY(kl_exec_copy_in(t->ex, host, n, &u, err));
    KL_TRY(t->ex->vt.alloc(t->ex, t->ne, &t->e, err));
    q.nx = t->ng, q.ny = t->ne;
    q.base[KL_AT_LEFT] = u;
    KL_TRY(kl_batch_run(&q, t->ex, t->g, t->e, err));
out:
    kl_batch_clear(&q);
    t->ex->vt.release(t->ex, &u);
    kl_free(&host);
    return st;
}

/* 3. The states taken, orthonormal to each other and to the known ones. */
static kl_status make_states(sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_column_block *block = NULL;
    kl_gramcolumns columns = {0};
    kl_dptr spare = {0};
    KL_TRY(turn_back(t, err));
    KL_TRY(kl_alloc(&block, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++)
        block[e] = (kl_column_block){t->strip[e].dim, t->strip[e].taken, t->strip[e].e, 0};
    KL_TRY(kl_gramcolumns_open(t->ex, t->nstrip, block, &columns, err));
    KL_TRY(t->ex->vt.alloc(t->ex, t->ne, &spare, err));
    const kl_gramcolumns_at at = {block, &t->e, &spare, t->ne};
    const kl_gramcolumns_opts o = {.dependent = KL_DEPENDENT_REPLACED,
                                   .nearly = t->ex->space == KL_SPACE_DEVICE};
    for (int pass = 0; pass < CLEANINGS; pass++) {
        KL_TRY(clean(t, 0, err));
        KL_TRY(kl_gramcolumns_run(&columns, &at, &o, err));
    }
out:
    t->ex->vt.release(t->ex, &spare);
    kl_gramcolumns_close(&columns);
    kl_free(&block);
    return st;
}

/* The known states and the ones taken, sector by sector. */
static kl_status join(const sketch *t, kl_isometry **out, kl_dptr *data, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const known = t->o->known.iso;
    const int n = t->far->nsec;
    kl_enlarged *own = NULL;
    int *sec = NULL, *dim = NULL, nsec = 0;
    const strip **of = NULL;
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&of, n, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++)
        if (t->strip[e].far >= 0) of[t->strip[e].far] = &t->strip[e];
    for (int c = 0; c < n; c++) {
        const int states = of[c] ? of[c]->known + of[c]->taken : 0;
        if (states == 0) continue;
        sec[nsec] = c;
        dim[nsec++] = states;
    }
    KL_TRY(kl_enlarged_copy(known->enlarged, &own, err));
    KL_TRY(kl_isometry_shape_take(&own, nsec, sec, dim, out, err));
    KL_TRY(t->ex->vt.alloc(t->ex, (*out)->ndata, data, err));
    for (int k = 0; k < nsec; k++) {
        const strip *const s = of[sec[k]];
        const int states[2] = {s->known, s->taken};
        int64_t to = (*out)->off[k];
        KL_TRY(kl_batch_open_group(&q, to, (int64_t)(s->known + s->taken) * s->dim, err));
        KL_TRY(kl_batch_reserve(&q, 2, err));
        for (int i = 0; i < 2; to += (int64_t)states[i++] * s->dim) {
            if (states[i] == 0) continue;
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_ADD, .at_c = KL_AT_Y, .c = to, .alpha = 1};
            kl_rec *const r = &q.rec[q.nrec - 1];
            r->m = r->lda = r->ldc = s->dim, r->n = states[i];
            r->at_a = i ? KL_AT_X : KL_AT_LEFT, r->a = i ? s->e : known->off[s->sec];
        }
        kl_batch_close_group(&q, 0);
    }
    q.nx = t->ne, q.ny = (*out)->ndata;
    q.base[KL_AT_LEFT] = t->o->known.data;
    if (q.ngroup > 0) KL_TRY(kl_batch_run(&q, t->ex, t->e, *data, err));
out:
    kl_batch_clear(&q);
    kl_enlarged_destroy(&own);
    kl_free(&sec);
    kl_free(&dim);
    kl_free(&of);
    return st;
}

static void clear(sketch *t)
{
    kl_free(&t->strip);
    kl_free(&t->kplace);
    kl_free(&t->small);
    kl_free(&t->value);
    t->ex->vt.release(t->ex, &t->omega);
    t->ex->vt.release(t->ex, &t->k);
    t->ex->vt.release(t->ex, &t->g);
    t->ex->vt.release(t->ex, &t->e);
}

kl_status kl_expand(kl_exec *ex, const kl_expand_opts *o, kl_isometry **out, kl_dptr *data,
                    kl_expand_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    const int left = o->side == KL_LEFT;
    sketch t = {.ex = ex,
                .o = o,
                .near = left ? &o->wave.col->basis : &o->wave.row->basis,
                .far = left ? &o->wave.row->basis : &o->wave.col->basis};
    *info = (kl_expand_info){0};
    *out = NULL;
    data->addr = 0;
    KL_TRY(lay_out(&t, err));
    if (o->more > 0 && t.ng > 0) {
        KL_TRY(guess(&t, err));
        KL_TRY(compress(&t, err));
        KL_TRY(multiply(&t, err));
        ex->vt.dots(ex, t.ng, 1, t.g, t.ng, t.g, &t.square);
        for (int pass = 0; pass < CLEANINGS; pass++) KL_TRY(clean(&t, 1, err));
        KL_TRY(choose(&t, info, err));
        if (info->added > 0) KL_TRY(make_states(&t, err));
    }
    KL_TRY(join(&t, out, data, err));
out:
    if (st != KL_OK) {
        kl_isometry_destroy(out);
        ex->vt.release(ex, data);
    }
    clear(&t);
    return st;
}
