/* Every truncation of a run against the best possible of the same wavefunctions for as many states: what is
   left out, and what is said to be. On any executor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TALLY_H
#define TALLY_H
#include "dmrg/truncate.h"

typedef struct tally {
    int nlooked, ntried; /* truncations, and those among them that did not look for all weights */
    int narrow; /* 1: only one-site steps are looked at */
    int nleast; /* sectors of which only what goes was diagonalized */
    double best, found; /* sums of what they leave out */
    double worst; /* of one */
} tally;

/* kl_trunc_watch.seen of a tally. Where sectors are filled up the best is that of as many states in each. */
void tally_look(void *self, kl_exec *ex, const kl_density *d, const kl_trunc_opts *o, const kl_isometry *iso,
                kl_dptr data, const kl_trunc_info *info);

#endif
