/* The commands of exact diagonalization: `kronlat ed', `kronlat plan --method ed' and `kronlat bench ed'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDRUN_H
#define KL_EDRUN_H
#include "ed/ed.h"
#include "cli/options.h"
#include "cli/task.h"

/* kl_interrupted is asked at every step. *stopped: 1 when it said yes. --resume takes over the options of its
   file. */
kl_status kl_edrun_command(kl_options *o, int *stopped, kl_err *err) KL_MUST_CHECK;
kl_status kl_edrun_plan(const kl_options *o, kl_err *err) KL_MUST_CHECK;

/* argv[0] is "ed". exact: 0, or the energy to compare with; beside: NULL, or a command that does the same by
   another program. */
kl_status kl_edrun_bench(kl_options *o, double exact, const char *beside, kl_err *err) KL_MUST_CHECK;

/* What --form and the options of the solver say. */
kl_halves_form kl_edrun_form(const kl_options *o);
void kl_edrun_opts(const kl_task *t, kl_ed_opts *out);

#endif
