/* Triangles of Gram matrices: see gramfactor.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/gramfactor.h"
#include "base/clones.h"
#include "base/dense.h"
#include "base/gemm.h"
#include "base/par.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAF = 32,  /* rows that plain loops take */
    STAGES = 3, /* of Gram matrices: 1e-9 each */
};
#define STAGE 1e-9
#define SMALL 1e-3 /* of the norm of a column behind it */
#define NOISE 1e-22 /* of the largest value: what the vectors of one stage leave in the next */

/* The matrices of one factorization: all have leading dimension ld. */
typedef struct factor {
    kl_gemm_fn *gemm;
    int nthread;
    int ld;
    double *spare; /* as large as the matrix */
    kl_gram_found *found;
} factor;

/* a: the lower triangle becomes L of L L^T; m: its inverse, lower, zeros above. Columns behind a bad one
   leave it alone: it gets 1 on the diagonal, 0 below, and 1 in alone[n]. */
KL_CLONED static void leaf(int n, double *a, double *m, int ld, double *alone, kl_gram_found *found)
{
    for (int j = 0; j < n; j++) {
        double *const col = a + (int64_t)j * ld;
        const double d = col[j];
        alone[j] = !(d >= KL_GRAM_RESOLVED);
        if (!(d >= KL_GRAM_RESOLVED)) {
            found->nbad++;
            col[j] = 1;
            for (int i = j + 1; i < n; i++) col[i] = 0;
            continue;
        }
        if (d < found->least) found->least = d;
        const double root = sqrt(d), inverse = 1 / root;
        col[j] = root;
        for (int i = j + 1; i < n; i++) col[i] *= inverse;
        for (int k = j + 1; k < n; k++) {
            double *const to = a + (int64_t)k * ld;
            const double f = col[k];
            for (int i = k; i < n; i++) to[i] -= f * col[i];
        }
    }
    for (int j = 0; j < n; j++) {
        double *const x = m + (int64_t)j * ld;
        for (int i = 0; i < n; i++) x[i] = i == j;
        for (int k = j; k < n; k++) {
            const double *const col = a + (int64_t)k * ld;
            const double f = x[k] /= col[k];
            for (int i = k + 1; i < n; i++) x[i] -= f * col[i];
        }
    }
}

#define WORTH_THREADS 4e6 /* flops of a product */
enum { PANEL = 32 }; /* columns, or rows, that are made at a time: what is 0 beside them is left out */

/* What of a product is known to be 0, or not wanted. */
typedef enum shape {
    UPPER, /* of op(B) what is below its diagonal */
    LOWER, /* of op(B) what is above it */
    LEFT, /* of A what is above its diagonal */
    HALF, /* of C what is above its diagonal */
} shape;

/* C = alpha A op(B) + beta C; C is shared by threads, panel by panel. */
typedef struct product {
    const factor *f;
    shape shape;
    int tb, m, n, k;
    double alpha;
    const double *a, *b;
    int ldb;
    double beta, *c;
    int ldc;
} product;

static void panel_task(void *self, int64_t nth, int thread)
{
    const product *const x = self;
    const int from = (int)nth * PANEL, to = from + PANEL < x->n ? from + PANEL : x->n, n = to - from,
              lda = x->f->ld;
    /* rows of C and of op(B) that are made, or taken, from there on; and up to there */
    const int row = x->shape == HALF ? from : 0, low = x->shape == LOWER ? from : 0,
              high = x->shape == UPPER ? to : x->k;
    const double *const b = x->b + (x->tb ? from : low + (int64_t)from * x->ldb), *const a =
                                                                                      x->a + row +
                                                                                      (int64_t)low * lda;
    double *const c = x->c + row + (int64_t)from * x->ldc;
    (void)thread;
    if (x->shape != LEFT) {
        x->f->gemm(0, x->tb, x->m - row, n, high - low, x->alpha, a, lda, b, x->ldb, x->beta, c, x->ldc);
        return;
    }
    for (int i = 0; i < x->m; i += PANEL) {
        const int rows = x->m - i < PANEL ? x->m - i : PANEL;
        x->f->gemm(0, x->tb, rows, n, i + rows, x->alpha, a + i, lda, b, x->ldb, x->beta, c + i, x->ldc);
    }
}

/* The same bits on any number of threads: panels are the same. */
static void multiply(product x)
{
    const int npanel = (x.n + PANEL - 1) / PANEL;
    const int nthread = 1.0 * x.m * x.n * x.k >= WORTH_THREADS ? x.f->nthread : 1;
    kl_par_for(nthread, npanel, panel_task, &x);
}

/* Halves, so that nearly all is products. */
static void halve(const factor *f, int n, double *a, double *m, double *alone)
{
    const int ld = f->ld;
    if (n <= LEAF) {
        leaf(n, a, m, ld, alone, f->found);
        return;
    }
    const int h = (n / 2 + 7) / 8 * 8, rest = n - h;
    double *const below = a + h, *const corner = below + (int64_t)h * ld, *const mbelow = m + h;
    halve(f, h, a, m, alone);
    multiply((product){f, UPPER, 1, rest, h, h, 1.0, below, m, ld, 0.0, f->spare, rest});
    for (int j = 0; j < h; j++) {
        double *const to = below + (int64_t)j * ld;
        const double *const from = f->spare + (int64_t)j * rest;
        for (int i = 0; i < rest; i++) to[i] = alone[j] > 0 ? 0 : from[i];
    }
    multiply((product){f, HALF, 1, rest, rest, h, -1.0, below, below, ld, 1.0, corner, ld});
    double *const mcorner = mbelow + (int64_t)h * ld;
    halve(f, rest, corner, mcorner, alone + h);
    multiply((product){f, LOWER, 0, rest, h, h, -1.0, below, m, ld, 0.0, f->spare, rest});
    multiply((product){f, LEFT, 0, rest, h, rest, 1.0, mcorner, f->spare, rest, 0.0, mbelow, ld});
    for (int j = h; j < n; j++) memset(m + (int64_t)j * ld, 0, (size_t)h * sizeof *m);
}

/* What a factorization begins and ends with, column by column. */
typedef struct ends {
    int n, drop;
    double *g, *r;
    double *a, *m;
    const double *norm, *alone;
    const double *inverse; /* of norm, or 0 */
    const double *order; /* a and m have column order[j] as their jth */
    int sorted; /* 0: order[j] is j */
} ends;

/* Columns of norm 1: those of a wavefunction differ by all that a double holds. */
static void begin_task(void *self, int64_t j, int thread)
{
    const ends *const x = self;
    const int64_t n = x->n, col = (int64_t)x->order[j];
    (void)thread;
    double *const a = x->a + j * n;
    const double *const inverse = x->inverse, own = inverse[col];
    memset(a, 0, (size_t)j * sizeof *a);
    if (!x->sorted)
        for (int64_t i = j; i < n; i++) a[i] = x->g[i + j * n] * inverse[i] * own;
    for (int64_t i = j; i < n && x->sorted; i++) {
        const int64_t row = (int64_t)x->order[i];
        a[i] = (row >= col ? x->g[row + col * n] : x->g[col + row * n]) * inverse[row] * own;
    }
    if (!(own > 0)) a[j] = 1;
}

static void end_task(void *self, int64_t j, int thread)
{
    const ends *const x = self;
    const int64_t n = x->n, col = (int64_t)x->order[j];
    (void)thread;
    const int gone = !(x->inverse[col] > 0) || (x->drop && x->alone[j] > 0);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = x->sorted ? (int64_t)x->order[i] : i;
        x->g[row + col * n] = i > j || gone ? 0 : x->m[j + i * n] * x->inverse[row];
        if (x->r)
            x->r[row + col * n] = i > j || (x->drop && x->alone[i] > 0) ? 0 : x->a[j + i * n] * x->norm[col];
    }
}

typedef struct sized {
    double norm;
    int at;
} sized;

static int larger_first(const void *pa, const void *pb)
{
    const sized *const a = pa, *const b = pb;
    return a->norm != b->norm ? (a->norm < b->norm) - (a->norm > b->norm) : a->at - b->at;
}

/* In what order columns are taken: as they are, unless one is SMALL beside one behind it. A column that is
   nearly the sum of those before is told from them by large numbers that cancel; the larger columns behind it
   would be made of what rounding leaves of it. Returns 1 where they are sorted. */
static int find_order(int n, const double *norm, double *order, sized *list)
{
    double behind = 0;
    int sorted = 0;
    for (int j = n - 1; j >= 0; j--) {
        sorted |= norm[j] > 0 && norm[j] < SMALL * behind;
        behind = fmax(behind, norm[j]);
        order[j] = j;
    }
    if (!sorted) return 0;
    for (int j = 0; j < n; j++) list[j] = (sized){norm[j], j};
    qsort(list, (size_t)n, sizeof *list, larger_first);
    for (int j = 0; j < n; j++) order[j] = list[j].at;
    return 1;
}

void kl_gram_factor(int nthread, int n, double *g, double *r, int drop, double *work, kl_gram_found *found)
{
    double *const a = work, *const m = a + (int64_t)n * n, *const norm = m + (int64_t)n * n,
                  *const alone = norm + n, *const order = alone + n, *const inverse = order + n;
    ends x = {n, drop, g, r, a, m, norm, alone, inverse, order, 0};
    *found = (kl_gram_found){.least = 1};
    for (int j = 0; j < n; j++) {
        norm[j] = g[j + (int64_t)j * n] > 0 ? sqrt(g[j + (int64_t)j * n]) : 0;
        inverse[j] = norm[j] > 0 ? 1 / norm[j] : 0;
        found->ndead += norm[j] == 0;
    }
    x.sorted = found->sorted = find_order(n, norm, order, (sized *)a); /* two columns or more, then */
    kl_par_split(nthread, n, begin_task, &x);
    const factor f = {kl_gemm_choose(NULL), nthread, n, g, found};
    halve(&f, n, a, m, alone);
    kl_par_split(nthread, n, end_task, &x);
}

kl_status kl_gram_graded(int n, const double *r, double *w, double *z, double *work, kl_err *err)
{
    kl_status st = KL_OK;
    kl_gemm_fn *const gemm = kl_gemm_choose(NULL);
    double most = 0;
    double *const b = work, *const g = b + (int64_t)n * n, *const turned = g + (int64_t)n * n;
    if (n == 0) return KL_OK;
    gemm(1, 0, n, n, n, 1.0, r, n, r, n, 0.0, z, n);
    KL_TRY(kl_dense_eig(n, z, n, w, err));
    most = w[n - 1];
    for (int stage = 1, count = n; stage < STAGES; stage++) {
        const double least = STAGE * w[count - 1];
        int small = 0;
        while (small < count && w[small] < least) small++;
        if (small == 0) break;
        count = small;
        gemm(0, 0, n, count, n, 1.0, r, n, z, n, 0.0, b, n);
        gemm(1, 0, count, count, n, 1.0, b, n, b, n, 0.0, g, count);
        KL_TRY(kl_dense_eig(count, g, count, w, err));
        gemm(0, 0, n, count, count, 1.0, z, n, g, count, 0.0, turned, n);
        memcpy(z, turned, (size_t)n * (size_t)count * sizeof *z);
    }
    for (int i = 0; i < n; i++) w[i] = w[i] > NOISE * most ? w[i] : 0;
out:
    return st;
}
