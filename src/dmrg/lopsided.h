/* Whether a state has lost a symmetry that H has, Sz -> -Sz or N_up and N_dn exchanged. It is then a mixture
   of two states that its sweeps have not told apart, though no guard may have met the other one: edge spins
   far apart, one up and one down, have the same energy as their image.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LOPSIDED_H
#define KL_LOPSIDED_H
#include "dmrg/state.h"

/* Of the lowest wavefunction. *yes 1: the first site tells it, by weights of its charges that differ from
   those of their images by more than truncation leaves. 0: they do not; or there is nothing to tell it by: a
   total spin as a charge, a sector that is not its own image, a centre elsewhere. */
kl_status kl_state_lopsided(const kl_terms *t, kl_qn target, const kl_state *s, int *yes,
                            kl_err *err) KL_MUST_CHECK;

#endif
