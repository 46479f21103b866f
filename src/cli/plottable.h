/* Graphs of tables of measured numbers, such as docs/performance/ holds: CSV files with the columns case,
   quantity, value and unit, in any order and with any others.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLOTTABLE_H
#define KL_PLOTTABLE_H
#include "base/base.h"

/* 1: the name ends as that of such a table. */
int kl_plottable_is(const char *path);
/* A panel for each unit: a line for each case, a mark for each quantity. Rows without a unit are not drawn.
   A table of plotsweep.h: its curves, `columns' panels side by side. output: as of kl_plot_run. */
kl_status kl_plottable_run(const char *path, int columns, const char *output, kl_err *err) KL_MUST_CHECK;

#endif
