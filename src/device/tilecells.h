/* Cuts the outputs of a tile plan into cells, such that each record covers a cell wholly or not at all. The
   records of a cell are then one chain of products, which is summed in registers and written once.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILECELLS_H
#define KL_TILECELLS_H
#include "device/tileoutputs.h"

/* 1 when an output from number `first` on, of a group whose records are all of known forms, has records that
   no order of cells and launches can express: the group then keeps the order of its records. */
int kl_tile_cells_tangled(const kl_tile_plan_maker *s, const kl_batch *b, int64_t first);
/* Appends the cells of output d to the plan, each with the records that are added to it. work: where WORK
   begins. */
kl_status kl_tile_cells_write(kl_tile_plan_maker *s, const kl_batch *b, const kl_tile_output *d,
                              uint64_t work, kl_err *err) KL_MUST_CHECK;

#endif
