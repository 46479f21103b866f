/* From record lists to CSR: see assemble.h.

   Every record that adds to y does so with a block of x, times an operator from one side or both: y_rc +=
   alpha sum_pq A_rp x_pq B_qc. The row of y_rc is then the sum of the outer products of row r of A with
   column c of B, each at its block of x. An intermediate is followed to the record that made it.
   SPDX-License-Identifier: Apache-2.0 */
#include "record/assemble.h"
#include "record/chunk.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* One block of x in one block of y: operator `left` (NULL: the identity) and `right`, as records have
   them. */
typedef struct term {
    const kl_rec *left, *right; /* left: its A; right: its B */
    double alpha;
    int64_t x, c;               /* corners in x and y */
    int ldx, ldc, m, n;         /* of the block of y */
    int p, q;                   /* of the block of x */
} term;

/* What record i adds to y. 0: it does not add a product with x to y. */
static int term_of(const kl_batch *b, const kl_group *g, int64_t i, term *t)
{
    const kl_rec *const r = &b->rec[i];
    if (r->at_c != KL_AT_Y || !r->beta || r->kind == KL_REC_FILL) return 0;
    *t = (term){.alpha = r->alpha, .c = r->c, .ldc = r->ldc, .m = r->m, .n = r->n};
    if (r->kind == KL_REC_ADD) {
        if (r->at_a != KL_AT_X || r->ta) return 0;
        t->x = r->a, t->ldx = r->lda, t->p = r->m, t->q = r->n;
        return 1;
    }
    if (r->at_b == KL_AT_X && r->at_a >= KL_AT_LEFT && !r->tb) {
        t->left = r, t->x = r->b, t->ldx = r->ldb, t->p = r->k, t->q = r->n;
        return 1;
    }
    if (r->at_b < KL_AT_LEFT) return 0;
    t->right = r;
    if (r->at_a == KL_AT_X && !r->ta) {
        t->x = r->a, t->ldx = r->lda, t->p = r->m, t->q = r->k;
        return 1;
    }
    if (r->at_a != KL_AT_WORK || r->ta) return 0;
    const int64_t w = kl_batch_maker(b, g->first, i, r->a, (int64_t)(r->k - 1) * r->lda + r->m);
    if (w < 0) return 0;
    const kl_rec *const make = &b->rec[w];
    for (int64_t k = w + 1; k < i; k++)
        if (b->rec[k].at_c == KL_AT_WORK)
            return 0; /* something is added to it, or is next to it in the same intermediate */
    if (make->kind != KL_REC_GEMM || make->at_a < KL_AT_LEFT || make->at_b != KL_AT_X || make->tb ||
        r->a != make->c || r->lda != make->m || r->m != make->m || r->k != make->n)
        return 0;
    t->left = make, t->alpha *= make->alpha;
    t->x = make->b, t->ldx = make->ldb, t->p = make->k, t->q = make->n;
    return 1;
}

double kl_assemble_elements(const kl_batch *b)
{
    double sum = 0;
    for (int g = 0; g < b->ngroup; g++)
        for (int64_t i = b->group[g].first; i < b->group[g].last; i++) {
            term t;
            if (b->rec[i].at_c == KL_AT_WORK) continue;
            if (!term_of(b, &b->group[g], i, &t)) return -1;
            sum += (double)t.m * t.n * (t.left ? t.p : 1) * (t.right ? t.q : 1);
        }
    return sum;
}

static double element_a(const kl_rec *r, const double *const base[KL_NAT], int64_t i, int64_t k)
{
    return base[r->at_a][r->a + (r->ta ? k + i * r->lda : i + k * r->lda)];
}
static double element_b(const kl_rec *r, const double *const base[KL_NAT], int64_t k, int64_t j)
{
    return base[r->at_b][r->b + (r->tb ? j + k * r->ldb : k + j * r->ldb)];
}

/* Adds to a row of the matrix what a term has of element (r, c) of its block. */
static void add_row(const term *t, const double *const base[KL_NAT], int64_t r, int64_t c, double *row)
{
    for (int64_t q = t->right ? 0 : c; q < (t->right ? t->q : c + 1); q++) {
        const double s = t->alpha * (t->right ? element_b(t->right, base, q, c) : 1);
        double *const to = row + t->x + q * t->ldx;
        if (!t->left) to[r] += s;
        else
            for (int64_t p = 0; p < t->p; p++) to[p] += s * element_a(t->left, base, r, p);
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
                const int64_t at = done - t[k].c,
                              c = t[k].n > 1 && t[k].ldc > 0 ? at / t[k].ldc
                                                             : 0 /* of one column ldc means nothing */,
                              r = at - c * t[k].ldc;
                if (at >= 0 && r < t[k].m && c < t[k].n) add_row(&t[k], base, r, c, row);
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
