/* `--spectral': spectral functions of operators named on the command line, one after the other, and where
   such a list is in a checkpoint.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDPROBE_H
#define KL_EDPROBE_H
#include "ed/ed.h"
#include "run/edkeep.h"
#include "run/task.h"

/* "cdag_up@3", "Sz@-1", "Sz@q=2,0": EINPUT says what is wrong with it. */
kl_status kl_edprobe_check(const kl_task *t, const char *text, kl_err *err) KL_MUST_CHECK;

typedef struct kl_edprobe_opts {
    kl_edkeep *keep; /* NULL, or keeps what is not finished: its numbers are read if it has any */
    void *self;
    int (*step)(void *self, int step, double change); /* nonzero: stop; may be NULL */
} kl_edprobe_opts;

/* All that t asks for, of the lowest state x or averaged over the multiplet that is known to be the lowest,
   into r. */
kl_status kl_edprobe_run(const kl_task *t, const kl_ed *ed, const kl_ed_result *found, kl_dptr x, int64_t ldx,
                         const kl_edprobe_opts *opts, kl_result *r, int *stopped, kl_err *err) KL_MUST_CHECK;

/* What a checkpoint of the stage KL_EDSTAGE_SPECTRA, whose vectors are there, says of the states: enough of
   found, and x. */
kl_status kl_edprobe_states(const kl_edkeep *keep, const kl_ed *ed, kl_ed_result *found, kl_dptr *x,
                            int64_t *ldx, kl_err *err) KL_MUST_CHECK;

#endif
