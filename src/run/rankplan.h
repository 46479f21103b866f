/* What a run would take on several ranks: a model on paper, for plans.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANKPLAN_H
#define KL_RANKPLAN_H
#include "dmrg/dmrg.h"
#include "ed/ed.h"
#include "run/rankrates.h"

typedef struct kl_rankplan {
    int ranks, idle; /* idle: without any part of a product with H */
    double seconds;  /* of a sweep, or of a product */
    double bytes;    /* of memory, the largest of a rank */
    double traffic;  /* bytes that a rank gets from the others in that time */
    double efficiency;
} kl_rankplan;

/* 1, 2, 4, ... and at the end `most` ranks, of processors or devices: *out has *n rows. */
kl_status kl_rankplan_dmrg(const kl_dmrg_plan *p, int devices, int most, const kl_rankrate *between, int *n,
                           kl_rankplan **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_rankplan_ed(const kl_ed_plan *p, int most, const kl_rankrate *between, int *n, kl_rankplan **out,
                         kl_err *err) KL_MUST_CHECK;

/* Between ranks, or between their devices: as it was measured (tune.h), else what is assumed, of 0 ranks. */
kl_rankrate kl_rankplan_between(int devices);

#endif
