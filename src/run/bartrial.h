/* The error bar of a run that ended by its number of states. Where these are few, or where the order of the
   sites leaves couplings far apart, a state may settle with so little entanglement that its discarded weight
   tells nothing. A few sweeps with more states, or in a better order, tell how much lower the energy lies at
   least.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BARTRIAL_H
#define KL_BARTRIAL_H
#include "run/dmrgrun.h"

/* Of all terms that join sites: squares of coefficients times the squares of how far their sites lie apart,
   over the squares of coefficients. 0: no term joins sites. */
double kl_bartrial_reach(const kl_terms *t);

/* Widens the error bar of `found', of the run x, where the trial ends at a lower energy; x->watch hears of
   it; several ranks make the trial together. Nothing is tried in runs that converged, but for those that kept
   few states and may keep no more: where the trial ends below their error bar they have not converged. */
kl_status kl_bartrial(kl_dmrgrun *x, const kl_dmrg_monitor *monitor, kl_dmrg_result *found,
                      kl_err *err) KL_MUST_CHECK;

#endif
