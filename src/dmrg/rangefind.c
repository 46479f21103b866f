/* Leading singular vectors by products: see rangefind.h. All work with long columns is lists of products that
   any executor runs, and gramcolumns.h.
     1. T = A O of the warm columns O; random rows G; E = A^T G - O (T^T G) is what A has outside of O
     2. Q = orthonormal [T, A E]
     3. passes: P = orthonormal A^T Q, Q = orthonormal A P
     4. B^T = A^T Q
   Only the last Q has to be orthonormal to rounding; the others take one pass of Cholesky QR, unless they
   began at random.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/rangefind.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"
#include "dmrg/dualcolumns.h"
#include "record/record.h"
#include <string.h>

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

/* Q and B^T are made of it. */
static int is_found(const kl_range_part *p) { return p->mode != KL_RANGE_DUAL; }

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

/* A list on the wavefunctions, if it has anything, into y[ny]. */
static kl_status run_on_psi(const kl_range *r, kl_batch *b, int64_t ny, kl_dptr y, kl_err *err)
{
    b->nx = r->npsi * r->nstate;
    b->ny = ny;
    return b->ngroup > 0 ? kl_batch_run(b, r->ex, r->psi, y, err) : KL_OK;
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
        if (!is_found(p) || p->mode == KL_RANGE_ROWS || (p->mode != KL_RANGE_TRIED && !all)) continue;
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

/* tri: NULL, or where the triangles go; the columns themselves are then not finished. The last Q has no zero
   columns: an eigenproblem mixes states of weights near rounding with those of weight 0, and they would lose
   that part of their norm. */
static kl_status orthonormalize(kl_range *r, which w, whose o, double *tri, kl_err *err)
{
    kl_status st = KL_OK;
    char *asked = NULL, *once = NULL;
    KL_TRY(kl_alloc(&asked, r->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&once, r->npart, KL_MEM_WORK, err));
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        r->block[i].rows = height(r, p, w);
        r->block[i].at = place(p, w);
        asked[i] = (char)is_asked(p, w, o);
        once[i] = o == OF_TRIED && p->nwarm > 0;
    }
    const kl_gramcolumns_at at = {r->block, array(r, w), &r->spare, length(r, w)};
    const int last = w == TALL && o == OF_ALL;
    const kl_gramcolumns_opts opts = {.asked = asked,
                                      .once = once,
                                      .dependent = last ? KL_DEPENDENT_REPLACED : KL_DEPENDENT_ZERO,
                                      .tri = tri,
                                      .only_tri = tri != NULL};
    KL_TRY(kl_gramcolumns_run(&r->columns, &at, &opts, err));
out:
    kl_free(&asked);
    kl_free(&once);
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
    b.base[KL_AT_LEFT] = r->warm;
    KL_TRY(run_on_psi(r, &b, r->nq, r->q, err));
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
    b.base[KL_AT_LEFT] = r->q;
    b.base[KL_AT_RIGHT] = guess;
    b.base[KL_AT_LEFT_PACK] = r->warm;
    KL_TRY(run_on_psi(r, &b, r->nbt, r->bt, err));
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
        if (!is_found(p) || p->mode == KL_RANGE_ROWS || count == 0) continue;
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
    b.base[KL_AT_LEFT] = r->bt;
    KL_TRY(run_on_psi(r, &b, r->nq, r->q, err));
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
    KL_TRY(run_on_psi(r, &b, r->nbt, r->bt, err));
out:
    kl_batch_clear(&b);
    return st;
}

/* Memory for everything, and where the parts have theirs in it; *rows, *count: shape of the random
   numbers. */
static kl_status lay_out(kl_range *r, int *rows, int *count, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t ndual = 0, nz = 0;
    KL_TRY(kl_alloc(&r->block, r->npart, KL_MEM_WORK, err));
    for (int i = 0; i < r->npart; i++) {
        kl_range_part *const p = &r->part[i];
        r->block[i].width = p->width;
        if (!is_found(p)) {
            p->q = p->bt = -1;
            ndual += (int64_t)p->rows * p->width;
            nz += (int64_t)p->width * p->width;
            continue;
        }
        p->q = p->mode == KL_RANGE_ROWS ? -1 : r->nq;
        p->bt = r->nbt;
        if (p->mode != KL_RANGE_ROWS) r->nq += (int64_t)p->rows * p->width;
        r->nbt += (int64_t)r->nstate * p->cols * p->width;
        if (p->mode != KL_RANGE_TRIED) continue;
        if (p->rows > *rows) *rows = p->rows;
        if (p->width - p->nwarm > *count) *count = p->width - p->nwarm;
    }
    r->nspare = r->nq + ndual > r->nbt ? r->nq + ndual : r->nbt;
    if (r->nspare < nz) r->nspare = nz;
    KL_TRY(kl_gramcolumns_open(r->ex, r->npart, r->block, &r->columns, err));
    for (int i = 0; i < r->npart; i++) r->part[i].gram = r->block[i].gram;
    r->ngram = r->columns.ngram;
    KL_TRY(r->ex->vt.alloc(r->ex, r->nspare, &r->q, err)); /* any of the three may take another's place */
    KL_TRY(r->ex->vt.alloc(r->ex, r->nspare, &r->bt, err));
    KL_TRY(r->ex->vt.alloc(r->ex, r->nspare, &r->spare, err));
out:
    return st;
}

kl_status kl_range_find(kl_range *r, kl_err *err)
{
    kl_status st = KL_OK;
    int rows = 0, count = 0;
    const double start = kl_prof_seconds();
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
    kl_prof_add(KL_PROF_COLUMNS, start);
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
        if (!is_found(p)) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)n * n,
                                   kl_gram_rec(high, n, p->bt, 1.0 / divisor, off[sec[i]]), err));
    }
    b.nx = r->nbt;
    b.ny = nto;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, r->ex, r->bt, to, err));
    KL_TRY(kl_dual_gram(r, divisor, off, sec, nto, to, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_range_triangle(kl_range *r, double *tri, kl_err *err)
{
    kl_gramcolumns_unit(&r->columns, r->block, tri);
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
        if (kl_batch_written(&b) < all) r->ex->vt.fill(r->ex, all, 0.0, rest);
        KL_TRY(kl_batch_run(&b, r->ex, r->psi, rest, err));
        r->ex->vt.dots(r->ex, all, 1, rest, all, rest, sum);
    }
out:
    kl_batch_clear(&b);
    r->ex->vt.release(r->ex, &rest);
    return st;
}

kl_status kl_range_columns(kl_range *r, const kl_range_view *t, kl_dptr z, int64_t nz, int64_t ndata,
                           kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < r->npart; i++) {
        const kl_range_part *const p = &r->part[i];
        const int n = t->count[i];
        if (!is_found(p) || n == 0) continue;
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
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->rows * n, rec, err));
    }
    b.nx = nz;
    b.ny = ndata;
    b.base[KL_AT_LEFT] = r->q;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, r->ex, z, data, err));
    KL_TRY(kl_dual_columns(r, t, z, nz, ndata, data, err));
out:
    kl_batch_clear(&b);
    return st;
}

void kl_range_clear(kl_range *r)
{
    r->ex->vt.release(r->ex, &r->q);
    r->ex->vt.release(r->ex, &r->bt);
    r->ex->vt.release(r->ex, &r->spare);
    kl_gramcolumns_close(&r->columns);
    kl_free(&r->block);
}
