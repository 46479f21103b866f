/* `kronlat bench auto': whole runs by --exec auto beside each executor by name.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_AUTO_H
#define KL_BENCH_AUTO_H
#include "run/options.h"

kl_status kl_bench_auto(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
