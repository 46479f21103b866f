/* Products of site states whose diagonal energy is low: a bound that costs next to nothing, and where sweeps
   can begin.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PRODUCTS_H
#define KL_PRODUCTS_H
#include "dmrg/engine.h"

typedef struct kl_products {
    int n;          /* 0: none was looked for */
    int *state;     /* [n][nsite] the state of each position */
    double *energy; /* [n] <H> of each, without the constant; rising */
} kl_products;

/* Up to `most` different ones of the engine's sector, the lowest that a search from left to right comes by:
   of the parts with equal charges the best few go on. None where the total spin is a charge, whose states are
   no products, or where the search would take long. */
kl_status kl_products_find(const kl_engine *e, int most, kl_products *out, kl_err *err) KL_MUST_CHECK;
/* A product of one's own comes first, and the last may have to go; where it is among them, it comes first all
   the same. */
void kl_products_put_first(kl_products *p, const int *state, int nsite, double energy);
void kl_products_clear(kl_products *p);

#endif
