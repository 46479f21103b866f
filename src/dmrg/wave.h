/* Carries the wavefunction one site on, where it is a start vector near the eigenvector (White, PRL 77, 3633
   (1996)).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WAVE_H
#define KL_WAVE_H
#include "dmrg/state.h"
#include "dmrg/superblock.h"

/* An isometry, and where its matrices lie on the executor. */
typedef struct kl_isometry_on {
    const kl_isometry *iso;
    kl_dptr data;
} kl_isometry_on;

/* From the centre (c, c+1) to its neighbour. direction +1: `made` is the new isometry of the rows of `from`,
   `opened` the one at site c+2 that becomes part of the centre; -1: mirrored. nstate wavefunctions of `from`
   become those of `to`, whose psi has room for them. */
kl_status kl_wave_transform(kl_exec *ex, int direction, int nstate, const kl_wave *from, kl_isometry_on made,
                            kl_isometry_on opened, const kl_wave *to, kl_err *err) KL_MUST_CHECK;

#endif
