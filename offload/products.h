/* The kernels behind a list, and what they share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PRODUCTS_H
#define KL_PRODUCTS_H
#include "offload.h"
#include "device/tileplan.h"

/* sums.c */
void kl_offload_sums(const kl_offload *self, const kl_tile_cell *cell, int ncell, const kl_summand *term,
                     const double *x, double *y);
/* plain.c */
extern const kl_tile_plan_opts kl_plain_opts;
void kl_offload_plain(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y);
/* tensor.c, with tiles of 128 x 96 and of 128 x 128 */
extern const kl_tile_plan_opts kl_tensor_opts, kl_tensor_opts_wide;
void kl_offload_tensor(const kl_offload *self, const kl_launch *l, const kl_piece *piece, const double *x,
                       double *y);
void kl_offload_tensor_wide(const kl_offload *self, const kl_launch *l, const kl_piece *piece,
                            const double *x, double *y);

#endif
