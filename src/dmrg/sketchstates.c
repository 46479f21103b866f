/* States that a sketch of H psi is worth: see expand.h and, for the numbered outline, expand.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/sketch.h"
#include "base/mem.h"
#include "dmrg/gramcolumns.h"
#include "dmrg/sectorfill.h"
#include "exec/eigmany.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One product of the two that take the known basis B out of columns A: WORK = B^T A, A -= B WORK; or out of
   rows, A^T instead of A. */
static void push_clean(const kl_sketch *t, const kl_strip *s, int rows, int count, int64_t at, kl_batch *q)
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
kl_status kl_sketch_clean(kl_sketch *t, int rows, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = rows ? t->ng : t->ne;
    const kl_dptr data = rows ? t->g : t->e;
    kl_dptr copy = {0};
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        const int count = rows ? kl_sketch_rows(t, s) : kl_sketch_taken(t, s);
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

#define ROUNDING 1e-28 /* of |G|^2 before it was cleaned: what rounding leaves of a row in the known basis */

/* |G|^2 and singular values of the ranks' sectors, to all ranks. here: this rank's values, one after the
   other. */
static kl_status share_values(kl_sketch *t, const double *here, kl_err *err)
{
    kl_status st = KL_OK;
    kl_share_piece *piece = NULL;
    KL_TRY(kl_alloc(&piece, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        const int count = kl_sketch_rows(t, s);
        piece[e] = (kl_share_piece){s->owner, s->first, s->count};
        if (count > 0) memcpy(t->value + s->first, here, (size_t)count * sizeof *here);
        here += count;
    }
    if (!kl_sketch_shared(t)) goto out;
    kl_ranks_sum(t->ranks, 1, &t->square);
    KL_TRY(kl_share_exchange(t->ranks, t->nstrip, piece, t->value, err));
out:
    kl_free(&piece);
    return st;
}

/* G G^T of every sector, and its eigenvectors, largest last, on the host: squares are good enough to choose
   by, and the states are made orthonormal afterwards. */
static kl_status decompose(kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr gram = {0};
    kl_batch q;
    int64_t n = 0, nvalue = 0, *off = NULL;
    int *count = NULL;
    double *here = NULL;
    kl_batch_init(&q);
    KL_TRY(kl_alloc(&off, t->nstrip, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        kl_strip *const s = &t->strip[e];
        s->gram = off[e] = n;
        s->first = nvalue;
        count[e] = kl_sketch_rows(t, s);
        n += (int64_t)count[e] * count[e];
        nvalue += s->count;
        if (count[e] == 0) continue;
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
    KL_TRY(kl_realloc(&here, nvalue, KL_MEM_WORK, err));
    KL_TRY(t->ex->vt.alloc(t->ex, n, &gram, err));
    KL_TRY(kl_batch_run(&q, t->ex, t->g, gram, err));
    const kl_eigen_many many = {t->nstrip, count, off, n, gram, t->small, here};
    KL_TRY(kl_eigen_many_find(t->ex, &many, kl_ranks_size(t->ex) == 1, err));
    KL_TRY(share_values(t, here, err));
out:
    kl_batch_clear(&q);
    kl_free(&off);
    kl_free(&count);
    kl_free(&here);
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
static double rounding(const kl_sketch *t, const kl_strip *s)
{
    const double largest = s->count > 0 ? t->value[s->first + s->count - 1] : 0;
    return fmax(ROUNDING * t->square, DBL_EPSILON * s->count * largest);
}

/* States that the sketch of a sector has to give. */
static int there_are(const kl_sketch *t, const kl_strip *s)
{
    const int most = s->dim - s->known < s->count ? s->dim - s->known : s->count;
    int n = 0;
    while (n < most && t->value[s->first + s->count - 1 - n] > rounding(t, s)) n++;
    return n;
}

/* Further states of sectors that are expanded, up to whole tiles as far as there are some; how many. */
static int fill(kl_sketch *t)
{
    int added = 0;
    for (int e = 0; e < t->nstrip; e++) {
        kl_strip *const s = &t->strip[e];
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

/* Where the states that are taken will lie. */
static void place_taken(kl_sketch *t)
{
    for (int e = 0; e < t->nstrip; e++) {
        t->strip[e].e = t->ne;
        t->ne += (int64_t)t->strip[e].taken * t->strip[e].dim;
    }
}

/* 3. How many states of each sector are taken, those of the largest weight of all. */
kl_status kl_sketch_choose(kl_sketch *t, kl_expand_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    candidate *c = NULL;
    int64_t n = 0;
    KL_TRY(decompose(t, err));
    for (int e = 0; e < t->nstrip; e++) n += t->strip[e].count;
    KL_TRY(kl_alloc(&c, n, KL_MEM_WORK, err));
    n = 0;
    for (int e = 0; e < t->nstrip; e++) {
        kl_strip *const s = &t->strip[e];
        s->most = there_are(t, s);
        for (int i = 0; i < s->count; i++) {
            /* every row of the sketch sees all of the norm */
            c[n++] = (candidate){fmax(t->value[s->first + i], 0) / s->rows / t->o->nstate, e};
            info->residual += c[n - 1].w;
        }
    }
    qsort(c, (size_t)n, sizeof *c, by_weight);
    for (int64_t i = 0; i < n && info->added < t->o->more; i++) {
        kl_strip *const s = &t->strip[c[i].strip];
        if (s->taken == s->most) continue;
        s->taken++;
        info->added++;
    }
    if (t->o->full) info->added += fill(t);
    place_taken(t);
out:
    kl_free(&c);
    return st;
}

kl_status kl_sketch_take_all(kl_sketch *t, kl_expand_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < t->nstrip; e++) info->added += t->strip[e].taken = t->strip[e].rows;
    place_taken(t);
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        const int n = kl_sketch_taken(t, s);
        kl_rec r = {.kind = KL_REC_ADD, .at_a = KL_AT_X, .at_c = KL_AT_Y, .n = n, .c = s->e, .alpha = 1};
        r.m = r.ldc = s->dim, r.lda = t->ldomega;
        if (n > 0) KL_TRY(kl_batch_push_alone(&q, (int64_t)n * s->dim, r, err));
    }
    q.nx = t->nomega, q.ny = t->ne;
    KL_TRY(t->ex->vt.alloc(t->ex, t->ne, &t->e, err));
    if (q.ngroup > 0) KL_TRY(kl_batch_run(&q, t->ex, t->omega, t->e, err));
out:
    kl_batch_clear(&q);
    return st;
}

/* 3. G^T times the eigenvectors that are taken, the largest first, each of norm 1. */
static kl_status turn_back(kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    int64_t n = 0;
    kl_dptr u = {0};
    kl_batch q;
    kl_batch_init(&q);
    for (int e = 0; e < t->nstrip; e++) n += (int64_t)kl_sketch_taken(t, &t->strip[e]) * t->strip[e].count;
    KL_TRY(kl_realloc(&host, n, KL_MEM_WORK, err));
    n = 0;
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        if (kl_sketch_taken(t, s) == 0) continue;
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

/* The states that the ranks have taken, to all ranks. */
static kl_status share_states(const kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_share_piece *piece = NULL;
    if (!kl_sketch_shared(t)) goto out;
    KL_TRY(kl_alloc(&piece, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++) {
        const kl_strip *const s = &t->strip[e];
        piece[e] = (kl_share_piece){s->owner, s->e, (int64_t)s->taken * s->dim};
    }
    KL_TRY(kl_share_exchange_there(t->ranks, t->nstrip, piece, t->e, err));
out:
    kl_free(&piece);
    return st;
}

/* 3. The states taken, orthonormal to each other and to the known ones. */
kl_status kl_sketch_states(kl_sketch *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_column_block *block = NULL;
    kl_gramcolumns columns = {0};
    kl_dptr spare = {0};
    if (!t->all) KL_TRY(turn_back(t, err));
    KL_TRY(kl_alloc(&block, t->nstrip, KL_MEM_WORK, err));
    for (int e = 0; e < t->nstrip; e++)
        block[e] = (kl_column_block){t->strip[e].dim, kl_sketch_taken(t, &t->strip[e]), t->strip[e].e, 0};
    KL_TRY(kl_gramcolumns_open(t->ex, t->nstrip, block, &columns, err));
    KL_TRY(t->ex->vt.alloc(t->ex, t->ne, &spare, err));
    const kl_gramcolumns_at at = {block, &t->e, &spare, t->ne};
    const kl_gramcolumns_first near = t->ex->space == KL_SPACE_DEVICE ? KL_FIRST_PRODUCTS : KL_FIRST_PASSES;
    kl_gramcolumns_opts o = {.dependent = KL_DEPENDENT_REPLACED};
    for (int pass = 0; pass < KL_SKETCH_CLEANINGS; pass++) {
        KL_TRY(kl_sketch_clean(t, 0, err));
        o.first = pass > 0 || !t->all ? near : t->ex->vt.roots ? KL_FIRST_ROOTS : KL_FIRST_PASSES;
        KL_TRY(kl_gramcolumns_run(&columns, &at, &o, err));
    }
    KL_TRY(share_states(t, err));
out:
    t->ex->vt.release(t->ex, &spare);
    kl_gramcolumns_close(&columns);
    kl_free(&block);
    return st;
}

/* The known states and the ones taken, sector by sector. */
kl_status kl_sketch_join(const kl_sketch *t, kl_isometry **out, kl_dptr *data, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const known = t->o->known.iso;
    const int n = t->far->nsec;
    kl_enlarged *own = NULL;
    int *sec = NULL, *dim = NULL, nsec = 0;
    const kl_strip **of = NULL;
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
        const kl_strip *const s = of[sec[k]];
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
