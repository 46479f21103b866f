/* From record lists to CSR: see assemble.h.

   Every record that adds to y does so with a block of x, times an operator from one side or both: y_ij +=
   alpha sum_k A_ik B_kj, where one of A and B is x, or an intermediate that another such product with x made.
   An element of an intermediate is followed to the row and column that its maker put there, so that a stack
   of operators, which one record writes below each other and the next reads side by side, is a sum of
   Kronecker products like any other.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/assemble.h"
#include "record/chunk.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* What adds to y, and what made the intermediate that it reads; NULL: it reads x itself. */
typedef struct term {
    const kl_rec *add, *make;
} term;

/* Where op(A) has element (i, k), and op(B) element (k, j). */
static int64_t place_a(const kl_rec *r, int64_t i, int64_t k)
{
    return r->a + (r->ta ? k + i * r->lda : i + k * r->lda);
}
static int64_t place_b(const kl_rec *r, int64_t k, int64_t j)
{
    return r->b + (r->tb ? j + k * r->ldb : k + j * r->ldb);
}

/* 1: a product of x and an operator. */
static int reads_x(const kl_rec *r)
{
    return r->kind == KL_REC_GEMM &&
           ((r->at_a == KL_AT_X && r->at_b >= KL_AT_LEFT) || (r->at_b == KL_AT_X && r->at_a >= KL_AT_LEFT));
}

/* Who made the intermediate that record i of a group multiplies with an operator; NULL: nobody alone. */
static const kl_rec *maker_of(const kl_batch *b, const kl_group *g, int64_t i)
{
    const kl_rec *const r = &b->rec[i];
    const int by_a = r->at_a == KL_AT_WORK;
    if (r->kind != KL_REC_GEMM || (by_a ? r->at_b : r->at_a) < KL_AT_LEFT || (!by_a && r->at_b != KL_AT_WORK))
        return NULL;
    const int64_t from = by_a ? r->a : r->b,
                  last = by_a ? place_a(r, r->m - 1, r->k - 1) : place_b(r, r->k - 1, r->n - 1);
    const int64_t w = kl_batch_maker(b, g->first, i, from, last + 1 - from);
    if (w < 0 || !reads_x(&b->rec[w])) return NULL;
    for (int64_t k = w + 1; k < i; k++) /* something is added to it, or is next to it */
        if (b->rec[k].at_c == KL_AT_WORK) return NULL;
    return &b->rec[w];
}

/* What record i adds to y. 0: it does not add a product with x to y. */
static int term_of(const kl_batch *b, const kl_group *g, int64_t i, term *t)
{
    const kl_rec *const r = &b->rec[i];
    if (r->at_c != KL_AT_Y || !r->beta || r->kind == KL_REC_FILL) return 0;
    *t = (term){.add = r};
    if (r->kind == KL_REC_ADD) return r->at_a == KL_AT_X;
    if (reads_x(r)) return 1;
    t->make = maker_of(b, g, i);
    return t->make != NULL;
}

/* Elements of x that an element of the block of y is made of, at most. */
static double reach_of(const term *t)
{
    if (t->add->kind == KL_REC_ADD) return 1;
    if (!t->make) return t->add->k;
    return (double)t->make->k * (t->make->at_a == KL_AT_X ? t->make->m : t->make->n);
}

/* 1: t goes on with what `before` began, along the intermediate that both read. */
static int goes_on(const term *before, const term *t)
{
    return t->make && before->make == t->make && before->add->c == t->add->c && before->add->m == t->add->m &&
           before->add->n == t->add->n;
}

double kl_assemble_elements(const kl_batch *b)
{
    double sum = 0;
    for (int g = 0; g < b->ngroup; g++) {
        term before = {NULL, NULL};
        for (int64_t i = b->group[g].first; i < b->group[g].last; i++) {
            term t;
            if (b->rec[i].at_c == KL_AT_WORK) continue;
            if (!term_of(b, &b->group[g], i, &t)) return -1;
            if (!goes_on(&before, &t)) sum += (double)t.add->m * t.add->n * reach_of(&t);
            before = t;
        }
    }
    return sum;
}

/* Adds to a row of the matrix `factor` times element (i, j) of a product with x. */
static void add_product(const kl_rec *r, const double *const base[KL_NAT], int64_t i, int64_t j,
                        double factor, double *row)
{
    const double s = factor * r->alpha;
    for (int64_t k = 0; k < r->k; k++)
        if (r->at_b == KL_AT_X) row[place_b(r, k, j)] += s * base[r->at_a][place_a(r, i, k)];
        else row[place_a(r, i, k)] += s * base[r->at_b][place_b(r, k, j)];
}

/* Adds to a row of the matrix what a term has of element (i, j) of its block. */
static void add_row(const term *t, const double *const base[KL_NAT], int64_t i, int64_t j, double *row)
{
    const kl_rec *const r = t->add;
    if (r->kind == KL_REC_ADD) row[place_a(r, i, j)] += r->alpha;
    else if (!t->make) add_product(r, base, i, j, 1, row);
    else
        for (int64_t k = 0; k < r->k; k++) {
            const int by_a = r->at_a == KL_AT_WORK;
            const int64_t at = (by_a ? place_a(r, i, k) : place_b(r, k, j)) - t->make->c;
            const double other = by_a ? base[r->at_b][place_b(r, k, j)] : base[r->at_a][place_a(r, i, k)];
            add_product(t->make, base, at % t->make->m, at / t->make->m, other * r->alpha, row);
        }
}

kl_status kl_assemble(const kl_batch *b, const double *const base[KL_NAT], kl_spmat **out, kl_err *err)
{
    kl_status st = KL_OK;
    term *t = NULL;
    double *row = NULL, *value = NULL;
    uint32_t *column = NULL;
    int64_t *off = NULL, n = 0, cap = 0;
    *out = NULL;
    if (kl_assemble_elements(b) < 0 || b->nx > UINT32_MAX)
        KL_TRY(kl_fail(err, KL_EINPUT, "a list of %lld records is no sum of A x B, or too long for CSR",
                       (long long)b->nrec));
    KL_TRY(kl_alloc(&t, b->nrec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&row, b->nx, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, b->ny + 1, KL_MEM_MATRIX, err));
    int64_t done = 0; /* rows */
    for (int g = 0; g < b->ngroup; g++) {
        const kl_group *const q = &b->group[g];
        int64_t nt = 0;
        for (int64_t i = q->first; i < q->last; i++)
            if (b->rec[i].at_c == KL_AT_Y && term_of(b, q, i, &t[nt])) nt++;
        for (; done < q->y; done++) off[done + 1] = n;
        for (; done < q->y + q->ny; done++) {
            for (int64_t k = 0; k < nt; k++) {
                const kl_rec *const add = t[k].add;
                const int64_t at = done - add->c,
                              c = add->n > 1 && add->ldc > 0 ? at / add->ldc
                                                             : 0 /* of one column ldc means nothing */,
                              r = at - c * add->ldc;
                if (at >= 0 && r < add->m && c < add->n) add_row(&t[k], base, r, c, row);
            }
            if (n + b->nx > cap) {
                cap = 2 * cap > n + b->nx ? 2 * cap : n + b->nx;
                KL_TRY(kl_realloc(&column, cap, KL_MEM_MATRIX, err));
                KL_TRY(kl_realloc(&value, cap, KL_MEM_MATRIX, err));
            }
            for (int64_t j = 0; j < b->nx; j++)
                if (row[j] != 0) column[n] = (uint32_t)j, value[n] = row[j], row[j] = 0, n++;
            off[done + 1] = n;
        }
    }
    for (; done < b->ny; done++) off[done + 1] = n;
    KL_TRY(kl_realloc(&column, n, KL_MEM_MATRIX, err));
    KL_TRY(kl_realloc(&value, n, KL_MEM_MATRIX, err));
    KL_TRY(kl_spmat_take_csr(b->ny, b->nx, 0, &off, &column, &value, out, err));
out:
    kl_free(&t);
    kl_free(&row);
    kl_free(&off);
    kl_free(&column);
    kl_free(&value);
    return st;
}
