/* Plots of a result file, drawn by gnuplot in a process of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLOT_H
#define KL_PLOT_H
#include "result.h"

/* output ends in .svg, .png or .pdf and appears as a whole or not at all. EABSENT: gnuplot is not installed. */
kl_status kl_plot_result(const kl_result *r, const char *output, kl_err *err) KL_MUST_CHECK;

#endif
