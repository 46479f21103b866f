/* Manual pages: kronlat.1 and one a command, on stdout.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MANPAGE_H
#define KL_MANPAGE_H
#include "run/options.h"

/* The page of a command; of the program for KL_CMD_HELP. */
void kl_manpage_print(kl_command command);

/* NULL or "kronlat": the program. */
kl_status kl_manpage_command(const char *name, kl_command *out, kl_err *err) KL_MUST_CHECK;

#endif
