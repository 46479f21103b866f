/* Elements of configuration interaction as they are needed, by CUDA: launches of the kernels in
   src/exec/dets.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "exec/dets.h"

enum { THREADS = 128 }; /* of a block */

static __global__ void __launch_bounds__(THREADS) gather(kl_dets d, const double *x)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t < d.n) kl_dets_gather(&d, t, x);
}

static __global__ void __launch_bounds__(THREADS) rows(kl_dets d, double *y)
{
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t < d.nrow) kl_dets_row(&d, t, y);
}

extern "C" kl_status kl_cuda_dets_apply(kl_exec *ex, const kl_dets *d, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    gather<<<(int)((d->n + THREADS - 1) / THREADS), THREADS, 0, self->stream>>>(*d, kl_device(x));
    rows<<<(int)((d->nrow + THREADS - 1) / THREADS), THREADS, 0, self->stream>>>(*d, kl_device(y));
    return kl_cuda_check(self, "making elements as they are needed", err);
}
