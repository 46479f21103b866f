/* A saved state made to fit the run that goes on with it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FITSTATE_H
#define KL_FITSTATE_H
#include "dmrg/engine.h"

/* Isometries and wavefunctions over enlarged bases with the sectors that this run has, those that can be
   completed to its charges, in place of those that the state came with: components of a multiplet have
   others. A state that fits is left as it is. */
kl_status kl_engine_fit_state(const kl_engine *e, kl_state *s, kl_err *err) KL_MUST_CHECK;

#endif
