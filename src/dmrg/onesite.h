/* One site at the centre in place of two: the other one is absorbed in the block beyond it, whose basis was
   expanded before. Everything else of the engine stays as it is: a superblock with one of the middle sites
   absent.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ONESITE_H
#define KL_ONESITE_H
#include "dmrg/engine.h"
#include "dmrg/expand.h"

/* The side of the centre that has no site, and what it was. */
typedef struct kl_onesite {
    kl_side side;
    kl_enlarged *enlarged; /* its basis with the site, and the layout of the wavefunctions then */
    kl_layout layout;
    kl_isometry *iso;      /* of the absorbed site, without data */
    kl_dptr data;
    kl_block *block;       /* with the site */
} kl_onesite;

/* Absorbs the site that lies ahead in this direction, with `more` states beside those known; the
   wavefunctions stay the same. Does nothing where its basis is not known (after a turn). */
kl_status kl_onesite_absorb(kl_engine *e, int direction, int more, uint64_t seed, kl_expand_info *info,
                            kl_err *err) KL_MUST_CHECK;
/* Both sites are at the centre again, the wavefunctions the same. Operators of the centre are gone. */
kl_status kl_onesite_restore(kl_engine *e, kl_err *err) KL_MUST_CHECK;
void kl_onesite_destroy(kl_engine *e);

#endif
