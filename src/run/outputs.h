/* Which files a run reads and which it writes: no name may be two of them. Opens nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OUTPUTS_H
#define KL_OUTPUTS_H
#include "run/options.h"

/* EINPUT where something that o says to write is a file that the run reads (job, which may be NULL, among
   them), or two outputs are one file. What --start names is read before anything is written, so that --output
   may replace it. */
kl_status kl_outputs_check(const kl_options *o, const char *job, kl_err *err) KL_MUST_CHECK;

/* The same of one file that --output leads to, where its name is made from it. */
kl_status kl_outputs_check_one(const kl_options *o, const char *path, kl_err *err) KL_MUST_CHECK;

#endif
