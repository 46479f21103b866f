/* Vector operations of the offload executor: one pass each, two numbers an access where addresses allow it.
   SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "target.h"

enum { PART = 1 << 29 }; /* elements of a launch: indices stay int */

static int wide(const void *a, const void *b, const void *c) { return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0; }

/* ---- bodies: n elements; pairs where addresses allow it, four of them in flight, and the last element by itself where n is odd ---- */

/* EXPR of i, the pair's number, into to[i]; in place is allowed. */
#define PAIRS(EXPR)                                                                     \
    int i = t;                                                                          \
    for (; i + 3 * T < n / 2; i += 4 * T) {                                             \
        const kl_two p = EXPR(i), q = EXPR(i + T), r = EXPR(i + 2 * T), s = EXPR(i + 3 * T); \
        to[i] = p, to[i + T] = q, to[i + 2 * T] = r, to[i + 3 * T] = s;                 \
    }                                                                                   \
    for (; i < n / 2; i += T) to[i] = EXPR(i)

static inline void copy2(int t, int T, int n, const double *x, double *y)
{
    const kl_two *const a = (const kl_two *)x;
    kl_two *const to = (kl_two *)y;
#define COPY(k) a[k]
    PAIRS(COPY);
    if (t == 0 && n % 2) y[n - 1] = x[n - 1];
}

static inline void copy1(int t, int T, int n, const double *x, double *y)
{
    for (int i = t; i < n; i += T) y[i] = x[i];
}

static inline void fill2(int t, int T, int n, double a, double *y)
{
    kl_two *const to = (kl_two *)y;
    for (int i = t; i < n / 2; i += T) to[i] = (kl_two){a, a};
    if (t == 0 && n % 2) y[n - 1] = a;
}

static inline void fill1(int t, int T, int n, double a, double *y)
{
    for (int i = t; i < n; i += T) y[i] = a;
}

static inline void scale2(int t, int T, int n, double a, const double *x, double *y)
{
    const kl_two *const u = (const kl_two *)x;
    kl_two *const to = (kl_two *)y;
#define SCALE(k) (a * u[k])
    PAIRS(SCALE);
    if (t == 0 && n % 2) y[n - 1] = a * x[n - 1];
}

static inline void axpby2(int t, int T, int n, double a, const double *x, double b, double *y)
{
    const kl_two *const u = (const kl_two *)x;
    kl_two *const to = (kl_two *)y;
#define AXPBY(k) (a * u[k] + b * to[k])
    PAIRS(AXPBY);
    if (t == 0 && n % 2) y[n - 1] = a * x[n - 1] + b * y[n - 1];
}

static inline void axpby1(int t, int T, int n, double a, const double *x, double b, double *y)
{
    if (b == 0.0)
        for (int i = t; i < n; i += T) y[i] = a * x[i];
    else
        for (int i = t; i < n; i += T) y[i] = a * x[i] + b * y[i];
}

static inline double divided(double r, double gap, double floor)
{
    const double size = __builtin_fabs(gap) < floor ? floor : __builtin_fabs(gap);
    return r / __builtin_copysign(size, gap);
}

static inline kl_two divided2(kl_two r, kl_two gap, double floor) { return (kl_two){divided(r[0], gap[0], floor), divided(r[1], gap[1], floor)}; }

static inline void divide2(int t, int T, int n, const double *d, double theta, double floor, const double *r, double *out)
{
    const kl_two *const dd = (const kl_two *)d, *const rr = (const kl_two *)r;
    kl_two *const to = (kl_two *)out;
    for (int i = t; i < n / 2; i += T) to[i] = divided2(rr[i], dd[i] - theta, floor);
    if (t == 0 && n % 2) out[n - 1] = divided(r[n - 1], d[n - 1] - theta, floor);
}

static inline void divide1(int t, int T, int n, const double *d, double theta, double floor, const double *r, double *to)
{
    for (int i = t; i < n; i += T) to[i] = divided(r[i], d[i] - theta, floor);
}

/* ---- the table ---- */

void kl_offload_copy(kl_exec *ex, int64_t all, kl_dptr src, kl_dptr dst)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const x = kl_device(src) + from;
        double *const y = kl_device(dst) + from;
        if (wide(x, y, y)) KL_KERNEL(self, copy2(t, T, n, x, y), is_device_ptr(x, y) firstprivate(n));
        else KL_KERNEL(self, copy1(t, T, n, x, y), is_device_ptr(x, y) firstprivate(n));
    }
}

void kl_offload_fill(kl_exec *ex, int64_t all, double a, kl_dptr yp)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        double *const y = kl_device(yp) + from;
        if (wide(y, y, y)) KL_KERNEL(self, fill2(t, T, n, a, y), is_device_ptr(y) firstprivate(n, a));
        else KL_KERNEL(self, fill1(t, T, n, a, y), is_device_ptr(y) firstprivate(n, a));
    }
}

void kl_offload_axpby(kl_exec *ex, int64_t all, double a, kl_dptr xp, double b, kl_dptr yp)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const x = kl_device(xp) + from;
        double *const y = kl_device(yp) + from;
        if (wide(x, y, y) && b == 0.0) KL_KERNEL(self, scale2(t, T, n, a, x, y), is_device_ptr(x, y) firstprivate(n, a));
        else if (wide(x, y, y)) KL_KERNEL(self, axpby2(t, T, n, a, x, b, y), is_device_ptr(x, y) firstprivate(n, a, b));
        else KL_KERNEL(self, axpby1(t, T, n, a, x, b, y), is_device_ptr(x, y) firstprivate(n, a, b));
    }
}

void kl_offload_precondition(kl_exec *ex, int64_t all, kl_dptr diag, double theta, double floor, kl_dptr rp, kl_dptr tp)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const d = kl_device(diag) + from, *const r = kl_device(rp) + from;
        double *const to = kl_device(tp) + from;
        if (wide(d, r, to)) KL_KERNEL(self, divide2(t, T, n, d, theta, floor, r, to), is_device_ptr(d, r, to) firstprivate(n, theta, floor));
        else KL_KERNEL(self, divide1(t, T, n, d, theta, floor, r, to), is_device_ptr(d, r, to) firstprivate(n, theta, floor));
    }
}
