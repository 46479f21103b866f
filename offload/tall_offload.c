/* V^T x and V y for tall V, the two operations that a Davidson step lives on: every column is read once, up to 24 of them a pass, with private sums
   that are folded by hand. Widths come in steps of four; columns that are not there are the last one again, which costs no traffic.
   SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "target.h"

enum { PART = KL_OFFLOAD_PART, WIDEST = KL_OFFLOAD_WIDEST, FOLD = 64 };

#define ALWAYS static inline __attribute__((always_inline))
#define WIDTHS(F) F(1) F(2) F(3) F(4) F(8) F(12) F(16) F(20) F(24)

static int width_of(int nvec) { return nvec <= 4 ? nvec : nvec >= WIDEST ? WIDEST : (nvec + 3) / 4 * 4; }
static int wide(const void *a, const void *b, int64_t ld) { return (((uintptr_t)a | (uintptr_t)b) & 15) == 0 && ld % 2 == 0; }

/* ---- V^T x ---- */

/* s[j] += V_j . x over the pairs of thread t of T, a multiple of KL_BLOCK; W is a constant where this is used, and so the sums are registers. */
ALWAYS void dots2(int t, int T, int n, int W, int have, const double *v, int64_t ldv, const double *x, double *s)
{
    const kl_two *const u = (const kl_two *)x;
    int i = t / KL_BLOCK * 2 * KL_BLOCK + t % KL_BLOCK; /* a block takes two pairs a thread at a time, side by side */
    for (; i + KL_BLOCK < n / 2; i += 2 * T) {
        const kl_two a = u[i], b = u[i + KL_BLOCK];
#pragma clang loop unroll(full)
        for (int j = 0; j < W; j++) {
            const kl_two *const w = (const kl_two *)(v + (j < have ? j : have - 1) * ldv);
            const kl_two p = w[i], q = w[i + KL_BLOCK];
            s[j] += p[0] * a[0];
            s[j] += p[1] * a[1];
            s[j] += q[0] * b[0];
            s[j] += q[1] * b[1];
        }
    }
    if (i < n / 2) {
        const kl_two a = u[i];
#pragma clang loop unroll(full)
        for (int j = 0; j < W; j++) {
            const kl_two p = ((const kl_two *)(v + (j < have ? j : have - 1) * ldv))[i];
            s[j] += p[0] * a[0];
            s[j] += p[1] * a[1];
        }
    }
    if (t == 0 && n % 2) {
#pragma clang loop unroll(full)
        for (int j = 0; j < W; j++) s[j] += v[(j < have ? j : have - 1) * ldv + n - 1] * x[n - 1];
    }
}

ALWAYS void dots1(int t, int T, int n, int W, int have, const double *v, int64_t ldv, const double *x, double *s)
{
    for (int i = t; i < n; i += T) {
        const double a = x[i];
#pragma clang loop unroll(full)
        for (int j = 0; j < W; j++) s[j] += v[(j < have ? j : have - 1) * ldv + i] * a;
    }
}

#if KL_OFFLOAD_BARE
static void dots_bare(const kl_offload *self, int n, int W, int have, const double *v, int64_t ldv, const double *x, int pairs)
{
    double *const part = self->scratch, *const result = self->result;
    int *const counter = self->counter;
    const int teams = self->nsm * (W <= 2 ? 6 : W <= 4 ? 4 : W <= 8 ? 2 : 1); /* what was fastest; more blocks touch too many pages of memory at once */
#define DOTS(K)                                                                                                                           \
    case K:                                                                                                                               \
        KL_BARE(teams, 256, KL_FOLD * 8, is_device_ptr(v, x, part, counter, result) firstprivate(n, have, ldv))                             \
        {                                                                                                                                 \
            double s[K] = {0};                                                                                                            \
            dots2(kl_thread(), kl_threads(), n, K, have, v, ldv, x, s);                                                                   \
            kl_fold(K, s, part, counter, result);                                                                                           \
        }                                                                                                                                 \
        break;
    if (pairs) {
        switch (W) { WIDTHS(DOTS) }
    } else {
        KL_BARE(teams, 256, KL_FOLD * 8, is_device_ptr(v, x, part, counter, result) firstprivate(n, have, ldv))
        {
            double s[4] = {0};
            dots1(kl_thread(), kl_threads(), n, 4, have, v, ldv, x, s);
            kl_fold(4, s, part, counter, result);
        }
    }
#undef DOTS
}
#endif

/* Plain OpenMP: sums of every thread to memory, 64 sums of those, and the rest here. */
static void dots_flat(const kl_offload *self, int n, int W, int have, const double *v, int64_t ldv, const double *x, int pairs, double *sum)
{
    double *const part = self->scratch, *const folded = part + KL_SCRATCH - FOLD * WIDEST;
    const int teams = self->arch ? self->nsm : self->teams, nsum = self->arch ? teams * KL_BLOCK : self->nthread; /* fits: KL_SCRATCH */
    const int nfold = FOLD * W;
#define DOTS(K)                                                                                                                          \
    case K:                                                                                                                              \
        KL_FLAT(teams, is_device_ptr(v, x, part) firstprivate(n, have, ldv, nsum))                                                       \
        for (int t = 0; t < nsum; t++) {                                                                                                 \
            double s[K] = {0};                                                                                                           \
            dots2(t, nsum, n, K, have, v, ldv, x, s);                                                                                    \
            for (int j = 0; j < K; j++) part[j * nsum + t] = s[j];                                                                       \
        }                                                                                                                                \
        break;
    if (pairs) {
        switch (W) { WIDTHS(DOTS) }
    } else {
        KL_FLAT(teams, is_device_ptr(v, x, part) firstprivate(n, have, ldv, nsum))
        for (int t = 0; t < nsum; t++) {
            double s[4] = {0};
            dots1(t, nsum, n, 4, have, v, ldv, x, s);
            for (int j = 0; j < 4; j++) part[j * nsum + t] = s[j];
        }
    }
#undef DOTS
    KL_FLAT(8, is_device_ptr(part, folded) firstprivate(nfold, nsum))
    for (int f = 0; f < nfold; f++) {
        double a = 0.0;
        for (int i = f % FOLD; i < nsum; i += FOLD) a += part[f / FOLD * nsum + i];
        folded[f] = a;
    }
    double host[FOLD * WIDEST];
    if (kl_offload_get(self, host, folded, nfold * (int64_t)sizeof(double)) != 0) /* the device is lost: no answer may look like one */
        for (int f = 0; f < nfold; f++) host[f] = __builtin_nan("");
    for (int j = 0; j < W; j++) {
        sum[j] = 0.0;
        for (int f = 0; f < FOLD; f++) sum[j] += host[j * FOLD + f];
    }
}

void kl_offload_dots(kl_exec *ex, int64_t all, int nvec, kl_dptr vp, int64_t ldv, kl_dptr xp, double *out)
{
    const kl_offload *const self = ex->self;
    for (int j = 0; j < nvec; j++) out[j] = 0.0;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const x = kl_device(xp) + from;
        for (int first = 0; first < nvec;) {
            const double *const v = kl_device(vp) + from + first * ldv;
            const int pairs = wide(v, x, ldv), left = nvec - first;
            const int W = pairs ? width_of(left) : 4, have = left < W ? left : W;
            double flat[WIDEST], *sum = flat;
#if KL_OFFLOAD_BARE
            if (self->bare) {
                dots_bare(self, n, W, have, v, ldv, x, pairs);
                sum = self->result;
            } else
#endif
                dots_flat(self, n, W, have, v, ldv, x, pairs, flat);
            for (int j = 0; j < have; j++) out[first + j] += sum[j];
            first += have;
        }
    }
}

/* ---- V y ---- */

/* Coefficients travel as arguments of the kernel: an array would be a copy to the device before each. */
#define EACH(F) \
    F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23)
#define TAKE(k) const double c##k = c[k];
#define LIST c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23

ALWAYS void combine2(int t, int n, int W, int have, const double *v, int64_t ldv, double b, double *y, const double *c)
{
    if (t < n / 2) {
        kl_two *const to = (kl_two *)y + t;
        kl_two a = {0.0, 0.0};
        if (b != 0.0) a = b * *to;
#pragma clang loop unroll(full)
        for (int j = 0; j < W; j++) a += c[j] * ((const kl_two *)(v + (j < have ? j : have - 1) * ldv))[t];
        *to = a;
    }
    if (t == 0 && n % 2) {
        double a = b != 0.0 ? b * y[n - 1] : 0.0;
#pragma clang loop unroll(full)
        for (int j = 0; j < W; j++) a += c[j] * v[(j < have ? j : have - 1) * ldv + n - 1];
        y[n - 1] = a;
    }
}

ALWAYS void combine1(int t, int W, int have, const double *v, int64_t ldv, double b, double *y, const double *c)
{
    double a = b != 0.0 ? b * y[t] : 0.0;
#pragma clang loop unroll(full)
    for (int j = 0; j < W; j++) a += c[j] * v[(j < have ? j : have - 1) * ldv + t];
    y[t] = a;
}

static void combine_part(const kl_offload *self, int n, int W, int have, const double *v, int64_t ldv, const double *c, double b, double *y, int pairs)
{
    EACH(TAKE)
#define COMBINE(K)                                                                                                                     \
    case K:                                                                                                                            \
        KL_KERNEL(self, (n + 1) / 2, {                                                                                                 \
            const double cc[WIDEST] = {LIST};                                                                                          \
            combine2(t, n, K, have, v, ldv, b, y, cc);                                                                                 \
        }, is_device_ptr(v, y) firstprivate(n, have, ldv, b, LIST));                                                                   \
        break;
    if (pairs) {
        switch (W) { WIDTHS(COMBINE) }
    } else {
        KL_KERNEL(self, n, {
            const double cc[WIDEST] = {LIST};
            combine1(t, 4, have, v, ldv, b, y, cc);
        }, is_device_ptr(v, y) firstprivate(have, ldv, b, LIST));
    }
#undef COMBINE
}

void kl_offload_combine(kl_exec *ex, int64_t all, int nvec, kl_dptr vp, int64_t ldv, const double *c, double b, kl_dptr yp)
{
    const kl_offload *const self = ex->self;
    if (nvec == 0) {
        if (b == 0.0) kl_offload_fill(ex, all, 0.0, yp);
        else if (b != 1.0) kl_offload_axpby(ex, all, b, yp, 0.0, yp);
        return;
    }
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        double *const y = kl_device(yp) + from;
        double old = b;
        for (int first = 0; first < nvec; old = 1.0) {
            const double *const v = kl_device(vp) + from + first * ldv;
            const int pairs = wide(v, y, ldv), left = nvec - first;
            const int W = pairs ? width_of(left) : 4, have = left < W ? left : W;
            double factor[WIDEST] = {0};
            for (int j = 0; j < have; j++) factor[j] = c[first + j];
            combine_part(self, n, W, have, v, ldv, factor, old, y, pairs);
            first += have;
        }
    }
}
