/* How outputs are cut into tiles: what a tile costs, and which sizes are done soonest.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILESHAPE_H
#define KL_TILESHAPE_H
#include "device/tileoutputs.h"
#include "device/tileplan.h"

/* How the outputs of a launch are cut. */
typedef struct kl_tile_shape {
    const kl_tile_plan_opts *p;
    int kind;
    int64_t whole; /* so many tiles, the dearest, are left as they are; the others' sums */
    int parts;     /* are cut into so many */
} kl_tile_shape;

/* Outputs by launch, the dearest first. */
int kl_tile_shape_by_slot(const void *pa, const void *pb);
/* What a tile costs in cycles, roughly: a step of `depth` by its pieces and by its edges, never less than its
   slices take to come, nor than the latency of loads; and what starting, further pieces and writing take. */
double kl_tile_shape_cost(const kl_tile_plan_opts *p, int um, int un, int64_t steps, int64_t pieces);
/* Of an output's sum; it and its links remember theirs. A matrix that is added takes about as long as one
   step of a product. */
int64_t kl_tile_shape_steps(const kl_tile_plan_maker *s, const kl_batch *b, kl_output *o, int depth);
/* Tiles of an output in either direction when they have so many units at most. */
void kl_tile_shape_tiles(const kl_tile_plan_opts *p, const kl_output *o, int most_m, int most_n, int *um,
                         int *un, int *tm, int *tn);
/* Cuts the outputs of a launch: which kind of block, and the most units of a tile. Small tiles load more for
   what they do, large ones leave blocks without work at the end. So most outputs get one size, and those
   whose tiles are the cheapest, which come last, may get a smaller one to fill the gaps; or the sums of dear
   tiles are cut into parts. Which, is found out by going through the motions. lone: small outputs may become
   lone tiles, where the kernel knows them. */
kl_status kl_tile_shape_choose(const kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_plan_opts *first,
                               kl_output *o, int64_t n, int lone, kl_tile_shape *cut,
                               kl_err *err) KL_MUST_CHECK;

#endif
