/* Pieces of tiles: see tilepieces.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tilepieces.h"

uint64_t kl_tile_operand(const kl_tile_from *f, int at, int from, int64_t element, int shift, uint32_t *flags)
{
    switch (at) {
    case KL_AT_X: *flags |= 1u << shift; return (uint64_t)element * sizeof(double);
    case KL_AT_Y: *flags |= 2u << shift; return (uint64_t)element * sizeof(double);
    case KL_AT_WORK: {
        const kl_tile_output *const d = &f->s->dest[from], *const h = &f->s->dest[d->home];
        return f->work + (uint64_t)(h->work + element - h->base) * sizeof(double);
    }
    default: return (uint64_t)f->b->base[at].addr + (uint64_t)element * sizeof(double);
    }
}

void kl_tile_write_part(const kl_tile_from *from_where, const kl_tile_plan_opts *q, const kl_tile *w,
                        const kl_tile_part *of, kl_piece *base, kl_tile_pen *at)
{
    const kl_tile_plan_maker *const s = from_where->s;
    const kl_batch *const b = from_where->b;
    const int64_t from = of->from, to = of->to;
    const uint32_t turn = of->turn, mark = of->mark;
    const kl_output *const o = w->o;
    const kl_link *const l = s->link + o->first;
    /* a later part adds to the first */
    uint32_t beta = turn & 255 ? (uint32_t)KL_P_BETA : o->flags & KL_P_BETA;
    kl_piece *here = base + at->head++;
    int64_t first = 0;
    int flushed = 0, waited = 0;
    for (int64_t k = 0; k < o->count; k++) {
        const int64_t end = first + l[k].steps;
        if (end <= from || first >= to) {
            first = end;
            continue;
        }
        kl_rec column;
        const kl_rec *r = &b->rec[l[k].rec];
        if (kl_is_row(r)) column = kl_upright(r), r = &column;
        const int add = r->kind == KL_REC_ADD, skip = (int)(from > first ? from - first : 0) * q->depth,
                  last = add        ? w->n
                         : to < end ? (int)(to - first) * q->depth
                                    : r->k,
                  ends = to <= end;
        const int dr = l[k].row + w->row, dc = l[k].col + w->col;
        uint32_t f = (q->apart ? 0 : (uint32_t)w->um | (uint32_t)w->un << 4) | (o->flags & 3u << KL_P_C) |
                     (r->ta ? KL_P_TA : 0) | (mark & (uint32_t)KL_P_PART);
        *here = (kl_piece){.ldc = o->ldc,
                           .mn = (uint32_t)w->m | (uint32_t)w->n << 16,
                           .lda = r->lda,
                           .k = last - skip,
                           .turn = turn};
        if (add) {
            f |= KL_P_ADD;
            at->adds = 1;
            here->a = kl_tile_operand(from_where, r->at_a, l[k].da,
                                      r->a + (r->ta ? (int64_t)dr * r->lda + dc : dr + (int64_t)dc * r->lda),
                                      KL_P_A, &f);
        } else {
            f |= r->tb ? KL_P_TB : 0;
            here->ldb = r->ldb;
            here->a = kl_tile_operand(
                from_where, r->at_a, l[k].da,
                r->a + (r->ta ? (int64_t)dr * r->lda + skip : dr + (int64_t)skip * r->lda), KL_P_A, &f);
            here->b = kl_tile_operand(
                from_where, r->at_b, l[k].db,
                r->b + (r->tb ? dc + (int64_t)skip * r->ldb : (int64_t)dc * r->ldb + skip), KL_P_B, &f);
            at->padded += 2.0 * w->um * q->unit_m * w->un * q->unit_n * here->k;
        }
        here->c = o->c + ((uint64_t)w->row + (uint64_t)w->col * (uint64_t)o->ldc) * sizeof(double);
        /* coefficients: the sum is kept in units of the last one; where the ratio of two leaves the range, it
           is written in between */
        const int flush = q->apart || ends || l[k].ratio == 0;
        here->factor = flush ? r->alpha : l[k].ratio;
        const uint32_t over = !ends ? 0
                                    : (mark & KL_P_PART ? KL_P_OVER | (mark & (uint32_t)KL_P_FINAL) : 0) |
                                          (mark & (uint32_t)KL_P_FIRST);
        here->flags = f | beta | (flush ? KL_P_LAST : 0) | over;
        if ((mark & (uint32_t)KL_P_NEXT) && !waited && (o->strict || beta || l[k].late))
            here->flags |= (uint32_t)KL_P_NEXT, waited = 1;
        /* what stands there comes in like any matrix that is added */
        if (ends && beta && !flushed && q->adds && (turn & 255) == 0) {
            kl_piece *const then = base + at->more++;
            at->adds = 1;
            *then = *here;
            then->a = then->c, then->lda = then->ldc, then->k = w->n, then->factor = 1, then->next = 0;
            then->b = 0, then->ldb = 0;
            then->flags = (here->flags & ~((uint32_t)KL_P_TA | KL_P_TB | KL_P_BETA | KL_P_NEXT |
                                           3u << KL_P_A | 3u << KL_P_B)) |
                          (uint32_t)KL_P_ADD | (here->flags >> KL_P_C & 3u) << KL_P_A;
            here->flags &= ~((uint32_t)KL_P_LAST | KL_P_BETA | KL_P_OVER | KL_P_FINAL | KL_P_FIRST);
            here->next = (int32_t)(then - base);
        }
        if (flush) beta = KL_P_BETA, flushed = 1;
        first = end;
        if (ends) return;
        here->next = (int32_t)at->more;
        here = base + at->more++;
    }
}

int64_t kl_tile_further_pieces(const kl_tile_plan_maker *s, const kl_tile_plan_opts *q, const kl_output *o,
                               const kl_tile_part *of)
{
    const kl_link *const l = s->link + o->first;
    const int adds = q->adds && (of->turn & 255) == 0 && (o->flags & KL_P_BETA);
    int64_t first = 0, n = 0;
    int flushed = 0;
    for (int64_t k = 0; k < o->count; k++) {
        const int64_t end = first + l[k].steps;
        if (end > of->from && first < of->to) {
            if (of->to <= end) return n + (adds && !flushed);
            flushed |= q->apart || l[k].ratio == 0;
            n++;
        }
        first = end;
    }
    return n;
}

void kl_tile_pattern_make(const kl_tile_from *from, const kl_tile_plan_opts *q, const kl_tile *w,
                          const kl_tile_part *of, kl_tile_pattern *out)
{
    kl_tile_pen at = {.head = 0, .more = 1};
    out->first = *w;
    kl_tile_write_part(from, q, w, of, out->piece, &at);
    out->n = at.more;
}

/* Bytes from an element of a matrix to that so many rows below and columns beside it. */
static uint64_t stride(int64_t rows, int64_t cols, int ld)
{
    return (uint64_t)(rows + cols * ld) * sizeof(double);
}

void kl_tile_pattern_write(const kl_tile_pattern *p, const kl_tile_plan_opts *q, const kl_tile *w,
                           kl_piece *base, kl_tile_pen *at)
{
    const int64_t down = w->row - p->first.row, across = w->col - p->first.col, more = at->more - 1;
    const uint32_t size = (uint32_t)KL_P_ROWS | (uint32_t)KL_P_COLS,
                   units = q->apart ? 0 : (uint32_t)w->um | (uint32_t)w->un << 4;
    for (int64_t i = 0; i < p->n; i++) {
        kl_piece *const to = base + (i == 0 ? at->head : more + i);
        *to = p->piece[i];
        const uint32_t f = to->flags;
        to->mn = (uint32_t)w->m | (uint32_t)w->n << 16;
        to->flags = (f & ~(q->apart ? 0 : size)) | units;
        to->c += stride(down, across, to->ldc);
        if (f & (uint32_t)KL_P_ADD) {
            to->a += f & (uint32_t)KL_P_TA ? stride(across, down, to->lda) : stride(down, across, to->lda);
            to->k = w->n;
            at->adds = 1;
        } else {
            to->a += f & (uint32_t)KL_P_TA ? stride(0, down, to->lda) : stride(down, 0, to->lda);
            to->b += f & (uint32_t)KL_P_TB ? stride(across, 0, to->ldb) : stride(0, across, to->ldb);
            at->padded += 2.0 * w->um * q->unit_m * w->un * q->unit_n * to->k;
        }
        if (to->next > 0) to->next += (int32_t)more;
    }
    at->head++;
    at->more += p->n - 1;
}
