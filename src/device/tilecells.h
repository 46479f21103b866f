/* Dests cut into cells: each record covers a cell wholly or not at all, so that a cell's records are one
   chain.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILECELLS_H
#define KL_TILECELLS_H
#include "device/tileoutputs.h"

/* 1 when a group whose records are all foreseen has a dest, from `first` on, that cells and levels cannot
   express. */
int kl_tile_cells_tangled(const kl_tile_plan_maker *s, const kl_batch *b, int64_t first);
/* Appends the outputs of a dest and their links. */
kl_status kl_tile_cells_write(kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_output *d,
                              uint64_t work, kl_err *err) KL_MUST_CHECK;

#endif
