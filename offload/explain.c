/* Which kernel of the offload executor takes a call, and why: host code, runs nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/belt.h"
#include "device/devbatch.h"
#include "device/spdev.h"
#include "offload.h"
#include <stdio.h>

kl_status kl_offload_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    const kl_offload *const self = ex->self;
    const char *const form = self->bare ? "bare regions" : "combined regions";
    const int64_t parts = (call->n + KL_OFFLOAD_PART - 1) / KL_OFFLOAD_PART;
    kl_batch_plan plan;
    c->kernel = form;
    c->nlaunch = (int)parts;
    if (kl_devbatch_common(call, c)) return KL_OK;
    switch (call->op) {
    case KL_OP_BATCH: {
        const kl_status st = kl_offload_batch_dry(ex, call->batch, &plan, err);
        if (st != KL_OK) return st;
        kl_devbatch_choice(&plan,
                           self->tensor ? "FP64 tensor cores from sm_90 on"
                           : self->bare ? "no FP64 tensor cores of sm_90 here"
                                        : "what every target has",
                           c);
        return KL_OK;
    }
    case KL_OP_DOTS:
    case KL_OP_COMBINE: {
        const int passes = (call->nvec + KL_BELT - 1) / KL_BELT;
        c->nlaunch = passes * (int)parts * (call->op == KL_OP_DOTS && !self->bare ? 2 : 1);
        snprintf(c->why, sizeof c->why, "%d pass%s over x (%d columns in one)%s", passes,
                 passes == 1 ? "" : "es", (int)KL_BELT,
                 call->op == KL_OP_COMBINE ? ""
                 : self->bare              ? "; the last block folds the sums"
                                           : "; sums of threads by way of memory");
        return KL_OK;
    }
    case KL_OP_KRON:
        c->nlaunch = 2 * (self->bare ? 1 : (int)parts);
        snprintf(c->why, sizeof c->why, "%s",
                 self->tensor ? "right, then left states, a part of x in shared memory"
                              : "right, then left states, a thread a state");
        return KL_OK;
    case KL_OP_SPMV: {
        const kl_spmachine machine = kl_offload_spmachine(self);
        kl_spdev_explain(ex, &machine, call, c);
        return KL_OK;
    }
    default:
        snprintf(c->why, sizeof c->why, "%s",
                 self->bare ? "two elements an access where addresses are even"
                            : "no bare regions on this device");
        return KL_OK;
    }
}
