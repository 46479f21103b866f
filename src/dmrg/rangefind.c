/* Leading singular vectors by products: see rangefind.h. All work with long columns is lists of products that
   any executor runs; Gram matrices of width x width visit the host, whose threads take a sector each.
     1. T = A O of the warm columns O; random rows G; E = A^T G - O (T^T G) is what A has outside of O
     2. Q = orthonormal [T, A E]
     3. passes: P = orthonormal A^T Q, Q = orthonormal A P
     4. B^T = A^T Q
   Only the last Q has to be orthonormal to rounding; the others take one pass of Cholesky QR, unless they
   began at random.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/rangefind.h"
#include "base/gemm.h"
#include "base/gramfactor.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/random.h"
#include "record/record.h"
#include <string.h>

enum {
    PANEL =
        64, /* columns of a triangle that are made at a time: what lies on the other side of it is left out */
    PASSES = 5, /* of Cholesky QR at most */
};

/* The two kinds of columns. */
typedef enum which {
    TALL, /* Q: rows numbers each */
    WIDE, /* P and B^T: nstate cols */
} which;

static int height(const kl_range *r, const kl_range_part *p, which w)
{
    return w == TALL ? p->rows : r->nstate * p->cols;
}

static int64_t place(const kl_range_part *p, which w) { return w == TALL ? p->q : p->bt; }

static kl_dptr *array(kl_range *r, which w) { return w == TALL ? &r->q : &r->bt; }

static int64_t length(const kl_range *r, which w) { return w == TALL ? r->nq : r->nbt; }

/* An m x n matrix at c of y from one at a of x, or from the transpose of that. */
static kl_rec copy(int transposed, int m, int n, int lda, int ldc, int64_t a, int64_t c)
{
    return (kl_rec){.kind = KL_REC_ADD,
                    .ta = (uint8_t)transposed,
                    .at_a = KL_AT_X,
                    .at_c = KL_AT_Y,
                    .m = m,
                    .n = n,
                    .lda = lda,
                    .ldc = ldc,
                    .a = a,
                    .c = c,
                    .alpha = 1};
}

/* C = A V for `count` columns of V, or C = A^T V: the records of one part, one of them for each wavefunction.
 */
typedef struct times {
    int back; /* 1: A^T */
    int count;
    kl_at at_v;
    int64_t v, c;
    int ldv, ldc;
} times;

static void push_times(const kl_range *r, const kl_range_part *p, const times *t, kl_batch *b)
{
    const int lda = r->transposed ? p->cols : p->rows;
    for (int s = 0; s < r->nstate; s++)
        *kl_batch_push(b) = (kl_rec){
            .kind = KL_REC_GEMM,
            .ta = (uint8_t)(r->transposed != t->back),
            .beta = !t->back && s > 0,
            .at_a = KL_AT_X,
            .at_b = (uint8_t)t->at_v,
            .at_c = KL_AT_Y,
            .m = t->back ? p->cols : p->rows,
            .n = t->count,
            .k = t->back ? p->rows : p->cols,
            .lda = lda,
            .ldb = t->ldv,
            .ldc = t->ldc,
            .a = s * r->npsi + p->psi,
            .b = t->v + (t->back ? 0 : (int64_t)s * p->cols),
            .c = t->c + (t->back ? (int64_t)s * p->cols : 0),
            .alpha = 1,
        };
}

/* The whole of one kind from the whole of the other. Parts of other modes stay as they are, unless `all`. */
static kl_status multiply(kl_range *r, which to, int all, kl_err *err)
{
    kl_status st = KL_OK;
    const which from = to == TALL ? WIDE : TALL;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int ldc = height(r, p, to);
        if (p->mode == KL_RANGE_ROWS || (p->mode != KL_RANGE_TRIED && !all)) continue;
        KL_TRY(kl_batch_open_group(&b, place(p, to), (int64_t)ldc * p->width, err));
        KL_TRY(kl_batch_reserve(&b, r->nstate, err));
        push_times(r, p,
                   &(times){.back = to == WIDE,
                            .count = p->width,
                            .at_v = KL_AT_LEFT,
                            .v = place(p, from),
                            .c = place(p, to),
                            .ldv = height(r, p, from),
                            .ldc = ldc},
                   &b);
        kl_batch_close_group(&b, 0);
    }
    b.nx = r->npsi * r->nstate;
    b.ny = length(r, to);
    b.base[KL_AT_LEFT] = *array(r, from);
    KL_TRY(kl_batch_run(&b, r->ex, r->psi, *array(r, to), err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Lower triangles of the Gram matrices of parts that are not done. */
static kl_status make_gram(kl_range *r, which w, const char *done, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int n = p->width, high = height(r, p, w), step = PANEL;
        if (done[i]) continue;
        KL_TRY(kl_batch_open_group(&b, p->gram, (int64_t)n * n, err));
        KL_TRY(kl_batch_reserve(&b, n / step + 1, err));
        for (int j = 0; j < n; j += step)
            *kl_batch_push(&b) = (kl_rec){
                .kind = KL_REC_GEMM,
                .ta = 1,
                .at_a = KL_AT_X,
                .at_b = KL_AT_X,
                .at_c = KL_AT_Y,
                .m = n - j,
                .n = n - j < step ? n - j : step,
                .k = high,
                .lda = high,
                .ldb = high,
                .ldc = n,
                .a = place(p, w) + (int64_t)j * high,
                .b = place(p, w) + (int64_t)j * high,
                .c = p->gram + j + (int64_t)j * n,
                .alpha = 1,
            };
        kl_batch_close_group(&b, 0);
    }
    b.zero = 1;
    b.nx = length(r, w);
    b.ny = r->ngram;
    KL_TRY(kl_batch_run(&b, r->ex, *array(r, w), r->gram, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Columns times the triangles in gram, into the spare array, which replaces them; of parts that are done
 * as they are. */
static kl_status apply_triangles(kl_range *r, which w, const char *done, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int n = p->width, high = height(r, p, w);
        const int64_t at = place(p, w);
        if (at < 0) continue;
        KL_TRY(kl_batch_open_group(&b, at, (int64_t)high * n, err));
        KL_TRY(kl_batch_reserve(&b, n / PANEL + 1, err));
        if (done[i]) *kl_batch_push(&b) = copy(0, high, n, high, high, at, at);
        for (int j = 0; j < n && !done[i]; j += PANEL) {
            const int wide = n - j < PANEL ? n - j : PANEL;
            *kl_batch_push(&b) = (kl_rec){
                .kind = KL_REC_GEMM,
                .at_a = KL_AT_X,
                .at_b = KL_AT_LEFT,
                .at_c = KL_AT_Y,
                .m = high,
                .n = wide,
                .k = j + wide,
                .lda = high,
                .ldb = n,
                .ldc = high,
                .a = at,
                .b = p->gram + (int64_t)j * n,
                .c = at + (int64_t)j * high,
                .alpha = 1,
            };
        }
        kl_batch_close_group(&b, 0);
    }
    b.nx = length(r, w);
    b.ny = r->nspare;
    b.base[KL_AT_LEFT] = r->gram;
    KL_TRY(kl_batch_run(&b, r->ex, *array(r, w), r->spare, err));
    const kl_dptr was = *array(r, w);
    *array(r, w) = r->spare;
    r->spare = was;
out:
    kl_batch_clear(&b);
    return st;
}

typedef struct factoring {
    const kl_range *r;
    char *done; /* [npart] in: not asked; out: orthonormal after this pass */
    int last;
    double *tri; /* NULL, or the triangles so far */
    const int *order; /* [npart] widest first */
    int first; /* task 0 is this one in the order */
    int nthread; /* inside of one part */
} factoring;

static void factor_task(void *self, int64_t task, int thread)
{
    const factoring *const f = self;
    const kl_range *const r = f->r;
    const int i = f->order[task];
    const kl_range_part *const p = &r->part[i];
    const int n = p->width;
    double *const work = r->work + thread * r->nwork, *const step = work + 2 * (int64_t)n * n + 2 * n;
    kl_gram_found found;
    if (f->done[i]) return;
    kl_gram_factor(n, r->small + p->gram, f->tri ? step : NULL, f->last, work, &found);
    if (f->tri) {
        double *const tri = f->tri + p->gram;
        kl_gemm_choose(NULL)(0, 0, n, n, n, 1.0, step, n, tri, n, 0.0, work, n);
        memcpy(tri, work, (size_t)n * (size_t)n * sizeof *tri);
    }
    f->done[i] = found.nbad == 0 && found.least >= KL_GRAM_DONE;
}

/* Whose columns are made orthonormal. */
typedef enum whose {
    OF_ALL, /* to rounding */
    OF_TRIED, /* by one pass; to rounding where no column was warm, for all their columns lean to the same few
               */
    OF_COLD, /* of those that have no warm columns, to rounding */
} whose;

static int is_asked(const kl_range_part *p, which w, whose o)
{
    if (place(p, w) < 0) return 0;
    return o == OF_ALL || (p->mode == KL_RANGE_TRIED && (o == OF_TRIED || p->nwarm == 0));
}

/* tri: NULL, or where the triangles go; the columns themselves are then not finished. */
static kl_status orthonormalize(kl_range *r, which w, whose o, double *tri, kl_err *err)
{
    kl_status st = KL_OK;
    char *done = NULL, *skip = NULL;
    KL_TRY(kl_alloc(&done, r->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&skip, r->npart, KL_MEM_WORK, err));
    int left = 0;
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        skip[i] = !is_asked(p, w, o);
        left += !skip[i];
    }
    for (int pass = 0; pass < PASSES && left > 0; pass++) {
        KL_TRY(make_gram(r, w, skip, err));
        KL_TRY(r->ex->vt.download(r->ex, r->small, r->gram, r->ngram, err));
        memcpy(done, skip, (size_t)r->npart);
        factoring f = {.r = r, .done = done, .last = pass == PASSES - 1, .tri = tri, .order = r->order};
        kl_par_for(r->ex->nthread, r->npart, factor_task, &f);
        left = 0;
        for (int i = 0; i < r->npart; i++) {
            const kl_range_part *const p = &r->part[i];
            done[i] |= o == OF_TRIED && p->nwarm > 0;
            left += !done[i];
        }
        if (tri && left == 0) break;
        KL_TRY(r->ex->vt.upload(r->ex, r->gram, r->small, r->ngram, err));
        KL_TRY(apply_triangles(r, w, skip, err));
        memcpy(skip, done, (size_t)r->npart);
    }
out:
    kl_free(&done);
    kl_free(&skip);
    return st;
}

/* 1. first half: T = A O into the first columns of Q. */
static kl_status warm_products(kl_range *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        if (p->mode != KL_RANGE_TRIED || p->nwarm == 0) continue;
        KL_TRY(kl_batch_open_group(&b, p->q, (int64_t)p->rows * p->nwarm, err));
        KL_TRY(kl_batch_reserve(&b, r->nstate, err));
        push_times(r, p,
                   &(times){.count = p->nwarm,
                            .at_v = KL_AT_LEFT,
                            .v = p->warm,
                            .c = p->q,
                            .ldv = p->cols,
                            .ldc = p->rows},
                   &b);
        kl_batch_close_group(&b, 0);
    }
    if (b.ngroup == 0) goto out;
    b.nx = r->npsi * r->nstate;
    b.ny = r->nq;
    b.base[KL_AT_LEFT] = r->warm;
    KL_TRY(kl_batch_run(&b, r->ex, r->psi, r->q, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* 1. second half: E into the columns of B^T behind the warm ones. guess: random numbers, ld rows. */
static kl_status sample(kl_range *r, kl_dptr guess, int ld, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int high = r->nstate * p->cols, count = p->width - p->nwarm;
        const int64_t to = p->bt + (int64_t)p->nwarm * high;
        if (p->mode != KL_RANGE_TRIED || count == 0) continue;
        KL_TRY(kl_batch_open_group(&b, to, (int64_t)count * high, err));
        KL_TRY(kl_batch_reserve(&b, r->nstate + 2, err));
        push_times(r, p,
                   &(times){.back = 1, .count = count, .at_v = KL_AT_RIGHT, .c = to, .ldv = ld, .ldc = high},
                   &b);
        if (p->nwarm > 0) {
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .ta = 1,
                                          .at_a = KL_AT_LEFT,
                                          .at_b = KL_AT_RIGHT,
                                          .at_c = KL_AT_WORK,
                                          .m = p->nwarm,
                                          .n = count,
                                          .k = p->rows,
                                          .lda = p->rows,
                                          .ldb = ld,
                                          .ldc = p->nwarm,
                                          .a = p->q,
                                          .alpha = 1};
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .beta = 1,
                                          .at_a = KL_AT_LEFT_PACK,
                                          .at_b = KL_AT_WORK,
                                          .at_c = KL_AT_Y,
                                          .m = high,
                                          .n = count,
                                          .k = p->nwarm,
                                          .lda = high,
                                          .ldb = p->nwarm,
                                          .ldc = high,
                                          .a = p->warm,
                                          .c = to,
                                          .alpha = -1};
        }
        kl_batch_close_group(&b, (int64_t)p->nwarm * count);
    }
    if (b.ngroup == 0) goto out;
    b.nx = r->npsi * r->nstate;
    b.ny = r->nbt;
    b.base[KL_AT_LEFT] = r->q;
    b.base[KL_AT_RIGHT] = guess;
    b.base[KL_AT_LEFT_PACK] = r->warm;
    KL_TRY(kl_batch_run(&b, r->ex, r->psi, r->bt, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* 2. A E behind T; and where all columns are taken, A itself. */
static kl_status sampled_products(kl_range *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int high = r->nstate * p->cols, count = p->width - p->nwarm;
        if (p->mode == KL_RANGE_ROWS || count == 0) continue;
        const int64_t to = p->q + (int64_t)p->nwarm * p->rows;
        KL_TRY(kl_batch_open_group(&b, to, (int64_t)count * p->rows, err));
        KL_TRY(kl_batch_reserve(&b, r->nstate, err));
        if (p->mode == KL_RANGE_TRIED)
            push_times(r, p,
                       &(times){.count = count,
                                .at_v = KL_AT_LEFT,
                                .v = p->bt + (int64_t)p->nwarm * high,
                                .c = to,
                                .ldv = high,
                                .ldc = p->rows},
                       &b);
        for (int s = 0; s < r->nstate && p->mode == KL_RANGE_COLUMNS; s++)
            *kl_batch_push(&b) = copy(r->transposed, p->rows, p->cols, r->transposed ? p->cols : p->rows,
                                      p->rows, s * r->npsi + p->psi, to + (int64_t)s * p->cols * p->rows);
        kl_batch_close_group(&b, 0);
    }
    if (b.ngroup == 0) goto out;
    b.nx = r->npsi * r->nstate;
    b.ny = r->nq;
    b.base[KL_AT_LEFT] = r->bt;
    KL_TRY(kl_batch_run(&b, r->ex, r->psi, r->q, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* A^T itself is B^T where Q is the identity. */
static kl_status copy_rows(kl_range *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int high = r->nstate * p->cols;
        if (p->mode != KL_RANGE_ROWS) continue;
        KL_TRY(kl_batch_open_group(&b, p->bt, (int64_t)high * p->rows, err));
        KL_TRY(kl_batch_reserve(&b, r->nstate, err));
        for (int s = 0; s < r->nstate; s++)
            *kl_batch_push(&b) = copy(!r->transposed, p->cols, p->rows, r->transposed ? p->cols : p->rows,
                                      high, s * r->npsi + p->psi, p->bt + (int64_t)s * p->cols);
        kl_batch_close_group(&b, 0);
    }
    if (b.ngroup == 0) goto out;
    b.nx = r->npsi * r->nstate;
    b.ny = r->nbt;
    KL_TRY(kl_batch_run(&b, r->ex, r->psi, r->bt, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Room for everything, and where the parts have theirs; *rows, *count: shape of the random numbers. */
static kl_status lay_out(kl_range *r, int *rows, int *count, kl_err *err)
{
    kl_status st = KL_OK;
    int widest = 0;
    for (int i = 0; i < r->npart; i++) {
        kl_range_part *const p = &r->part[i];
        p->q = p->mode == KL_RANGE_ROWS ? -1 : r->nq;
        p->bt = r->nbt;
        p->gram = r->ngram;
        if (p->mode != KL_RANGE_ROWS) r->nq += (int64_t)p->rows * p->width;
        r->nbt += (int64_t)r->nstate * p->cols * p->width;
        r->ngram += (int64_t)p->width * p->width;
        if (p->width > widest) widest = p->width;
        if (p->mode != KL_RANGE_TRIED) continue;
        if (p->rows > *rows) *rows = p->rows;
        if (p->width - p->nwarm > *count) *count = p->width - p->nwarm;
    }
    r->nspare = r->nq > r->nbt ? r->nq : r->nbt;
    r->nwork = 3 * (int64_t)widest * widest + 2 * widest;
    KL_TRY(kl_alloc(&r->order, r->npart, KL_MEM_WORK, err));
    for (int i = 0; i < r->npart; i++) { /* widest first, equal ones as they come */
        int at = i;
        for (; at > 0 && r->part[r->order[at - 1]].width < r->part[i].width; at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = i;
    }
    KL_TRY(kl_realloc(&r->small, r->ngram, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&r->work, r->nwork * r->ex->nthread, KL_MEM_WORK, err));
    KL_TRY(r->ex->vt.alloc(r->ex, r->nspare, &r->q, err)); /* any of the three may replace another */
    KL_TRY(r->ex->vt.alloc(r->ex, r->nspare, &r->bt, err));
    KL_TRY(r->ex->vt.alloc(r->ex, r->nspare, &r->spare, err));
    KL_TRY(r->ex->vt.alloc(r->ex, r->ngram, &r->gram, err));
out:
    return st;
}

kl_status kl_range_find(kl_range *r, kl_err *err)
{
    kl_status st = KL_OK;
    int rows = 0, count = 0;
    double *host = NULL;
    kl_dptr guess = {0};
    uint64_t seed = 20; /* equal sectors are sampled alike, so that mirror images keep equally many states */
    KL_TRY(lay_out(r, &rows, &count, err));
    KL_TRY(warm_products(r, err));
    if (count > 0) {
        KL_TRY(kl_realloc(&host, (int64_t)rows * count, KL_MEM_WORK, err));
        for (int64_t i = 0; i < (int64_t)rows * count; i++) host[i] = kl_random_uniform(&seed);
        KL_TRY(kl_exec_copy_in(r->ex, host, (int64_t)rows * count, &guess, err));
        KL_TRY(sample(r, guess, rows, err));
    }
    KL_TRY(orthonormalize(r, WIDE, OF_COLD, NULL, err));
    KL_TRY(sampled_products(r, err));
    for (int pass = 0; pass < r->more; pass++) {
        KL_TRY(orthonormalize(r, TALL, OF_TRIED, NULL, err));
        KL_TRY(multiply(r, WIDE, 0, err));
        KL_TRY(orthonormalize(r, WIDE, OF_TRIED, NULL, err));
        KL_TRY(multiply(r, TALL, 0, err));
    }
    KL_TRY(orthonormalize(r, TALL, OF_ALL, NULL, err));
    KL_TRY(multiply(r, WIDE, 1, err));
    KL_TRY(copy_rows(r, err));
out:
    kl_free(&host);
    r->ex->vt.release(r->ex, &guess);
    return st;
}

kl_status kl_range_gram(kl_range *r, int divisor, const int64_t *off, const int *sec, int64_t nto, kl_dptr to,
                        kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int n = p->width, high = height(r, p, WIDE);
        KL_TRY(kl_batch_open_group(&b, off[sec[i]], (int64_t)n * n, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                      .ta = 1,
                                      .at_a = KL_AT_X,
                                      .at_b = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = n,
                                      .n = n,
                                      .k = high,
                                      .lda = high,
                                      .ldb = high,
                                      .ldc = n,
                                      .a = p->bt,
                                      .b = p->bt,
                                      .c = off[sec[i]],
                                      .alpha = 1.0 / divisor};
        kl_batch_close_group(&b, 0);
    }
    b.nx = r->nbt;
    b.ny = nto;
    KL_TRY(kl_batch_run(&b, r->ex, r->bt, to, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_range_triangle(kl_range *r, double *tri, kl_err *err)
{
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        double *const t = tri + p->gram;
        memset(t, 0, (size_t)p->width * (size_t)p->width * sizeof *t);
        for (int j = 0; j < p->width; j++) t[(int64_t)j * (p->width + 1)] = 1;
    }
    return orthonormalize(r, WIDE, OF_ALL, tri, err);
}

kl_status kl_range_lost(kl_range *r, double *sum, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t all = r->npsi * r->nstate;
    kl_dptr rest = {0};
    kl_batch b;
    kl_batch_init(&b);
    *sum = 0;
    KL_TRY(r->ex->vt.alloc(r->ex, all, &rest, err));
    r->ex->vt.fill(r->ex, all, 0.0, rest);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int high = r->nstate * p->cols, m = r->transposed ? p->cols : p->rows;
        const int n = r->transposed ? p->rows : p->cols;
        if (p->mode != KL_RANGE_TRIED) continue;
        for (int s = 0; s < r->nstate; s++) {
            const int64_t at = s * r->npsi + p->psi, bt = p->bt + (int64_t)s * p->cols;
            KL_TRY(kl_batch_open_group(&b, at, (int64_t)m * n, err));
            KL_TRY(kl_batch_reserve(&b, 2, err));
            *kl_batch_push(&b) = copy(0, m, n, m, m, at, at);
            *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                          .tb = 1,
                                          .beta = 1,
                                          .at_a = (uint8_t)(r->transposed ? KL_AT_RIGHT : KL_AT_LEFT),
                                          .at_b = (uint8_t)(r->transposed ? KL_AT_LEFT : KL_AT_RIGHT),
                                          .at_c = KL_AT_Y,
                                          .m = m,
                                          .n = n,
                                          .k = p->width,
                                          .lda = r->transposed ? high : p->rows,
                                          .ldb = r->transposed ? p->rows : high,
                                          .ldc = m,
                                          .a = r->transposed ? bt : p->q,
                                          .b = r->transposed ? p->q : bt,
                                          .c = at,
                                          .alpha = -1};
            kl_batch_close_group(&b, 0);
        }
    }
    b.nx = b.ny = all;
    b.base[KL_AT_LEFT] = r->q;
    b.base[KL_AT_RIGHT] = r->bt;
    if (b.ngroup > 0) {
        KL_TRY(kl_batch_run(&b, r->ex, r->psi, rest, err));
        r->ex->vt.dots(r->ex, all, 1, rest, all, rest, sum);
    }
out:
    kl_batch_clear(&b);
    r->ex->vt.release(r->ex, &rest);
    return st;
}

kl_status kl_range_columns(const kl_range *r, const kl_range_view *t, kl_dptr z, int64_t nz, int64_t ndata,
                           kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int n = t->count[i];
        if (n == 0) continue;
        KL_TRY(kl_batch_open_group(&b, t->off[i], (int64_t)p->rows * n, err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        kl_rec rec = {.kind = KL_REC_GEMM,
                      .at_a = KL_AT_LEFT,
                      .at_b = KL_AT_X,
                      .at_c = KL_AT_Y,
                      .m = p->rows,
                      .n = n,
                      .k = p->width,
                      .lda = p->rows,
                      .ldb = p->width,
                      .ldc = p->rows,
                      .a = p->q,
                      .b = t->zoff[i],
                      .c = t->off[i],
                      .alpha = 1};
        if (p->mode == KL_RANGE_ROWS) {
            rec.kind = KL_REC_ADD;
            rec.at_a = KL_AT_X;
            rec.a = rec.b;
        }
        *kl_batch_push(&b) = rec;
        kl_batch_close_group(&b, 0);
    }
    b.nx = nz;
    b.ny = ndata;
    b.base[KL_AT_LEFT] = r->q;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, r->ex, z, data, err));
out:
    kl_batch_clear(&b);
    return st;
}

void kl_range_clear(kl_range *r)
{
    r->ex->vt.release(r->ex, &r->q);
    r->ex->vt.release(r->ex, &r->bt);
    r->ex->vt.release(r->ex, &r->spare);
    r->ex->vt.release(r->ex, &r->gram);
    kl_free(&r->small);
    kl_free(&r->work);
    kl_free(&r->order);
}
