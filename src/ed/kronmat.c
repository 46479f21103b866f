/* A sum of Kronecker products as a sparse matrix, row by row: the row of (l, r) is the diagonal, row l of a,
   row r of b, and the products of two rows for each cross term; entries that meet are added. Every row is
   made twice, to be counted and to be stored, so that nothing is moved.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/kronmat.h"
#include "base/mem.h"
#include "base/par.h"

#include <math.h>
#include <stdlib.h>

enum {
    LANES = KL_KRON_LANES,
    CHUNK = 4096, /* rows of a task */
};

typedef struct entry {
    int64_t column;
    double value;
} entry;

typedef struct maker {
    const kl_kron *k;
    int64_t begin, end; /* rows of the whole that are made */
    int64_t longest;
    entry **row;       /* [thread][longest] */
    int64_t *off;      /* counts, then offsets */
    uint32_t *column;  /* NULL while counting */
    double *value;
} maker;

static int64_t op_column(const kl_kron_op *o, int64_t p)
{
    return o->idx16 ? (int64_t)o->idx16[p] : (int64_t)o->idx32[p];
}

static double op_value(const kl_kron_op *o, int64_t row, int64_t p)
{
    return !o->unit ? o->coef[p] : p < (int64_t)o->minus[row] ? o->scale : -o->scale;
}

static int64_t place(const kl_kron_block *b, int64_t l, int64_t r)
{
    return b->off + (r / LANES * b->nl + l) * LANES + r % LANES;
}

static int by_column(const void *a, const void *b)
{
    const int64_t x = ((const entry *)a)->column, y = ((const entry *)b)->column;
    return x < y ? -1 : x > y;
}

/* Entries of the row of (l, r) of block b, columns ascending; r may lie beyond the last state. */
static int64_t make_row(const kl_kron *k, const kl_kron_block *b, int64_t l, int64_t r, entry *e)
{
    int64_t n = 0, kept = 0;
    const int64_t width = b->ntile * LANES;
    double d = b->dl[l] + b->dr[r];
    for (int m = 0; m < b->nbit; m++)
        if (b->mask[l] >> m & 1) d += b->bits[m * width + r];
    for (int f = 0; f < b->nfeature; f++) d += b->fl[l * b->nfeature + f] * b->fr[f * width + r];
    e[n++] = (entry){place(b, l, r), d};
    if (r >= b->nr) return n;
    for (uint32_t p = b->a ? b->a->ptr[l] : 0; b->a && p < b->a->ptr[l + 1]; p++)
        e[n++] = (entry){place(b, op_column(b->a, p), r), op_value(b->a, l, p)};
    for (uint32_t p = b->b ? b->b->ptr[r] : 0; b->b && p < b->b->ptr[r + 1]; p++)
        e[n++] = (entry){place(b, l, op_column(b->b, p)), op_value(b->b, r, p)};
    for (int64_t c = 0; c < b->ncross; c++) {
        const kl_kron_cross *const g = &b->cross[c];
        const kl_kron_block *const s = &k->block[g->source];
        for (uint32_t p = g->a->ptr[l]; p < g->a->ptr[l + 1]; p++)
            for (uint32_t q = g->b->ptr[r]; q < g->b->ptr[r + 1]; q++)
                e[n++] = (entry){place(s, op_column(g->a, p), op_column(g->b, q)),
                                 op_value(g->a, l, p) * op_value(g->b, r, q)};
    }
    qsort(e, (size_t)n, sizeof *e, by_column);
    for (int64_t i = 0; i < n;) {
        entry sum = e[i];
        double size = fabs(sum.value);
        for (i++; i < n && e[i].column == sum.column; i++) {
            sum.value += e[i].value;
            size += fabs(e[i].value);
        }
        if (fabs(sum.value) > 1e-15 * size || sum.column == place(b, l, r)) e[kept++] = sum;
    }
    return kept;
}

static void make_rows(void *self, int64_t task, int thread)
{
    const maker *const m = self;
    const int64_t from = m->begin + task * CHUNK, to = from + CHUNK < m->end ? from + CHUNK : m->end;
    entry *const e = m->row[thread];
    int64_t block = 0;
    while (block + 1 < m->k->nblock && m->k->block[block + 1].off <= from) block++;
    for (int64_t i = from; i < to; i++) {
        while (block + 1 < m->k->nblock && m->k->block[block + 1].off <= i) block++;
        const kl_kron_block *const b = &m->k->block[block];
        const int64_t at = i - b->off, l = at / LANES % b->nl, r = at / LANES / b->nl * LANES + at % LANES;
        const int64_t n = make_row(m->k, b, l, r, e);
        if (!m->column) {
            m->off[i - m->begin + 1] = n;
            continue;
        }
        for (int64_t j = 0; j < n; j++) {
            m->column[m->off[i - m->begin] + j] = (uint32_t)e[j].column;
            m->value[m->off[i - m->begin] + j] = e[j].value;
        }
    }
}

static int64_t longest_row(const kl_kron_op *o)
{
    int64_t most = 0;
    for (int64_t r = 0; o && r < o->nrow; r++)
        if ((int64_t)o->ptr[r + 1] - o->ptr[r] > most) most = (int64_t)o->ptr[r + 1] - o->ptr[r];
    return most;
}

/* Bytes that the matrix would take, about: entries of equal indices are counted apart. */
static double matrix_bytes(const kl_kron *k)
{
    double nnz = (double)k->n;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        nnz += (b->a ? (double)b->a->nnz : 0.0) * (double)b->nr +
               (b->b ? (double)b->b->nnz : 0.0) * (double)b->nl;
        for (int64_t c = 0; c < b->ncross; c++)
            nnz += (double)b->cross[c].a->nnz * (double)b->cross[c].b->nnz;
    }
    return 12.0 * nnz + 8.0 * (double)k->n;
}

kl_status kl_kron_matrix(const kl_kron *k, int64_t begin, int64_t end, int nthread, double most,
                         kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    maker m = {.k = k, .begin = begin, .end = end};
    const int64_t n = end - begin;
    const double bytes = matrix_bytes(k) * ((double)n / (double)k->n);
    *out = NULL;
    if (k->n > UINT32_MAX)
        return kl_fail(err, KL_EINPUT, "a stored matrix of %lld rows; at most 2^32 are possible",
                       (long long)k->n);
    if (most > 0.0 && bytes > most)
        return kl_fail(err, KL_ENOMEM,
                       "the stored matrix would take %.3g GB; %.3g GB are allowed (--memory), and without "
                       "--store matrix none is needed",
                       1e-9 * bytes, 1e-9 * most);
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        int64_t longest = 1 + longest_row(b->a) + longest_row(b->b);
        for (int64_t c = 0; c < b->ncross; c++)
            longest += longest_row(b->cross[c].a) * longest_row(b->cross[c].b);
        if (longest > m.longest) m.longest = longest;
    }
    KL_TRY(kl_alloc(&m.row, nthread, KL_MEM_WORK, err));
    for (int t = 0; t < nthread; t++) KL_TRY(kl_alloc(&m.row[t], m.longest, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&m.off, n + 1, KL_MEM_MATRIX, err));
    const int64_t ntask = (n + CHUNK - 1) / CHUNK;
    kl_par_for(nthread, ntask, make_rows, &m);
    for (int64_t i = 0; i < n; i++) m.off[i + 1] += m.off[i];
    KL_TRY(kl_alloc(&m.value, m.off[n], KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&m.column, m.off[n], KL_MEM_MATRIX, err));
    kl_par_for(nthread, ntask, make_rows, &m);
    KL_TRY(kl_spmat_take_csr(n, k->n, 0, &m.off, &m.column, &m.value, out, err));
out:
    for (int t = 0; m.row && t < nthread; t++) kl_free(&m.row[t]);
    kl_free(&m.row);
    kl_free(&m.off);
    kl_free(&m.column);
    kl_free(&m.value);
    return st;
}
