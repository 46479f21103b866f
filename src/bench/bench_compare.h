/* `kronlat bench compare` and `kronlat tune`: see there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_COMPARE_H
#define KL_BENCH_COMPARE_H
#include "base/base.h"

/* argv[0] is the word itself. */
kl_status kl_bench_compare(int argc, char **argv, kl_err *err) KL_MUST_CHECK;
kl_status kl_bench_tune(int argc, char **argv, kl_err *err) KL_MUST_CHECK;

#endif
