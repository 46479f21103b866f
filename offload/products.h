/* The kernels behind a list, and what they share.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PRODUCTS_H
#define KL_PRODUCTS_H
#include "offload.h"
#include "plan.h"

/* Address of an operand that may count from x or y. */
static inline uint64_t kl_where(uint64_t a, uint32_t flags, int shift, const double *x, const double *y)
{
    const uint32_t from = flags >> shift & 3u;
    return a + (from == 1 ? (uint64_t)(uintptr_t)x : from == 2 ? (uint64_t)(uintptr_t)y : 0);
}

/* sums.c */
void kl_offload_sums(const kl_offload *self, const kl_cell *cell, int ncell, const kl_term *term, const double *x, double *y);
/* plain.c */
extern const kl_plan_opts kl_plain_opts;
void kl_offload_plain(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y);
/* tensor.c */
extern const kl_plan_opts kl_tensor_opts;
void kl_offload_tensor(const kl_offload *self, const kl_piece *piece, int ntile, const double *x, double *y);

#endif
