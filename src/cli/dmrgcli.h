/* `kronlat dmrg'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DMRGCLI_H
#define KL_DMRGCLI_H
#include "run/options.h"

/* kl_interrupted is asked at every bond; *stopped: 1 when it said yes. --resume takes over the options of its
   file. */
kl_status kl_dmrgcli_run(kl_options *o, int *stopped, kl_err *err) KL_MUST_CHECK;

/* Gives back the name that a run under way has reserved: for a signal's handler. */
void kl_dmrgcli_abandon(void);

#endif
