/* Named counters of time, flops and bytes: always on, cheap enough for every product and safe from any thread.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PROF_H
#define KL_PROF_H
#include "base.h"

typedef struct kl_prof kl_prof;

typedef struct kl_prof_view {
    const char *name;
    double seconds;
    int64_t calls, flops, bytes;
} kl_prof_view;

/* The counter of this name, made at its first use and valid for ever; names are string literals. Keep it in a static:
   `static kl_prof *prof; if (!prof) prof = kl_prof_named("truncate");` Past 128 names all others share "other". */
kl_prof *kl_prof_named(const char *name);

int64_t kl_prof_clock(void); /* nanoseconds of a monotonic clock */
double kl_prof_seconds(void); /* the same in seconds */
double kl_prof_cpu_seconds(void); /* CPU time of the process, all threads */

/* Adds the time since `start` (of kl_prof_clock), one call, and what it did. */
void kl_prof_add(kl_prof *p, int64_t start, int64_t flops, int64_t bytes);

/* Copies the counters in the order in which their names came; returns how many. */
int kl_prof_read(int max, kl_prof_view *view);
void kl_prof_reset(void);

#endif
