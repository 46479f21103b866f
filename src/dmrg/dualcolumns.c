/* Left singular vectors by A^T A: see dualcolumns.h.
     1. Y = Z, its columns scaled so that those of A Y have norm 1
     2. U = A Y
     3. U is made orthonormal: nearly so it is already, but for weights of the size of rounding
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dualcolumns.h"
#include "base/mem.h"
#include "record/record.h"
#include <math.h>

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

/* Where a part has its Y and U. */
typedef struct place {
    int part, rows, count;
    const double *weight; /* [count] */
    int64_t y, u, to; /* to: in the result */
} place;

typedef struct dual {
    kl_range *r;
    const kl_range_view *view;
    int n; /* parts */
    place *at;
    int64_t ny, nu;
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
        d->at[d->n++] = (place){i, p->rows, n, d->view->weight + first, d->ny, d->nu, d->view->off[i]};
        d->ny += (int64_t)p->width * n;
        d->nu += (int64_t)p->rows * n;
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

/* 3. */
static kl_status orthonormalize(dual *d, kl_err *err)
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
    const kl_gramcolumns_opts opts = {.dependent = KL_DEPENDENT_REPLACED, .first = KL_FIRST_PRODUCTS};
    KL_TRY(kl_gramcolumns_run(&r->columns, &at, &opts, err));
out:
    return st;
}

/* U to the places of the result. */
static kl_status give(const dual *d, int64_t ndata, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->n; i++) {
        const place *const p = &d->at[i];
        KL_TRY(kl_batch_open_group(&b, p->to, (int64_t)p->rows * p->count, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                      .at_a = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = p->rows,
                                      .n = p->count,
                                      .lda = p->rows,
                                      .ldc = p->rows,
                                      .a = p->u,
                                      .c = p->to,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    b.nx = d->nu;
    b.ny = ndata;
    KL_TRY(kl_batch_run(&b, d->r->ex, d->u, data, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_dual_columns(kl_range *r, const kl_range_view *t, kl_dptr z, int64_t nz, int64_t ndata,
                          kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    dual d = {.r = r, .view = t};
    KL_TRY(lay_out(&d, err));
    if (d.n == 0) goto out;
    KL_TRY(scale(&d, z, nz, err));
    KL_TRY(make_columns(&d, err));
    KL_TRY(orthonormalize(&d, err));
    KL_TRY(give(&d, ndata, data, err));
out:
    kl_free(&d.at);
    return st;
}
