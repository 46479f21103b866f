/* Reflections applied by records: see reflect.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/reflect.h"
#include "base/mem.h"
#include "record/record.h"

enum { PANEL = 64 };

static int width_of(int n, int first) { return n - 1 - first < PANEL ? n - 1 - first : PANEL; }

/* V^T V of each panel, PANEL rows apart, those of a matrix one after the other. */
static kl_status overlaps(const kl_reflections *q, const int64_t *at, int64_t total, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int *const n = q->n;
    for (int i = 0; i < q->nmat; i++) {
        KL_TRY(kl_batch_open_group(b, at[i], (int64_t)PANEL * n[i], err));
        KL_TRY(kl_batch_reserve(b, n[i] / PANEL + 1, err));
        for (int first = 0; first < n[i] - 1; first += PANEL) {
            const int64_t v = q->off[i] + first + 1 + (int64_t)first * n[i];
            const int width = width_of(n[i], first);
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .ta = 1,
                                         .beta = 1,
                                         .at_a = KL_AT_X,
                                         .at_b = KL_AT_X,
                                         .at_c = KL_AT_Y,
                                         .m = width,
                                         .n = width,
                                         .k = n[i] - 1 - first,
                                         .lda = n[i],
                                         .ldb = n[i],
                                         .ldc = PANEL,
                                         .a = v,
                                         .b = v,
                                         .c = at[i] + (int64_t)PANEL * first,
                                         .alpha = 1};
        }
        kl_batch_close_group(b, 0);
    }
    b->zero = 1;
    b->nx = q->nv;
    b->ny = total;
out:
    return st;
}

/* The inverse of g's upper half with half of its diagonal, in place; zeros below. */
static void invert(int n, double *g)
{
    for (int c = 0; c < n; c++) {
        double *const t = g + (int64_t)c * PANEL;
        t[c] = t[c] > 0 ? 2 / t[c] : 1; /* 0: no reflection */
        for (int r = 0; r < c; r++) { /* of T U = 1: T stands to the left, U in this column from r on */
            double sum = 0;
            for (int k = r; k < c; k++) sum += g[r + (int64_t)k * PANEL] * t[k];
            t[r] = -t[c] * sum;
        }
        for (int r = c + 1; r < n; r++) t[r] = 0;
    }
}

/* factor[i]: where the T of matrix i begin. */
static kl_status applied(const kl_reflections *q, const int64_t *factor, const kl_reflected *z, kl_batch *b,
                         kl_err *err)
{
    kl_status st = KL_OK;
    const int *const n = q->n, *const count = z->count;
    for (int i = 0; i < q->nmat; i++) {
        const int64_t half = (int64_t)PANEL * count[i];
        KL_TRY(kl_batch_open_group(b, z->at[i], (int64_t)n[i] * count[i], err));
        KL_TRY(kl_batch_reserve(b, 3 * (n[i] / PANEL + 1), err));
        for (int first = n[i] > 1 ? (n[i] - 2) / PANEL * PANEL : -1; first >= 0 && count[i] > 0;
             first -= PANEL) {
            const int64_t v = q->off[i] + first + 1 + (int64_t)first * n[i], top = z->at[i] + first + 1;
            const int width = width_of(n[i], first), rows = n[i] - 1 - first;
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .ta = 1,
                                         .at_a = KL_AT_X,
                                         .at_b = KL_AT_Y,
                                         .at_c = KL_AT_WORK,
                                         .m = width,
                                         .n = count[i],
                                         .k = rows,
                                         .lda = n[i],
                                         .ldb = n[i],
                                         .ldc = PANEL,
                                         .a = v,
                                         .b = top,
                                         .alpha = 1};
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .at_a = KL_AT_LEFT,
                                         .at_b = KL_AT_WORK,
                                         .at_c = KL_AT_WORK,
                                         .m = width,
                                         .n = count[i],
                                         .k = width,
                                         .lda = PANEL,
                                         .ldb = PANEL,
                                         .ldc = PANEL,
                                         .a = factor[i] + (int64_t)PANEL * first,
                                         .c = half,
                                         .alpha = 1};
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .beta = 1,
                                         .at_a = KL_AT_X,
                                         .at_b = KL_AT_WORK,
                                         .at_c = KL_AT_Y,
                                         .m = rows,
                                         .n = count[i],
                                         .k = width,
                                         .lda = n[i],
                                         .ldb = PANEL,
                                         .ldc = n[i],
                                         .a = v,
                                         .b = half,
                                         .c = top,
                                         .alpha = -1};
        }
        kl_batch_close_group(b, 2 * half);
    }
    b->nx = q->nv;
    b->ny = z->ndata;
out:
    return st;
}

kl_status kl_reflect(kl_exec *ex, const kl_reflections *q, const kl_reflected *z, kl_err *err)
{
    kl_status st = KL_OK;
    const int nmat = q->nmat, *const n = q->n;
    int64_t *factor = NULL, total = 0;
    double *host = NULL;
    kl_dptr t = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&factor, nmat, KL_MEM_WORK, err));
    for (int i = 0; i < nmat; total += (int64_t)PANEL * n[i++]) factor[i] = total;
    if (total == 0) goto out;
    KL_TRY(kl_realloc(&host, total, KL_MEM_WORK, err));
    KL_TRY(ex->vt.alloc(ex, total, &t, err));
    KL_TRY(overlaps(q, factor, total, &b, err));
    KL_TRY(kl_batch_run(&b, ex, q->v, t, err));
    KL_TRY(ex->vt.download(ex, host, t, total, err));
    for (int i = 0; i < nmat; i++)
        for (int first = 0; first < n[i] - 1; first += PANEL)
            invert(width_of(n[i], first), host + factor[i] + (int64_t)PANEL * first);
    KL_TRY(ex->vt.upload(ex, t, host, total, err));
    kl_batch_clear(&b);
    kl_batch_init(&b);
    KL_TRY(applied(q, factor, z, &b, err));
    b.base[KL_AT_LEFT] = t;
    KL_TRY(kl_batch_run(&b, ex, q->v, z->data, err));
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &t);
    kl_free(&host);
    kl_free(&factor);
    return st;
}
