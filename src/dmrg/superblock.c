/* Records of the superblock Hamiltonian.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/superblock.h"
#include "base/mem.h"
#include "dmrg/channel.h"
#include "dmrg/opdense.h"
#include "phase.h"
#include <string.h>

kl_status kl_layout_create(const kl_model *m, const kl_basis *row, const kl_basis *col, kl_qn target,
                           kl_layout *out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_layout){.nsec = row->nsec};
    KL_TRY(kl_alloc(&out->pair, row->nsec, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&out->back, col->nsec, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&out->off, row->nsec, KL_MEM_RECORD, err));
    for (int j = 0; j < col->nsec; j++) out->back[j] = -1;
    for (int i = 0; i < row->nsec; i++) {
        const int j = kl_basis_find(col, kl_qn_sub(m, target, row->q[i]));
        out->pair[i] = j;
        out->off[i] = out->n;
        if (j < 0) continue;
        out->back[j] = i;
        out->npair++;
        out->n += (int64_t)row->dim[i] * col->dim[j];
    }
out:
    if (st != KL_OK) kl_layout_clear(out);
    return st;
}

void kl_layout_clear(kl_layout *l)
{
    kl_free(&l->pair);
    kl_free(&l->back);
    kl_free(&l->off);
}

/* Parts of one operator between two sectors, as they are or transposed as a whole. */
typedef struct view {
    const kl_part *part;
    int64_t n;
    int adjoint;
} view;

static view view_of(const kl_bigop *g, int op, int sec, int adjoint)
{
    const int64_t at = (int64_t)op * g->enlarged->basis.nsec + sec;
    return (view){g->part + g->first[at], g->first[at + 1] - g->first[at], adjoint};
}

static kl_part part_of(const view *v, int64_t i)
{
    kl_part p = v->part[i];
    if (v->adjoint) {
        const int row = p.row, nrow = p.nrow;
        p.row = p.col, p.nrow = p.ncol, p.col = row, p.ncol = nrow;
        p.dag = !p.dag;
    }
    return p;
}

/* C (p.nrow x n) += alpha p X, X at rows p.col */
static kl_rec from_left(const kl_part *p, double alpha, int n, int64_t x, int ldx, kl_at at_y, int64_t y,
                        int ldy, int beta)
{
    if (p->off < 0)
        return (kl_rec){.kind = KL_REC_ADD,
                        .beta = (uint8_t)beta,
                        .at_a = KL_AT_X,
                        .at_c = (uint8_t)at_y,
                        .m = p->nrow,
                        .n = n,
                        .lda = ldx,
                        .ldc = ldy,
                        .a = x + p->col,
                        .c = y,
                        .alpha = alpha * p->coef};
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = (uint8_t)p->dag,
                    .beta = (uint8_t)beta,
                    .at_a = p->packed ? KL_AT_LEFT_PACK : KL_AT_LEFT,
                    .at_b = KL_AT_X,
                    .at_c = (uint8_t)at_y,
                    .m = p->nrow,
                    .n = n,
                    .k = p->ncol,
                    .lda = p->ld,
                    .ldb = ldx,
                    .ldc = ldy,
                    .a = p->off,
                    .b = x + p->col,
                    .c = y,
                    .alpha = alpha * p->coef};
}

/* C (m x p.nrow) += alpha X p^T, X at columns p.col */
static kl_rec from_right(const kl_part *p, double alpha, int m, kl_at at_x, int64_t x, int ldx, int64_t y,
                         int ldy)
{
    if (p->off < 0)
        return (kl_rec){.kind = KL_REC_ADD,
                        .beta = 1,
                        .at_a = (uint8_t)at_x,
                        .at_c = KL_AT_Y,
                        .m = m,
                        .n = p->nrow,
                        .lda = ldx,
                        .ldc = ldy,
                        .a = x + (int64_t)p->col * ldx,
                        .c = y + (int64_t)p->row * ldy,
                        .alpha = alpha * p->coef};
    return (kl_rec){.kind = KL_REC_GEMM,
                    .tb = (uint8_t)!p->dag,
                    .beta = 1,
                    .at_a = (uint8_t)at_x,
                    .at_b = p->packed ? KL_AT_RIGHT_PACK : KL_AT_RIGHT,
                    .at_c = KL_AT_Y,
                    .m = m,
                    .n = p->nrow,
                    .k = p->ncol,
                    .lda = ldx,
                    .ldb = p->ld,
                    .ldc = ldy,
                    .a = x + (int64_t)p->col * ldx,
                    .b = p->off,
                    .c = y + (int64_t)p->row * ldy,
                    .alpha = alpha * p->coef};
}

/* y_I'J' += alpha L x_IJ R^T. */
typedef struct product_of {
    view l, r;                  /* the parts of L and R between the sectors */
    int l_identity, r_identity; /* 1: the operator is the identity */
    double alpha;
    int64_t x, y;      /* where the segments begin */
    int ldx, ldy, nx;  /* leading dimensions; columns of x */
} product_of;

/* Identity factors cost no product; a left part's product with x is made once for all right parts. */
static kl_status product(kl_batch *b, const product_of *t, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const view *const l = &t->l, *const r = &t->r;
    const double alpha = t->alpha;
    const int64_t x = t->x, y = t->y;
    const int ldx = t->ldx, ldy = t->ldy, nx = t->nx;
    KL_TRY(kl_batch_reserve(b, (l->n + 1) * (r->n + 1), err));
    if (t->r_identity) {
        for (int64_t i = 0; i < l->n; i++) {
            const kl_part p = part_of(l, i);
            *kl_batch_push(b) = from_left(&p, alpha, nx, x, ldx, KL_AT_Y, y + p.row, ldy, 1);
        }
        goto out;
    }
    if (t->l_identity) {
        for (int64_t i = 0; i < r->n; i++) {
            const kl_part p = part_of(r, i);
            *kl_batch_push(b) = from_right(&p, alpha, ldx, KL_AT_X, x, ldx, y, ldy);
        }
        goto out;
    }
    int dense = 0;
    for (int64_t j = 0; j < r->n; j++) dense |= r->part[j].off >= 0;
    for (int64_t i = 0; i < l->n; i++) {
        const kl_part p = part_of(l, i);
        if (p.off >= 0 && dense) {
            *kl_batch_push(b) = from_left(&p, alpha, nx, x, ldx, KL_AT_WORK, 0, p.nrow, 0);
            if ((int64_t)p.nrow * nx > *nwork) *nwork = (int64_t)p.nrow * nx;
            for (int64_t j = 0; j < r->n; j++) {
                const kl_part q = part_of(r, j);
                *kl_batch_push(b) = from_right(&q, 1.0, p.nrow, KL_AT_WORK, 0, p.nrow, y + p.row, ldy);
            }
            continue;
        }
        for (int64_t j = 0; j < r->n; j++) {
            const kl_part q = part_of(r, j);
            *kl_batch_push(b) =
                p.off >= 0 ? from_left(&p, alpha * q.coef, q.nrow, x + (int64_t)q.col * ldx, ldx, KL_AT_Y,
                                       y + p.row + (int64_t)q.row * ldy, ldy, 1)
                           : from_right(&q, alpha * p.coef, p.nrow, KL_AT_X, x + p.col, ldx, y + p.row, ldy);
        }
    }
out:
    return st;
}

/* Both sides' operators of one kind between two pairs of sectors: y = sum of L x R^T over the kind, or,
   adjoint, of L^T x R. As stacked, L has nl x many rows and ml columns, operators below each other, R
   likewise. */
typedef struct stacks_of {
    int many, adjoint;
    int64_t l, r; /* where they begin in their packs */
    int nl, ml, nr, mr;
    int64_t x, y;
    double alpha;
} stacks_of;

/* Products over many operators are as deep as these have states together. In pieces of this depth their
   operands stay in a processor's cache, and threads can share the columns of the result. */
enum { DEPTH = 256 };

static void push_deep(kl_batch *b, kl_rec r)
{
    const int all = r.k, pieces = (all + DEPTH - 1) / DEPTH;
    for (int i = 0; i < pieces; i++) {
        const int from = (int)((int64_t)all * i / pieces), to = (int)((int64_t)all * (i + 1) / pieces);
        kl_rec *const p = kl_batch_push(b);
        *p = r;
        p->k = to - from;
        p->a += r.ta ? from : (int64_t)from * r.lda;
        p->b += r.tb ? (int64_t)from * r.ldb : from;
    }
}

/* Two products for all operators of a kind: one makes L x, or x R, of all of them, the other adds up. A stack
   read as it stands has operators below each other; read with the rows of one operator as its leading
   dimension, the same numbers are operators and columns side by side. Either order of the factors is
   possible: the one of fewer flops. */
static kl_status stacked(kl_batch *b, const stacks_of *t, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->many, rows = t->adjoint ? t->nl : t->ml, cols = t->adjoint ? t->nr : t->mr,
              to_rows = t->adjoint ? t->ml : t->nl, to_cols = t->adjoint ? t->mr : t->nr;
    const double left = (double)to_rows * cols * (rows + to_cols),
                 right = (double)rows * to_cols * (cols + to_rows);
    const int left_first = left < right;
    const int64_t size = (int64_t)n * (left_first ? (int64_t)to_rows * cols : (int64_t)rows * to_cols);
    kl_rec one = {.kind = KL_REC_GEMM, .at_c = KL_AT_WORK, .alpha = t->alpha}, two = {.kind = KL_REC_GEMM,
                                                                                      .beta = 1,
                                                                                      .at_c = KL_AT_Y,
                                                                                      .m = to_rows,
                                                                                      .n = to_cols,
                                                                                      .ldc = to_rows,
                                                                                      .c = t->y,
                                                                                      .alpha = 1};
    if (left_first && !t->adjoint) { /* (operators, to_rows) x cols */
        one.at_a = KL_AT_LEFT_PACK, one.a = t->l, one.lda = n * t->nl, one.m = n * t->nl;
        one.at_b = KL_AT_X, one.b = t->x, one.ldb = rows, one.n = cols, one.k = rows;
        two.at_a = KL_AT_WORK, two.lda = to_rows, two.k = n * cols;
        two.at_b = KL_AT_RIGHT_PACK, two.b = t->r, two.ldb = t->nr, two.tb = 1;
    } else if (left_first) { /* cols x (operators, to_rows) */
        one.at_a = KL_AT_X, one.a = t->x, one.lda = rows, one.ta = 1, one.m = cols;
        one.at_b = KL_AT_LEFT_PACK, one.b = t->l, one.ldb = t->nl, one.n = n * to_rows, one.k = rows;
        two.at_a = KL_AT_WORK, two.lda = n * cols, two.ta = 1, two.k = n * cols;
        two.at_b = KL_AT_RIGHT_PACK, two.b = t->r, two.ldb = n * t->nr;
    } else if (!t->adjoint) { /* (operators, to_cols) x rows */
        one.at_a = KL_AT_RIGHT_PACK, one.a = t->r, one.lda = n * t->nr, one.m = n * t->nr;
        one.at_b = KL_AT_X, one.b = t->x, one.ldb = rows, one.tb = 1, one.n = rows, one.k = cols;
        two.at_a = KL_AT_LEFT_PACK, two.a = t->l, two.lda = t->nl, two.k = n * rows;
        two.at_b = KL_AT_WORK, two.ldb = to_cols, two.tb = 1;
    } else { /* rows x (operators, to_cols) */
        one.at_a = KL_AT_X, one.a = t->x, one.lda = rows, one.m = rows;
        one.at_b = KL_AT_RIGHT_PACK, one.b = t->r, one.ldb = t->nr, one.n = n * to_cols, one.k = cols;
        two.at_a = KL_AT_LEFT_PACK, two.a = t->l, two.lda = n * t->nl, two.ta = 1, two.k = n * rows;
        two.at_b = KL_AT_WORK, two.ldb = n * rows;
    }
    one.ldc = one.m;
    KL_TRY(kl_batch_reserve(b, 2 + two.k / DEPTH + 1, err));
    *kl_batch_push(b) = one;
    push_deep(b, two);
    if (size > *nwork) *nwork = size;
out:
    return st;
}

/* An operator of the cut that leads from some pair of sectors to pair (io, jo), or its adjoint does. */
typedef struct lead {
    int i, j; /* from */
    double alpha;
} lead;

/* 0: it does not. */
static int leads(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay, int op, int adjoint,
                 int io, lead *out)
{
    const kl_mpo *const m = left->block->mpo;
    const kl_basis *const row = &left->enlarged->basis;
    const int nl = row->nsec, nr = right->enlarged->basis.nsec, jo = lay->pair[io];
    const kl_cut_op *const o = &m->op[left->cut][op];
    const int odd[2] = {o->odd, o->odd};
    const int i = adjoint ? left->dst[op * nl + io] : left->src[op * nl + io];
    const int j = adjoint ? right->dst[op * nr + jo] : right->src[op * nr + jo];
    if (i < 0 || j < 0 || lay->pair[i] != j) return 0;
    const int sign =
        kl_phase_record(o->odd, kl_qn_odd(m->model, row->q[i])) * (adjoint ? kl_phase_adjoint(2, odd) : 1);
    const int from = adjoint ? io : i, to = adjoint ? i : io;
    *out = (lead){i, j, sign * kl_channel_scalar(m, o, from, to, row)};
    return 1;
}

/* What all operators of one kind add to pair (io, jo). */
static kl_status add_kind(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay, int kind, int io,
                          kl_batch *batch, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const row = &left->enlarged->basis, *const col = &right->enlarged->basis;
    const int op = left->kinds.order[left->kinds.first[kind]], jo = lay->pair[io],
              self = left->block->mpo->op[left->cut][op].self;
    lead from;
    for (int adjoint = 0; adjoint <= (self ? 0 : 1); adjoint++) {
        if (!leads(left, right, lay, op, adjoint, io, &from)) continue;
        const stacks_of t = {.many = left->kinds.first[kind + 1] - left->kinds.first[kind],
                             .adjoint = adjoint,
                             .l = kl_bigop_stack(left, kind, adjoint ? io : from.i),
                             .r = kl_bigop_stack(right, kind, adjoint ? jo : from.j),
                             .nl = row->dim[adjoint ? from.i : io],
                             .ml = row->dim[adjoint ? io : from.i],
                             .nr = col->dim[adjoint ? from.j : jo],
                             .mr = col->dim[adjoint ? jo : from.j],
                             .x = lay->off[from.i],
                             .y = lay->off[io],
                             .alpha = from.alpha};
        if (t.l >= 0 && t.r >= 0 && t.alpha != 0) KL_TRY(stacked(batch, &t, nwork, err));
    }
out:
    return st;
}

/* What one operator adds to pair (io, jo). */
static kl_status add_operator(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay, int op,
                              int io, kl_batch *batch, int64_t *nwork, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const row = &left->enlarged->basis, *const col = &right->enlarged->basis;
    const kl_cut_op *const o = &left->block->mpo->op[left->cut][op];
    const int jo = lay->pair[io];
    lead from;
    for (int adjoint = 0; adjoint <= (o->self ? 0 : 1); adjoint++) {
        if (!leads(left, right, lay, op, adjoint, io, &from)) continue;
        const product_of t = {.l = view_of(left, op, adjoint ? io : from.i, adjoint),
                              .r = view_of(right, op, adjoint ? jo : from.j, adjoint),
                              .l_identity = o->left_identity,
                              .r_identity = o->right_identity,
                              .alpha = from.alpha,
                              .x = lay->off[from.i],
                              .y = lay->off[io],
                              .ldx = row->dim[from.i],
                              .ldy = row->dim[io],
                              .nx = col->dim[from.j]};
        KL_TRY(product(batch, &t, nwork, err));
    }
out:
    return st;
}

kl_status kl_superblock_records(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay,
                                kl_batch *batch, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const row = &left->enlarged->basis, *const col = &right->enlarged->basis;
    const kl_cut_op *const op = left->block->mpo->op[left->cut];
    const int both = left->stack != NULL && right->stack != NULL;
    for (int io = 0; io < row->nsec; io++) {
        const int jo = lay->pair[io];
        if (jo < 0) continue;
        int64_t nwork = 0;
        KL_TRY(kl_batch_open_group(batch, lay->off[io], (int64_t)row->dim[io] * col->dim[jo], err));
        for (int k = 0; both && k < left->kinds.n; k++)
            KL_TRY(add_kind(left, right, lay, k, io, batch, &nwork, err));
        for (int b = 0; b < left->nop; b++)
            if (!both || op[b].left_identity || op[b].right_identity)
                KL_TRY(add_operator(left, right, lay, b, io, batch, &nwork, err));
        kl_batch_close_group(batch, nwork);
    }
    batch->zero = 1;
    batch->nx = batch->ny = lay->n;
    kl_bigop_bases(left, batch);
    kl_bigop_bases(right, batch);
out:
    return st;
}

int64_t kl_superblock_list_bytes(const kl_bigop *left, const kl_bigop *right, const kl_layout *lay)
{
    const kl_cut_op *const op = left->block->mpo->op[left->cut];
    int64_t n = 0;
    lead from;
    for (int io = 0; io < lay->nsec; io++)
        for (int b = 0; lay->pair[io] >= 0 && b < left->nop; b++)
            for (int adjoint = 0; adjoint <= (op[b].self ? 0 : 1); adjoint++)
                if (leads(left, right, lay, b, adjoint, io, &from))
                    n += view_of(left, b, adjoint ? io : from.i, adjoint).n *
                         (view_of(right, b, adjoint ? lay->pair[io] : from.j, adjoint).n + 1);
    return n * (int64_t)sizeof(kl_rec);
}

/* Diagonals of the operators without charge shift, one vector per (operator, sector), behind `at` doubles;
   off[] says where. */
static kl_status diagonals(const kl_bigop *g, int64_t *at, int64_t *off, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = g->enlarged->basis.nsec;
    for (int k = 0; k < g->nop; k++)
        for (int c = 0; c < n; c++) {
            const int64_t w = (int64_t)k * n + c;
            off[w] = -1;
            if (g->dst[w] != c || kl_bigop_identity(g, k)) continue;
            const int64_t np = g->first[w + 1] - g->first[w];
            off[w] = *at;
            KL_TRY(kl_batch_open_group(b, *at, g->enlarged->basis.dim[c], err));
            KL_TRY(kl_batch_reserve(b, np, err));
            for (int64_t i = g->first[w]; i < g->first[w + 1]; i++) {
                const kl_part *const p = &g->part[i];
                if (p->row != p->col) continue;
                *kl_batch_push(b) = p->off < 0 ? (kl_rec){.kind = KL_REC_FILL,
                                                          .beta = 1,
                                                          .at_c = KL_AT_Y,
                                                          .m = p->nrow,
                                                          .n = 1,
                                                          .ldc = p->nrow,
                                                          .c = *at + p->row,
                                                          .alpha = p->coef}
                                               : (kl_rec){.kind = KL_REC_ADD,
                                                          .beta = 1,
                                                          .at_a = (uint8_t)kl_bigop_at(g, p),
                                                          .at_c = KL_AT_Y,
                                                          .m = 1,
                                                          .n = p->nrow,
                                                          .lda = p->ld + 1,
                                                          .ldc = 1,
                                                          .a = p->off,
                                                          .c = *at + p->row,
                                                          .alpha = p->coef};
            }
            kl_batch_close_group(b, 0);
            *at += g->enlarged->basis.dim[c];
        }
    kl_bigop_bases(g, b);
out:
    return st;
}

/* diag(H) on (I, J) = sum over operators of diag(L) (x) diag(R). */
static kl_status make_diagonal(kl_superblock *s, const kl_bigop *left, const kl_bigop *right, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->ex;
    const kl_basis *const row = &left->enlarged->basis, *const col = &right->enlarged->basis;
    const int nl = row->nsec, nr = col->nsec;
    int64_t *off_l = NULL, *off_r = NULL, at = 0, most = 0;
    kl_dptr pack = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&off_l, (int64_t)left->nop * nl, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&off_r, (int64_t)right->nop * nr, KL_MEM_RECORD, err));
    for (int i = 0; i < nl; i++) most = row->dim[i] > most ? row->dim[i] : most;
    for (int j = 0; j < nr; j++) most = col->dim[j] > most ? col->dim[j] : most;
    KL_TRY(ex->vt.alloc(ex, most + left->nop * (row->total + col->total), &pack, err));
    KL_TRY(kl_batch_open_group(&b, 0, most, err));
    KL_TRY(kl_batch_reserve(&b, 1, err));
    *kl_batch_push(&b) =
        (kl_rec){.kind = KL_REC_FILL, .at_c = KL_AT_Y, .m = (int)most, .n = 1, .ldc = (int)most, .alpha = 1};
    kl_batch_close_group(&b, 0);
    at = most;
    KL_TRY(diagonals(left, &at, off_l, &b, err));
    KL_TRY(diagonals(right, &at, off_r, &b, err));
    b.zero = 1;
    KL_TRY(kl_batch_run(&b, ex, pack, pack, err));
    memset(b.base, 0, sizeof b.base); /* what comes next reads the vectors alone */
    for (int i = 0; i < nl; i++) {
        const int j = s->layout.pair[i];
        if (j < 0) continue;
        KL_TRY(kl_batch_open_group(&b, s->layout.off[i], (int64_t)row->dim[i] * col->dim[j], err));
        KL_TRY(kl_batch_reserve(&b, left->nop, err));
        for (int k = 0; k < left->nop; k++) {
            const kl_cut_op *const o = &left->block->mpo->op[left->cut][k];
            const int64_t l = off_l[k * nl + i], r = off_r[k * nr + j];
            if ((l < 0 && !o->left_identity) || (r < 0 && !o->right_identity)) continue;
            *kl_batch_push(&b) =
                (kl_rec){.kind = KL_REC_GEMM,
                         .tb = 1,
                         .beta = 1,
                         .at_a = KL_AT_X,
                         .at_b = KL_AT_X,
                         .at_c = KL_AT_Y,
                         .m = row->dim[i],
                         .n = col->dim[j],
                         .k = 1,
                         .lda = row->dim[i],
                         .ldb = col->dim[j],
                         .ldc = row->dim[i],
                         .a = l < 0 ? 0 : l,
                         .b = r < 0 ? 0 : r,
                         .c = s->layout.off[i],
                         .alpha = (o->self ? 1 : 2) * kl_channel_scalar(left->block->mpo, o, i, i, row)};
        }
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1;
    KL_TRY(ex->vt.alloc(ex, s->layout.n, &s->diagonal, err));
    KL_TRY(kl_batch_run(&b, ex, pack, s->diagonal, err));
out:
    ex->vt.release(ex, &pack);
    kl_batch_clear(&b);
    kl_free(&off_l);
    kl_free(&off_r);
    return st;
}

static kl_status apply(const kl_linop *h, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                       kl_err *err)
{
    const kl_superblock *const s = h->self;
    if (nvec > 1 && h->ex->vt.batch_apply_many)
        return h->ex->vt.batch_apply_many(h->ex, &s->batch, nvec, x, ldx, y, ldy, err);
    for (int v = 0; v < nvec; v++) {
        const kl_status st =
            h->ex->vt.batch_apply(h->ex, &s->batch, kl_dptr_at(x, v * ldx), kl_dptr_at(y, v * ldy), err);
        if (st != KL_OK) return st;
    }
    return KL_OK;
}

/* x is this rank's part, and comes together meanwhile; y is its part. */
static kl_status apply_spread(const kl_linop *h, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const kl_superblock *const s = h->self;
    for (int v = 0; v < nvec; v++)
        KL_TRY(kl_share_apply_parts(h->ex, &s->batch, kl_dptr_at(x, v * ldx), s->whole,
                                    kl_dptr_at(y, v * ldy), err));
out:
    return st;
}

/* The list is prepared with parts: vectors are spread as its outputs are, and so is the diagonal. */
static kl_status spread_vectors(kl_superblock *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t *const begin = kl_share_begin(&s->batch);
    if (begin == NULL) return KL_OK;
    const int me = kl_ranks_mine(s->ex);
    kl_dptr part = {0};
    s->op.begin = begin;
    s->op.n = begin[me + 1] - begin[me];
    s->op.ex = kl_share_solver(s->ex);
    s->op.apply = apply_spread;
    KL_TRY(s->ex->vt.alloc(s->ex, s->op.n, &part, err));
    s->ex->vt.copy(s->ex, s->op.n, kl_dptr_at(s->diagonal, begin[me]), part);
    s->ex->vt.release(s->ex, &s->diagonal);
    s->op.diagonal = s->diagonal = part;
    KL_TRY(kl_share_room(s->ex, s->layout.n, &s->whole, err));
out:
    return st;
}

kl_status kl_superblock_create(kl_exec *ex, const kl_bigop *left, const kl_bigop *right, kl_qn target,
                               int spread, kl_superblock **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_superblock *s = NULL;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_RECORD, err));
    s->ex = ex;
    KL_TRY(kl_layout_create(left->block->mpo->model, &left->enlarged->basis, &right->enlarged->basis, target,
                            &s->layout, err));
    KL_TRY(kl_superblock_records(left, right, &s->layout, &s->batch, err));
    s->batch.lasting = 1;
    s->batch.parts = spread && ex->ranks != NULL;
    KL_TRY(kl_batch_close(&s->batch, err));
    KL_TRY(ex->vt.batch_prepare(ex, &s->batch, err));
    KL_TRY(make_diagonal(s, left, right, err));
    s->op = (kl_linop){.n = s->layout.n, .ex = ex, .self = s, .apply = apply, .diagonal = s->diagonal};
    KL_TRY(spread_vectors(s, err));
out:
    if (st != KL_OK) kl_superblock_destroy(&s);
    *out = s;
    return st;
}

void kl_superblock_destroy(kl_superblock **ps)
{
    kl_superblock *const s = *ps;
    if (!s) return;
    s->ex->vt.batch_release(s->ex, &s->batch);
    s->ex->vt.release(s->ex, &s->diagonal);
    s->ex->vt.release(s->ex, &s->whole);
    kl_batch_clear(&s->batch);
    kl_layout_clear(&s->layout);
    kl_free(ps);
}
