/* Panels of full configuration interaction by CUDA: launches of the kernels in src/exec/moves.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "../device.h"
#include "exec/moves.h"

/* threads of a block */
enum {
    FETCH = 256,
    LAND = 128,
};

static __global__ void __launch_bounds__(FETCH)
    fetch(kl_moves m, int64_t row, int nunit, const double *x, double *panel)
{
    const int unit = (int)((blockIdx.x * FETCH + threadIdx.x) / KL_MOVES_LANES);
    if (unit < nunit) kl_moves_fetch(&m, row, unit, (int)threadIdx.x % KL_MOVES_LANES, x, panel);
}

static __global__ void __launch_bounds__(LAND)
    land(kl_moves m, int64_t row, int nrow, int nunit, const double *panel, double *y)
{
    const int unit = (int)(blockIdx.x * LAND + threadIdx.x);
    if (unit < nunit) kl_moves_land(&m, row, nrow, unit, panel, y);
}

extern "C" kl_status kl_cuda_moves_fetch(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow, kl_dptr x,
                                         kl_dptr panel, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const int n = (int)(nrow * m->npair);
    fetch<<<(n * KL_MOVES_LANES + FETCH - 1) / FETCH, FETCH, 0, self->stream>>>(*m, row, n, kl_device(x),
                                                                                kl_device(panel));
    return kl_cuda_check(self, "fetching rows of a vector", err);
}

extern "C" kl_status kl_cuda_moves_land(kl_exec *ex, const kl_moves *m, int64_t row, int64_t nrow,
                                        kl_dptr panel, kl_dptr y, kl_err *err)
{
    kl_cuda *const self = (kl_cuda *)ex->self;
    const int n = (int)((nrow + KL_MOVES_ROWS - 1) / KL_MOVES_ROWS * m->nb);
    land<<<(n + LAND - 1) / LAND, LAND, 0, self->stream>>>(*m, row, (int)nrow, n, kl_device(panel),
                                                           kl_device(y));
    return kl_cuda_check(self, "adding panels to a vector", err);
}
