/* The words behind `kronlat' as options, and the help.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COMMANDLINE_H
#define KL_COMMANDLINE_H
#include "run/options.h"

/* Reads the words after the program's name. EINPUT: one line that names the option, the value seen and what
   is allowed. help and version are only noted. For KL_CMD_RUN the options wait for the job, which says whose
   they are: kl_options_take_typed. */
kl_status kl_commandline_parse(int argc, char **argv, kl_options **out, kl_err *err) KL_MUST_CHECK;

/* The help of a command, or of the program for KL_CMD_HELP, on stdout. */
void kl_commandline_help(kl_command command);

#endif
