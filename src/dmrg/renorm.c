/* Operators carried into the kept basis by operation records: see renorm.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/renorm.h"
#include "base/mem.h"
#include "dmrg/opdense.h"

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

/* Operators of one kind, stacked, between two kept sectors. */
typedef struct stack_image {
    const kl_bigop *g;
    const kl_isometry *iso;
    const kl_block *b;
    int kind, from, to; /* kept sectors */
} stack_image;

/* WORK = all operators times O_from, one product; then O_to^T times the rows of each. */
static kl_status stack_records(const stack_image *t, kl_batch *batch, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = t->iso;
    const kl_basis *const e = &t->g->enlarged->basis;
    const int *const op = t->g->kinds.order + t->g->kinds.first[t->kind];
    const int many = t->g->kinds.first[t->kind + 1] - t->g->kinds.first[t->kind], nk = iso->basis.nsec;
    const int cols = e->dim[iso->sec[t->from]], rows = e->dim[iso->sec[t->to]], m = iso->basis.dim[t->from];
    const int64_t stack = kl_bigop_stack(t->g, t->kind, iso->sec[t->from]);
    if (stack < 0) goto out;
    KL_TRY(kl_batch_reserve(batch, many + 1, err));
    *kl_batch_push(batch) =
        (kl_rec){.kind = KL_REC_GEMM,
                 .at_a = t->g->block->side == KL_LEFT ? KL_AT_LEFT_PACK : KL_AT_RIGHT_PACK,
                 .at_b = KL_AT_X,
                 .at_c = KL_AT_WORK,
                 .m = many * rows,
                 .n = m,
                 .k = cols,
                 .lda = many * rows,
                 .ldb = cols,
                 .ldc = many * rows,
                 .a = stack,
                 .b = iso->off[t->from],
                 .alpha = 1};
    for (int i = 0; i < many; i++)
        *kl_batch_push(batch) = (kl_rec){.kind = KL_REC_GEMM,
                                         .ta = 1,
                                         .beta = 1,
                                         .at_a = KL_AT_X,
                                         .at_b = KL_AT_WORK,
                                         .at_c = KL_AT_Y,
                                         .m = iso->basis.dim[t->to],
                                         .n = m,
                                         .k = rows,
                                         .lda = rows,
                                         .ldb = many * rows,
                                         .ldc = iso->basis.dim[t->to],
                                         .a = iso->off[t->to],
                                         .b = (int64_t)i * rows,
                                         .c = t->b->off[(int64_t)op[i] * nk + t->from],
                                         .alpha = 1};
    if ((int64_t)many * rows * m > *nwork) *nwork = (int64_t)many * rows * m;
out:
    return st;
}

/* All parts of one operator. Parts with the same rows share one product from the left; they follow each other
   only by chance, so they are gathered. */
static kl_status image_records(const image *t, kl_batch *batch, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const int m = t->iso->basis.dim[t->from];
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
        if ((int64_t)p->nrow * m > *nwork) *nwork = (int64_t)p->nrow * m;
        *kl_batch_push(batch) = kept_times(t, p, 0);
    }
out:
    return st;
}

/* Operator op from kept sector k, if it leads anywhere. */
static kl_status add_operator(const kl_bigop *g, const kl_isometry *iso, const kl_block *b, int op, int k,
                              kl_batch *batch, int64_t *nwork, kl_err *err)
{
    const int nk = iso->basis.nsec;
    const int64_t at = (int64_t)op * g->enlarged->basis.nsec + iso->sec[k];
    const image t = {.g = g,
                     .iso = iso,
                     .first = g->first[at],
                     .last = g->first[at + 1],
                     .from = k,
                     .to = b->dst[(int64_t)op * nk + k],
                     .y = b->off[(int64_t)op * nk + k]};
    return t.to >= 0 ? image_records(&t, batch, nwork, err) : KL_OK;
}

/* A group for each operator and kept sector. */
static kl_status list_operators(const kl_bigop *g, const kl_isometry *iso, const kl_block *b, kl_batch *batch,
                                kl_err *err)
{
    kl_status st = KL_OK;
    const int nk = iso->basis.nsec;
    for (int op = 0; op < g->nop; op++)
        for (int k = 0; k < nk; k++) {
            const int to = b->dst[(int64_t)op * nk + k];
            int64_t nwork = 0;
            if (to < 0 || kl_bigop_identity(g, op)) continue;
            KL_TRY(kl_batch_open_group(batch, b->off[(int64_t)op * nk + k],
                                       (int64_t)iso->basis.dim[k] * iso->basis.dim[to], err));
            KL_TRY(add_operator(g, iso, b, op, k, batch, &nwork, err));
            kl_batch_close_group(batch, nwork);
        }
out:
    return st;
}

/* A group for each kind of the block's operators and each kept sector: those of a stack together. A kind of
   the block may hold two stacks, and operators that are in none. */
static kl_status list_stacks(const kl_bigop *g, const kl_isometry *iso, const kl_block *b, kl_batch *batch,
                             kl_err *err)
{
    kl_status st = KL_OK;
    const int nk = iso->basis.nsec;
    kl_kinds own = {0};
    int *stack = NULL; /* of each operator: the stack it begins, -1: none begins there, -2: it is in none */
    KL_TRY(kl_kinds_create(b->mpo, b->side == KL_LEFT, b->cut, &own, err));
    KL_TRY(kl_alloc(&stack, g->nop, KL_MEM_RECORD, err));
    for (int op = 0; op < g->nop; op++) stack[op] = -2;
    for (int s = 0; s < g->kinds.n; s++)
        for (int i = g->kinds.first[s]; i < g->kinds.first[s + 1]; i++)
            stack[g->kinds.order[i]] = i == g->kinds.first[s] ? s : -1;
    for (int kind = 0; kind < own.n; kind++)
        for (int k = 0; k < nk; k++) {
            const int *const op = own.order + own.first[kind], many = own.first[kind + 1] - own.first[kind];
            const int to = b->dst[(int64_t)op[0] * nk + k];
            int64_t nwork = 0;
            if (to < 0) continue;
            const int64_t from = b->off[(int64_t)op[0] * nk + k];
            KL_TRY(kl_batch_open_group(batch, from,
                                       many * kl_block_room(iso->basis.dim[to], iso->basis.dim[k]), err));
            for (int i = 0; i < many; i++) {
                const stack_image t = {g, iso, b, stack[op[i]], k, to};
                if (t.kind >= 0) KL_TRY(stack_records(&t, batch, &nwork, err));
                else if (t.kind == -2) KL_TRY(add_operator(g, iso, b, op[i], k, batch, &nwork, err));
            }
            kl_batch_close_group(batch, nwork);
        }
out:
    kl_kinds_clear(&own);
    kl_free(&stack);
    return st;
}

kl_status kl_block_grow(kl_exec *ex, const kl_bigop *g, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_block *b = NULL;
    kl_batch batch;
    kl_batch_init(&batch);
    KL_TRY(kl_block_create(ex, g->block->mpo, g->block->side, g->cut, &iso->basis, &b, err));
    KL_TRY(g->stack ? list_stacks(g, iso, b, &batch, err) : list_operators(g, iso, b, &batch, err));
    batch.zero = 1;
    kl_bigop_bases(g, &batch);
    KL_TRY(kl_batch_run(&batch, ex, iso_data, b->data, err));
out:
    kl_batch_clear(&batch);
    if (st != KL_OK) kl_block_destroy(&b);
    *out = b;
    return st;
}
