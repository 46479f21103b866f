/* Which kernel of the CUDA executor takes a call, and why: runs nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tall.h"
#include "exec/fusedsmall.h"
#include <stdio.h>

kl_status kl_cuda_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    const kl_cuda *const self = ex->self;
    kl_batch_plan plan;
    c->kernel = "CUDA";
    c->nlaunch = 1;
    if (self->host->devbatch_common(call, c)) return KL_OK;
    switch (call->op) {
    case KL_OP_BATCH: {
        const kl_status st = kl_cuda_batch_dry(ex, call->batch, &plan, err);
        if (st != KL_OK) return st;
        self->host->devbatch_choice(&plan, kl_cuda_batch_reason(ex, call->batch), c);
        return KL_OK;
    }
    case KL_OP_DOTS:
    case KL_OP_COMBINE: {
        const int belts = (call->nvec + KL_BELT - 1) / KL_BELT;
        c->nlaunch = belts;
        snprintf(c->why, sizeof c->why, "%d belt%s of at most %d columns", belts, belts == 1 ? "" : "s",
                 KL_BELT);
        return KL_OK;
    }
    case KL_OP_FUSE:
        snprintf(c->why, sizeof c->why,
                 call->nvec <= KL_FUSED_SMALL_IN && call->nout <= KL_FUSED_SMALL_OUT
                     ? "few vectors: all in registers"
                     : "tiles of all vectors in shared memory, products by tensor cores");
        return KL_OK;
    case KL_OP_KRON:
        c->nlaunch = 2;
        snprintf(c->why, sizeof c->why, "right, then left states, a part of x in shared memory");
        return KL_OK;
    case KL_OP_SPMV: {
        const kl_spmachine machine = kl_cuda_spmachine(self);
        self->host->spdev_explain(ex, &machine, call, c);
        return KL_OK;
    }
    default: snprintf(c->why, sizeof c->why, "two elements an access where addresses are even"); return KL_OK;
    }
}
