/* `kronlat bench ci`: sparse products in every format, and configuration interaction by matrix and without,
   each time behind a checked answer.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_CI_H
#define KL_BENCH_CI_H
#include "run/options.h"

kl_status kl_bench_ci(kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
