/* The least eigenvectors of Gram matrices: see leastcolumns.h. Of G = A^T A, rows about as important as their
   diagonal elements:
     1. G + shift = L L^T, T = L^-T: the columns of A T are orthonormal
     2. P = G^-1 = T T^T; 1 / P_cc is what column c of A has outside of all others: the columns where that is
        least begin
     3. Z = orthonormal P Z, again
     4. W = T^T Z, in the space where L^T L has G's eigenvalues; those of W^T W are one over the least of them
   and when it is known how many of these vectors V are dropped:
     5. a reflection H, H E = V D, with E the last unit vectors and signs D (Ballard, Demmel, Grigori,
        Jacquelin, Knight, Nguyen, J. Parallel Distrib. Comput. 85, 3 (2015)): its other columns are an
        orthonormal basis of all that is orthogonal to V
     6. Z = T times these
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/leastcolumns.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/parsort.h"
#include "comm/ranks.h"
#include "exec/eigmany.h"
#include "exec/roots.h"
#include "record/record.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    PASSES = 2, /* of 3. */
    BESIDE = 20, /* vectors tried beyond those that are expected to be dropped, */
    STEP = 4, /* in multiples of it */
    SURE = 12, /* vectors tried that may not be dropped, */
};
#define MORE 0.75 /* and as a part of what is expected; */
#define SURE_MORE 0.375 /* and of those dropped */
#define MANY 0.5 /* of all: a full eigenproblem costs little more then */
/* The shift: of the diagonal, where columns nearly depend on others; of the elements at the cut, so that
   columns of no weight are no more than that much smaller; of the trace, where there is none at all. */
#define SHIFT_ROUNDING 1e-13
#define SHIFT_CUT 1e-5
#define SHIFT_NONE 1e-20
#define SHIFT_SEEN \
    0.01 /* of the values: a larger one hides which is least, in a basis far from eigenvectors */

int kl_least_sure(int tried, int drop) { return drop == 0 || tried >= drop + SURE + (int)(SURE_MORE * drop); }

/* A matrix whose columns follow each other, at an offset of an operand. */
typedef struct matrix {
    int rows, cols;
    int64_t at;
} matrix;

/* C = op(A) op(B) with A of X and B of LEFT. */
static kl_rec product(matrix a, int ta, matrix b, int tb, int64_t c)
{
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = (uint8_t)ta,
                    .tb = (uint8_t)tb,
                    .at_a = KL_AT_X,
                    .at_b = KL_AT_LEFT,
                    .at_c = KL_AT_Y,
                    .m = ta ? a.cols : a.rows,
                    .n = tb ? b.rows : b.cols,
                    .k = ta ? a.rows : a.cols,
                    .lda = a.rows,
                    .ldb = b.rows,
                    .ldc = ta ? a.cols : a.rows,
                    .a = a.at,
                    .b = b.at,
                    .c = c,
                    .alpha = 1};
}

static matrix whole(const kl_least_part *p) { return (matrix){p->n, p->n, p->t}; }
static matrix tried(const kl_least_part *p) { return (matrix){p->n, p->tried, p->w}; }
static matrix small(const kl_least_part *p) { return (matrix){p->tried, p->tried, p->small}; }

/* n[npart] numbers each, one after the other, on the host. */
static kl_status diagonals(const kl_least *l, kl_dptr a, int packed, double *host, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t at = 0, end = 0;
    kl_dptr d = {0};
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < l->npart; at += l->part[i++].n) {
        const kl_least_part *const p = &l->part[i];
        const int64_t from = packed ? p->t : p->gram;
        KL_TRY(kl_batch_push_alone(&b, p->n,
                                   (kl_rec){.kind = KL_REC_ADD,
                                            .at_a = KL_AT_X,
                                            .at_c = KL_AT_Y,
                                            .m = 1,
                                            .n = p->n,
                                            .lda = p->n + 1,
                                            .ldc = 1,
                                            .a = from,
                                            .c = at,
                                            .alpha = 1},
                                   err));
        if (from + (int64_t)p->n * p->n > end) end = from + (int64_t)p->n * p->n;
    }
    KL_TRY(l->ex->vt.alloc(l->ex, at, &d, err));
    b.nx = end;
    b.ny = at;
    KL_TRY(kl_batch_run(&b, l->ex, a, d, err));
    KL_TRY(l->ex->vt.download(l->ex, host, d, at, err));
out:
    kl_batch_clear(&b);
    l->ex->vt.release(l->ex, &d);
    return st;
}

/* Traces and shifts. */
static kl_status look(kl_least *l, kl_dptr gram, int64_t rows, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t at = 0;
    double *d = NULL;
    KL_TRY(kl_realloc(&d, rows, KL_MEM_WORK, err));
    KL_TRY(diagonals(l, gram, 0, d, err));
    for (int i = 0; i < l->npart; at += l->part[i++].n) {
        kl_least_part *const p = &l->part[i];
        const int cut = (int)(p->n * fmax(1 - l->stay, 0));
        for (int c = 0; c < p->n; c++) p->trace += d[at + c];
        for (int c = 0; c < p->n; c++) d[at + c] = d[at + c] > 0 ? d[at + c] : 0;
        KL_TRY(kl_sort_rising(d + at, p->n, sizeof *d, 0, err));
        p->shift = SHIFT_CUT * d[at + cut] + SHIFT_NONE * p->trace;
    }
out:
    kl_free(&d);
    return st;
}

/* 1. G + shift into p, T from there. */
static kl_status make_factors(kl_least *l, kl_dptr gram, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL;
    int64_t *off = NULL, end = 0;
    char *good = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&n, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&good, l->npart, KL_MEM_WORK, err));
    for (int i = 0; i < l->npart; i++) {
        const kl_least_part *const p = &l->part[i];
        const int64_t numbers = (int64_t)p->n * p->n;
        n[i] = p->n;
        off[i] = p->t;
        if (p->gram + numbers > end) end = p->gram + numbers;
        KL_TRY(kl_batch_open_group(&b, p->t, numbers, err));
        KL_TRY(kl_batch_reserve(&b, 3, err));
        kl_rec r = {
            .kind = KL_REC_ADD, .at_a = KL_AT_X, .at_c = KL_AT_Y, .a = p->gram, .c = p->t, .alpha = 1};
        r.m = r.n = r.lda = r.ldc = p->n;
        *kl_batch_push(&b) = r;
        r.m = r.beta = 1, r.lda = r.ldc = p->n + 1, r.alpha = SHIFT_ROUNDING;
        *kl_batch_push(&b) = r;
        r.kind = KL_REC_FILL, r.alpha = p->shift;
        *kl_batch_push(&b) = r;
        kl_batch_close_group(&b, 0);
    }
    b.nx = end;
    b.ny = l->nt;
    KL_TRY(l->ex->vt.alloc(l->ex, l->nt, &l->p, err));
    KL_TRY(l->ex->vt.alloc(l->ex, l->nt, &l->t, err));
    KL_TRY(kl_batch_run(&b, l->ex, gram, l->p, err));
    const kl_roots roots = {l->npart, n, off, l->nt, l->p, l->t, good};
    KL_TRY(kl_roots_find(l->ex, &roots, err));
    for (int i = 0; i < l->npart; i++) l->part[i].tried = good[i] ? l->part[i].n : 0;
out:
    kl_batch_clear(&b);
    kl_free(&n);
    kl_free(&off);
    kl_free(&good);
    return st;
}

/* A list of one product a part into y, of x and `left`. */
static kl_status run(const kl_least *l, kl_batch *b, kl_dptr x, kl_dptr left, kl_dptr y, kl_err *err)
{
    b->nx = b->ny = l->nt > l->nw ? l->nt : l->nw;
    b->base[KL_AT_LEFT] = left;
    return kl_batch_run(b, l->ex, x, y, err);
}

typedef struct column {
    double outside;
    int part, nth;
} column;

/* How many vectors are tried in each part, and where they have room: by the columns that would go if they had
   no more weight than they have outside of the others. col: all of them. */
static kl_status set_tried(kl_least *l, int64_t ncol, column *col, int *expected, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t go = (int64_t)ceil((double)ncol * fmax(1 - l->stay, 0));
    KL_TRY(kl_sort_rising(col, ncol, sizeof *col, offsetof(column, outside), err));
    for (int64_t i = 0; i < go; i++) expected[col[i].part]++;
    l->nw = l->nsmall = 0;
    for (int i = 0; i < l->npart; i++) {
        kl_least_part *const p = &l->part[i];
        const int wanted = expected[i] + BESIDE + (int)(MORE * expected[i]);
        if (p->tried == 0) continue;
        p->tried = (wanted + STEP - 1) / STEP * STEP;
        if (p->tried > MANY * p->n) p->tried = 0;
        p->w = l->nw;
        p->small = l->nsmall;
        l->nw += (int64_t)p->n * p->tried;
        l->nsmall += (int64_t)p->tried * p->tried;
    }
out:
    return st;
}

/* 2. Copies of the columns of P that begin, in the order of their numbers. first: of the parts' columns. */
static kl_status copy_columns(const kl_least *l, int64_t ncol, const column *col, const int64_t *first,
                              kl_dptr z, kl_err *err)
{
    kl_status st = KL_OK;
    char *taken = NULL;
    int *left = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&taken, ncol, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&left, l->npart, KL_MEM_WORK, err));
    for (int i = 0; i < l->npart; i++) left[i] = l->part[i].tried;
    for (int64_t i = 0; i < ncol; i++)
        if (left[col[i].part] > 0) {
            taken[first[col[i].part] + col[i].nth] = 1;
            left[col[i].part]--;
        }
    for (int i = 0; i < l->npart; i++) {
        const kl_least_part *const p = &l->part[i];
        int64_t to = p->w;
        if (p->tried == 0) continue;
        KL_TRY(kl_batch_open_group(&b, to, (int64_t)p->n * p->tried, err));
        for (int c = 0, end; c < p->n; c = end) {
            for (end = c + 1; end < p->n && taken[first[i] + end] == taken[first[i] + c]; end++) continue;
            if (!taken[first[i] + c]) continue;
            KL_TRY(kl_batch_reserve(&b, 1, err));
            kl_rec r = {.kind = KL_REC_ADD, .at_a = KL_AT_X, .at_c = KL_AT_Y, .n = end - c, .alpha = 1};
            r.m = r.lda = r.ldc = p->n;
            r.a = p->t + (int64_t)c * p->n;
            r.c = to;
            *kl_batch_push(&b) = r;
            to += (int64_t)(end - c) * p->n;
        }
        kl_batch_close_group(&b, 0);
    }
    KL_TRY(run(l, &b, l->p, (kl_dptr){0}, z, err));
out:
    kl_batch_clear(&b);
    kl_free(&taken);
    kl_free(&left);
    return st;
}

/* 2. *pz: the columns of P that begin. */
static kl_status begin(kl_least *l, int64_t ncol, kl_dptr *z, kl_err *err)
{
    kl_status st = KL_OK;
    double *d = NULL;
    column *col = NULL;
    int64_t *first = NULL, at = 0;
    int *expected = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_realloc(&d, ncol, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&col, ncol, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&first, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&expected, l->npart, KL_MEM_WORK, err));
    for (int i = 0; i < l->npart; i++) {
        const kl_least_part *const p = &l->part[i];
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * p->n, product(whole(p), 0, whole(p), 1, p->t), err));
    }
    KL_TRY(run(l, &b, l->t, l->t, l->p, err));
    KL_TRY(diagonals(l, l->p, 1, d, err));
    for (int i = 0; i < l->npart; at += l->part[i++].n) {
        kl_least_part *const p = &l->part[i];
        first[i] = at;
        for (int c = 0; c < p->n; c++) {
            if (!(d[at + c] > 0 && isfinite(d[at + c]))) p->tried = 0;
            col[at + c] = (column){p->tried ? 1 / d[at + c] : INFINITY, i, c};
        }
        for (int c = 0; c < p->n && p->tried == 0; c++) col[at + c].outside = INFINITY;
    }
    KL_TRY(set_tried(l, ncol, col, expected, err));
    KL_TRY(l->ex->vt.alloc(l->ex, l->nw, z, err));
    KL_TRY(copy_columns(l, ncol, col, first, *z, err));
out:
    kl_batch_clear(&b);
    kl_free(&d);
    kl_free(&col);
    kl_free(&first);
    kl_free(&expected);
    return st;
}

/* 3. Orthonormal columns of z into `to`; h, root: [nsmall] work. */
static kl_status orthonormalize(kl_least *l, kl_dptr z, kl_dptr h, kl_dptr root, kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL;
    int64_t *off = NULL;
    char *good = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&n, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&good, l->npart, KL_MEM_WORK, err));
    for (int i = 0; i < l->npart; i++) {
        const kl_least_part *const p = &l->part[i];
        n[i] = p->tried;
        off[i] = p->small;
        if (n[i] > 0)
            KL_TRY(kl_batch_push_alone(&b, (int64_t)n[i] * n[i], product(tried(p), 1, tried(p), 0, p->small),
                                       err));
    }
    KL_TRY(run(l, &b, z, z, h, err));
    const kl_roots roots = {l->npart, n, off, l->nsmall, h, root, good};
    KL_TRY(kl_roots_find(l->ex, &roots, err));
    for (int i = 0; i < l->npart; i++) {
        kl_least_part *const p = &l->part[i];
        if (!good[i]) p->tried = 0;
        if (p->tried > 0)
            KL_TRY(
                kl_batch_push_alone(&b, (int64_t)p->n * n[i], product(tried(p), 0, small(p), 0, p->w), err));
    }
    KL_TRY(run(l, &b, z, root, to, err));
out:
    kl_batch_clear(&b);
    kl_free(&n);
    kl_free(&off);
    kl_free(&good);
    return st;
}

/* 4. Values and combinations; h: [nsmall] work. */
static kl_status solve(kl_least *l, kl_dptr h, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL;
    int64_t *off = NULL, at = 0;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&n, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, l->npart, KL_MEM_WORK, err));
    for (int i = 0; i < l->npart; at += n[i++]) {
        const kl_least_part *const p = &l->part[i];
        n[i] = p->tried;
        off[i] = p->small;
        if (n[i] > 0)
            KL_TRY(kl_batch_push_alone(&b, (int64_t)n[i] * n[i], product(tried(p), 1, tried(p), 0, p->small),
                                       err));
    }
    KL_TRY(run(l, &b, l->w, l->w, h, err));
    KL_TRY(kl_realloc(&l->vec, l->nsmall, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&l->value, at, KL_MEM_WORK, err));
    const kl_eigen_many many = {l->npart, n, off, l->nsmall, h, l->vec, l->value};
    KL_TRY(kl_eigen_many_find(l->ex, &many, kl_ranks_size(l->ex) == 1, err));
    at = 0;
    for (int i = 0; i < l->npart; at += n[i++]) {
        kl_least_part *const p = &l->part[i];
        double *const v = p->value = l->value + at;
        if (p->tried > 0 && !(v[0] > 0)) p->tried = 0;
        /* values of the inverse, ascending; combinations so that vectors have norm 1 */
        for (int k = 0; k < p->tried; k++) {
            double *const y = l->vec + p->small + (int64_t)k * n[i];
            for (int r = 0; r < n[i]; r++) y[r] /= sqrt(v[k]);
            v[k] = fmax(1 / v[k] - p->shift, 0);
        }
        for (int k = 0; k < p->tried / 2; k++) {
            const double other = v[p->tried - 1 - k];
            v[p->tried - 1 - k] = v[k];
            v[k] = other;
        }
        if (p->tried > 0 && p->shift > SHIFT_SEEN * v[p->tried / 2]) p->tried = 0;
    }
out:
    kl_batch_clear(&b);
    kl_free(&n);
    kl_free(&off);
    return st;
}

kl_status kl_least_find(kl_least *l, kl_dptr gram, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t ncol = 0;
    kl_dptr z = {0}, h = {0}, root = {0};
    kl_batch b;
    kl_batch_init(&b);
    l->nt = 0;
    for (int i = 0; i < l->npart; i++) {
        kl_least_part *const p = &l->part[i];
        p->t = l->nt;
        p->trace = 0;
        l->nt += (int64_t)p->n * p->n;
        ncol += p->n;
    }
    if (l->npart == 0) goto out;
    KL_TRY(look(l, gram, ncol, err));
    KL_TRY(make_factors(l, gram, err));
    KL_TRY(begin(l, ncol, &z, err));
    if (l->nw == 0) goto out;
    KL_TRY(l->ex->vt.alloc(l->ex, l->nw, &l->w, err));
    KL_TRY(l->ex->vt.alloc(l->ex, l->nsmall, &h, err));
    KL_TRY(l->ex->vt.alloc(l->ex, l->nsmall, &root, err));
    for (int pass = 0; pass < PASSES; pass++) {
        KL_TRY(orthonormalize(l, z, h, root, l->w, err));
        const int last = pass == PASSES - 1;
        for (int i = 0; i < l->npart; i++) {
            const kl_least_part *const p = &l->part[i];
            if (p->tried == 0) continue;
            KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * p->tried,
                                       product(whole(p), last, tried(p), 0, p->w), err));
        }
        KL_TRY(run(l, &b, last ? l->t : l->p, l->w, z, err));
    }
    const kl_dptr w = l->w;
    l->w = z;
    z = w;
    KL_TRY(solve(l, h, err));
out:
    kl_batch_clear(&b);
    l->ex->vt.release(l->ex, &z);
    l->ex->vt.release(l->ex, &h);
    l->ex->vt.release(l->ex, &root);
    return st;
}

/* What is dropped of one part. */
typedef struct cut {
    int part, drop, stay;
    int64_t v, f, from, to; /* of V [n x drop], of matrices [drop x drop], of combinations; of the result */
} cut;

typedef struct rest {
    kl_least *l;
    int n; /* parts */
    cut *cut;
    int64_t nv, nf, nfrom;
    double *f, *df, *work; /* [nf] */
    kl_dptr v, vf, dev;
} rest;

static kl_status lay_out(rest *r, const int *drop, const int64_t *to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_least *const l = r->l;
    KL_TRY(kl_alloc(&r->cut, l->npart, KL_MEM_WORK, err));
    for (int i = 0; i < l->npart; i++) {
        const kl_least_part *const p = &l->part[i];
        if (p->tried == 0 || to[i] < 0 || drop[i] == p->n) continue;
        r->cut[r->n++] = (cut){i, drop[i], p->n - drop[i], r->nv, r->nf, r->nfrom, to[i]};
        r->nv += (int64_t)p->n * drop[i];
        r->nf += (int64_t)drop[i] * drop[i];
        r->nfrom += (int64_t)p->tried * drop[i];
    }
    KL_TRY(kl_realloc(&r->f, 3 * r->nf, KL_MEM_WORK, err));
    r->df = r->f + r->nf;
    r->work = r->df + r->nf;
out:
    return st;
}

/* V = W times the combinations of the largest values of W^T W, and of that the last rows, to the host. */
static kl_status make_vectors(rest *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_least *const l = r->l;
    kl_exec *const ex = l->ex;
    double *host = NULL;
    kl_dptr from = {0}, block = {0};
    kl_batch b;
    kl_batch_init(&b);
    if (r->nv == 0) goto out;
    KL_TRY(kl_realloc(&host, r->nfrom, KL_MEM_WORK, err));
    for (int i = 0; i < r->n; i++) {
        const cut *const c = &r->cut[i];
        const kl_least_part *const p = &l->part[c->part];
        const int64_t numbers = (int64_t)p->tried * c->drop;
        if (c->drop == 0) continue;
        memcpy(host + c->from, l->vec + p->small + (int64_t)(p->tried - c->drop) * p->tried,
               (size_t)numbers * sizeof *host);
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * c->drop,
                                   product(tried(p), 0, (matrix){p->tried, c->drop, c->from}, 0, c->v), err));
    }
    KL_TRY(kl_exec_copy_in(ex, host, r->nfrom, &from, err));
    KL_TRY(ex->vt.alloc(ex, r->nv, &r->v, err));
    KL_TRY(ex->vt.alloc(ex, r->nf, &block, err));
    KL_TRY(run(l, &b, l->w, from, r->v, err));
    for (int i = 0; i < r->n; i++) {
        const cut *const c = &r->cut[i];
        kl_rec q = {.kind = KL_REC_ADD, .at_a = KL_AT_X, .at_c = KL_AT_Y, .c = c->f, .alpha = 1};
        q.m = q.n = q.ldc = c->drop;
        q.lda = l->part[c->part].n;
        q.a = c->v + c->stay;
        if (c->drop > 0) KL_TRY(kl_batch_push_alone(&b, (int64_t)c->drop * c->drop, q, err));
    }
    KL_TRY(run(l, &b, r->v, from, block, err));
    KL_TRY(ex->vt.download(ex, r->f, block, r->nf, err));
out:
    kl_batch_clear(&b);
    kl_free(&host);
    ex->vt.release(ex, &from);
    ex->vt.release(ex, &block);
    return st;
}

/* 5. With B the last rows of V: D, chosen so that B - D is eliminated without pivots, every one of them at
   least 1, and F = D (B - D)^-T in place of B; D F into df. */
static void reflect_task(void *self, int64_t task, int thread)
{
    const rest *const r = self;
    const cut *const c = &r->cut[task];
    const int n = c->drop;
    double *const a = r->f + c->f, *const d = r->df + c->f, *const x = r->work + c->f;
    (void)thread;
    /* (B - D)^T = L U: `a` column by column has the rows of B */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) x[j + (int64_t)i * n] = a[i + (int64_t)j * n];
    for (int k = 0; k < n; k++) {
        double *const pivots = x + (int64_t)k * n;
        d[k] = pivots[k] > 0 ? -1 : 1;
        pivots[k] -= d[k];
        for (int i = k + 1; i < n; i++) pivots[i] /= pivots[k];
        for (int j = k + 1; j < n; j++) {
            double *const y = x + (int64_t)j * n;
            const double f = y[k];
            for (int i = k + 1; i < n; i++) y[i] -= f * pivots[i];
        }
    }
    /* its inverse, column by column */
    for (int j = 0; j < n; j++) {
        double *const y = a + (int64_t)j * n;
        for (int i = 0; i < n; i++) y[i] = i == j;
        for (int k = j; k < n; k++)
            for (int i = k + 1; i < n; i++) y[i] -= y[k] * x[i + (int64_t)k * n];
        for (int k = n - 1; k >= 0; k--) {
            y[k] /= x[k + (int64_t)k * n];
            for (int i = 0; i < k; i++) y[i] -= y[k] * x[i + (int64_t)k * n];
        }
    }
    for (int i = 0; i < n; i++) x[i] = d[i];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            d[i + (int64_t)j * n] = a[i + (int64_t)j * n];
            a[i + (int64_t)j * n] *= x[i];
        }
}

/* 5. (V - E D) F, into vf. */
static kl_status reflect(rest *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = r->l->ex;
    kl_batch b;
    kl_batch_init(&b);
    if (r->nv == 0) goto out;
    kl_par_for(ex->nthread, r->n, reflect_task, r);
    KL_TRY(kl_exec_copy_in(ex, r->f, 2 * r->nf, &r->dev, err));
    KL_TRY(ex->vt.alloc(ex, r->nv, &r->vf, err));
    for (int i = 0; i < r->n; i++) {
        const cut *const c = &r->cut[i];
        const int n = r->l->part[c->part].n;
        if (c->drop == 0) continue;
        KL_TRY(kl_batch_open_group(&b, c->v, (int64_t)n * c->drop, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        *kl_batch_push(&b) =
            product((matrix){n, c->drop, c->v}, 0, (matrix){c->drop, c->drop, c->f}, 0, c->v);
        kl_rec q = {.kind = KL_REC_ADD, .beta = 1, .at_a = KL_AT_LEFT, .at_c = KL_AT_Y, .alpha = -1};
        q.m = q.n = q.lda = c->drop;
        q.ldc = n;
        q.a = r->nf + c->f;
        q.c = c->v + c->stay;
        *kl_batch_push(&b) = q;
        kl_batch_close_group(&b, 0);
    }
    KL_TRY(run(r->l, &b, r->v, r->dev, r->vf, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* 5. The other columns of H, unit vectors and that times the first rows of V, in the place of P; 6. */
static kl_status multiply(rest *r, int64_t nz, kl_dptr z, kl_err *err)
{
    kl_status st = KL_OK;
    kl_least *const l = r->l;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->n; i++) {
        const cut *const c = &r->cut[i];
        const kl_least_part *const p = &l->part[c->part];
        const int64_t numbers = (int64_t)p->n * c->stay;
        KL_TRY(kl_batch_open_group(&b, p->t, numbers, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        kl_rec q = {.kind = KL_REC_FILL, .at_c = KL_AT_Y, .m = p->n, .n = c->stay, .ldc = p->n, .c = p->t};
        if (c->drop > 0) {
            q = product((matrix){p->n, c->drop, c->v}, 0, (matrix){p->n, c->drop, c->v}, 1, p->t);
            q.n = c->stay;
        }
        *kl_batch_push(&b) = q;
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_FILL,
                                      .beta = 1,
                                      .at_c = KL_AT_Y,
                                      .m = 1,
                                      .n = c->stay,
                                      .ldc = p->n + 1,
                                      .c = p->t,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    if (r->n == 0) goto out;
    KL_TRY(run(l, &b, r->nv > 0 ? r->vf : l->t, r->v, l->p, err));
    for (int i = 0; i < r->n; i++) {
        const cut *const c = &r->cut[i];
        const kl_least_part *const p = &l->part[c->part];
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * c->stay,
                                   product(whole(p), 0, (matrix){p->n, c->stay, p->t}, 0, c->to), err));
    }
    b.nx = l->nt;
    b.ny = nz;
    b.base[KL_AT_LEFT] = l->p;
    KL_TRY(kl_batch_run(&b, l->ex, l->t, z, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_least_rest(kl_least *l, const int *drop, const int64_t *to, int64_t nz, kl_dptr z, kl_err *err)
{
    kl_status st = KL_OK;
    rest r = {.l = l};
    KL_TRY(lay_out(&r, drop, to, err));
    KL_TRY(make_vectors(&r, err));
    KL_TRY(reflect(&r, err));
    KL_TRY(multiply(&r, nz, z, err));
out:
    kl_free(&r.cut);
    kl_free(&r.f);
    l->ex->vt.release(l->ex, &r.v);
    l->ex->vt.release(l->ex, &r.vf);
    l->ex->vt.release(l->ex, &r.dev);
    return st;
}

void kl_least_clear(kl_least *l)
{
    if (!l->ex) return;
    l->ex->vt.release(l->ex, &l->t);
    l->ex->vt.release(l->ex, &l->p);
    l->ex->vt.release(l->ex, &l->w);
    kl_free(&l->vec);
    kl_free(&l->value);
}
