/* Noise as columns: see noisecolumns.h.
     1. Y = psi R of each sector, R random
     2. N = the sum over operators O of O Y's columns from s(O) on: the s differ, so that no two operators
        multiply the same random numbers in one column
     3. psi and N side by side
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/noisecolumns.h"
#include "base/mem.h"
#include "base/random.h"
#include "comm/share.h"
#include <math.h>

enum {
    SHARE = 24, /* columns of a sector's noise: those that it has over this, */
    LEAST = 4,  /* no fewer than these where it has as many rows, */
    STEP = 4,   /* in multiples of it */
    SHIFTS = 64, /* of R's columns; operators beyond share them, and differ by their signs */
    MANY = 1 << 16, /* records, from which a processor runs what is listed */
};

/* What is being made. */
typedef struct sample {
    kl_exec *ex; /* of this rank alone */
    const kl_density *d;
    const kl_basis *mine;
    int *count;  /* [sectors of mine] columns of noise */
    int64_t *y, *n; /* [sectors of mine] where each has its Y and N, of the first state */
    int64_t ny, nn; /* of one state */
    int width, high; /* columns of R; its rows */
} sample;

/* The segment of sector c of this side: its row sector, -1: there is none; *wide: its columns. */
static int segment_of(const sample *s, int c, int *wide)
{
    const kl_layout *const lay = s->d->wave.layout;
    const int left = s->d->side == KL_LEFT, i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
    *wide = 0;
    if (i < 0 || j < 0) return -1;
    *wide = kl_density_other(s->d)->dim[left ? j : i];
    return i;
}

/* Of operator k, or its adjoint, the sector that it leads from to sector e and that has a segment; or -1. */
static int leads_from(const sample *s, int k, int adjoint, int e)
{
    const kl_bigop *const g = s->d->grown;
    const int n = s->mine->nsec, from = adjoint ? g->dst[k * n + e] : g->src[k * n + e];
    int wide;
    return from >= 0 && segment_of(s, from, &wide) >= 0 ? from : -1;
}

static int forms_of(const kl_bigop *g, int k)
{
    return kl_bigop_identity(g, k) ? 0 : g->block->mpo->op[g->cut][k].self ? 1 : 2;
}

static kl_status lay_out(sample *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->mine->nsec;
    int most = 0;
    KL_TRY(kl_alloc(&s->count, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->y, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->n, n, KL_MEM_WORK, err));
    for (int e = 0; e < n; e++) {
        int wide, reached = 0;
        segment_of(s, e, &wide);
        for (int k = 0; k < s->d->grown->nop && !reached; k++)
            for (int adjoint = 0; adjoint < forms_of(s->d->grown, k); adjoint++)
                reached |= leads_from(s, k, adjoint, e) >= 0;
        const int wanted = ((wide / SHARE > LEAST ? wide / SHARE : LEAST) + STEP - 1) / STEP * STEP;
        if (reached) s->count[e] = wanted < s->mine->dim[e] ? wanted : s->mine->dim[e];
        if (s->count[e] > most) most = s->count[e];
        if (wide > s->high) s->high = wide;
    }
    s->width = most + SHIFTS;
    for (int e = 0; e < n; e++) {
        int wide;
        s->n[e] = s->nn;
        s->nn += (int64_t)s->mine->dim[e] * s->count[e];
        s->y[e] = segment_of(s, e, &wide) < 0 ? -1 : s->ny;
        if (s->y[e] >= 0) s->ny += (int64_t)s->mine->dim[e] * s->width;
    }
out:
    return st;
}

/* 1. */
static kl_status make_products(const sample *s, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = s->d->wave.layout;
    const int left = s->d->side == KL_LEFT, nstate = s->d->nstate;
    const int64_t numbers = (int64_t)s->high * s->width;
    uint64_t seed = 21;
    double *host = NULL;
    kl_dptr random = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_realloc(&host, numbers, KL_MEM_WORK, err));
    for (int64_t i = 0; i < numbers; i++) host[i] = kl_random_uniform(&seed);
    KL_TRY(kl_exec_copy_in(s->ex, host, numbers, &random, err));
    for (int e = 0; e < s->mine->nsec * nstate; e++) {
        const int c = e / nstate, state = e % nstate, rows = s->mine->dim[c];
        int wide;
        const int i = segment_of(s, c, &wide);
        if (i < 0) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)rows * s->width,
                                   (kl_rec){.kind = KL_REC_GEMM,
                                            .ta = (uint8_t)!left,
                                            .at_a = KL_AT_X,
                                            .at_b = KL_AT_LEFT,
                                            .at_c = KL_AT_Y,
                                            .m = rows,
                                            .n = s->width,
                                            .k = wide,
                                            .lda = left ? rows : wide,
                                            .ldb = s->high,
                                            .ldc = rows,
                                            .a = state * lay->n + lay->off[i],
                                            .c = state * s->ny + s->y[c],
                                            .alpha = 1},
                                   err));
    }
    b.nx = nstate * lay->n;
    b.ny = nstate * s->ny;
    b.base[KL_AT_LEFT] = random;
    KL_TRY(kl_batch_run(&b, s->ex, s->d->wave.psi, y, err));
out:
    kl_batch_clear(&b);
    kl_free(&host);
    s->ex->vt.release(s->ex, &random);
    return st;
}

/* One piece p of an operator times the columns of Y that begin at `from`, to those of N at `to`. */
static kl_rec piece(const sample *s, const kl_part *p, int e, int source, int64_t from, int64_t to)
{
    kl_rec r = {.kind = p->off < 0 ? KL_REC_ADD : KL_REC_GEMM,
                .beta = 1,
                .at_a = KL_AT_X,
                .at_b = KL_AT_X,
                .at_c = KL_AT_Y,
                .m = p->nrow,
                .n = s->count[e],
                .lda = s->mine->dim[source],
                .ldb = s->mine->dim[source],
                .ldc = s->mine->dim[e],
                .a = from + p->col,
                .b = from + p->col,
                .c = to + p->row,
                .alpha = p->coef};
    if (p->off < 0) return r;
    r.ta = p->dag;
    r.at_a = (uint8_t)kl_bigop_at(s->d->grown, p);
    r.k = p->ncol;
    r.lda = p->ld;
    r.a = p->off;
    return r;
}

/* Records of sector e. */
static kl_status sector_records(const sample *s, int e, int state, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bigop *const g = s->d->grown;
    const int64_t to = state * s->nn + s->n[e];
    uint64_t seed = 22;
    int nth = state;
    KL_TRY(kl_batch_open_group(b, to, (int64_t)s->mine->dim[e] * s->count[e], err));
    for (int k = 0; k < g->nop; k++)
        for (int adjoint = 0; adjoint < forms_of(g, k); adjoint++, nth++) {
            const double sign = kl_random_uniform(&seed) < 0 ? -1 : 1;
            const int source = leads_from(s, k, adjoint, e);
            if (source < 0) continue;
            const int64_t at = (int64_t)k * s->mine->nsec + (adjoint ? e : source);
            const int64_t from =
                state * s->ny + s->y[source] + (int64_t)(nth % SHIFTS) * s->mine->dim[source];
            KL_TRY(kl_batch_reserve(b, g->first[at + 1] - g->first[at], err));
            for (int64_t i = g->first[at]; i < g->first[at + 1]; i++) {
                kl_part p = g->part[i];
                if (adjoint)
                    p = (kl_part){p.col, p.ncol, p.row, p.nrow, p.ld, !p.dag, p.packed, p.off, p.coef};
                p.coef *= sign;
                *kl_batch_push(b) = piece(s, &p, e, source, from, to);
            }
        }
    kl_batch_close_group(b, 0);
out:
    return st;
}

/* What is listed so far is run, and the list is empty again. */
static kl_status run_listed(const sample *s, kl_batch *b, kl_dptr y, kl_dptr n, kl_err *err)
{
    b->zero = 1;
    b->nx = s->d->nstate * s->ny;
    b->ny = s->d->nstate * s->nn;
    kl_bigop_bases(s->d->grown, b);
    return b->ngroup > 0 ? kl_batch_run(b, s->ex, y, n, err) : KL_OK;
}

/* 2. */
static kl_status apply_operators(const sample *s, kl_dptr y, kl_dptr n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int e = 0; e < s->mine->nsec; e++)
        for (int state = 0; state < s->d->nstate && s->count[e] > 0; state++) {
            KL_TRY(sector_records(s, e, state, &b, err));
            if (b.nrec > MANY && s->ex->space == KL_SPACE_HOST) KL_TRY(run_listed(s, &b, y, n, err));
        }
    KL_TRY(run_listed(s, &b, y, n, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* The other side's basis with as many states more as each sector of this side has columns of noise. */
static kl_status widen(const sample *s, kl_qn target, kl_noise_columns *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const other = kl_density_other(s->d);
    const kl_model *const model = s->d->grown->block->mpo->model;
    kl_enlarged *e = NULL;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    out->other = e;
    kl_basis *const b = &e->basis;
    KL_TRY(kl_alloc(&b->q, other->nsec + s->mine->nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&b->dim, other->nsec + s->mine->nsec, KL_MEM_MISC, err));
    for (int j = 0; j < other->nsec; j++) {
        b->q[b->nsec] = other->q[j];
        b->dim[b->nsec++] = other->dim[j];
    }
    for (int c = 0; c < s->mine->nsec; c++) {
        const kl_qn q = kl_qn_sub(model, target, s->mine->q[c]);
        const int known = kl_basis_find(other, q);
        int at = 0;
        if (s->count[c] == 0) continue;
        while (at < b->nsec && kl_qn_cmp(b->q[at], q) < 0) at++;
        if (known < 0) {
            for (int j = b->nsec++; j > at; j--) {
                b->q[j] = b->q[j - 1];
                b->dim[j] = b->dim[j - 1];
            }
            b->q[at] = q;
            b->dim[at] = 0;
        }
        b->dim[at] += s->count[c];
    }
    for (int j = 0; j < b->nsec; j++) b->total += b->dim[j];
    const int left = s->d->side == KL_LEFT;
    KL_TRY(kl_layout_create(model, left ? s->mine : b, left ? b : s->mine, target, &out->layout, err));
    out->wave = s->d->wave;
    out->wave.psi.addr = 0;
    *(left ? &out->wave.col : &out->wave.row) = e;
    out->wave.layout = &out->layout;
out:
    return st;
}

/* 3. Sector c: the columns that are there, and those of the noise. */
static kl_status join_records(const sample *s, const kl_noise_columns *out, int c, int state, double factor,
                              kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const lay = s->d->wave.layout, *const to = &out->layout;
    const int left = s->d->side == KL_LEFT, rows = s->mine->dim[c], more = s->count[c];
    int wide;
    const int i = segment_of(s, c, &wide), row = left ? c : to->back[c];
    if (wide + more == 0 || row < 0) goto out;
    const int64_t at = state * to->n + to->off[row], all = (int64_t)rows * (wide + more);
    const int ld = left ? rows : wide + more;
    KL_TRY(kl_batch_open_group(b, at, all, err));
    KL_TRY(kl_batch_reserve(b, 2, err));
    if (i >= 0)
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_ADD,
                                     .at_a = KL_AT_X,
                                     .at_c = KL_AT_Y,
                                     .m = left ? rows : wide,
                                     .n = left ? wide : rows,
                                     .lda = left ? rows : wide,
                                     .ldc = ld,
                                     .a = state * lay->n + lay->off[i],
                                     .c = at,
                                     .alpha = 1};
    if (more > 0)
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_ADD,
                                     .ta = (uint8_t)!left,
                                     .at_a = KL_AT_LEFT,
                                     .at_c = KL_AT_Y,
                                     .m = left ? rows : more,
                                     .n = left ? more : rows,
                                     .lda = rows,
                                     .ldc = ld,
                                     .a = state * s->nn + s->n[c],
                                     .c = at + (left ? (int64_t)wide * rows : wide),
                                     .alpha = factor};
    kl_batch_close_group(b, 0);
out:
    return st;
}

static kl_status join(const sample *s, kl_dptr n, double factor, kl_noise_columns *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int c = 0; c < s->mine->nsec; c++)
        for (int state = 0; state < s->d->nstate; state++)
            KL_TRY(join_records(s, out, c, state, factor, &b, err));
    b.nx = s->d->nstate * s->d->wave.layout->n;
    b.ny = s->d->nstate * out->layout.n;
    b.base[KL_AT_LEFT] = n;
    KL_TRY(s->ex->vt.alloc(s->ex, b.ny, &out->wave.psi, err));
    KL_TRY(kl_batch_run(&b, s->ex, s->d->wave.psi, out->wave.psi, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_noise_columns_create(kl_exec *ex, const kl_density *d, kl_qn target, double share,
                                  kl_noise_columns *out, kl_err *err)
{
    kl_status st = KL_OK;
    sample s = {.ex = kl_share_alone(ex), .d = d, .mine = kl_density_mine(d)};
    const int64_t npsi = d->nstate * d->wave.layout->n;
    kl_dptr y = {0}, n = {0};
    double weight = 0, noise = 0;
    *out = (kl_noise_columns){.other = NULL};
    KL_TRY(lay_out(&s, err));
    KL_TRY(s.ex->vt.alloc(s.ex, d->nstate * s.ny, &y, err));
    KL_TRY(s.ex->vt.alloc(s.ex, d->nstate * s.nn, &n, err));
    KL_TRY(make_products(&s, y, err));
    KL_TRY(apply_operators(&s, y, n, err));
    s.ex->vt.release(s.ex, &y);
    s.ex->vt.dots(s.ex, npsi, 1, d->wave.psi, npsi, d->wave.psi, &weight);
    s.ex->vt.dots(s.ex, d->nstate * s.nn, 1, n, d->nstate * s.nn, n, &noise);
    KL_TRY(widen(&s, target, out, err));
    KL_TRY(join(&s, n, noise > 0 ? sqrt(share * weight / noise) : 0, out, err));
out:
    kl_free(&s.count);
    kl_free(&s.y);
    kl_free(&s.n);
    s.ex->vt.release(s.ex, &y);
    s.ex->vt.release(s.ex, &n);
    if (st != KL_OK) kl_noise_columns_clear(ex, out);
    return st;
}

void kl_noise_columns_clear(kl_exec *ex, kl_noise_columns *n)
{
    if (!n->other) return;
    kl_exec *const alone = kl_share_alone(ex);
    alone->vt.release(alone, &n->wave.psi);
    kl_enlarged_destroy(&n->other);
    kl_layout_clear(&n->layout);
}
