/* Configuration interaction in the integrals' own unit, as dmrg/ownunit.h has it for DMRG; kl_ci_run is its
   face. Decides nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIUNIT_H
#define KL_CIUNIT_H
#include "ci/ci.h"

/* kl_ci_run for integrals that are in a usual unit. */
kl_status kl_ci_run_scaled(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *o,
                           const kl_ci_monitor *monitor, kl_ci_result *out, kl_err *err) KL_MUST_CHECK;

/* A copy of the integrals in their own unit, a power of two; *unit: it. */
kl_status kl_ci_in_own_unit(const kl_fcidump *f, kl_fcidump **out, double *unit, kl_err *err) KL_MUST_CHECK;

#endif
