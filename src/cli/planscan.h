/* `kronlat plan --charge scan': what the runs of all its sectors would need.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLANSCAN_H
#define KL_PLANSCAN_H
#include "run/task.h"

/* Prints it. t: its charges have been read, and some are scanned. */
kl_status kl_planscan(const kl_options *o, kl_task *t, kl_err *err) KL_MUST_CHECK;

#endif
