/* A state of a total spin S written out as one of its 2S + 1 components, in the charges that the model has
   without S: what needs Sz measures it, and runs with Sz start from it. Holds the same numbers to rounding.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COMPONENTS_H
#define KL_COMPONENTS_H
#include "dmrg/state.h"
#include "exec/exec.h"

/* Wavefunction `which` of `spin` over the sites of `plain`, terms of the variant without S, of which only the
   sites are read. target: the charges of the component, such as Sz; NULL: the one with M = S. The centre of
   *out is 0, its bases hold every component of every multiplet. EINPUT: no component has these charges. */
kl_status kl_components_create(kl_exec *ex, const kl_state *spin, int which, const kl_terms *plain,
                               const kl_qn *target, kl_state **out, kl_err *err) KL_MUST_CHECK;

#endif
