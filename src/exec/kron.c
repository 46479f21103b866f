/* What is done with the tables of a sum of Kronecker products that no executor does.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/kron.h"
#include "base/mem.h"

enum { LANES = KL_KRON_LANES };

void kl_kron_op_destroy(kl_kron_op **p)
{
    kl_kron_op *o = *p;
    if (!o) return;
    kl_free(&o->ptr);
    kl_free(&o->minus);
    kl_free(&o->idx16);
    kl_free(&o->idx32);
    kl_free(&o->coef);
    kl_free(p);
}

void kl_kron_destroy(kl_kron **p)
{
    kl_kron *k = *p;
    if (!k) return;
    for (int64_t i = 0; k->block && i < k->nblock; i++) {
        kl_kron_block *const b = &k->block[i];
        kl_kron_op_destroy(&b->a);
        kl_kron_op_destroy(&b->b);
        for (int64_t c = 0; c < b->ncross; c++) {
            kl_kron_op_destroy(&b->cross[c].a);
            kl_kron_op_destroy(&b->cross[c].b);
        }
        kl_free(&b->cross);
        kl_free(&b->dl);
        kl_free(&b->dr);
        kl_free(&b->mask);
        kl_free(&b->bits);
        kl_free(&b->fl);
        kl_free(&b->fr);
    }
    kl_free(&k->block);
    kl_free(p);
}

static int64_t op_column(const kl_kron_op *o, int64_t p)
{
    return o->idx16 ? (int64_t)o->idx16[p] : (int64_t)o->idx32[p];
}

static double op_value(const kl_kron_op *o, int64_t row, int64_t p)
{
    return !o->unit ? o->coef[p] : p < (int64_t)o->minus[row] ? o->scale : -o->scale;
}

/* Products may have diagonals of their own: n (x) (b + b+) has none, S+ S- on one half each neither, but a
   sum may. Right states from first to last; d: of the block. */
static void add_cross_diagonal(const kl_kron_block *b, const kl_kron_cross *g, int64_t first, int64_t last,
                               double *d)
{
    for (int64_t l = 0; l < b->nl; l++)
        for (uint32_t p = g->a->ptr[l]; p < g->a->ptr[l + 1]; p++) {
            if (op_column(g->a, p) != l) continue;
            for (int64_t r = first; r < last; r++)
                for (uint32_t q = g->b->ptr[r]; q < g->b->ptr[r + 1]; q++)
                    if (op_column(g->b, q) == r)
                        d[(r / LANES * b->nl + l) * LANES + r % LANES] +=
                            op_value(g->a, l, p) * op_value(g->b, r, q);
        }
}

void kl_kron_diagonal(const kl_kron *k, int64_t begin, int64_t end, double *d)
{
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t width = b->ntile * LANES, tile = b->nl * LANES, all = b->ntile * tile,
                      low = begin > b->off ? begin - b->off : 0,
                      high = end < b->off + all ? end - b->off : all;
        if (low >= high) continue;
        const int64_t first = low / tile * LANES, last = high / tile * LANES;
        double *const to = d + b->off - begin;
        for (int64_t l = 0; l < b->nl; l++)
            for (int64_t r = first; r < last; r++) {
                double s = b->dl[l] + b->dr[r];
                for (int m = 0; m < b->nbit; m++)
                    if (b->mask[l] >> m & 1) s += b->bits[m * width + r];
                for (int f = 0; f < b->nfeature; f++) s += b->fl[l * b->nfeature + f] * b->fr[f * width + r];
                to[(r / LANES * b->nl + l) * LANES + r % LANES] = s;
            }
        for (int64_t c = 0; c < b->ncross; c++)
            if (b->cross[c].source == i)
                add_cross_diagonal(b, &b->cross[c], first, last < b->nr ? last : b->nr, to);
    }
}

static int64_t op_bytes(const kl_kron_op *o)
{
    if (!o) return 0;
    return kl_mem_block_bytes(o->ptr) + kl_mem_block_bytes(o->minus) + kl_mem_block_bytes(o->idx16) +
           kl_mem_block_bytes(o->idx32) + kl_mem_block_bytes(o->coef);
}

int64_t kl_kron_bytes(const kl_kron *k)
{
    int64_t all = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        all += op_bytes(b->a) + op_bytes(b->b) + kl_mem_block_bytes(b->dl) + kl_mem_block_bytes(b->dr) +
               kl_mem_block_bytes(b->mask) + kl_mem_block_bytes(b->bits) + kl_mem_block_bytes(b->fl) +
               kl_mem_block_bytes(b->fr);
        for (int64_t c = 0; c < b->ncross; c++) all += op_bytes(b->cross[c].a) + op_bytes(b->cross[c].b);
    }
    return all;
}
