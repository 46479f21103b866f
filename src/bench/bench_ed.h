/* `kronlat bench ed'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_ED_H
#define KL_BENCH_ED_H
#include "run/options.h"

/* exact: 0, or the energy to compare with; beside: NULL, or a command that does the same by another
   program. */
kl_status kl_bench_ed(kl_options *o, double exact, const char *beside, kl_err *err) KL_MUST_CHECK;

#endif
