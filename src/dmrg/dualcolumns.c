/* Left singular vectors by A^T A: see dualcolumns.h.
     1. Y = Z, its columns scaled so that those of A Y have norm 1
     2. U = A Y
     3. U = U - U (U^T U - 1) / 2, again until what is left of U^T U - 1 would be rounding
   What U^T U - 1 has is squared each time. Weights of the size of rounding leave columns that are not nearly
   orthonormal: these take Cholesky QR.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dualcolumns.h"
#include "base/mem.h"
#include "record/record.h"
#include <math.h>

#define NEAR 0.1 /* |U^T U - 1| of all parts, from which products are enough */
#define DONE 1e-15 /* the same, where nothing is left to do */

kl_status kl_dual_gram(const kl_range *r, int divisor, const int64_t *off, const int *sec, int64_t nto,
                       kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int n = p->width, lda = r->transposed ? p->cols : p->rows;
        if (p->mode != KL_RANGE_DUAL) continue;
        KL_TRY(kl_batch_open_group(&b, off[sec[i]], (int64_t)n * n, err));
        KL_TRY(kl_batch_reserve(&b, (int64_t)r->nstate * r->nstate, err));
        for (int k = 0; k < r->nstate * r->nstate; k++) {
            const int s = k % r->nstate, t = k / r->nstate;
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = (uint8_t)!r->transposed,
                                          .tb = (uint8_t)r->transposed,
                                          .at_a = KL_AT_X,
                                          .at_b = KL_AT_X,
                                          .at_c = KL_AT_Y,
                                          .m = p->cols,
                                          .n = p->cols,
                                          .k = p->rows,
                                          .lda = lda,
                                          .ldb = lda,
                                          .ldc = n,
                                          .a = s * r->npsi + p->psi,
                                          .b = t * r->npsi + p->psi,
                                          .c = off[sec[i]] + ((int64_t)t * n + s) * p->cols,
                                          .alpha = 1.0 / divisor};
        }
        kl_batch_close_group(&b, 0);
    }
    b.nx = r->npsi * r->nstate;
    b.ny = nto;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, r->ex, r->psi, to, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Where a part has its Y, U and U^T U. */
typedef struct place {
    int part, rows, count;
    const double *weight; /* [count] */
    int64_t y, u, s, to; /* to: in the result */
} place;

typedef struct dual {
    kl_range *r;
    const kl_range_view *view;
    int n; /* parts */
    place *at;
    int64_t ny, nu, ns;
    kl_dptr u, next; /* [nu] */
} dual;

static kl_status lay_out(dual *d, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_range *const r = d->r;
    int64_t first = 0;
    KL_TRY(kl_alloc(&d->at, r->npart, KL_MEM_WORK, err));
    for (int i = 0; i < r->npart; first += d->view->count[i++]) {
        const kl_range_part *const p = &r->part[i];
        const int n = d->view->count[i];
        if (p->mode != KL_RANGE_DUAL || n == 0) continue;
        d->at[d->n++] = (place){i, p->rows, n, d->view->weight + first, d->ny, d->nu, d->ns, d->view->off[i]};
        d->ny += (int64_t)p->width * n;
        d->nu += (int64_t)p->rows * n;
        d->ns += (int64_t)n * n;
    }
    d->u = kl_dptr_at(r->q, r->nq); /* behind the columns of the other parts */
    d->next = r->spare;
out:
    return st;
}

/* 1. */
static kl_status scale(const dual *d, kl_dptr z, int64_t nz, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_range *const r = d->r;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->n; i++) {
        const place *const p = &d->at[i];
        const int wide = r->part[p->part].width;
        KL_TRY(kl_batch_open_group(&b, p->y, (int64_t)wide * p->count, err));
        KL_TRY(kl_batch_reserve(&b, p->count, err));
        for (int j = 0; j < p->count; j++) {
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                          .at_a = KL_AT_X,
                                          .at_c = KL_AT_Y,
                                          .m = wide,
                                          .n = 1,
                                          .lda = wide,
                                          .ldc = wide,
                                          .a = d->view->zoff[p->part] + (int64_t)j * wide,
                                          .c = p->y + (int64_t)j * wide,
                                          .alpha = p->weight[j] > 0 ? 1 / sqrt(p->weight[j]) : 0};
        }
        kl_batch_close_group(&b, 0);
    }
    b.nx = nz;
    b.ny = d->ny;
    KL_TRY(kl_batch_run(&b, r->ex, z, r->bt, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* 2. */
static kl_status make_columns(const dual *d, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_range *const r = d->r;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->n; i++) {
        const place *const p = &d->at[i];
        const kl_range_part *const part = &r->part[p->part];
        KL_TRY(kl_batch_open_group(&b, p->u, (int64_t)p->rows * p->count, err));
        KL_TRY(kl_batch_reserve(&b, r->nstate, err));
        for (int s = 0; s < r->nstate; s++)
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = (uint8_t)r->transposed,
                                          .beta = s > 0,
                                          .at_a = KL_AT_X,
                                          .at_b = KL_AT_LEFT,
                                          .at_c = KL_AT_Y,
                                          .m = p->rows,
                                          .n = p->count,
                                          .k = part->cols,
                                          .lda = r->transposed ? part->cols : part->rows,
                                          .ldb = part->width,
                                          .ldc = p->rows,
                                          .a = s * r->npsi + part->psi,
                                          .b = p->y + (int64_t)s * part->cols,
                                          .c = p->u,
                                          .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    b.nx = r->npsi * r->nstate;
    b.ny = d->nu;
    b.base[KL_AT_LEFT] = r->bt;
    KL_TRY(kl_batch_run(&b, r->ex, r->psi, d->u, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* U^T U - 1, and *far, its norm. */
static kl_status overlap(const dual *d, double *far, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_range *const r = d->r;
    const kl_dptr s = r->columns.gram;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->n; i++) {
        const place *const p = &d->at[i];
        KL_TRY(kl_batch_open_group(&b, p->s, (int64_t)p->count * p->count, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .ta = 1,
                                      .at_a = KL_AT_X,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = p->count,
                                      .n = p->count,
                                      .k = p->rows,
                                      .lda = p->rows,
                                      .ldb = p->rows,
                                      .ldc = p->count,
                                      .a = p->u,
                                      .b = p->u,
                                      .c = p->s,
                                      .alpha = 1};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_FILL,
                                      .beta = 1,
                                      .at_c = KL_AT_Y,
                                      .m = 1,
                                      .n = p->count,
                                      .ldc = p->count + 1,
                                      .c = p->s,
                                      .alpha = -1};
        kl_batch_close_group(&b, 0);
    }
    b.nx = d->nu;
    b.ny = d->ns;
    KL_TRY(kl_batch_run(&b, r->ex, d->u, s, err));
    r->ex->vt.dots(r->ex, d->ns, 1, s, d->ns, s, far);
    *far = sqrt(*far);
out:
    kl_batch_clear(&b);
    return st;
}

/* 3. To `to` of nto numbers, in the places of the result or in those of U. */
static kl_status improve(const dual *d, int last, int64_t nto, kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->n; i++) {
        const place *const p = &d->at[i];
        const int64_t c = last ? p->to : p->u;
        KL_TRY(kl_batch_open_group(&b, c, (int64_t)p->rows * p->count, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                      .at_a = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = p->rows,
                                      .n = p->count,
                                      .lda = p->rows,
                                      .ldc = p->rows,
                                      .a = p->u,
                                      .c = c,
                                      .alpha = 1};
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .beta = 1,
                                      .at_a = KL_AT_X,
                                      .at_b = KL_AT_LEFT,
                                      .at_c = KL_AT_Y,
                                      .m = p->rows,
                                      .n = p->count,
                                      .k = p->count,
                                      .lda = p->rows,
                                      .ldb = p->count,
                                      .ldc = p->rows,
                                      .a = p->u,
                                      .b = p->s,
                                      .c = c,
                                      .alpha = -0.5};
        kl_batch_close_group(&b, 0);
    }
    b.nx = d->nu;
    b.ny = nto;
    b.base[KL_AT_LEFT] = d->r->columns.gram;
    KL_TRY(kl_batch_run(&b, d->r->ex, d->u, to, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Columns that are not nearly orthonormal. */
static kl_status factorize(dual *d, kl_err *err)
{
    kl_status st = KL_OK;
    kl_range *const r = d->r;
    for (int i = 0; i < r->npart; i++) r->block[i] = (kl_column_block){.at = -1, .gram = r->part[i].gram};
    for (int i = 0; i < d->n; i++) {
        kl_column_block *const block = &r->block[d->at[i].part];
        block->rows = d->at[i].rows;
        block->width = d->at[i].count;
        block->at = d->at[i].u;
    }
    const kl_gramcolumns_at at = {r->block, &d->u, &d->next, d->nu};
    const kl_gramcolumns_opts opts = {.dependent = KL_DEPENDENT_REPLACED};
    KL_TRY(kl_gramcolumns_run(&r->columns, &at, &opts, err));
out:
    return st;
}

kl_status kl_dual_columns(kl_range *r, const kl_range_view *t, kl_dptr z, int64_t nz, int64_t ndata,
                          kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    dual d = {.r = r, .view = t};
    double far = 0;
    KL_TRY(lay_out(&d, err));
    if (d.n == 0) goto out;
    KL_TRY(scale(&d, z, nz, err));
    KL_TRY(make_columns(&d, err));
    KL_TRY(overlap(&d, &far, err));
    if (!(far < NEAR)) {
        KL_TRY(factorize(&d, err));
        KL_TRY(overlap(&d, &far, err));
    }
    while (far * far > DONE) {
        KL_TRY(improve(&d, 0, d.nu, d.next, err));
        const kl_dptr was = d.u;
        d.u = d.next;
        d.next = was;
        KL_TRY(overlap(&d, &far, err));
    }
    KL_TRY(improve(&d, 1, ndata, data, err));
out:
    kl_free(&d.at);
    return st;
}
