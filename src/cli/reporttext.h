/* Words and numbers that the reports share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REPORTTEXT_H
#define KL_REPORTTEXT_H
#include "cli/report.h"

/* "1.2 s", "3 min 05 s" */
const char *kl_report_time(double seconds, char buf[32]);

/* An energy with all of its digits, for a column 23 wide. */
const char *kl_report_column(double energy, char buf[40]);
/* An energy to one digit beyond its error, 15 significant ones at most. */
const char *kl_report_energy(double energy, double error, char buf[40]);

/* What a stop means, in words. */
const char *kl_report_stop(kl_dmrg_stop stop);

/* The run with the lowest energy; n > 0. */
int kl_report_lowest(int n, const kl_report_item *item);

/* The lowest states of all these runs. */
kl_report_sectors kl_report_sectors_of(int n, const kl_report_item *item);

/* Model, lattice and charges. */
void kl_report_title(FILE *to, const kl_report_head *head);

#endif
