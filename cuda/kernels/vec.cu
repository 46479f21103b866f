/* Vector operations of the CUDA executor: one pass each, two numbers an access where addresses allow it.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"

static bool wide(const void *a, const void *b, const void *c)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0;
}

/* f(x, y, z) of every element; z is written. P: pairs. A thread a pair, and the first thread also the last
   element of an odd length. */
template <bool P, class F>
static __global__ void __launch_bounds__(256) each(int64_t n, F f)
{
    const int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (!P) {
        if (t < n) f.one(t);
        return;
    }
    if (t < n / 2) f.two(t);
    if (t == 0 && n % 2) f.one(n - 1);
}

template <class F>
static void launch(const kl_cuda *self, int64_t n, bool pairs, F f)
{
    if (n == 0) return;
    const int64_t threads = pairs ? (n + 1) / 2 : n;
    const unsigned blocks = (unsigned)((threads + 255) / 256);
    if (pairs) each<true><<<blocks, 256, 0, self->stream>>>(n, f);
    else each<false><<<blocks, 256, 0, self->stream>>>(n, f);
}

struct fill_op {
    double a, *y;
    __device__ void one(int64_t i) const { y[i] = a; }
    __device__ void two(int64_t t) const { ((double2 *)y)[t] = make_double2(a, a); }
};

struct scale_op {
    double a;
    const double *x;
    double *y;
    __device__ void one(int64_t i) const { y[i] = a * x[i]; }
    __device__ void two(int64_t t) const
    {
        const double2 u = ((const double2 *)x)[t];
        ((double2 *)y)[t] = make_double2(a * u.x, a * u.y);
    }
};

struct axpby_op {
    double a, b;
    const double *x;
    double *y;
    __device__ void one(int64_t i) const { y[i] = a * x[i] + b * y[i]; }
    __device__ void two(int64_t t) const
    {
        const double2 u = ((const double2 *)x)[t], v = ((double2 *)y)[t];
        ((double2 *)y)[t] = make_double2(a * u.x + b * v.x, a * u.y + b * v.y);
    }
};

struct divide_op {
    double theta, floor;
    const double *d, *r;
    double *t;
    __device__ double value(double num, double diag) const
    {
        const double gap = diag - theta, size = fabs(gap) < floor ? floor : fabs(gap);
        return num / copysign(size, gap);
    }
    __device__ void one(int64_t i) const { t[i] = value(r[i], d[i]); }
    __device__ void two(int64_t i) const
    {
        const double2 num = ((const double2 *)r)[i], diag = ((const double2 *)d)[i];
        ((double2 *)t)[i] = make_double2(value(num.x, diag.x), value(num.y, diag.y));
    }
};

extern "C" void kl_cuda_copy(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst)
{
    const kl_cuda *const self = (const kl_cuda *)ex->self;
    if (n > 0 && src.addr != dst.addr)
        cudaMemcpyAsync(kl_device(dst), kl_device(src), (size_t)n * sizeof(double), cudaMemcpyDeviceToDevice,
                        self->stream);
}

extern "C" void kl_cuda_fill(kl_exec *ex, int64_t n, double a, kl_dptr y)
{
    launch((const kl_cuda *)ex->self, n, wide(kl_device(y), NULL, NULL), fill_op{a, kl_device(y)});
}

extern "C" void kl_cuda_axpby(kl_exec *ex, int64_t n, double a, kl_dptr xp, double b, kl_dptr yp)
{
    const kl_cuda *const self = (const kl_cuda *)ex->self;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    if (b == 0.0) launch(self, n, wide(x, y, y), scale_op{a, x, y});
    else launch(self, n, wide(x, y, y), axpby_op{a, b, x, y});
}

extern "C" void kl_cuda_precondition(kl_exec *ex, int64_t n, kl_dptr dp, double theta, double floor,
                                     kl_dptr rp, kl_dptr tp)
{
    const double *const d = kl_device(dp), *const r = kl_device(rp);
    double *const t = kl_device(tp);
    launch((const kl_cuda *)ex->self, n, wide(d, r, t), divide_op{theta, floor, d, r, t});
}
