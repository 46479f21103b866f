/* How long a sweep would take, from the sizes of its middle bond and rates that are measured in milliseconds.
   Host: about five products with H a bond, the eigensolver's vectors, an eigenproblem or products a sector in
   truncation, and growth by the products that it is. Devices: the products, truncation as it would be done,
   growth, and some milliseconds of lists.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLANTIME_H
#define KL_PLANTIME_H
#include "exec/exec.h"

/* ORDER KL_PLAN: names in plantime.c */
typedef enum kl_plan_part {
    KL_PLAN_PRODUCTS,
    KL_PLAN_TRUNCATION,
    KL_PLAN_GROWTH, /* of blocks, and expansion of bases */
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
    double growth_flop; /* of the block that grows at the middle */
    int64_t dim; /* of the wavefunction */
    double list_seconds;  /* that listing the operators of a step takes here */
    double nstep; /* steps of a sweep; */
    double nlike; /* as many at the middle would be as much work */
} kl_plan_middle;

/* What is measured of the host on one thread, and what truncation at the middle bond asks for. */
typedef struct kl_plan_host {
    double rate; /* flop a second of products */
    double eigen; /* seconds of an eigenproblem by the cube of its rows */
    double pass; /* seconds a number of adding one vector to another */
    double flop; /* of truncation's products */
    const int *width; /* [nsector] rows of its eigenproblems */
} kl_plan_host;
/* Products and truncation on nthread threads, a fifth of whose work is one thread's. Pure. */
void kl_plan_host_of(const kl_plan_middle *mid, const kl_plan_host *r, int nthread, double seconds[KL_NPLAN]);

/* Of the same sweep, of one site, where the way back neither expands nor truncates. Pure. */
double kl_plan_settled(const double seconds[KL_NPLAN]);

/* *rate: flop a second of products with H. */
kl_status kl_plan_seconds(kl_exec *ex, const kl_plan_middle *mid, double seconds[KL_NPLAN], double *rate,
                          kl_err *err) KL_MUST_CHECK;

#endif
