/* Pictures, drawn by gnuplot in a process of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLOT_H
#define KL_PLOT_H
#include "base/base.h"
#include <stdio.h>

/* Writes a script that draws on `terminal`, into what gnuplot takes for its standard output; begins with
   kl_plot_page. gnuplot runs shell commands that stand in backquotes and in names: a script names no file,
   and every text in it that is not our own goes through kl_plot_quote. */
typedef void kl_plot_fn(FILE *to, const void *self, const char *terminal);
void kl_plot_page(FILE *to, const char *terminal, int pixels_x, int pixels_y);
void kl_plot_sheet(FILE *to, const char *terminal, int pixels_x, int pixels_y, int dark);
/* in double quotes; every byte that is not plain is written as a number */
void kl_plot_quote(FILE *to, const char *text);
/* output, which messages call by its option, ends in .svg, .png or .pdf and appears as a whole or not at all.
   EABSENT: gnuplot is not installed. */
kl_status kl_plot_run(kl_plot_fn *script, const void *self, const char *option, const char *output,
                      kl_err *err) KL_MUST_CHECK;

#endif
