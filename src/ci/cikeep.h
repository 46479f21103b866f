/* What a configuration interaction keeps of itself: the irreps that are solved, and the solver of the one
   that is not finished.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIKEEP_H
#define KL_CIKEEP_H
#include "ci/cisector.h"

typedef struct kl_cikeep {
    const kl_keeper *to; /* NULL: nothing is kept */
    kl_cisector *s; /* [8] */
    kl_ci_block *block; /* [8] */
    int irrep, last; /* the current irrep, -1: none; last 1: in its fine stage */
    kl_keep solver; /* of the current irrep, from a checkpoint */
} kl_cikeep;

/* Irreps as a checkpoint has them, if there is one. EINPUT: it is none of this run. */
kl_status kl_cikeep_take_up(kl_cikeep *k, kl_err *err) KL_MUST_CHECK;

/* A stage of an irrep, from where the checkpoint has its solver. */
kl_status kl_cikeep_solve(kl_cikeep *k, int irrep, const kl_ci_opts *o, const kl_cisector_stage *g,
                          const kl_ci_monitor *monitor, kl_err *err) KL_MUST_CHECK;

#endif
