/* `kronlat bench compare` and `kronlat tune`: see there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_COMPARE_H
#define KL_BENCH_COMPARE_H
#include "run/options.h"

kl_status kl_bench_compare(const kl_options *o, kl_err *err) KL_MUST_CHECK;
kl_status kl_bench_tune(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
