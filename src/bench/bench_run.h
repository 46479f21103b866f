/* Whole runs, and those of another build for comparison.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_RUN_H
#define KL_BENCH_RUN_H
#include "run/options.h"

/* `kronlat bench run MODEL`: the run that `kronlat dmrg` makes of the same options, its parts, and
   bench.program's in turn with it. KL_EBROKEN: their energies differ by more than their error bars, or the
   accuracy was not reached. */
kl_status kl_bench_whole_run(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
