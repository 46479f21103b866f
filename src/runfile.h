/* What a result file remembers of the command line, so that --resume FILE is enough, and what such a file is called.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RUNFILE_H
#define KL_RUNFILE_H
#include "task.h"

/* What was asked, as "name=value" lines that --resume reads back. Charges are those of dmrg.target, and one parameter may be set by a sweep (swept NULL: none). */
kl_status kl_runfile_options(const kl_options *o, const kl_task *t, const char *swept, double value, char **out, kl_err *err) KL_MUST_CHECK;

/* What the file says, where the command line says nothing. */
kl_status kl_runfile_adopt(kl_options *o, const kl_result *done, kl_err *err) KL_MUST_CHECK;

/* "hubbard-chain16-N_up=8,N_dn=8.h5", with a number where that is taken: a name of our own making never replaces a file. */
void kl_runfile_name(const kl_task *t, char *path, size_t size);

#endif
