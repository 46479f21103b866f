/* Electrons as two flavours of one mode a site: the operators of a site as sums of products of one mode
   operator of each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FLAVOUR_H
#define KL_FLAVOUR_H
#include "model/terms.h"

/* Operators of one mode: identity, number, annihilator, creator. */
enum { KL_MODE_I, KL_MODE_N, KL_MODE_C, KL_MODE_CDAG, KL_NMODE };

typedef struct kl_flavour {
    kl_site_type type[2];
    kl_site_op op[2][KL_NMODE];
    int charge[2][2][KL_MAX_CHARGE];
    int state_of[4];          /* site state of (first, second) = (bit 0, bit 1) */
    int bits_of[4];           /* and back */
    int nop;
    /* [nop]: site operator = sum of part * (mode operator of the first)(that of the second) */
    double (*part)[KL_NMODE][KL_NMODE];
} kl_flavour;

/* Every site the same one of four states, two U(1) charges that count two modes, the first of which comes
   first in the mode order. *out NULL if not. charge: which charges count them. */
kl_status kl_flavour_find(const kl_terms *t, int charge[2], kl_flavour **out, kl_err *err) KL_MUST_CHECK;
void kl_flavour_free(kl_flavour **f);

#endif
