/* Clocks.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PROF_H
#define KL_PROF_H
#include "base/base.h"

int64_t kl_prof_clock(void);      /* nanoseconds of a clock that only goes forward */
double kl_prof_seconds(void);     /* the same in seconds */
double kl_prof_cpu_seconds(void); /* CPU time of the process, all threads */

#endif
