/* Measurements on states of exact diagonalization, as a user asks for them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDMEASURE_H
#define KL_EDMEASURE_H
#include "ed/ed.h"
#include "run/task.h"

typedef struct kl_ed_measured {
    char name[480], note[160]; /* "local/Sz" */
    int rank;
    int64_t shape[KL_H5_MAX_RANK], n;
    double *value;             /* [n] by lattice sites */
} kl_ed_measured;

/* What request.h has but overlap and spectrum: EINPUT, in the words of kl_request_read. entropy is that of
   the cut which halves the lattice best. */
kl_status kl_edmeasure_check(const kl_task *t, int n, char *const *text, kl_err *err) KL_MUST_CHECK;

/* What --measure asks for, and `top' and `top_PART', on every state; of a whole multiplet the lowest state's
   values are followed by the mean over it ("manifold/local/Sz"), which no choice of basis changes. x empty:
   there are no states, and nothing was asked for. */
kl_status kl_edmeasure_run(const kl_task *t, const kl_ed *ed, const kl_ed_result *r, kl_dptr x, int64_t ldx,
                           kl_ed_measured **out, int *nout, kl_err *err) KL_MUST_CHECK;
void kl_edmeasure_free(kl_ed_measured **m, int n);

#endif
