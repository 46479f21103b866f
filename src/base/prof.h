/* Clocks.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PROF_H
#define KL_PROF_H
#include "base/base.h"

int64_t kl_prof_clock(void);      /* nanoseconds of a clock that only goes forward */
double kl_prof_seconds(void);     /* the same in seconds */
double kl_prof_cpu_seconds(void); /* CPU time of the process, all threads */

/* What lies inside the parts of a run, of one thread's clock. ORDER KL_PROF: kl_prof_name */
typedef enum kl_prof_part {
    KL_PROF_COLUMNS,   /* of truncation: leading columns by products, triangles among it */
    KL_PROF_TRIANGLES, /* of columns that become orthonormal: their Gram matrices' factors, on the host */
    KL_PROF_EIGEN,     /* of truncation: density matrices and their eigenproblems */
    KL_PROF_STATES,    /* of truncation: the states that are kept */
    KL_PROF_WAIT,      /* in all parts: for messages of other ranks */
    KL_NPROF
} kl_prof_part;
extern const char *const kl_prof_name[KL_NPROF];

typedef struct kl_prof_times {
    double seconds[KL_NPROF];
} kl_prof_times;

/* Adds the seconds since `start` (kl_prof_seconds). Of a process whose thread that runs adds. */
void kl_prof_add(kl_prof_part part, double start);
/* What was added since `before`, which kl_prof_since of zeros gave. */
kl_prof_times kl_prof_since(kl_prof_times before);

#endif
