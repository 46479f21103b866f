/* `kronlat bench hx --replay`: see there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_HX_H
#define KL_BENCH_HX_H
#include "run/options.h"

kl_status kl_bench_replay(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
