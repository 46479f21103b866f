/* The sums of opsums.h between the sectors of an enlarged block: records that make them, side by side as the
   operators that they are made of.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPSTACKS_H
#define KL_OPSTACKS_H
#include "dmrg/block.h"
#include "dmrg/opsums.h"

typedef struct kl_opstacks {
    const kl_opsums *sums;
    /* [nplace * nsec]: of a place from a sector of the enlarged basis, where its matrices begin in the pack;
       -1: there are none */
    int64_t *at;
    int64_t npack; /* doubles of all of them */
    kl_batch batch; /* what makes them; reads sums->w at kl_opstacks_w */
} kl_opstacks;

/* pos: of the site; odd: as kl_phase_record takes it, of the states of the site, or of the sectors of the
   left block. */
kl_status kl_opstacks_create(const kl_bigop *g, int pos, const int *odd, kl_opstacks *out,
                             kl_err *err) KL_MUST_CHECK;
void kl_opstacks_clear(kl_opstacks *s);

/* Where records look for the coefficients: the other side's operators have no part in these lists. */
static inline kl_at kl_opstacks_w(const kl_bigop *g)
{
    return g->block->side == KL_LEFT ? KL_AT_RIGHT : KL_AT_LEFT;
}

/* Matrix number i of a place from sector c, which has some. */
kl_part kl_opstacks_part(const kl_bigop *g, const kl_opstacks *s, int place, int c, int i);

#endif
