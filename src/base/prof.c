/* Clocks: see prof.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/prof.h"

#include <time.h>

int64_t kl_prof_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_nsec;
}

double kl_prof_seconds(void) { return 1e-9 * (double)kl_prof_clock(); }

double kl_prof_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ORDER KL_PROF */
const char *const kl_prof_name[KL_NPROF] = {"of truncation columns", "triangles on the host",
                                            "of truncation eigenproblems", "of truncation states",
                                            "waiting for other ranks"};

static kl_prof_times all;

void kl_prof_add(kl_prof_part part, double start) { all.seconds[part] += kl_prof_seconds() - start; }

kl_prof_times kl_prof_since(kl_prof_times before)
{
    kl_prof_times t = all;
    for (int i = 0; i < KL_NPROF; i++) t.seconds[i] -= before.seconds[i];
    return t;
}
