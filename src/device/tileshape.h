/* Chooses the sizes of the tiles that outputs are cut into: it estimates the cycles that a tile takes, and
   takes the sizes with which a launch ends soonest.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILESHAPE_H
#define KL_TILESHAPE_H
#include "device/tileoutputs.h"
#include "device/tileplan.h"

/* How the outputs of a launch are cut. */
typedef struct kl_tile_shape {
    const kl_tile_plan_opts *p;
    int kind;
    int64_t whole; /* number of tiles, those of the highest cost, whose sums are not cut */
    int parts;     /* number of parts that the sum of every other tile is cut into */
} kl_tile_shape;

/* An estimate of the cycles that a tile takes. A step of `depth` costs the cycles of its products, but at
   least the time in which its slices are loaded, and at least the latency of a load. The start of the tile,
   further pieces and the writing of the result are added. */
double kl_tile_shape_cost(const kl_tile_plan_opts *p, int um, int un, int64_t steps, int64_t pieces);
/* The number of steps of an output's sum, which is kept in the output for two depths. */
int64_t kl_tile_shape_steps(const kl_tile_plan_maker *s, kl_output *o, int depth);
/* *tm, *tn: numbers of tiles of an output, down and across, when a tile has at most most_m by most_n units;
   *um, *un: units of such a tile. */
void kl_tile_shape_tiles(const kl_tile_plan_opts *p, const kl_output *o, int most_m, int most_n, int *um,
                         int *un, int *tm, int *tn);
/* Chooses for the outputs of a launch the kind of block and the largest tile. Small tiles load more numbers
   for each product, and large tiles leave blocks without work at the end of the launch. Most outputs
   therefore get one size. Those whose tiles cost least come last, and may get a smaller size that fills the
   gaps; or the sums of tiles that cost most are cut into parts. The choice is made by simulating the launch
   with each. lone: small outputs may become lone tiles, where the kernel has them. */
kl_status kl_tile_shape_choose(const kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_plan_opts *first,
                               kl_output *o, int64_t n, int lone, kl_tile_shape *cut,
                               kl_err *err) KL_MUST_CHECK;

#endif
