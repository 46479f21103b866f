/* Dests cut into cells: each record covers a cell wholly or not at all, so that a cell's records are one
   chain.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CELLS_H
#define KL_CELLS_H
#include "device/dests.h"

/* 1 when a group whose records are all foreseen has a dest, from `first` on, that cells and levels cannot
   express. */
int kl_cells_tangled(const kl_tiling_maker *s, const kl_batch *b, int64_t first);
/* Appends the outputs of a dest and their links. */
kl_status kl_cells_write(kl_tiling_maker *s, const kl_batch *b, const kl_dest *d, uint64_t work,
                         kl_err *err) KL_MUST_CHECK;

#endif
