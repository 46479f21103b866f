/* Job and lattice files in Lua, read by an interpreter that reaches no files, no other programs and not
   without end.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_JOB_H
#define KL_JOB_H
#include "model/lattice.h"
#include "run/options.h"

/* The file returns a table with options' names as keys (- written as _), and model, p, command. Unknown keys
   are errors with the closest match; what the command line gave stays. Or it returns a list of such tables;
   and a list in the place of a number or a lattice, sites = {16, 32}, is a run for each. which: of these
   runs, from 0, the last list fastest by the order of names; *count: how many they are. {NAME} in output is
   what is listed under NAME. EABSENT where liblua was not built in. */
kl_status kl_job_load(const char *path, int which, int *count, kl_options *o, kl_err *err) KL_MUST_CHECK;

/* The file returns { sites = N or { {name=, x=, y=, class=}, ... }, bonds = { {i, j, "nn"}, {"A", "B", {"nn",
   "x"}, r = 1.5}, ... } }; sites count from 0 or go by their names; r defaults to the distance of the
   coordinates, or 1. */
kl_status kl_job_lattice(const char *path, kl_lattice **out, kl_err *err) KL_MUST_CHECK;

#endif
