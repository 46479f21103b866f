/* `kronlat ci`: from options to a run of configuration interaction, and its report as text or JSON.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CICLI_H
#define KL_CICLI_H
#include "io/cifile.h"
#include "run/options.h"

/* kl_interrupted is asked between steps; *stopped 1: it said so, and what was kept is in the file. */
kl_status kl_cicli_run(kl_options *o, int *stopped, kl_err *err) KL_MUST_CHECK;

/* Prints what the result file o->file holds. */
void kl_cicli_show(const kl_options *o, const kl_ci_record *c);

#endif
