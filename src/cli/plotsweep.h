/* Graphs of the tables that `bench gemv_trans --csv' and `bench gemv_normal --csv' write: nemes2014, Figs. 6
   to 11.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLOTSWEEP_H
#define KL_PLOTSWEEP_H
#include "figure/figure.h"

/* 1: the text's first line is that of such a table. */
int kl_plotsweep_is(const char *text);
/* A panel for each number of rows: GB/s over columns, a curve for each way. text is cut up; path: for
   messages. */
kl_status kl_plotsweep_figure(char *text, const char *path, kl_figure *f, kl_err *err) KL_MUST_CHECK;

#endif
