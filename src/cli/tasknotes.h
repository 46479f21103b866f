/* What of a model stands nowhere on its lattice, what small circumferences make of it, and which bonds listed
   values belong to.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TASKNOTES_H
#define KL_TASKNOTES_H
#include "run/task.h"

/* Notes on stderr: terms that no bond and no run of sites carries, pairs that are joined both ways around
   and count once, and the order of values that are listed by bond; none of a run that goes on. What the call
   before told is not told again, so that a series tells it once. */
kl_status kl_tasknotes(const kl_task *t, kl_err *err) KL_MUST_CHECK;

#endif
