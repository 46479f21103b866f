/* The program as one of several ranks: who begins, who tells, and how all end.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANKSCLI_H
#define KL_RANKSCLI_H
#include "run/options.h"

/* Meets the other ranks, if a launcher has started more than one; from then on only the first one's report is
   seen. */
kl_status kl_rankscli_begin(kl_err *err) KL_MUST_CHECK;
/* What ranks are asked to do has to be the same, and something that they can share. *idle: 1: the first rank
   does it by itself. */
kl_status kl_rankscli_agree(const kl_options *o, int *idle, kl_err *err) KL_MUST_CHECK;
/* 1: the launcher has left a rank fewer cores than its threads want (0: as many as there are), or than each
   could have (0: not known), which text[n] says. Pure. */
int kl_rankscli_bound(int64_t threads, int cores, int most, char *text, size_t n);
/* The end; line: NULL, or what went wrong, told once. */
void kl_rankscli_end(const char *line);
int kl_rankscli_tells(void); /* 1: this rank's reports and notes are seen */

#endif
