/* Classical Gram-Schmidt, repeated when the norm falls by more than sqrt(2) (Daniel, Gragg, Kaufman, Stewart): "twice is
   enough", and once usually too. The norm after a pass comes from the one before and the coefficients, so a pass is one
   reading for the products and one for the update; an update that another pass follows takes that one's products along.
   SPDX-License-Identifier: Apache-2.0 */
#include "ortho.h"
#include "mem.h"
#include "random.h"

#include <math.h>

enum { MAX_PASS = 5, MAX_TRY = 8, UPLOAD = 1 << 16 };

static const double ROUNDING = 2e-15; /* what is left of a dependent vector is smaller, but for noise that may stay */

/* column = sum_j c[j] V_j + b column, and what the next pass begins with: its products with V and with itself, in c[k+1]. */
static void update_and_dots(const kl_ortho *o, int k, double *c, double b)
{
    const kl_dptr column = kl_ortho_at(o, k);
    if (o->ex->vt.fuse == NULL || k >= KL_FUSE_MOST) {
        o->ex->vt.combine(o->ex, o->n, k, o->v, o->ldv, c, b, column);
        o->ex->vt.dots(o->ex, o->n, k + 1, o->v, o->ldv, column, c);
        return;
    }
    kl_dptr in[KL_FUSE_MOST];
    int pair[KL_FUSE_MOST][2];
    for (int j = 0; j <= k; j++) {
        in[j] = kl_ortho_at(o, j);
        pair[j][0] = j < k ? j : k + 1;
        pair[j][1] = k + 1;
    }
    c[k] = b;
    o->ex->vt.fuse(o->ex, o->n, &(kl_fuse){.nin = k + 1, .nout = 1, .npair = k + 1, .in = in, .out = &column, .c = c, .pair = (const int(*)[2])pair}, c);
}

kl_status kl_ortho_last(kl_ortho *o, int k, double *left, double *coef, kl_err *err)
{
    const kl_dptr column = kl_ortho_at(o, k);
    double *const c = o->scratch;
    double scale = 1.0; /* the old column k = sum of what was taken out + scale * what column k is now */
    double first = 0.0; /* its norm at the start */
    for (int j = 0; coef != NULL && j <= k; j++) coef[j] = 0.0;
    *left = 0.0;
    o->ex->vt.dots(o->ex, o->n, k + 1, o->v, o->ldv, column, c);
    for (int pass = 0; pass < MAX_PASS; pass++) {
        const double before = c[k];
        if (!isfinite(before))
            return kl_fail(
                err, KL_ENOCONV,
                "a vector of the eigensolver has the squared norm %g: the product with H gave values that are not finite",
                before);
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
            o->ex->vt.combine(o->ex, o->n, k, o->v, o->ldv, c, 1.0 / divisor, column);
            *left = scale / first;
            if (coef != NULL) coef[k] = scale;
            return KL_OK;
        }
        update_and_dots(o, k, c, 1.0 / divisor);
    }
    return KL_OK;
}

kl_status kl_ortho_random(kl_ortho *o, int k, kl_err *err)
{
    kl_status st = KL_OK;
    double *part = NULL;
    const int64_t most = o->n < UPLOAD ? o->n : UPLOAD;
    const double size = sqrt(3.0 / (double)o->n);
    KL_TRY(kl_realloc(&part, most, KL_MEM_WORK, err));
    for (int64_t from = 0; from < o->n; from += most) {
        const int64_t count = o->n - from < most ? o->n - from : most;
        for (int64_t i = 0; i < count; i++) part[i] = size * kl_random_uniform(&o->random);
        KL_TRY(o->ex->vt.upload(o->ex, kl_dptr_at(kl_ortho_at(o, k), from), part, count, err));
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
        st = kl_fail(err, KL_ENOCONV, "no direction was found outside %d vectors of length %lld", k, (long long)o->n);
out:
    return st;
}

void kl_ortho_ritz(const kl_ortho *o, int k, const double *y, kl_dptr x)
{
    double square;
    o->ex->vt.combine(o->ex, o->n, k, o->v, o->ldv, y, 0.0, x);
    o->ex->vt.dots(o->ex, o->n, 1, x, o->n, x, &square);
    o->ex->vt.combine(o->ex, o->n, 0, o->v, o->ldv, NULL, 1.0 / sqrt(square), x);
}
