/* Which kernel of the CUDA executor takes a call, and why: runs nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include "tall.h"
#include <stdio.h>

kl_status kl_cuda_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    kl_batch_plan plan;
    c->kernel = "CUDA";
    c->nlaunch = 1;
    switch (call->op) {
    case KL_OP_BATCH: {
        const kl_status st = kl_cuda_batch_dry(ex, call->batch, &plan, err);
        if (st != KL_OK) return st;
        c->kernel = plan.kernel;
        c->nlaunch = plan.nlaunch;
        c->memory_bytes = plan.work_bytes + plan.list_bytes;
        snprintf(c->why, sizeof c->why, "m16n8k16, sums in registers; %lld tiles, %.0f %% of their work is padding, %d round%s, %lld groups in order", (long long)plan.ntile,
                 plan.padded > 0 ? 100 * (plan.padded - 1) / plan.padded : 0.0, plan.nround, plan.nround == 1 ? "" : "s", (long long)plan.nsequential);
        return KL_OK;
    }
    case KL_OP_DOTS:
    case KL_OP_COMBINE: {
        const int belts = (call->nvec + KL_TALL_WIDEST - 1) / KL_TALL_WIDEST;
        c->nlaunch = belts;
        snprintf(c->why, sizeof c->why, "%d belt%s of at most %d columns", belts, belts == 1 ? "" : "s", KL_TALL_WIDEST);
        return KL_OK;
    }
    case KL_OP_FUSE:
        snprintf(c->why, sizeof c->why, call->nvec <= KL_FEW_IN && call->nout <= KL_FEW_OUT ? "few vectors: all in registers" : "tiles of all vectors in shared memory, products by tensor cores");
        return KL_OK;
    case KL_OP_UPLOAD:
    case KL_OP_DOWNLOAD:
        c->kernel = "memcpy";
        c->nlaunch = 0;
        snprintf(c->why, sizeof c->why, "vectors and operators stay on the device; small matrices and what is truncated travel");
        return KL_OK;
    default: snprintf(c->why, sizeof c->why, "two elements an access where addresses are even"); return KL_OK;
    }
}
