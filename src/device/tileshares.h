/* The outputs and cells of a long list, found by several threads, each with a share of the groups or of the
   outputs. The result does not depend on the number of threads.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILESHARES_H
#define KL_TILESHARES_H
#include "device/tileoutputs.h"

/* The number of threads that a list of nrec records is worth. */
int kl_tile_hands(int nthread, int64_t nrec);

/* The outputs of all groups, and how many groups have to keep the order of their records. */
kl_status kl_tile_shares_find(int nthread, kl_tile_plan_maker *s, const kl_batch *b, int *nsequential,
                              kl_err *err) KL_MUST_CHECK;
/* The cells of all outputs and their links. */
kl_status kl_tile_shares_write(int nthread, kl_tile_plan_maker *s, const kl_batch *b, uint64_t work,
                               kl_err *err) KL_MUST_CHECK;
void kl_tile_maker_clear(kl_tile_plan_maker *s); /* frees its arrays */

#endif
