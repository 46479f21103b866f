/* `kronlat bench' and `kronlat tune': speed, every time with a checked answer.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_H
#define KL_BENCH_H
#include "run/options.h"

/* o->command says what is measured. */
kl_status kl_bench_run(kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
