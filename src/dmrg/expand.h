/* A basis of one side of a bond, and added to it the states that H leads to: what a wavefunction of fewer
   states on that side lacks, found by a random sketch of H psi (controlled bond expansion: Gleis, Li, von
   Delft, PRL 130, 246402 (2023); the sketch: McCulloch, Osborne, arXiv 2403.00562).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EXPAND_H
#define KL_EXPAND_H
#include "dmrg/leading.h"

typedef struct kl_expand_opts {
    kl_side side; /* whose basis is expanded */
    kl_wave wave; /* of two enlarged blocks, wholly in the known basis on that side */
    int nstate; /* wavefunctions, averaged by the squares of their norms, which are 1 on average */
    int nlight; /* of these, the last: they weigh little, and fewer rows of the sketch are theirs */
    const kl_bigop *near, *far; /* operators of the other side, and of this one */
    kl_warm known; /* the basis so far: an isometry of the enlarged block of this side */
    int more; /* states to add at most, */
    int full; /* 1: and a few that fill sectors up to whole tiles: see sectorfill.h */
    int measure; /* 1: info's residual is wanted; 0: it may be left 0 where nothing has to be chosen */
    uint64_t seed;
} kl_expand_opts;

typedef struct kl_expand_info {
    int added; /* states */
    double residual; /* |H psi|^2 beyond the known basis, about; of all wavefunctions on average */
} kl_expand_info;

/* The isometry over the same enlarged block, known states first in each sector; its numbers are in *data, on
   the executor. Deterministic: yes. */
kl_status kl_expand(kl_exec *ex, const kl_expand_opts *o, kl_isometry **out, kl_dptr *data,
                    kl_expand_info *info, kl_err *err) KL_MUST_CHECK;

#endif
