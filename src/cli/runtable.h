/* Tables of many runs: what a row has of a result, and the file of --csv.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RUNTABLE_H
#define KL_RUNTABLE_H
#include "run/task.h"
#include "cli/report.h"

/* A row: energies, errors and a value for each --measure that is a number, one for each site or bond (then
   their mean), or the entropy (of the middle cut). output "" for none. */
kl_report_item kl_runtable_item(const kl_task *t, const kl_result *r, const char *label, const char *output);

/* EINPUT where --csv is given and there are not many runs. */
kl_status kl_runtable_check(const kl_options *o, int many, kl_err *err) KL_MUST_CHECK;

/* Where --csv names a file: the rows so far, a line each; the names in their labels are columns.
   lowest is one where sectors are tried: 1 in the lowest one's row. */
kl_status kl_runtable_csv(const kl_options *o, int n, const kl_report_item *item, const kl_gaptable *gaps,
                          kl_err *err) KL_MUST_CHECK;
/* 1: --csv - asks for these lines on stdout instead of the table, once all runs are done. */
int kl_runtable_piped(const kl_options *o);
void kl_runtable_print(FILE *to, int n, const kl_report_item *item, const kl_gaptable *gaps);
/* The whole table, once all its runs are done or somebody asked to stop: as JSON, as lines for programs with
   what it would warn of on stderr, or as text; and the file of --csv again, with the sums of --gap. levels:
   as in kl_report_table. */
kl_status kl_runtable_tell(const kl_options *o, const char *title, int n, const kl_report_item *item,
                           int levels, kl_err *err) KL_MUST_CHECK;

#endif
