/* What is the same for every executor.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec.h"
#include "mem.h"
#include "record.h"

void kl_exec_close(kl_exec **ex)
{
    if (*ex == NULL) return;
    (*ex)->vt.close(*ex);
    kl_free(ex);
}

kl_status kl_batch_run(kl_batch *b, kl_exec *ex, kl_dptr x, kl_dptr y, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_batch_close(b, err));
    KL_TRY(ex->vt.batch_prepare(ex, b, err));
    KL_TRY(ex->vt.batch_apply(ex, b, x, y, err));
out:
    ex->vt.batch_release(ex, b);
    kl_batch_reset(b);
    return st;
}
