/* When a launch of tiles ends: blocks of a device take tiles in order, each the next one as soon as it is
   free.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILESPAN_H
#define KL_TILESPAN_H
#include <stdint.h>

typedef struct kl_tile_load {
    double cost;
    int64_t n; /* number of tiles */
} kl_tile_load;

/* When the last of nblock blocks is done with l[n], the costliest first. Where that is `limit` or later, any
   number from there on. */
double kl_tile_span(const kl_tile_load *l, int64_t n, int nblock, double limit);

#endif
