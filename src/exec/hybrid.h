/* Processor and device together on one list (nemes2014, Alg. 5): a list's outputs are shared out by the ratio
   of the two speeds, the largest ones to the device.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_HYBRID_H
#define KL_HYBRID_H
#include "exec/exec.h"

/* An executor like `device`, which it takes, that lets the host do its share of lists that are applied many
   times (kl_batch.lasting); everything else is the device's. steps: "SIZE:RATIO,SIZE:RATIO,...", ascending:
   how many times faster than nthread threads of the host the device is on matrices of SIZE and more; "auto"
   measures it. */
kl_status kl_exec_open_hybrid_take(kl_exec **device, int nthread, const char *steps, kl_exec **out,
                                   kl_err *err) KL_MUST_CHECK;

#endif
