/* Elements of configuration interaction as they are needed, on an offload device: regions around the loops of
   src/exec/dets.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/dets.h"
#include "offload.h"
#include "target.h"

kl_status kl_offload_dets_apply(kl_exec *ex, const kl_dets *dets, kl_dptr xp, kl_dptr yp, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const kl_dets *const d = dets->self;
    const double *const x = kl_device(xp);
    double *const y = kl_device(yp);
    (void)err;
    KL_KERNEL(self, (int)dets->n, kl_dets_gather(d, t, x), is_device_ptr(d, x));
    KL_KERNEL(self, (int)dets->nrow, kl_dets_row(d, t, y), is_device_ptr(d, y));
    return KL_OK;
}
