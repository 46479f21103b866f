/* Vector operations of the offload executor: one pass each, two numbers an access where addresses allow it.
   SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "target.h"

enum { PART = KL_OFFLOAD_PART };

static int wide(const void *a, const void *b, const void *c)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0;
}

/* ---- bodies: pair t of n elements; the thread of the first also does the last element where n is odd
   ---- */

static inline void copy2(int t, int n, const double *x, double *y)
{
    if (t < n / 2) ((kl_two *)y)[t] = ((const kl_two *)x)[t];
    if (t == 0 && n % 2) y[n - 1] = x[n - 1];
}

static inline void fill2(int t, int n, double a, double *y)
{
    if (t < n / 2) ((kl_two *)y)[t] = (kl_two){a, a};
    if (t == 0 && n % 2) y[n - 1] = a;
}

static inline void scale2(int t, int n, double a, const double *x, double *y)
{
    if (t < n / 2) ((kl_two *)y)[t] = a * ((const kl_two *)x)[t];
    if (t == 0 && n % 2) y[n - 1] = a * x[n - 1];
}

static inline void axpby2(int t, int n, double a, const double *x, double b, double *y)
{
    if (t < n / 2) ((kl_two *)y)[t] = a * ((const kl_two *)x)[t] + b * ((kl_two *)y)[t];
    if (t == 0 && n % 2) y[n - 1] = a * x[n - 1] + b * y[n - 1];
}

static inline void axpby1(int t, double a, const double *x, double b, double *y)
{
    y[t] = b == 0.0 ? a * x[t] : a * x[t] + b * y[t];
}

static inline double divided(double r, double gap, double floor)
{
    const double size = __builtin_fabs(gap) < floor ? floor : __builtin_fabs(gap);
    return r / __builtin_copysign(size, gap);
}

static inline kl_two divided2(kl_two r, kl_two gap, double floor)
{
    return (kl_two){divided(r[0], gap[0], floor), divided(r[1], gap[1], floor)};
}

static inline void divide2(int t, int n, const double *d, double theta, double floor, const double *r,
                           double *out)
{
    if (t < n / 2)
        ((kl_two *)out)[t] = divided2(((const kl_two *)r)[t], ((const kl_two *)d)[t] - theta, floor);
    if (t == 0 && n % 2) out[n - 1] = divided(r[n - 1], d[n - 1] - theta, floor);
}

/* ---- the table ---- */

void kl_offload_copy(kl_exec *ex, int64_t all, kl_dptr src, kl_dptr dst)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const x = kl_device(src) + from;
        double *const y = kl_device(dst) + from;
        if (wide(x, y, y))
            KL_KERNEL(self, (n + 1) / 2, copy2(t, n, x, y), is_device_ptr(x, y) firstprivate(n));
        else KL_KERNEL(self, n, y[t] = x[t], is_device_ptr(x, y));
    }
}

void kl_offload_fill(kl_exec *ex, int64_t all, double a, kl_dptr yp)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        double *const y = kl_device(yp) + from;
        if (wide(y, y, y))
            KL_KERNEL(self, (n + 1) / 2, fill2(t, n, a, y), is_device_ptr(y) firstprivate(n, a));
        else KL_KERNEL(self, n, y[t] = a, is_device_ptr(y) firstprivate(a));
    }
}

void kl_offload_axpby(kl_exec *ex, int64_t all, double a, kl_dptr xp, double b, kl_dptr yp)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const x = kl_device(xp) + from;
        double *const y = kl_device(yp) + from;
        if (!wide(x, y, y)) KL_KERNEL(self, n, axpby1(t, a, x, b, y), is_device_ptr(x, y) firstprivate(a, b));
        else if (b == 0.0)
            KL_KERNEL(self, (n + 1) / 2, scale2(t, n, a, x, y), is_device_ptr(x, y) firstprivate(n, a));
        else
            KL_KERNEL(self, (n + 1) / 2, axpby2(t, n, a, x, b, y), is_device_ptr(x, y) firstprivate(n, a, b));
    }
}

void kl_offload_precondition(kl_exec *ex, int64_t all, kl_dptr diag, double theta, double floor, kl_dptr rp,
                             kl_dptr tp)
{
    const kl_offload *const self = ex->self;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const d = kl_device(diag) + from, *const r = kl_device(rp) + from;
        double *const to = kl_device(tp) + from;
        if (wide(d, r, to))
            KL_KERNEL(self, (n + 1) / 2, divide2(t, n, d, theta, floor, r, to),
                      is_device_ptr(d, r, to) firstprivate(n, theta, floor));
        else
            KL_KERNEL(self, n, to[t] = divided(r[t], d[t] - theta, floor),
                      is_device_ptr(d, r, to) firstprivate(theta, floor));
    }
}
