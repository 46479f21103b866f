/* DMRG in the problem's own unit: a run on couplings of 1e-300 or 1e300, whose squares are no numbers, is the
   run on couplings of one. Decides nothing; kl_dmrg_run is its face.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OWNUNIT_H
#define KL_OWNUNIT_H
#include "dmrg/dmrg.h"

/* kl_dmrg_run for terms that are in a usual unit. */
kl_status kl_dmrg_run_scaled(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *opts,
                             const kl_dmrg_monitor *monitor, kl_state **state, kl_dmrg_result *result,
                             kl_err *err) KL_MUST_CHECK;

#endif
