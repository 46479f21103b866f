/* Bond expansion: see expand.h. Outline, for every wavefunction psi:
     1. a few random columns Omega for each sector of the near side, the first of those that all sectors have,
        and K_b = Omega^T (near operator b)
     2. G = Omega^T H psi = sum over b of K_b psi (far operator b)^T, without what the known basis holds
     3. singular values of G say which of its rows are worth a state; these, orthonormal to what is known
   Where all states of the block are wanted, none is chosen: random columns, orthonormal to what is known.
   No sector's sketch reads another's: ranks divide them, tell each other the singular values, by which all
   choose the same, and exchange the states.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/sketch.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/random.h"
#include "dmrg/channel.h"
#include "phase.h"
#include <math.h>

enum {
    SPARE = 2, /* rows of a sector's sketch beyond its share of the states to add; */
    SPARE_FULL = 8, /* and where sectors are filled up */
    FEWER = 4, /* rows of a wanted wavefunction over those of a light one */
    TOGETHER = 1 << 15 /* random numbers a thread makes at a time */
};
#define EIGEN_FLOP 9.0 /* of an eigenproblem, by the cube of its rows; */
#define EIGEN_SLOW 100.0 /* with a device: of products that take as long as a flop of one; */
#define RECORD_FLOP 2e6 /* and as long as planning a product of a list. What ranks are given by */

static int known_sector(const kl_isometry *iso, int c)
{
    for (int k = 0; k < iso->basis.nsec; k++)
        if (iso->sec[k] == c) return k;
    return -1;
}

/* Rows of wavefunction v, and of those before it. */
static int rows_of(const kl_sketch *t, const kl_strip *s, int v)
{
    return v < t->o->nstate - t->o->nlight ? s->rows : s->few;
}
static int rows_before(const kl_sketch *t, const kl_strip *s, int v)
{
    const int heavy = t->o->nstate - t->o->nlight;
    return v < heavy ? v * s->rows : heavy * s->rows + (v - heavy) * s->few;
}

/* About the work of one sector, as products of the executor would take as long. */
static double work_of(const kl_sketch *t, const kl_strip *s)
{
    const double rows = s->count, near = t->near->dim[s->near], far = s->dim, nop = t->o->near->nop;
    const int device = t->ranks->space == KL_SPACE_DEVICE;
    if (s->count == 0) return 0;
    if (t->all) return rows * far * (8 * s->known + 4 * rows);
    return EIGEN_FLOP * rows * rows * rows * (device ? EIGEN_SLOW : 1) +
           rows * (nop * (near + far) * (near + far) + 8 * far * s->known) +
           (device ? RECORD_FLOP * nop * t->o->nstate : 0);
}

/* Whose sectors are whose: all are every rank's where messages would take longer. */
static kl_status divide(kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    double *work = NULL, all = 0;
    int64_t numbers = 0; /* that are exchanged, at most */
    int *owner = NULL;
    KL_TRY(kl_alloc(&work, t->nstrip, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&owner, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        all += work[e] = work_of(t, s);
        numbers += (int64_t)(s->rows + 1) * s->dim;
    }
    for (int e = 0; e < t->nstrip; e++) owner[e] = kl_ranks_mine(t->ranks);
    if (kl_ranks_size(t->ranks) > 1 && kl_share_worth(t->ranks, all, numbers)) {
        t->ex = kl_share_alone(t->ranks);
        KL_TRY(kl_share_owners(t->ranks, t->nstrip, work, owner, err));
    }
    for (int e = 0; e < t->nstrip; e++) {
        kl_strip *const s = &t->strip[e];
        s->owner = owner[e];
        s->g = t->ng;
        t->ng += (int64_t)kl_sketch_rows(t, s) * s->dim;
    }
out:
    kl_free(&work);
    kl_free(&owner);
    return st;
}

/* 1: as many states are wanted as the block has beyond the known ones, and it is not asked how much of H psi
   lies there. Where m doubles in a sweep, sites of spin 1/2 have no more. */
static int takes_all(const kl_sketch *t)
{
    int64_t states = 0;
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        if (s->far < 0) continue;
        if (s->rows < s->dim - s->known) return 0;
        states += s->rows;
    }
    return !t->o->measure && states > 0 && states <= t->o->more;
}

/* How many rows each sector's sketch has, and where this rank's lie. */
static kl_status lay_out(kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = t->o->wave.layout;
    const kl_isometry *const known = t->o->known.iso;
    const int left = t->o->side == KL_LEFT;
    int columns = 0;
    t->nstrip = t->near->nsec;
    KL_TRY(kl_alloc(&t->strip, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        kl_strip *const s = &t->strip[e];
        *s = (kl_strip){.near = e, .far = left ? lay->back[e] : lay->pair[e], .sec = -1};
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
        t->nrow += s->count;
        if (t->near->dim[e] > t->ldomega) t->ldomega = t->near->dim[e];
        if (s->rows > columns) columns = s->rows;
    }
    t->all = takes_all(t);
    for (int e = 0; e < t->nstrip && t->all; e++) /* the columns begin as parts of Omega */
        if (t->strip[e].far >= 0 && t->strip[e].dim > t->ldomega) t->ldomega = t->strip[e].dim;
    t->ldomega += t->ldomega % 2; /* pairs of numbers are moved together */
    t->nomega = (int64_t)t->ldomega * columns;
    KL_TRY(divide(t, err));
out:
    return st;
}

/* 1. Omega, of variance 1. */
static void guess_task(void *self, int64_t i, int thread)
{
    const kl_sketch *const t = self;
    const int64_t from = i * TOGETHER, to = from + TOGETHER < t->nomega ? from + TOGETHER : t->nomega;
    (void)thread;
    for (int64_t k = from; k < to; k++) t->guess[k] = sqrt(3.0) * kl_random_at(t->o->seed, k);
}

static kl_status guess(kl_sketch *t, kl_err *err)
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

static int has_adjoint(const kl_sketch *t, int b)
{
    const kl_bigop *const g = t->o->near;
    return g->block->mpo->op[g->cut][b].self ? 0 : 1;
}

static kl_part adjoint_part(kl_part p)
{
    return (kl_part){p.col, p.ncol, p.row, p.nrow, p.ld, !p.dag, p.packed, p.off, p.coef};
}

/* 1. K of operator b into sector s->near: Omega^T times each of its parts. */
static kl_status near_records(const kl_sketch *t, const kl_strip *s, int b, int adjoint, kl_batch *q,
                              kl_err *err)
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
static kl_status compress(kl_sketch *t, kl_err *err)
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
                const kl_strip *const s = &t->strip[e];
                int64_t *const place = &t->kplace[((int64_t)b * 2 + adjoint) * n + e];
                *place = -1;
                if (adjoint > has_adjoint(t, b) || kl_sketch_rows(t, s) == 0) continue;
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
static kl_rec far_record(const kl_sketch *t, const kl_strip *s, kl_part p, int v)
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
static kl_status product_records(const kl_sketch *t, const kl_strip *s, int b, int adjoint, kl_batch *q,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const g = t->o->far;
    const kl_mpo *const m = g->block->mpo;
    const kl_cut_op *const o = &m->op[g->cut][b];
    const int n = t->far->nsec, from = source(t->o->near, b, adjoint, s->near);
    const int left = t->o->side == KL_LEFT, odd[2] = {o->odd, o->odd};
    const kl_layout *const lay = t->o->wave.layout;
    const kl_strip *const x = &t->strip[from];
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
static kl_status multiply(kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->near->nsec;
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < n; e++) {
        const kl_strip *const s = &t->strip[e];
        int64_t most = 0;
        if (kl_sketch_rows(t, s) == 0) continue;
        KL_TRY(kl_batch_open_group(&q, s->g, (int64_t)s->count * s->dim, err));
        for (int b = 0; b < t->o->near->nop; b++)
            for (int adjoint = 0; adjoint <= 1; adjoint++) {
                if (t->kplace[((int64_t)b * 2 + adjoint) * n + e] < 0) continue;
                const kl_strip *const x = &t->strip[source(t->o->near, b, adjoint, e)];
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

static void clear(kl_sketch *t)
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
    kl_sketch t = {.ranks = ex,
                   .ex = ex,
                   .o = o,
                   .near = left ? &o->wave.col->basis : &o->wave.row->basis,
                   .far = left ? &o->wave.row->basis : &o->wave.col->basis};
    *info = (kl_expand_info){0};
    *out = NULL;
    data->addr = 0;
    KL_TRY(lay_out(&t, err));
    if (t.all) {
        KL_TRY(guess(&t, err));
        KL_TRY(kl_sketch_take_all(&t, info, err));
        KL_TRY(kl_sketch_states(&t, err));
    } else if (o->more > 0 && t.nrow > 0) {
        KL_TRY(guess(&t, err));
        KL_TRY(compress(&t, err));
        KL_TRY(multiply(&t, err));
        t.ex->vt.dots(t.ex, t.ng, 1, t.g, t.ng, t.g, &t.square);
        KL_TRY(kl_sketch_clean(&t, 1, err)); /* what that leaves of rounding, those of the states take away */
        KL_TRY(kl_sketch_choose(&t, info, err));
        if (info->added > 0) KL_TRY(kl_sketch_states(&t, err));
    }
    KL_TRY(kl_sketch_join(&t, out, data, err));
out:
    if (st != KL_OK) {
        kl_isometry_destroy(out);
        ex->vt.release(ex, data);
    }
    clear(&t);
    return st;
}
