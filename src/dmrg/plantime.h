/* How long a sweep would take, from the sizes of its middle bond and rates that are measured in
   milliseconds. Host: about five products with H a bond, and as much again for truncation and growth.
   Devices: the products, truncation as it would be done, and some milliseconds of lists.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLANTIME_H
#define KL_PLANTIME_H
#include "exec/exec.h"

/* ORDER KL_PLAN: names in plantime.c */
typedef enum kl_plan_part {
    KL_PLAN_PRODUCTS,
    KL_PLAN_TRUNCATION,
    KL_PLAN_LISTS,
    KL_PLAN_BUS, /* planbeyond.h; 0 where everything fits */
    KL_NPLAN
} kl_plan_part;
extern const char *const kl_plan_part_name[KL_NPLAN];

typedef struct kl_plan_sector { /* of the wavefunction, and what is kept of it */
    int rows, cols, kept;
} kl_plan_sector;

typedef struct kl_plan_middle {
    int nsector;
    const kl_plan_sector *sector;
    int nstate;
    int narrow;      /* 1: the other side has no site of its own */
    int mean_rows;   /* of a middling product, for the host */
    double nproduct; /* products with H at a bond */
    double flop, nrecord; /* of one */
    double list_seconds;  /* that listing the operators of a step takes here */
    double nstep; /* steps of a sweep; */
    double nlike; /* as many at the middle would be as much work */
} kl_plan_middle;

/* *rate: flop a second of products with H. */
kl_status kl_plan_seconds(kl_exec *ex, const kl_plan_middle *mid, double seconds[KL_NPLAN], double *rate,
                          kl_err *err) KL_MUST_CHECK;

#endif
