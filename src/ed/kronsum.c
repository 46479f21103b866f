/* A sum of strings as Kronecker products.
   1. Strings become strands, a left and a right string each (strands.h). 2. Those of one half alone are
      summed into one sparse matrix for each sector. 3. Pairs of
   diagonals become the rank-k part of the diagonal. 4. The others are grouped by their left or their right
   string, whichever gives fewer products.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/kronsum.h"
#include "ed/coo.h"
#include "base/mem.h"
#include "ed/strands.h"

#include <math.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

/* Largest sum of magnitudes in a row. */
static double op_norm(const kl_kron_op *o)
{
    double most = 0.0;
    for (int64_t r = 0; o && r < o->nrow; r++) {
        double s = 0.0;
        for (uint32_t i = o->ptr[r]; i < o->ptr[r + 1]; i++) s += o->unit ? o->scale : fabs(o->coef[i]);
        most = fmax(most, s);
    }
    return most;
}

typedef struct compiler {
    const kl_bipartition *h;
    kl_strands list;
    int64_t nleft, nright, ndiag, ncross;
    kl_strand **left, **right, **diag, **cross; /* views, by kind */
    int cross_side;                             /* cross strands are grouped by this side's strings */
    int *d;
    int64_t *near;
    kl_coo c;
} compiler;

static kl_status sort_out(compiler *c, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = c->list.n;
    kl_strand ***const view[] = {&c->left, &c->right, &c->diag, &c->cross};
    for (int i = 0; i < 4; i++) KL_TRY(kl_alloc(view[i], n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        kl_strand *const p = &c->list.p[i];
        if (p->n[1] == 0) c->left[c->nleft++] = p;
        else if (p->n[0] == 0) c->right[c->nright++] = p;
        else if (kl_strand_is_diagonal(c->h->left.type, p, 0) &&
                 kl_strand_is_diagonal(c->h->right.type, p, 1))
            c->diag[c->ndiag++] = p;
        else c->cross[c->ncross++] = p;
    }
out:
    return st;
}

/* Values of a diagonal string on a sector. */
static void diagonal_values(const kl_half *h, int sec, int n, const kl_op_at *op, double *v)
{
    for (int64_t i = h->begin[sec]; i < h->begin[sec + 1]; i++) {
        double value = 1.0;
        for (int k = 0; k < n; k++) {
            const int p = op[k].pos, s = (int)(h->code[i] / h->stride[p] % (uint64_t)h->type[p]->dim);
            const kl_site_op *const o = &h->type[p]->op[op[k].op];
            double x = 0.0;
            for (int e = 0; e < o->nelem; e++)
                if (o->elem[e].col == s) x += o->elem[e].value;
            value *= x;
        }
        v[i - h->begin[sec]] = value;
    }
}

/* 3. Pairs of diagonals of one block: c_k a_k(l) b_k(r) for each group k; a_k of two values becomes a bit,
   its lower value a part of dr. */
static kl_status block_diagonal(compiler *c, kl_kron_block *b, int ls, int rs, int side, kl_err *err)
{
    kl_status st = KL_OK;
    double *a = NULL, *sum = NULL, *one = NULL;
    const kl_half *const hl = &c->h->left, *const hr = &c->h->right;
    const int64_t groups = kl_strands_distinct(c->ndiag, c->diag, side), width = b->ntile * LANES;
    if (groups == 0) return KL_OK;
    KL_TRY(kl_alloc(&a, b->nl, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sum, width, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&one, b->nl > width ? b->nl : width, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->mask, b->nl, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&b->bits, (groups < 64 ? groups : 64) * width, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&b->fl, groups * b->nl, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&b->fr, groups * width, KL_MEM_MATRIX, err));
    int nfeature = 0;
    for (int64_t i = 0; i < c->ndiag;) {
        int64_t j = i;
        while (j < c->ndiag && kl_strand_compare(c->diag[i], c->diag[j], side) == 0) j++;
        memset(a, 0, (size_t)b->nl * sizeof(double));
        memset(sum, 0, (size_t)width * sizeof(double));
        if (side == 0) {
            diagonal_values(hl, ls, c->diag[i]->n[0], c->diag[i]->op[0], a);
            for (int64_t k = i; k < j; k++) {
                diagonal_values(hr, rs, c->diag[k]->n[1], c->diag[k]->op[1], one);
                for (int64_t r = 0; r < b->nr; r++) sum[r] += c->diag[k]->coef * one[r];
            }
        } else {
            diagonal_values(hr, rs, c->diag[i]->n[1], c->diag[i]->op[1], sum);
            for (int64_t k = i; k < j; k++) {
                diagonal_values(hl, ls, c->diag[k]->n[0], c->diag[k]->op[0], one);
                for (int64_t l = 0; l < b->nl; l++) a[l] += c->diag[k]->coef * one[l];
            }
        }
        i = j;
        double low = a[0], high = a[0];
        for (int64_t l = 0; l < b->nl; l++) low = fmin(low, a[l]), high = fmax(high, a[l]);
        int two = b->nbit < 64;
        for (int64_t l = 0; l < b->nl && two; l++) two = a[l] == low || a[l] == high;
        if (two) {
            for (int64_t r = 0; r < b->nr; r++) b->dr[r] += low * sum[r];
            if (high == low) continue;
            for (int64_t l = 0; l < b->nl; l++) b->mask[l] |= (uint64_t)(a[l] == high) << b->nbit;
            for (int64_t r = 0; r < b->nr; r++) b->bits[b->nbit * width + r] = (high - low) * sum[r];
            b->nbit++;
        } else {
            for (int64_t l = 0; l < b->nl; l++) b->fl[nfeature * b->nl + l] = a[l];
            memcpy(b->fr + nfeature * width, sum, (size_t)width * sizeof(double));
            nfeature++;
        }
    }
    if (nfeature > 0) { /* feature by feature -> state by state */
        double *turned = NULL;
        KL_TRY(kl_alloc(&turned, nfeature * b->nl, KL_MEM_MATRIX, err));
        for (int f = 0; f < nfeature; f++)
            for (int64_t l = 0; l < b->nl; l++) turned[l * nfeature + f] = b->fl[f * b->nl + l];
        kl_free(&b->fl);
        b->fl = turned;
    }
    b->nfeature = nfeature;
out:
    kl_free(&a);
    kl_free(&sum);
    kl_free(&one);
    return st;
}

/* 2. Strings of one half alone. */
static kl_status block_alone(compiler *c, const kl_half *h, int sec, int side, int64_t n, kl_strand *const *p,
                             double *diagonal, kl_kron_op **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t dim = h->begin[sec + 1] - h->begin[sec];
    const kl_coo_strings t = {.half = h, .side = side, .source = sec, .target = sec, .n = n, .p = p};
    c->c.n = 0;
    KL_TRY(kl_coo_add(&c->c, c->h->model, &t, c->d, c->near, err));
    KL_TRY(kl_coo_close(&c->c, dim, err));
    KL_TRY(kl_coo_op(&c->c, dim, dim, diagonal, out, err));
out:
    return st;
}

static kl_qn side_shift(const kl_model *m, const kl_half *h, const kl_strand *p, int side)
{
    kl_qn q = kl_qn_zero();
    for (int k = 0; k < p->n[side]; k++)
        q = kl_qn_add(m, q, kl_qn_of(m, h->type[p->op[side][k].pos]->op[p->op[side][k].op].shift));
    return q;
}

static int side_odd(const kl_half *h, const kl_strand *p, int side)
{
    int odd = 0;
    for (int k = 0; k < p->n[side]; k++) odd ^= h->type[p->op[side][k].pos]->op[p->op[side][k].op].odd;
    return odd;
}

/* 4. Groups that end in this block. A group's kl_strands share one string and the charge shift of the
   other. */
static kl_status block_cross(compiler *c, kl_kron_block *b, int ls, int rs, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_bipartition *const h = c->h;
    const int side = c->cross_side;
    kl_kron_op *a = NULL, *o = NULL;
    int64_t room = 0;
    for (int64_t i = 0; i < c->ncross;) {
        int64_t j = i;
        while (j < c->ncross && kl_strand_compare(c->cross[i], c->cross[j], side) == 0) j++;
        const int64_t first = i;
        i = j;
        const kl_half *const half[2] = {&h->left, &h->right};
        const int to[2] = {ls, rs};
        int from[2];
        for (int s = 0; s < 2; s++)
            from[s] = kl_half_sector(half[s], kl_qn_sub(h->model, half[s]->q[to[s]],
                                                        side_shift(h->model, half[s], c->cross[first], s)));
        if (from[0] < 0 || from[1] < 0 || h->right_sec[h->block_of[from[0]]] != from[1]) continue;
        const int odd = side_odd(&h->right, c->cross[first], 1);
        kl_kron_op **const slot[2] = {&a, &o};
        for (int s = 0; s < 2; s++) {
            const kl_coo_strings t = {.half = half[s],
                                      .side = s,
                                      .source = from[s],
                                      .target = to[s],
                                      .n = s == side ? 1 : j - first,
                                      .p = c->cross + first,
                                      .bare = s == side,
                                      .partner_odd = s == 0 ? odd : 0};
            c->c.n = 0;
            KL_TRY(kl_coo_add(&c->c, h->model, &t, c->d, c->near, err));
            const int64_t nrow = half[s]->begin[to[s] + 1] - half[s]->begin[to[s]],
                          ncol = half[s]->begin[from[s] + 1] - half[s]->begin[from[s]];
            KL_TRY(kl_coo_close(&c->c, nrow, err));
            KL_TRY(kl_coo_op(&c->c, nrow, ncol, NULL, slot[s], err));
        }
        if (a && o) {
            if (b->ncross == room) {
                room = room ? 2 * room : 8;
                KL_TRY(kl_realloc(&b->cross, room, KL_MEM_MATRIX, err));
            }
            b->cross[b->ncross++] = (kl_kron_cross){a, o, h->block_of[from[0]]};
            a = o = NULL;
        }
        kl_kron_op_destroy(&a);
        kl_kron_op_destroy(&o);
    }
out:
    kl_kron_op_destroy(&a);
    kl_kron_op_destroy(&o);
    return st;
}

static double largest(int64_t n, const double *x)
{
    double most = n > 0 ? x[0] : 0.0;
    for (int64_t i = 1; i < n; i++) most = fmax(most, x[i]);
    return most;
}

/* No eigenvalue of the block's rows lies above. */
static double block_bound(const kl_kron_block *b)
{
    const int64_t width = b->ntile * LANES;
    double s = largest(b->nl, b->dl) + largest(b->nr, b->dr) + op_norm(b->a) + op_norm(b->b);
    for (int k = 0; k < b->nbit; k++) s += fmax(0.0, largest(b->nr, b->bits + k * width));
    for (int f = 0; f < b->nfeature; f++) {
        double fl = 0.0, fr = 0.0;
        for (int64_t l = 0; l < b->nl; l++) fl = fmax(fl, fabs(b->fl[l * b->nfeature + f]));
        for (int64_t r = 0; r < b->nr; r++) fr = fmax(fr, fabs(b->fr[f * width + r]));
        s += fl * fr;
    }
    for (int64_t c = 0; c < b->ncross; c++) s += op_norm(b->cross[c].a) * op_norm(b->cross[c].b);
    return s;
}

static void block_cost(kl_kron *k, kl_kron_block *b)
{
    const double elements = (double)(b->nl * b->nr);
    const double na = b->a ? (double)b->a->nnz : 0.0, nb = b->b ? (double)b->b->nnz : 0.0;
    b->cost_left = 4.0 * (double)b->nl + na + (double)(b->nl * (b->nbit / 4 + b->nfeature));
    b->cost_right = 8.0 * (double)b->nr + nb;
    k->flop += 2.0 * elements + na * (double)b->nr + nb * (double)b->nl +
               (double)(b->nbit / 4 + 1 + 2 * b->nfeature) * elements;
    for (int64_t c = 0; c < b->ncross; c++) {
        const kl_kron_cross *const g = &b->cross[c];
        const double used = (double)g->a->nnz / (double)g->a->nrow;
        b->cost_right += used * (4.0 * (double)g->b->ncol + 2.0 * (double)g->b->nnz);
        k->flop += (double)g->a->nnz * ((double)g->b->ncol + 2.0 * (double)g->b->nnz);
    }
}

kl_status kl_kron_compile(const kl_bipartition *h, const kl_terms *terms, int64_t from, int64_t to,
                          kl_kron **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *k = NULL;
    compiler c = {.h = h};
    *out = NULL;
    KL_TRY(kl_alloc(&k, 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&c.d, h->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_strands_split(terms, from, to, h->flavour, h->cut, &c.list, err));
    if (from == 0 && to == terms->nterm) c.list.constant += terms->constant;
    KL_TRY(kl_alloc(&c.near, c.list.n, KL_MEM_WORK, err));
    KL_TRY(sort_out(&c, err));
    const int diag_side = kl_strands_group(c.ndiag, c.diag);
    c.cross_side = kl_strands_group(c.ncross, c.cross);
    KL_TRY(kl_alloc(&k->block, h->nblock, KL_MEM_MATRIX, err));
    k->nblock = h->nblock;
    k->n = h->n;
    double bound = -INFINITY;
    for (int i = 0; i < h->nblock; i++) {
        kl_kron_block *const b = &k->block[i];
        const int ls = h->left_sec[i], rs = h->right_sec[i];
        b->off = h->off[i];
        b->nl = h->left.begin[ls + 1] - h->left.begin[ls];
        b->nr = h->right.begin[rs + 1] - h->right.begin[rs];
        b->ntile = (b->nr + LANES - 1) / LANES;
        b->first_tile = k->ntile_all;
        k->ntile_all += b->ntile;
        if (b->ntile > k->ntile_max) k->ntile_max = b->ntile;
        KL_TRY(kl_alloc(&b->dl, b->nl, KL_MEM_MATRIX, err));
        KL_TRY(kl_alloc(&b->dr, b->ntile * LANES, KL_MEM_MATRIX, err));
        KL_TRY(block_alone(&c, &h->left, ls, 0, c.nleft, c.left, b->dl, &b->a, err));
        KL_TRY(block_alone(&c, &h->right, rs, 1, c.nright, c.right, b->dr, &b->b, err));
        for (int64_t l = 0; l < b->nl; l++) b->dl[l] += c.list.constant;
        KL_TRY(block_diagonal(&c, b, ls, rs, diag_side, err));
        KL_TRY(block_cross(&c, b, ls, rs, err));
        block_cost(k, b);
        bound = fmax(bound, block_bound(b));
    }
    for (int64_t i = 0; i < k->nblock; i++) { /* the ends of last tiles */
        kl_kron_block *const b = &k->block[i];
        double low = b->dl[0];
        for (int64_t l = 1; l < b->nl; l++) low = fmin(low, b->dl[l]);
        for (int64_t r = b->nr; r < b->ntile * LANES; r++) b->dr[r] = bound - low;
    }
    *out = k;
    k = NULL;
out:
    kl_strands_clear(&c.list);
    kl_free(&c.left);
    kl_free(&c.right);
    kl_free(&c.diag);
    kl_free(&c.cross);
    kl_free(&c.d);
    kl_free(&c.near);
    kl_free(&c.c.e);
    kl_kron_destroy(&k);
    return st;
}
