/* `kronlat explain': which executor and kernel each operation of a run takes, and why.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EXPLAIN_H
#define KL_EXPLAIN_H
#include "run/options.h"

/* Sets up the run that the options ask for, takes its lists apart and prints, text or JSON; solves
   nothing. */
kl_status kl_explain_command(kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
