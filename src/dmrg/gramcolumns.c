/* Cholesky QR in passes of many blocks side by side: see gramcolumns.h.
     1. Gram matrices of the blocks that are not done, to the host
     2. their triangles, from there back
     3. columns times triangles
     4. columns that depend on the others, where they are to be replaced: Householder on the host
   Before, where they may be nearly orthonormal: Y = Y - Y (Y^T Y - 1) / 2, again until what is left of
   Y^T Y - 1, which is squared each time, would be rounding. They are made so, where that is asked for, by
   Y = Y T with T^T (Y^T Y + shift) T = 1: where columns nearly depend on others T exists by the shift alone.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/gramcolumns.h"
#include "base/dense.h"
#include "base/gemm.h"
#include "base/gramfactor.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/prof.h"
#include "exec/roots.h"
#include "record/record.h"
#include <math.h>
#include <string.h>

enum {
    PANEL =
        64, /* columns of a triangle that are made at a time: what lies on the other side of it is left out */
    PASSES = 5, /* at most */
    WIDE = 256, /* columns of a block from which threads share it */
};
#define NEAR 0.1 /* |Y^T Y - 1| of all blocks, from which products are enough */
#define WORTH_CUBES 1e5 /* columns of blocks, cubed, that are worth a thread, some 70 us */
#define SHIFT_ROUNDING 1e-13 /* of the diagonal */
#define NOTHING 1e-15 /* the same, squared, where one more step leaves nothing to do */

/* What has become of a block. */
typedef enum stage {
    OPEN, /* it takes another pass */
    DONE, /* or never was asked for */
    DEPENDENT, /* columns have to be replaced */
} stage;

kl_status kl_gramcolumns_open(kl_exec *ex, int nblock, kl_column_block *block, kl_gramcolumns *out,
                              kl_err *err)
{
    kl_status st = KL_OK;
    int widest = 0;
    *out = (kl_gramcolumns){.ex = ex, .nblock = nblock};
    KL_TRY(kl_alloc(&out->order, nblock, KL_MEM_WORK, err));
    for (int i = 0; i < nblock; i++) { /* equal ones as they come */
        int at = i;
        for (; at > 0 && block[out->order[at - 1]].width < block[i].width; at--)
            out->order[at] = out->order[at - 1];
        out->order[at] = i;
        block[i].gram = out->ngram;
        out->ngram += (int64_t)block[i].width * block[i].width;
        if (block[i].width > widest) widest = block[i].width;
    }
    out->nwork = 3 * (int64_t)widest * widest + 4 * widest;
    KL_TRY(kl_alloc(&out->sorted, nblock, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&out->small, out->ngram, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&out->work, out->nwork * ex->nthread, KL_MEM_WORK, err));
    KL_TRY(ex->vt.alloc(ex, out->ngram, &out->gram, err));
out:
    if (st != KL_OK) kl_gramcolumns_close(out);
    return st;
}

void kl_gramcolumns_close(kl_gramcolumns *g)
{
    if (!g->ex) return;
    g->ex->vt.release(g->ex, &g->gram);
    kl_free(&g->order);
    kl_free(&g->sorted);
    kl_free(&g->small);
    kl_free(&g->work);
    g->ex = NULL;
}

void kl_gramcolumns_unit(const kl_gramcolumns *g, const kl_column_block *block, double *tri)
{
    memset(tri, 0, (size_t)g->ngram * sizeof *tri);
    for (int i = 0; i < g->nblock; i++)
        for (int j = 0; j < block[i].width; j++) tri[block[i].gram + (int64_t)j * (block[i].width + 1)] = 1;
}

/* 1. Lower triangles. */
static kl_status make_gram(const kl_gramcolumns *g, const kl_gramcolumns_at *at, const char *stages,
                           kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < g->nblock; i++) {
        const kl_column_block *const p = &at->block[i];
        const int n = p->width, high = p->rows;
        if (stages[i] != OPEN) continue;
        KL_TRY(kl_batch_open_group(&b, p->gram, (int64_t)n * n, err));
        KL_TRY(kl_batch_reserve(&b, n / PANEL + 1, err));
        for (int j = 0; j < n; j += PANEL)
            *kl_batch_push(&b) = (kl_rec){
                .kind = KL_REC_GEMM,
                .ta = 1,
                .at_a = KL_AT_X,
                .at_b = KL_AT_X,
                .at_c = KL_AT_Y,
                .m = n - j,
                .n = n - j < PANEL ? n - j : PANEL,
                .k = high,
                .lda = high,
                .ldb = high,
                .ldc = n,
                .a = p->at + (int64_t)j * high,
                .b = p->at + (int64_t)j * high,
                .c = p->gram + j + (int64_t)j * n,
                .alpha = 1,
            };
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1;
    b.nx = at->n;
    b.ny = g->ngram;
    KL_TRY(kl_batch_run(&b, g->ex, *at->data, to, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* to = s t, all [n x n]; upper: both are upper triangles. */
typedef struct triangles {
    int n, upper;
    const double *s, *t;
    double *to;
} triangles;

static void triangle_task(void *self, int64_t nth, int thread)
{
    const triangles *const x = self;
    const int n = x->n, from = (int)nth * PANEL, wide = n - from < PANEL ? n - from : PANEL,
              high = x->upper ? from + wide : n;
    double *const to = x->to + (int64_t)from * n;
    (void)thread;
    kl_gemm_choose(NULL)(0, 0, high, wide, high, 1.0, x->s, n, x->t + (int64_t)from * n, n, 0.0, to, n);
    for (int j = 0; j < wide; j++) memset(to + high + (int64_t)j * n, 0, (size_t)(n - high) * sizeof *to);
}

typedef struct factoring {
    const kl_gramcolumns *g;
    const kl_gramcolumns_at *at;
    const kl_gramcolumns_opts *o;
    char *stages, *mixed; /* [nblock]; mixed: the triangle is none any more, since columns were sorted */
    int pass;
    int nwide; /* blocks, the first of the order, of which all threads do one at a time */
} factoring;

/* 2. The triangle of a block becomes that of this pass times itself, which is 1 before the first. */
static void put_before(const factoring *f, int i, const double *step, double *work, int nthread)
{
    const int n = f->at->block[i].width, upper = !f->g->sorted[i] && !f->mixed[i];
    double *const tri = f->o->tri + f->at->block[i].gram;
    triangles x = {n, upper, step, tri, work};
    if (f->pass > 0) kl_par_for(nthread, (n + PANEL - 1) / PANEL, triangle_task, &x);
    memcpy(tri, f->pass > 0 ? work : step, (size_t)n * (size_t)n * sizeof *tri);
    f->mixed[i] = (char)!upper;
}

/* 2. Of one block, by so many threads. */
static void factor_block(const factoring *f, int64_t nth, int thread, int nthread)
{
    const kl_gramcolumns *const g = f->g;
    const int i = g->order[nth], replaced = f->o->dependent == KL_DEPENDENT_REPLACED;
    const kl_column_block *const p = &f->at->block[i];
    const int n = p->width, last = f->pass == PASSES - 1;
    double *const work = g->work + thread * g->nwork, *const step = work + 2 * (int64_t)n * n + 4 * n;
    kl_gram_found found;
    if (f->stages[i] != OPEN) return;
    kl_gram_factor(nthread, n, g->small + p->gram, f->o->tri ? step : NULL, last && !replaced, work, &found);
    g->sorted[i] = (char)found.sorted;
    if (f->o->tri) put_before(f, i, step, work, nthread);
    const int finished = found.nbad == 0 && found.least >= KL_GRAM_DONE;
    if (replaced && (found.ndead > 0 || (last && !finished))) f->stages[i] = DEPENDENT;
    else if (finished || (f->o->once && f->o->once[i])) f->stages[i] = DONE;
}

static void factor_task(void *self, int64_t task, int thread)
{
    const factoring *const f = self;
    factor_block(f, f->nwide + task, thread, 1);
}

/* 2. A block that takes longer than a thread's share of all of them is for all threads together. */
static void factor_all(factoring *f)
{
    const kl_gramcolumns *const g = f->g;
    const int nthread = g->ex->nthread;
    const double start = kl_prof_seconds();
    double all = 0;
    for (int i = 0; i < g->nblock; i++) all += f->stages[i] == OPEN ? pow(f->at->block[i].width, 3) : 0;
    for (; nthread > 1 && f->nwide < g->nblock; f->nwide++) {
        const int n = f->at->block[g->order[f->nwide]].width;
        if (n < WIDE || nthread * pow(n, 3) < all) break;
        factor_block(f, f->nwide, 0, nthread);
    }
    const int hands = kl_par_hands(nthread, all, WORTH_CUBES);
    kl_par_for(hands, g->nblock - f->nwide, factor_task, f);
    kl_prof_add(KL_PROF_TRIANGLES, start);
}

static kl_rec same_columns(const kl_column_block *p)
{
    return (kl_rec){.kind = KL_REC_ADD,
                    .at_a = KL_AT_X,
                    .at_c = KL_AT_Y,
                    .m = p->rows,
                    .n = p->width,
                    .lda = p->rows,
                    .ldc = p->rows,
                    .a = p->at,
                    .c = p->at,
                    .alpha = 1};
}

/* Runs a list from the columns and the Gram matrices into the spare array, which takes the columns' place. */
static kl_status run_into_spare(const kl_gramcolumns *g, const kl_gramcolumns_at *at, kl_dptr factors,
                                kl_batch *b, kl_err *err)
{
    const kl_dptr was = *at->data;
    b->nx = b->ny = at->n;
    b->base[KL_AT_LEFT] = factors;
    const kl_status st = kl_batch_run(b, g->ex, *at->data, *at->spare, err);
    if (st != KL_OK) return st;
    *at->data = *at->spare;
    *at->spare = was;
    return KL_OK;
}

/* 3. Columns of the blocks that were `open` times their factors, triangles unless columns were sorted, into
   the spare array, which takes their place; all others as they are. */
static kl_status apply(const kl_gramcolumns *g, const kl_gramcolumns_at *at, const char *before,
                       kl_dptr factors, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < g->nblock; i++) {
        const kl_column_block *const p = &at->block[i];
        const int n = p->width, high = p->rows;
        if (p->at < 0 || n == 0) continue;
        KL_TRY(kl_batch_open_group(&b, p->at, (int64_t)high * n, err));
        KL_TRY(kl_batch_reserve(&b, n / PANEL + 1, err));
        if (before[i] != OPEN) *kl_batch_push(&b) = same_columns(p);
        for (int j = 0; j < n && before[i] == OPEN; j += PANEL) {
            const int wide = n - j < PANEL ? n - j : PANEL;
            *kl_batch_push(&b) = (kl_rec){
                .kind = KL_REC_GEMM,
                .at_a = KL_AT_X,
                .at_b = KL_AT_LEFT,
                .at_c = KL_AT_Y,
                .m = high,
                .n = wide,
                .k = g->sorted[i] ? n : j + wide,
                .lda = high,
                .ldb = n,
                .ldc = high,
                .a = p->at,
                .b = p->gram + (int64_t)j * n,
                .c = p->at + (int64_t)j * high,
                .alpha = 1,
            };
        }
        kl_batch_close_group(&b, 0);
    }
    st = run_into_spare(g, at, factors, &b, err);
out:
    kl_batch_clear(&b);
    return st;
}

/* Blocks that came to the host, one behind the other. */
typedef struct replacing {
    const kl_gramcolumns *g;
    const kl_gramcolumns_at *at;
    const kl_gramcolumns_opts *o;
    const char *stages;
    double **y; /* [nblock] */
    kl_status *st;
    kl_err *err;
} replacing;

/* Y = Q S; R becomes S R. */
static void replace_task(void *self, int64_t task, int thread)
{
    const replacing *const x = self;
    const int i = x->g->order[task];
    const kl_column_block *const p = &x->at->block[i];
    const int n = p->width;
    double *const work = x->g->work + thread * x->g->nwork, *const s = work + (int64_t)n * n;
    if (x->stages[i] != DEPENDENT) return;
    memset(s, 0, (size_t)n * (size_t)n * sizeof *s);
    x->st[i] = kl_dense_qr(p->rows, n, x->y[i], p->rows, x->o->tri ? s : NULL, n, &x->err[i]);
    if (x->st[i] != KL_OK || !x->o->tri) return;
    double *const tri = x->o->tri + p->gram;
    kl_gemm_choose(NULL)(0, 0, n, n, n, 1.0, s, n, tri, n, 0.0, work, n);
    memcpy(tri, work, (size_t)n * (size_t)n * sizeof *tri);
}

/* 4. */
static kl_status replace(kl_gramcolumns *g, const kl_gramcolumns_at *at, const kl_gramcolumns_opts *o,
                         const char *stages, kl_err *err)
{
    kl_status st = KL_OK;
    replacing x = {.g = g, .at = at, .o = o, .stages = stages};
    KL_TRY(kl_alloc(&x.y, g->nblock, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.st, g->nblock, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x.err, g->nblock, KL_MEM_WORK, err));
    for (int i = 0; i < g->nblock; i++) {
        const int64_t n = (int64_t)at->block[i].rows * at->block[i].width;
        if (stages[i] != DEPENDENT) continue;
        KL_TRY(kl_realloc(&x.y[i], n, KL_MEM_WORK, err));
        KL_TRY(g->ex->vt.download(g->ex, x.y[i], kl_dptr_at(*at->data, at->block[i].at), n, err));
    }
    kl_par_for(g->ex->nthread, g->nblock, replace_task, &x);
    for (int i = 0; i < g->nblock; i++) {
        if (stages[i] != DEPENDENT) continue;
        if (x.st[i] != KL_OK) KL_TRY(kl_fail(err, x.st[i], "%s", x.err[i].text));
        KL_TRY(g->ex->vt.upload(g->ex, kl_dptr_at(*at->data, at->block[i].at), x.y[i],
                                (int64_t)at->block[i].rows * at->block[i].width, err));
    }
out:
    for (int i = 0; x.y && i < g->nblock; i++) kl_free(&x.y[i]);
    kl_free(&x.y);
    kl_free(&x.st);
    kl_free(&x.err);
    return st;
}

kl_rec kl_gram_rec(int rows, int n, int64_t at, double alpha, int64_t to)
{
    return (kl_rec){.kind = KL_REC_GEMM,
                    .ta = 1,
                    .at_a = KL_AT_X,
                    .at_b = KL_AT_X,
                    .at_c = KL_AT_Y,
                    .m = n,
                    .n = n,
                    .k = rows,
                    .lda = rows,
                    .ldb = rows,
                    .ldc = n,
                    .a = at,
                    .b = at,
                    .c = to,
                    .alpha = alpha};
}

/* Y^T Y - 1 of the blocks that are open, and *far, its norm. */
static kl_status distance(kl_gramcolumns *g, const kl_gramcolumns_at *at, const char *stages, double *far,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < g->nblock; i++) {
        const kl_column_block *const p = &at->block[i];
        const int n = p->width;
        if (stages[i] != OPEN) continue;
        KL_TRY(kl_batch_open_group(&b, p->gram, (int64_t)n * n, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        *kl_batch_push(&b) = kl_gram_rec(p->rows, n, p->at, 1, p->gram);
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_FILL,
                                      .beta = 1,
                                      .at_c = KL_AT_Y,
                                      .m = 1,
                                      .n = n,
                                      .ldc = n + 1,
                                      .c = p->gram,
                                      .alpha = -1};
        kl_batch_close_group(&b, 0);
    }
    g->ex->vt.fill(g->ex, g->ngram, 0.0, g->gram);
    b.nx = at->n;
    b.ny = g->ngram;
    KL_TRY(kl_batch_run(&b, g->ex, *at->data, g->gram, err));
    g->ex->vt.dots(g->ex, g->ngram, 1, g->gram, g->ngram, g->gram, far);
    *far = sqrt(*far);
out:
    kl_batch_clear(&b);
    return st;
}

/* One step towards orthonormal columns, by what distance() left. */
static kl_status improve(const kl_gramcolumns *g, const kl_gramcolumns_at *at, const char *stages,
                         kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < g->nblock; i++) {
        const kl_column_block *const p = &at->block[i];
        const int n = p->width, high = p->rows;
        if (p->at < 0 || n == 0) continue;
        KL_TRY(kl_batch_open_group(&b, p->at, (int64_t)high * n, err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        *kl_batch_push(&b) = same_columns(p);
        if (stages[i] == OPEN)
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .beta = 1,
                                          .at_a = KL_AT_X,
                                          .at_b = KL_AT_LEFT,
                                          .at_c = KL_AT_Y,
                                          .m = high,
                                          .n = n,
                                          .k = n,
                                          .lda = high,
                                          .ldb = n,
                                          .ldc = high,
                                          .a = p->at,
                                          .b = p->gram,
                                          .c = p->at,
                                          .alpha = -0.5};
        kl_batch_close_group(&b, 0);
    }
    st = run_into_spare(g, at, g->gram, &b, err);
out:
    kl_batch_clear(&b);
    return st;
}

/* Those of the blocks that are open become DONE, if all of them are nearly orthonormal. */
static kl_status polish(kl_gramcolumns *g, const kl_gramcolumns_at *at, char *stages, kl_err *err)
{
    kl_status st = KL_OK;
    double far;
    KL_TRY(distance(g, at, stages, &far, err));
    if (!(far < NEAR)) goto out;
    while (far * far > NOTHING) {
        KL_TRY(improve(g, at, stages, err));
        KL_TRY(distance(g, at, stages, &far, err));
    }
    KL_TRY(improve(g, at, stages, err));
    for (int i = 0; i < g->nblock; i++) stages[i] = DONE;
out:
    return st;
}

/* Inverse Cholesky factors, shifted, of the blocks that are open, to root; near[i] OPEN: block i has one. */
static kl_status find_roots(const kl_gramcolumns *g, const kl_gramcolumns_at *at, const char *stages,
                            kl_dptr root, char *near, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL;
    int64_t *off = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&n, g->nblock, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, g->nblock, KL_MEM_WORK, err));
    KL_TRY(make_gram(g, at, stages, root, err));
    for (int i = 0; i < g->nblock; i++) {
        if (stages[i] != OPEN) continue;
        n[i] = at->block[i].width;
        off[i] = at->block[i].gram;
        KL_TRY(kl_batch_open_group(&b, off[i], (int64_t)n[i] * n[i], err));
        KL_TRY(kl_batch_reserve(&b, 2, err));
        kl_rec r = {
            .kind = KL_REC_ADD, .at_a = KL_AT_X, .at_c = KL_AT_Y, .a = off[i], .c = off[i], .alpha = 1};
        r.m = r.n = r.lda = r.ldc = n[i];
        *kl_batch_push(&b) = r;
        r.m = r.beta = 1, r.lda = r.ldc = n[i] + 1, r.alpha = SHIFT_ROUNDING;
        *kl_batch_push(&b) = r;
        kl_batch_close_group(&b, 0);
    }
    b.nx = b.ny = g->ngram;
    KL_TRY(kl_batch_run(&b, g->ex, root, g->gram, err));
    const kl_roots roots = {g->nblock, n, off, g->ngram, g->gram, root, near};
    KL_TRY(kl_roots_find(g->ex, &roots, err));
    for (int i = 0; i < g->nblock; i++) near[i] = n[i] > 0 && near[i] ? OPEN : DONE;
out:
    kl_batch_clear(&b);
    kl_free(&n);
    kl_free(&off);
    return st;
}

/* Blocks that are open become DONE by what the executor does alone; maybe not all. */
static kl_status by_roots(kl_gramcolumns *g, const kl_gramcolumns_at *at, char *stages, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr root = {0};
    char *near = NULL, *finished = NULL;
    KL_TRY(kl_alloc(&near, g->nblock, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&finished, g->nblock, KL_MEM_WORK, err));
    KL_TRY(g->ex->vt.alloc(g->ex, g->ngram, &root, err));
    KL_TRY(find_roots(g, at, stages, root, near, err));
    memset(g->sorted, 1, (size_t)g->nblock); /* what lies below a factor's diagonal is anything */
    KL_TRY(apply(g, at, near, root, err));
    memcpy(finished, near, (size_t)g->nblock);
    KL_TRY(polish(g, at, finished, err));
    for (int i = 0; i < g->nblock; i++)
        if (near[i] == OPEN) stages[i] = finished[i];
out:
    g->ex->vt.release(g->ex, &root);
    kl_free(&near);
    kl_free(&finished);
    return st;
}

static int count(int n, const char *stages, stage s)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += stages[i] == (char)s;
    return sum;
}

kl_status kl_gramcolumns_run(kl_gramcolumns *g, const kl_gramcolumns_at *at, const kl_gramcolumns_opts *o,
                             kl_err *err)
{
    kl_status st = KL_OK;
    char *stages = NULL, *before = NULL, *mixed = NULL;
    KL_TRY(kl_alloc(&mixed, g->nblock, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&stages, g->nblock, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&before, g->nblock, KL_MEM_WORK, err));
    for (int i = 0; i < g->nblock; i++) {
        const kl_column_block *const p = &at->block[i];
        stages[i] = p->at < 0 || p->width == 0 || (o->asked && !o->asked[i]) ? DONE : OPEN;
    }
    if (o->first == KL_FIRST_PRODUCTS && count(g->nblock, stages, OPEN) > 0)
        KL_TRY(polish(g, at, stages, err));
    if (o->first == KL_FIRST_ROOTS && count(g->nblock, stages, OPEN) > 0)
        KL_TRY(by_roots(g, at, stages, err));
    for (int pass = 0; pass < PASSES && count(g->nblock, stages, OPEN) > 0; pass++) {
        KL_TRY(make_gram(g, at, stages, g->gram, err));
        KL_TRY(g->ex->vt.download(g->ex, g->small, g->gram, g->ngram, err));
        memcpy(before, stages, (size_t)g->nblock);
        factoring f = {.g = g, .at = at, .o = o, .stages = stages, .mixed = mixed, .pass = pass};
        factor_all(&f);
        if (o->only_tri && count(g->nblock, stages, OPEN) == 0) break;
        KL_TRY(g->ex->vt.upload(g->ex, g->gram, g->small, g->ngram, err));
        KL_TRY(apply(g, at, before, g->gram, err));
    }
    if (count(g->nblock, stages, DEPENDENT) > 0) KL_TRY(replace(g, at, o, stages, err));
out:
    kl_free(&stages);
    kl_free(&before);
    kl_free(&mixed);
    return st;
}
