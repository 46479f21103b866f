/* Operators carried into the kept basis by operation records: see renorm.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/renorm.h"
#include "base/mem.h"

/* One operator between two kept sectors: y = O_to^T (its parts) O_from. */
typedef struct image {
    const kl_bigop *g;
    const kl_isometry *iso;
    int64_t first, last; /* parts of the operator */
    int from, to;        /* kept sectors */
    int64_t y;
} image;

/* WORK = part q times O_from; add: to what is there. */
static kl_rec times_kept(const image *t, const kl_part *q, int add)
{
    const int m = t->iso->basis.dim[t->from];
    const int cols = t->g->enlarged->basis.dim[t->iso->sec[t->from]];
    const int64_t o = t->iso->off[t->from] + q->col;
    if (q->off < 0)
        return (kl_rec){.kind = KL_REC_ADD,
                        .beta = (uint8_t)add,
                        .at_a = KL_AT_X,
                        .at_c = KL_AT_WORK,
                        .m = q->nrow,
                        .n = m,
                        .lda = cols,
                        .ldc = q->nrow,
                        .a = o,
                        .alpha = q->coef};
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = q->dag,
                    .beta = (uint8_t)add,
                    .at_a = (uint8_t)kl_bigop_at(t->g, q),
                    .at_b = KL_AT_X,
                    .at_c = KL_AT_WORK,
                    .m = q->nrow,
                    .n = m,
                    .k = q->ncol,
                    .lda = q->ld,
                    .ldb = cols,
                    .ldc = q->nrow,
                    .a = q->off,
                    .b = o,
                    .alpha = q->coef};
}

/* y += O_to^T B over the rows of part p. B: the product in WORK, or, for an identity alone, O_from. */
static kl_rec kept_times(const image *t, const kl_part *p, int identity)
{
    const kl_isometry *const iso = t->iso;
    const kl_basis *const e = &t->g->enlarged->basis;
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = 1,
                    .beta = 1,
                    .at_a = KL_AT_X,
                    .at_b = identity ? KL_AT_X : KL_AT_WORK,
                    .at_c = KL_AT_Y,
                    .m = iso->basis.dim[t->to],
                    .n = iso->basis.dim[t->from],
                    .k = p->nrow,
                    .lda = e->dim[iso->sec[t->to]],
                    .ldb = identity ? e->dim[iso->sec[t->from]] : p->nrow,
                    .ldc = iso->basis.dim[t->to],
                    .a = iso->off[t->to] + p->row,
                    .b = identity ? iso->off[t->from] + p->col : 0,
                    .c = t->y,
                    .alpha = identity ? p->coef : 1};
}

/* All parts of one operator. Parts with the same rows share one product from the left; they follow each other
   only by chance, so they are gathered. */
static kl_status image_records(const image *t, kl_batch *batch, kl_err *err)
{
    kl_status st = KL_OK;
    const int m = t->iso->basis.dim[t->from], m2 = t->iso->basis.dim[t->to];
    int64_t nwork = 0;
    KL_TRY(kl_batch_open_group(batch, t->y, (int64_t)m * m2, err));
    KL_TRY(kl_batch_reserve(batch, 2 * (t->last - t->first) + 1, err));
    for (int64_t i = t->first; i < t->last; i++) {
        const kl_part *const p = &t->g->part[i];
        int done = 0, more = 0;
        for (int64_t j = t->first; j < t->last; j++) {
            if (t->g->part[j].row != p->row) continue;
            if (j < i) done = 1;
            if (j > i) more = 1;
        }
        if (done) continue;
        if (!more && p->off < 0) {
            *kl_batch_push(batch) = kept_times(t, p, 1);
            continue;
        }
        for (int64_t j = i; j < t->last; j++)
            if (t->g->part[j].row == p->row) *kl_batch_push(batch) = times_kept(t, &t->g->part[j], j > i);
        if ((int64_t)p->nrow * m > nwork) nwork = (int64_t)p->nrow * m;
        *kl_batch_push(batch) = kept_times(t, p, 0);
    }
    kl_batch_close_group(batch, nwork);
out:
    return st;
}

kl_status kl_block_grow(kl_exec *ex, const kl_bigop *g, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_block *b = NULL;
    kl_batch batch;
    const int n = g->enlarged->basis.nsec, nk = iso->basis.nsec;
    kl_batch_init(&batch);
    KL_TRY(kl_block_create(ex, g->block->mpo, g->block->side, g->cut, &iso->basis, &b, err));
    for (int op = 0; op < g->nop; op++) {
        if (kl_bigop_identity(g, op)) continue;
        for (int k = 0; k < nk; k++) {
            const int64_t at = (int64_t)op * n + iso->sec[k];
            const image t = {.g = g,
                             .iso = iso,
                             .first = g->first[at],
                             .last = g->first[at + 1],
                             .from = k,
                             .to = b->dst[op * nk + k],
                             .y = b->off[op * nk + k]};
            if (t.to >= 0) KL_TRY(image_records(&t, &batch, err));
        }
    }
    batch.zero = 1;
    kl_bigop_bases(g, &batch);
    KL_TRY(kl_batch_run(&batch, ex, iso_data, b->data, err));
out:
    kl_batch_clear(&batch);
    if (st != KL_OK) kl_block_destroy(&b);
    *out = b;
    return st;
}
