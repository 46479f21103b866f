/* Classical Gram-Schmidt, repeated when the norm falls by more than sqrt(2) (Daniel, Gragg, Kaufman,
   Stewart): "twice is enough", and once usually too. The norm after a pass comes from the one before and the
   coefficients, so a pass is one reading for the products and one for the update; an update that another pass
   follows takes that one's products along.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/ortho.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/prof.h"
#include "base/random.h"

#include <math.h>

enum {
    MAX_PASS = 5,
    MAX_TRY = 8,
    UPLOAD = 1 << 20,
    TOGETHER = 1 << 15, /* random numbers a thread makes at a time */
};

/* what is left of a dependent vector is smaller, but for noise that may stay */
static const double ROUNDING = 2e-15;

/* c[j] = V_j . column, and its product with itself in c[k]; column is the k-th. */
static kl_status dots(const kl_ortho *o, int k, double *c, kl_err *err)
{
    const kl_columns *const v = &o->c;
    const kl_dptr column = kl_ortho_at(o, k);
    if (k < v->ndev) {
        v->ex->vt.dots(v->ex, v->n, k + 1, v->dev, v->ld, column, c);
        return KL_OK;
    }
    v->ex->vt.dots(v->ex, v->n, 1, column, v->ld, column, &c[k]);
    return kl_columns_dots(v, k, column, c, err);
}

/* column = sum_j c[j] V_j + b column, and what the next pass begins with: its products with V and with
   itself, in c[k+1]. */
static kl_status update_and_dots(const kl_ortho *o, int k, double *c, double b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_columns *const v = &o->c;
    const kl_dptr column = kl_ortho_at(o, k);
    if (v->ex->vt.fuse == NULL || k >= KL_FUSE_MOST || k >= v->ndev) {
        KL_TRY(kl_columns_combine(v, k, c, b, column, err));
        KL_TRY(dots(o, k, c, err));
        goto out;
    }
    kl_dptr in[KL_FUSE_MOST];
    int pair[KL_FUSE_MOST][2];
    for (int j = 0; j <= k; j++) {
        in[j] = kl_ortho_at(o, j);
        pair[j][0] = j < k ? j : k + 1;
        pair[j][1] = k + 1;
    }
    c[k] = b;
    v->ex->vt.fuse(v->ex, v->n,
                   &(kl_fuse){.nin = k + 1,
                              .nout = 1,
                              .npair = k + 1,
                              .in = in,
                              .out = &column,
                              .c = c,
                              .pair = (const int (*)[2])pair},
                   c);
out:
    return st;
}

static kl_status make_orthonormal(kl_ortho *o, int k, double *left, double *coef, double *first_dots,
                                  kl_err *err)
{
    kl_status st = KL_OK;
    double *const c = o->scratch;
    double scale = 1.0; /* the old column k = sum of what was taken out + scale * what column k is now */
    double first = 0.0; /* its norm at the start */
    for (int j = 0; coef != NULL && j <= k; j++) coef[j] = 0.0;
    *left = 0.0;
    KL_TRY(dots(o, k, c, err));
    *first_dots = kl_prof_seconds();
    for (int pass = 0; pass < MAX_PASS; pass++) {
        const double before = c[k];
        if (!isfinite(before))
            return kl_fail(err, KL_ENOCONV,
                           "a vector of the eigensolver has the squared norm %s: the product with H gave "
                           "values that are not finite",
                           kl_said(before).text);
        if (pass == 0) first = sqrt(before);
        if (before == 0.0 || scale * sqrt(before) < ROUNDING * first) return KL_OK;
        double removed = 0.0;
        for (int j = 0; j < k; j++) {
            removed += c[j] * c[j];
            if (coef != NULL) coef[j] += scale * c[j];
        }
        const double after = before - removed;
        const int done = after > 0.5 * before;
        const double divisor = sqrt(done ? after : before);
        for (int j = 0; j < k; j++) c[j] /= -divisor;
        scale *= divisor;
        if (done) {
            KL_TRY(kl_columns_combine(&o->c, k, c, 1.0 / divisor, kl_ortho_at(o, k), err));
            KL_TRY(kl_columns_settle(&o->c, k, err));
            *left = scale / first;
            if (coef != NULL) coef[k] = scale;
            return KL_OK;
        }
        KL_TRY(update_and_dots(o, k, c, 1.0 / divisor, err));
    }
out:
    return st;
}

kl_status kl_ortho_last(kl_ortho *o, int k, double *left, double *coef, kl_err *err)
{
    const double start = kl_prof_seconds();
    double between = start, ignored;
    kl_status st = make_orthonormal(o, k, left, coef, &between, err);
    if (st != KL_OK || !o->seconds) return st;
    st = o->c.ex->vt.download(o->c.ex, &ignored, kl_ortho_at(o, k), 1, err); /* until the device is done */
    o->seconds[0] += between - start;
    o->seconds[1] += kl_prof_seconds() - between;
    return st;
}

typedef struct filling {
    uint64_t random;
    double size, *part;
    int64_t count;
} filling;

static void fill_task(void *self, int64_t task, int thread)
{
    const filling *const f = self;
    const int64_t from = task * TOGETHER, to = from + TOGETHER < f->count ? from + TOGETHER : f->count;
    uint64_t random = f->random;
    (void)thread;
    kl_random_skip(&random, from);
    for (int64_t i = from; i < to; i++) f->part[i] = f->size * kl_random_uniform(&random);
}

kl_status kl_ortho_random(kl_ortho *o, int k, kl_err *err)
{
    kl_status st = KL_OK;
    double *part = NULL;
    const int64_t most = o->c.n < UPLOAD ? o->c.n : UPLOAD;
    const double size = sqrt(3.0 / (double)o->c.n);
    if (o->h != NULL && o->h->random != NULL) {
        double square;
        const kl_dptr v = kl_ortho_at(o, k);
        KL_TRY(o->h->random(o->h, kl_random_next(&o->random), v, err));
        o->c.ex->vt.dots(o->c.ex, o->c.n, 1, v, o->c.ld, v, &square);
        o->c.ex->vt.combine(o->c.ex, o->c.n, 0, v, o->c.ld, NULL, 1.0 / sqrt(square), v);
        goto out;
    }
    KL_TRY(kl_realloc(&part, most, KL_MEM_WORK, err));
    for (int64_t from = 0; from < o->c.n; from += most) {
        const int64_t count = o->c.n - from < most ? o->c.n - from : most;
        filling f = {o->random, size, part, count};
        kl_par_for(count > TOGETHER ? o->c.ex->nthread : 1, (count + TOGETHER - 1) / TOGETHER, fill_task, &f);
        kl_random_skip(&o->random, count);
        KL_TRY(o->c.ex->vt.upload(o->c.ex, kl_dptr_at(kl_ortho_at(o, k), from), part, count, err));
    }
out:
    kl_free(&part);
    return st;
}

kl_status kl_ortho_fresh(kl_ortho *o, int k, kl_err *err)
{
    kl_status st = KL_OK;
    double left = 0.0;
    for (int attempt = 0; attempt < MAX_TRY && left == 0.0; attempt++) {
        KL_TRY(kl_ortho_random(o, k, err));
        KL_TRY(kl_ortho_last(o, k, &left, NULL, err));
    }
    if (left == 0.0)
        st = kl_fail(err, KL_ENOCONV, "no direction was found outside %d vectors of length %lld", k,
                     (long long)o->c.n);
out:
    return st;
}

kl_status kl_ortho_ritz(const kl_ortho *o, int k, const double *y, kl_dptr x, kl_err *err)
{
    kl_exec *const ex = o->c.ex;
    double square;
    const kl_status st = kl_columns_combine(&o->c, k, y, 0.0, x, err);
    if (st != KL_OK) return st;
    ex->vt.dots(ex, o->c.n, 1, x, o->c.n, x, &square);
    ex->vt.combine(ex, o->c.n, 0, o->c.dev, o->c.ld, NULL, 1.0 / sqrt(square), x);
    return KL_OK;
}
