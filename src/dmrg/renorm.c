/* Operators carried into the kept basis by operation records: see renorm.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/renorm.h"
#include "base/mem.h"
#include "dmrg/opdense.h"

/* A block that is there already, and states of a sector from which that is made use of. */
typedef struct known_block {
    const kl_block *block;
    int least;
} known_block;

/* Rows or columns of one operator's matrix between two kept sectors: y = O_to^T (its parts) O_from. */
typedef struct image {
    const kl_bigop *g;
    const kl_isometry *iso;
    int64_t first, last; /* parts of the operator */
    int from, to;        /* kept sectors */
    int row, nrow, col, ncol; /* states of `to` and of `from` that are wanted */
    /* 0: the parts are multiplied with O_from first; 1: their transposes with O_to, the shorter way where few
       rows are wanted */
    int turned;
    int64_t y;
} image;

/* Where a state of a kept sector begins, as numbers of the isometry. */
static int64_t state_at(const image *t, int sec, int state, int row)
{
    const int high = t->g->enlarged->basis.dim[t->iso->sec[sec]];
    return t->iso->off[sec] + row + (int64_t)state * high;
}

/* Rows of part p as it is multiplied first, and where they begin among those of the operator. */
static int rows_of(const image *t, const kl_part *p) { return t->turned ? p->ncol : p->nrow; }
static int begin_of(const image *t, const kl_part *p) { return t->turned ? p->col : p->row; }

/* WORK = part q times O_from, or its transpose times O_to; add: to what is there. */
static kl_rec times_kept(const image *t, const kl_part *q, int add)
{
    const int sec = t->turned ? t->to : t->from, wide = t->turned ? t->nrow : t->ncol;
    const int rows = rows_of(t, q), high = t->g->enlarged->basis.dim[t->iso->sec[sec]];
    const int64_t o = t->turned ? state_at(t, sec, t->row, q->row) : state_at(t, sec, t->col, q->col);
    if (q->off < 0)
        return (kl_rec){.kind = KL_REC_ADD,
                        .beta = (uint8_t)add,
                        .at_a = KL_AT_X,
                        .at_c = KL_AT_WORK,
                        .m = rows,
                        .n = wide,
                        .lda = high,
                        .ldc = rows,
                        .a = o,
                        .alpha = q->coef};
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = (uint8_t)(q->dag != t->turned),
                    .beta = (uint8_t)add,
                    .at_a = (uint8_t)kl_bigop_at(t->g, q),
                    .at_b = KL_AT_X,
                    .at_c = KL_AT_WORK,
                    .m = rows,
                    .n = wide,
                    .k = t->turned ? q->nrow : q->ncol,
                    .lda = q->ld,
                    .ldb = high,
                    .ldc = rows,
                    .a = q->off,
                    .b = o,
                    .alpha = q->coef};
}

/* y += O_to^T B over the rows of part p. B: the product in WORK, or, for an identity alone, O_from. Turned:
   y += B^T O_from over its columns, B being the product. */
static kl_rec kept_times(const image *t, const kl_part *p, int identity)
{
    const kl_basis *const e = &t->g->enlarged->basis;
    const int to = e->dim[t->iso->sec[t->to]], from = e->dim[t->iso->sec[t->from]];
    const int m2 = t->iso->basis.dim[t->to], rows = rows_of(t, p);
    const int o_to = identity || !t->turned, o_from = identity || t->turned;
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = 1,
                    .beta = 1,
                    .at_a = o_to ? KL_AT_X : KL_AT_WORK,
                    .at_b = o_from ? KL_AT_X : KL_AT_WORK,
                    .at_c = KL_AT_Y,
                    .m = t->nrow,
                    .n = t->ncol,
                    .k = rows,
                    .lda = o_to ? to : rows,
                    .ldb = o_from ? from : rows,
                    .ldc = m2,
                    .a = o_to ? state_at(t, t->to, t->row, p->row) : 0,
                    .b = o_from ? state_at(t, t->from, t->col, p->col) : 0,
                    .c = t->y + t->row + (int64_t)t->col * m2,
                    .alpha = identity ? p->coef : 1};
}

/* All parts of one operator, in the group that is open. Parts with the same rows share one product from the
   left; they follow each other only by chance, so they are gathered. */
static kl_status push_image(const image *t, kl_batch *batch, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const int wide = t->turned ? t->nrow : t->ncol;
    if (t->nrow == 0 || t->ncol == 0) goto out;
    KL_TRY(kl_batch_reserve(batch, 2 * (t->last - t->first) + 1, err));
    for (int64_t i = t->first; i < t->last; i++) {
        const kl_part *const p = &t->g->part[i];
        int done = 0, more = 0;
        for (int64_t j = t->first; j < t->last; j++) {
            if (begin_of(t, &t->g->part[j]) != begin_of(t, p)) continue;
            if (j < i) done = 1;
            if (j > i) more = 1;
        }
        if (done) continue;
        if (!more && p->off < 0) {
            *kl_batch_push(batch) = kept_times(t, p, 1);
            continue;
        }
        for (int64_t j = i; j < t->last; j++)
            if (begin_of(t, &t->g->part[j]) == begin_of(t, p))
                *kl_batch_push(batch) = times_kept(t, &t->g->part[j], j > i);
        const int64_t work = (int64_t)rows_of(t, p) * wide;
        if (work > *nwork) *nwork = work;
        *kl_batch_push(batch) = kept_times(t, p, 0);
    }
out:
    return st;
}

/* One operator between two kept sectors whole, or, where `known` has the matrix between its states already,
   which are the first of both sectors, what is new of it. */
static kl_status image_records(image *t, const known_block *k, int op, kl_batch *batch, int64_t *nwork,
                               kl_err *err)
{
    kl_status st = KL_OK;
    const kl_block *const known = k ? k->block : NULL;
    const int m = t->iso->basis.dim[t->from], m2 = t->iso->basis.dim[t->to];
    const int from = known ? kl_basis_find(&known->basis, t->iso->basis.q[t->from]) : -1;
    const int to = known ? kl_basis_find(&known->basis, t->iso->basis.q[t->to]) : -1;
    const int there = from >= 0 && to >= 0 && known->dst[op * known->basis.nsec + from] == to &&
                      known->basis.dim[from] >= k->least && known->basis.dim[to] >= k->least;
    const int old = there ? known->basis.dim[from] : 0, old2 = there ? known->basis.dim[to] : 0;
    if (there) {
        KL_TRY(kl_batch_reserve(batch, 1, err));
        *kl_batch_push(batch) = (kl_rec){.kind = KL_REC_ADD,
                                         .beta = 1,
                                         .at_a = known->side == KL_LEFT ? KL_AT_RIGHT : KL_AT_LEFT,
                                         .at_c = KL_AT_Y,
                                         .m = old2,
                                         .n = old,
                                         .lda = old2,
                                         .ldc = m2,
                                         .a = known->off[op * known->basis.nsec + from],
                                         .c = t->y,
                                         .alpha = 1};
        t->turned = 1;
        t->row = old2, t->nrow = m2 - old2, t->col = 0, t->ncol = old;
        KL_TRY(push_image(t, batch, nwork, err));
    }
    t->turned = 0;
    t->row = 0, t->nrow = m2, t->col = old, t->ncol = m - old;
    KL_TRY(push_image(t, batch, nwork, err));
out:
    return st;
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

/* Operator op from kept sector k, if it leads anywhere. */
static kl_status add_operator(const kl_bigop *g, const kl_isometry *iso, const kl_block *b,
                              const known_block *known, int op, int k, kl_batch *batch, int64_t *nwork,
                              kl_err *err)
{
    const int nk = iso->basis.nsec;
    const int64_t at = (int64_t)op * g->enlarged->basis.nsec + iso->sec[k];
    image t = {.g = g,
               .iso = iso,
               .first = g->first[at],
               .last = g->first[at + 1],
               .from = k,
               .to = b->dst[(int64_t)op * nk + k],
               .y = b->off[(int64_t)op * nk + k]};
    return t.to >= 0 ? image_records(&t, known, op, batch, nwork, err) : KL_OK;
}

/* A group for each operator and kept sector. */
static kl_status list_operators(const kl_bigop *g, const kl_isometry *iso, const kl_block *b,
                                const known_block *known, kl_batch *batch, kl_err *err)
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
            KL_TRY(add_operator(g, iso, b, known, op, k, batch, &nwork, err));
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
                else if (t.kind == -2) KL_TRY(add_operator(g, iso, b, NULL, op[i], k, batch, &nwork, err));
            }
            kl_batch_close_group(batch, nwork);
        }
out:
    kl_kinds_clear(&own);
    kl_free(&stack);
    return st;
}

kl_status kl_block_grow_on(kl_exec *ex, const kl_bigop *g, const kl_isometry *iso, kl_dptr iso_data,
                           const kl_block *known, int least, kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    const known_block there = {known, least};
    kl_block *b = NULL;
    kl_batch batch;
    kl_batch_init(&batch);
    KL_TRY(kl_block_create(ex, g->block->mpo, g->block->side, g->cut, &iso->basis, &b, err));
    KL_TRY(g->stack ? list_stacks(g, iso, b, &batch, err)
                    : list_operators(g, iso, b, known ? &there : NULL, &batch, err));
    batch.zero = 1;
    kl_bigop_bases(g, &batch);
    if (known) batch.base[known->side == KL_LEFT ? KL_AT_RIGHT : KL_AT_LEFT] = known->data;
    KL_TRY(kl_batch_run(&batch, ex, iso_data, b->data, err));
out:
    kl_batch_clear(&batch);
    if (st != KL_OK) kl_block_destroy(&b);
    *out = b;
    return st;
}

kl_status kl_block_grow(kl_exec *ex, const kl_bigop *g, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err)
{
    return kl_block_grow_on(ex, g, iso, iso_data, NULL, 0, out, err);
}
