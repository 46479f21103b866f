/* `kronlat ed' and `kronlat plan --method ed'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDCLI_H
#define KL_EDCLI_H
#include "run/options.h"

/* kl_interrupted is asked at every step. *stopped: 1 when it said yes. --resume takes over the options of its
   file. */
kl_status kl_edcli_run(kl_options *o, int *stopped, kl_err *err) KL_MUST_CHECK;
kl_status kl_edcli_plan(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
