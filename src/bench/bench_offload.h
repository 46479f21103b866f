/* `kronlat bench offload`: see there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_OFFLOAD_H
#define KL_BENCH_OFFLOAD_H
#include "run/options.h"

kl_status kl_bench_offload(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
