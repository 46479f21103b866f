/* `kronlat dmrg': runs of one sector, of all sectors and along a parameter, and their files.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DMRGCLI_H
#define KL_DMRGCLI_H
#include "run/options.h"

/* kl_interrupted is asked at every bond; *stopped 1: it said so, and what was kept is in a file. --resume
   takes over the options of its file, and goes on with the values of a sweep that are left. */
kl_status kl_dmrgcli_run(kl_options *o, int *stopped, kl_err *err) KL_MUST_CHECK;

/* Removes a file that keeps a name and holds nothing yet; a signal handler may call it. */
void kl_dmrgcli_release(void);

#endif
