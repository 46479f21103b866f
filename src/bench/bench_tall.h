/* `kronlat bench gemv_trans`: see there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_TALL_H
#define KL_BENCH_TALL_H
#include "base/base.h"

/* argv[0] is the word itself. */
kl_status kl_bench_tall(int argc, char **argv, kl_err *err) KL_MUST_CHECK;

#endif
