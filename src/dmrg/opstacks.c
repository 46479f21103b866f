/* Records of sums of operators side by side: see opstacks.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/opstacks.h"
#include "base/mem.h"
#include "dmrg/channel.h"

enum { FEW = 16 };

/* A place between sectors: of the block from i to j, of the product from c to `to'. */
typedef struct spot {
    const kl_bigop *g;
    const kl_opsums *sums;
    const kl_sum_place *place;
    const int *odd;
    int i, j, c, to, rows, cols;
    int64_t stride, at; /* of its matrices in the pack */
} spot;

/* 0 where the place is not there. */
static int find_spot(spot *x)
{
    const kl_bigop *const g = x->g;
    const kl_enlarged *const e = g->enlarged;
    const int n = e->basis.nsec, first = x->sums->out[x->place->out];
    x->to = g->dst[(int64_t)first * n + x->c];
    if (x->to < 0) return 0;
    x->i = e->part_sec[x->c * e->d + x->place->s];
    x->j = e->part_sec[x->to * e->d + x->place->t];
    if (x->i < 0 || x->j < 0) return 0;
    x->rows = g->block->basis.dim[x->j];
    x->cols = g->block->basis.dim[x->i];
    x->stride = kl_block_room(x->rows, x->cols);
    return 1;
}

/* Sign and coupling of a growth record there. */
static double factor_of(const spot *x, const kl_grow *w)
{
    const kl_bigop *const g = x->g;
    const kl_junction at = {.block = g->block,
                            .enlarged = g->enlarged,
                            .cut = g->cut,
                            .op = x->sums->out[x->place->out],
                            .grow = w,
                            .site = &g->enlarged->site->op[w->op],
                            .block_sec = {x->i, x->j},
                            .step = {x->place->s, x->place->t},
                            .sec = {x->c, x->to}};
    return kl_junction_factor(&at, x->odd);
}

/* Of a term: its factor, 0 where its operators do not lead from i to j, and where their matrices begin. */
static double term_at(const spot *x, const kl_sum_term *t, int64_t *from)
{
    const kl_block *const b = x->g->block;
    const int n = b->basis.nsec;
    const int64_t op = (int64_t)t->in * n;
    if ((t->dag ? b->src[op + x->i] : b->dst[op + x->i]) != x->j) return 0;
    *from = b->off[op + (t->dag ? x->j : x->i)];
    return factor_of(x, &b->mpo->grow[t->grow]);
}

/* The sums of all operators by one term, in `to' or, to be transposed, in WORK. */
static kl_rec product(const spot *x, const kl_sum_term *t, int64_t from, double factor, int in_work, int add)
{
    const kl_part stored = {.packed = 0};
    return (kl_rec){.kind = KL_REC_GEMM,
                    .beta = (uint8_t)add,
                    .at_a = (uint8_t)kl_bigop_at(x->g, &stored),
                    .at_b = (uint8_t)kl_opstacks_w(x->g),
                    .at_c = in_work ? KL_AT_WORK : KL_AT_Y,
                    .m = (int32_t)x->stride,
                    .n = x->place->nout,
                    .k = t->nin,
                    .lda = (int32_t)x->stride,
                    .ldb = t->nin,
                    .ldc = (int32_t)x->stride,
                    .a = from,
                    .b = t->w,
                    .c = in_work ? 0 : x->at,
                    .alpha = factor};
}

static kl_rec transposed(const spot *x, int i)
{
    return (kl_rec){.kind = KL_REC_ADD,
                    .ta = 1,
                    .beta = 1,
                    .at_a = KL_AT_WORK,
                    .at_c = KL_AT_Y,
                    .m = x->rows,
                    .n = x->cols,
                    .lda = x->cols,
                    .ldc = x->rows,
                    .a = i * x->stride,
                    .c = x->at + i * x->stride,
                    .alpha = 1};
}

static kl_rec multiple_of_one(const spot *x, const kl_sum_one *one, double factor)
{
    return (kl_rec){.kind = KL_REC_FILL,
                    .beta = 1,
                    .at_c = KL_AT_Y,
                    .m = 1,
                    .n = x->rows,
                    .ldc = x->rows + 1,
                    .c = x->at + one->out * x->stride,
                    .alpha = one->coef * factor};
}

/* Coefficients that are not zero where a device adds matrices instead of multiplying; -1: it does not. A
   product with as many rows as matrices have numbers is cut into tiles without end there, and reads what it
   adds once: more is read by a few more additions than it has matrices, and planned in a tenth of the time.
   Processors sum in the same order for any number. */
static int few_coefficients(const spot *x)
{
    const kl_sum_term *const term = x->sums->term + x->place->term;
    int64_t most = x->place->nout, n = 0;
    if (x->g->block->ex->space != KL_SPACE_DEVICE) return -1;
    for (int k = 0; k < x->place->nterm; k++) most += term[k].nin;
    if (most < FEW) most = FEW;
    for (int k = 0; k < x->place->nterm; k++)
        for (int64_t i = 0; i < (int64_t)term[k].nin * x->place->nout; i++) {
            n += x->sums->w[term[k].w + i] != 0;
            if (n > most) return -1;
        }
    return (int)n;
}

/* All sums of the place, matrix by matrix; *is: 1 where there is something. */
static void add_matrices(const spot *x, kl_batch *b, int *is)
{
    const kl_sum_place *const p = x->place;
    const kl_part stored = {.packed = 0};
    const int rows = p->transposed ? x->cols : x->rows, cols = p->transposed ? x->rows : x->cols;
    for (int k = 0; k < p->nterm; k++) {
        const kl_sum_term *const t = &x->sums->term[p->term + k];
        const int turned = t->dag && !p->transposed;
        int64_t from;
        const double factor = term_at(x, t, &from);
        if (factor == 0) continue;
        *is = 1;
        for (int64_t i = 0; i < (int64_t)t->nin * p->nout; i++) {
            const double w = x->sums->w[t->w + i];
            if (w == 0) continue;
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_ADD,
                                         .ta = (uint8_t)turned,
                                         .beta = 1,
                                         .at_a = (uint8_t)kl_bigop_at(x->g, &stored),
                                         .at_c = KL_AT_Y,
                                         .m = rows,
                                         .n = cols,
                                         .lda = turned ? cols : rows,
                                         .ldc = rows,
                                         .a = from + i % t->nin * x->stride,
                                         .c = x->at + i / t->nin * x->stride,
                                         .alpha = w * factor};
        }
    }
}

/* The group of a place, unless nothing leads there: *is. */
static kl_status add_group(const spot *x, kl_batch *b, int *is, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_sum_place *const p = x->place;
    const kl_grow *const grow = x->g->block->mpo->grow;
    const int few = few_coefficients(x);
    int turned = 0;
    *is = 0;
    KL_TRY(kl_batch_open_group(b, x->at, x->stride * p->nout, err));
    KL_TRY(kl_batch_reserve(b, p->nterm + p->nout + p->none + (few > 0 ? few : 0), err));
    if (few >= 0) add_matrices(x, b, is);
    for (int dag = 1; dag >= 0 && few < 0; dag--)
        for (int k = 0; k < p->nterm; k++) {
            const kl_sum_term *const t = &x->sums->term[p->term + k];
            int64_t from;
            const double factor = t->dag == dag ? term_at(x, t, &from) : 0;
            if (factor == 0) continue;
            const int in_work = dag && !p->transposed;
            *kl_batch_push(b) = product(x, t, from, factor, in_work, !in_work || turned);
            turned |= in_work;
            *is = 1;
        }
    for (int i = 0; turned && i < p->nout; i++) *kl_batch_push(b) = transposed(x, i);
    for (int k = 0; k < p->none && x->i == x->j; k++) {
        const kl_sum_one *const one = &x->sums->one[p->one + k];
        const double factor = factor_of(x, &grow[one->grow]);
        if (factor == 0) continue;
        *kl_batch_push(b) = multiple_of_one(x, one, factor);
        *is = 1;
    }
    kl_batch_close_group(b, turned ? x->stride * p->nout : 0);
    if (!*is) b->ngroup--;
out:
    return st;
}

kl_status kl_opstacks_create(const kl_bigop *g, int pos, const int *odd, kl_opstacks *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_mpo *const m = g->block->mpo;
    const int n = g->enlarged->basis.nsec;
    *out = (kl_opstacks){.sums = g->block->side == KL_RIGHT ? &m->right_sums[pos] : &m->left_sums[pos]};
    kl_batch_init(&out->batch);
    KL_TRY(kl_alloc(&out->at, (int64_t)out->sums->nplace * n, KL_MEM_RECORD, err));
    for (int p = 0; p < out->sums->nplace; p++)
        for (int c = 0; c < n; c++) {
            spot x = {.g = g, .sums = out->sums, .place = &out->sums->place[p], .odd = odd, .c = c};
            int is = 0;
            if (find_spot(&x)) {
                x.at = out->npack;
                KL_TRY(add_group(&x, &out->batch, &is, err));
            }
            out->at[(int64_t)p * n + c] = is ? x.at : -1;
            if (is) out->npack += x.stride * x.place->nout;
        }
out:
    if (st != KL_OK) kl_opstacks_clear(out);
    return st;
}

void kl_opstacks_clear(kl_opstacks *s)
{
    kl_free(&s->at);
    kl_batch_clear(&s->batch);
}

kl_part kl_opstacks_part(const kl_bigop *g, const kl_opstacks *s, int place, int c, int i)
{
    spot x = {.g = g, .sums = s->sums, .place = &s->sums->place[place], .c = c};
    find_spot(&x);
    const kl_enlarged *const e = g->enlarged;
    return (kl_part){.row = e->part_off[x.to * e->d + x.place->t],
                     .nrow = x.rows,
                     .col = e->part_off[c * e->d + x.place->s],
                     .ncol = x.cols,
                     .ld = x.place->transposed ? x.cols : x.rows,
                     .dag = (uint8_t)x.place->transposed,
                     .packed = 1,
                     .off = s->at[(int64_t)place * g->enlarged->basis.nsec + c] + i * x.stride,
                     .coef = 1};
}
