/* Completion of the command line in bash, zsh and fish. The shells ask the program, at every press of the
   key, so that what is offered is what is taken.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COMPLETION_H
#define KL_COMPLETION_H
#include "run/options.h"

/* What a shell is to be told, on stdout. EINPUT: no such shell is known. */
kl_status kl_completion_script(const char *shell, kl_err *err) KL_MUST_CHECK;

/* word[n]: the words behind `kronlat', the last one under the cursor. Prints what it may become, one a line,
   with a tab and an explanation where there is one; a line ":file" where names of files are wanted, too. */
void kl_completion_words(int n, char **word);

#endif
