/* What is told of a state: spin, density matrices, natural occupations, leading determinants.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CISTATE_H
#define KL_CISTATE_H
#include "ci/cisector.h"

kl_status kl_cistate_describe(const kl_ciorbitals *l, kl_exec *ex, const kl_ci_opts *o, const kl_cisector *s,
                              int root, kl_ci_state *state, kl_err *err) KL_MUST_CHECK;

#endif
