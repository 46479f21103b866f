/* Density matrices by operation records: see density.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/density.h"
#include "base/mem.h"

/* An operator of the enlarged block, applied to a segment of a wavefunction. */
typedef struct application {
    int op, sec; /* the operator, and the sector that its parts are listed under */
    int adjoint; /* 1: its transpose */
    int rows;    /* of the product: the dimension of the sector that it leads to */
    int width;   /* columns of the product: states of the other side */
    int ldx;     /* leading dimension of the segment */
    int64_t x;   /* where the segment begins */
} application;

/* One piece p of an operator into WORK: p x for the left side, p x^T for the right one, so that WORK is
   (sector of this side) x (other side) in both cases. */
static kl_rec piece(const kl_density *d, const application *a, kl_part p)
{
    const int right = d->side == KL_RIGHT;
    const int64_t from = right ? a->x + (int64_t)p.col * a->ldx : a->x + p.col;
    if (p.off < 0)
        return (kl_rec){.kind = KL_REC_ADD,
                        .ta = (uint8_t)right,
                        .beta = 1,
                        .at_a = KL_AT_X,
                        .at_c = KL_AT_WORK,
                        .m = p.nrow,
                        .n = a->width,
                        .lda = a->ldx,
                        .ldc = a->rows,
                        .a = from,
                        .c = p.row,
                        .alpha = p.coef};
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = p.dag,
                    .tb = (uint8_t)right,
                    .beta = 1,
                    .at_a = (uint8_t)kl_bigop_at(d->grown, &p),
                    .at_b = KL_AT_X,
                    .at_c = KL_AT_WORK,
                    .m = p.nrow,
                    .n = a->width,
                    .k = p.ncol,
                    .lda = p.ld,
                    .ldb = a->ldx,
                    .ldc = a->rows,
                    .a = p.off,
                    .b = from,
                    .c = p.row,
                    .alpha = p.coef};
}

/* Records of one application. */
static int64_t records_applied(const kl_density *d, const application *a)
{
    const kl_bigop *const g = d->grown;
    const int64_t at = (int64_t)a->op * g->enlarged->basis.nsec + a->sec;
    return g->first[at + 1] - g->first[at] + 2;
}

/* WORK = the operator times the segment: zero first, since its parts may leave rows out; then WORK WORK^T is
   added to the matrix at c. */
static kl_status add_applied(const kl_density *d, const application *a, int64_t c, kl_batch *b, kl_err *err)
{
    const kl_bigop *const g = d->grown;
    const int64_t at = (int64_t)a->op * g->enlarged->basis.nsec + a->sec;
    const kl_status st = kl_batch_reserve(b, records_applied(d, a), err);
    if (st != KL_OK) return st;
    *kl_batch_push(b) =
        (kl_rec){.kind = KL_REC_FILL, .at_c = KL_AT_WORK, .m = a->rows, .n = a->width, .ldc = a->rows};
    for (int64_t i = g->first[at]; i < g->first[at + 1]; i++) {
        kl_part p = g->part[i];
        if (a->adjoint) p = (kl_part){p.col, p.ncol, p.row, p.nrow, p.ld, !p.dag, p.packed, p.off, p.coef};
        *kl_batch_push(b) = piece(d, a, p);
    }
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                 .tb = 1,
                                 .beta = 1,
                                 .at_a = KL_AT_WORK,
                                 .at_b = KL_AT_WORK,
                                 .at_c = KL_AT_Y,
                                 .m = a->rows,
                                 .n = a->rows,
                                 .k = a->width,
                                 .lda = a->rows,
                                 .ldb = a->rows,
                                 .ldc = a->rows,
                                 .c = c,
                                 .alpha = 1.0 / d->nstate};
    return KL_OK;
}

/* Row and column sector of the segment that sector e of this side belongs to, -1 where there is none. */
static void segment_of(const kl_density *d, int e, int *i, int *j)
{
    const kl_layout *const lay = d->wave.layout;
    *i = d->side == KL_LEFT ? e : lay->back[e];
    *j = d->side == KL_LEFT ? lay->pair[e] : e;
}

/* psi psi^T of sector e, whose matrix begins at `at`. */
static kl_status weight_records(const kl_density *d, int e, int64_t at, kl_batch *b, kl_err *err)
{
    const kl_layout *const lay = d->wave.layout;
    const kl_basis *const other = kl_density_other(d);
    const int dim = kl_density_mine(d)->dim[e], left = d->side == KL_LEFT;
    int i, j;
    segment_of(d, e, &i, &j);
    const kl_status st = kl_batch_reserve(b, d->nstate, err);
    if (st != KL_OK || i < 0 || j < 0) return st;
    for (int s = 0; s < d->nstate; s++) {
        const int64_t x = s * lay->n + lay->off[i];
        const int rows = left ? dim : other->dim[i];
        *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                     .ta = !left,
                                     .tb = (uint8_t)left,
                                     .beta = 1,
                                     .at_a = KL_AT_X,
                                     .at_b = KL_AT_X,
                                     .at_c = KL_AT_Y,
                                     .m = dim,
                                     .n = dim,
                                     .k = left ? other->dim[j] : rows,
                                     .lda = rows,
                                     .ldb = rows,
                                     .ldc = dim,
                                     .a = x,
                                     .b = x,
                                     .c = at,
                                     .alpha = 1.0 / d->nstate};
    }
    return KL_OK;
}

/* What the records of noise in a sector come to. */
typedef struct noise_size {
    int64_t nwork; /* doubles of WORK that they need */
    int64_t nrec;
} noise_size;

/* (L psi)(L psi)^T of sector e for all operators L and their transposes; b: NULL, they are counted only. */
static kl_status noise_records(const kl_density *d, int e, int64_t at, noise_size *size, kl_batch *b,
                               kl_err *err)
{
    const kl_bigop *const g = d->grown;
    const kl_layout *const lay = d->wave.layout;
    const kl_basis *const mine = kl_density_mine(d), *const other = kl_density_other(d);
    const int n = mine->nsec, left = d->side == KL_LEFT;
    for (int k = 0; k < g->nop; k++) {
        if (kl_bigop_identity(g, k)) continue;
        for (int adjoint = 0; adjoint <= (g->block->mpo->op[g->cut][k].self ? 0 : 1); adjoint++) {
            const int from = adjoint ? g->dst[k * n + e] : g->src[k * n + e];
            int i, j;
            if (from < 0) continue;
            segment_of(d, from, &i, &j);
            if (i < 0 || j < 0) continue;
            application a = {.op = k,
                             .sec = adjoint ? e : from,
                             .adjoint = adjoint,
                             .rows = mine->dim[e],
                             .width = left ? other->dim[j] : other->dim[i],
                             .ldx = left ? mine->dim[i] : other->dim[i]};
            size->nrec += d->nstate * records_applied(d, &a);
            for (int s = 0; b && s < d->nstate; s++) {
                a.x = s * lay->n + lay->off[i];
                const kl_status st = add_applied(d, &a, at, b, err);
                if (st != KL_OK) return st;
            }
            if ((int64_t)a.rows * a.width > size->nwork) size->nwork = (int64_t)a.rows * a.width;
        }
    }
    return KL_OK;
}

/* Adds the group of sector e, whose matrix begins at `at`. */
static kl_status sector_records(const kl_density *d, int noise, int e, int64_t at, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int dim = kl_density_mine(d)->dim[e];
    noise_size size = {0};
    KL_TRY(kl_batch_open_group(b, at, (int64_t)dim * dim, err));
    if (noise) KL_TRY(noise_records(d, e, at, &size, b, err));
    else KL_TRY(weight_records(d, e, at, b, err));
    kl_batch_close_group(b, size.nwork);
out:
    return st;
}

/* Of a list of these sectors. */
static void describe(const kl_density *d, int noise, kl_batch *b)
{
    const kl_basis *const mine = kl_density_mine(d);
    b->zero = 1;
    b->nx = d->nstate * d->wave.layout->n;
    b->ny = d->nplace;
    for (int e = 0; e < mine->nsec && !d->place; e++) b->ny += (int64_t)mine->dim[e] * mine->dim[e];
    if (noise) kl_bigop_bases(d->grown, b);
}

/* What is listed so far is run, and the list is empty again. */
static kl_status run_listed(kl_exec *ex, const kl_density *d, int noise, kl_batch *b, kl_dptr rho,
                            kl_err *err)
{
    describe(d, noise, b);
    return b->ngroup > 0 ? kl_batch_run(b, ex, d->wave.psi, rho, err) : KL_OK;
}

/* Noise has a record for every piece of every operator, a million in a molecule: a processor lists them a
   few sectors at a time. */
enum { MANY = 1 << 16 };
static kl_status run_records(kl_exec *ex, const kl_density *d, int noise, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const mine = kl_density_mine(d);
    int64_t at = 0;
    kl_batch b;
    kl_batch_init(&b);
    for (int e = 0; e < mine->nsec; e++) {
        if (d->place) at = d->place[e];
        if (at < 0) continue;
        KL_TRY(sector_records(d, noise, e, at, &b, err));
        at += (int64_t)mine->dim[e] * mine->dim[e];
        if (b.nrec > MANY && ex->space == KL_SPACE_HOST) KL_TRY(run_listed(ex, d, noise, &b, rho, err));
    }
    KL_TRY(run_listed(ex, d, noise, &b, rho, err));
out:
    kl_batch_clear(&b);
    return st;
}

int64_t kl_density_noise_bytes(const kl_exec *ex, const kl_density *d)
{
    int64_t most = 0, listed = 0, room = 64; /* lists grow by doubling */
    for (int e = 0; e < kl_density_mine(d)->nsec; e++) {
        noise_size size = {0};
        if (noise_records(d, e, 0, &size, NULL, NULL) != KL_OK) return 0; /* counting does not fail */
        listed += size.nrec;
        if (listed > most) most = listed;
        if (listed > MANY && ex->space == KL_SPACE_HOST) listed = 0;
    }
    while (room < most) room *= 2;
    return room * (int64_t)sizeof(kl_rec);
}

kl_status kl_density_records(const kl_density *d, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const mine = kl_density_mine(d);
    int64_t at = 0;
    for (int e = 0; e < mine->nsec; e++) {
        if (d->place) at = d->place[e];
        if (at < 0) continue;
        KL_TRY(sector_records(d, 0, e, at, b, err));
        at += (int64_t)mine->dim[e] * mine->dim[e];
    }
    describe(d, 0, b);
out:
    return st;
}

kl_status kl_density_make(kl_exec *ex, const kl_density *d, kl_dptr rho, kl_err *err)
{
    return run_records(ex, d, 0, rho, err);
}

/* Trace of all the matrices in rho. */
static kl_status trace(kl_exec *ex, const kl_density *d, kl_dptr rho, double *sum, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const mine = kl_density_mine(d);
    double *host = NULL;
    int64_t matrix = 0, at = 0;
    kl_dptr diagonal = {0};
    kl_batch b;
    kl_batch_init(&b);
    *sum = 0;
    KL_TRY(kl_alloc(&host, mine->total, KL_MEM_WORK, err));
    KL_TRY(ex->vt.alloc(ex, mine->total, &diagonal, err));
    for (int64_t c = 0; c < mine->nsec; c++) {
        const int dim = mine->dim[c];
        if (d->place && d->place[c] < 0) continue;
        if (d->place) matrix = d->place[c];
        KL_TRY(kl_batch_open_group(&b, at, dim, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                      .at_a = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = 1,
                                      .n = dim,
                                      .lda = dim + 1,
                                      .ldc = 1,
                                      .a = matrix,
                                      .c = at,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
        matrix += (int64_t)dim * dim;
        at += dim;
    }
    b.ny = mine->total;
    if (b.ngroup == 0) goto out;
    KL_TRY(kl_batch_run(&b, ex, rho, diagonal, err));
    KL_TRY(ex->vt.download(ex, host, diagonal, at, err));
    for (int64_t i = 0; i < at; i++) *sum += host[i];
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &diagonal);
    kl_free(&host);
    return st;
}

kl_status kl_density_add_noise(kl_exec *ranks, const kl_density *d, double share, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = kl_share_alone(ranks);
    const kl_basis *const mine = kl_density_mine(d);
    kl_dptr noise = {0};
    double sum[2]; /* traces of rho, and of the noise */
    int64_t length = 0;
    for (int c = 0; c < mine->nsec; c++) length += (int64_t)mine->dim[c] * mine->dim[c];
    if (d->place) length = d->nplace;
    KL_TRY(ex->vt.alloc(ex, length, &noise, err));
    KL_TRY(run_records(ex, d, 1, noise, err));
    KL_TRY(trace(ex, d, rho, &sum[0], err));
    KL_TRY(trace(ex, d, noise, &sum[1], err));
    kl_ranks_sum(ranks, 2, sum);
    if (sum[1] > 0) ex->vt.axpby(ex, length, share * sum[0] / sum[1], noise, 1.0, rho);
out:
    ex->vt.release(ex, &noise);
    return st;
}
