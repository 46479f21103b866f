/* Panels of full configuration interaction on an offload device: regions around the loops of
   src/exec/moves.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/moves.h"
#include "offload.h"
#include "target.h"

kl_status kl_offload_moves_fetch(kl_exec *ex, const kl_moves *moves, int64_t row, int64_t nrow, kl_dptr xp,
                                 kl_dptr panels, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const kl_moves *const m = moves->self;
    const double *const x = kl_device(xp);
    double *const panel = kl_device(panels);
    const int n = (int)(nrow * moves->npair) * KL_MOVES_LANES;
    (void)err;
    KL_KERNEL(self, n, kl_moves_fetch(m, row, t / KL_MOVES_LANES, t % KL_MOVES_LANES, x, panel),
              is_device_ptr(m, x, panel) firstprivate(row));
    return KL_OK;
}

kl_status kl_offload_moves_land(kl_exec *ex, const kl_moves *moves, int64_t row, int64_t nrow, kl_dptr panels,
                                kl_dptr yp, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const kl_moves *const m = moves->self;
    const double *const panel = kl_device(panels);
    double *const y = kl_device(yp);
    const int n = (int)((nrow + KL_MOVES_ROWS - 1) / KL_MOVES_ROWS) * moves->nb, rows = (int)nrow;
    (void)err;
    KL_KERNEL(self, n, kl_moves_land(m, row, rows, t, panel, y),
              is_device_ptr(m, panel, y) firstprivate(row, rows));
    return KL_OK;
}
