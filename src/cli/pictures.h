/* What plans and growth print, as pictures by gnuplot: those of elwasif and of nemes2014.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PICTURES_H
#define KL_PICTURES_H
#include "cli/report.h"

/* The work of C[I,J] over pairs of patches, and how it is distributed. output: as of kl_plot_run. */
kl_status kl_picture_plan(const kl_report_head *head, const kl_dmrg_plan *plan, const char *output,
                          kl_err *err) KL_MUST_CHECK;

/* Sizes and times by iteration, rate by size of matrix, and time by parts: nemes2014, Figs. 1 to 4, 14, 15,
   18 to 21. */
kl_status kl_picture_growth(const kl_report_head *head, int n, const kl_infinite_row *row, const char *output,
                            kl_err *err) KL_MUST_CHECK;

#endif
