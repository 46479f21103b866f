/* Checkpoints of exact diagonalization: an unfinished run keeps its numbers and vectors in the result
   file of the run.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDKEEP_H
#define KL_EDKEEP_H
#include "run/keepfile.h"
#include "run/pace.h"

/* Who keeps the run, as the file says it; of vectors whose states of the right flavour are sorted by
   particles (bipartition.h) it says KL_EDSTAGES more. */
typedef enum kl_edstage { KL_EDSTAGE_SOLVER, KL_EDSTAGE_SPECTRA, KL_EDSTAGE_THERMAL, KL_EDSTAGES } kl_edstage;

typedef struct kl_edkeep {
    const char *path;
    kl_edstage stage;
    kl_result *r; /* what the file says besides the run: names, options, what is finished */
    int64_t n; /* length of vectors that do not say it, and who has which part of them */
    const int64_t *begin;
    int sorted; /* 1: they are in the order KL_BIPARTITION_SORTED; told by kl_edkeep_read, too */
    const double *seen; /* NULL, or products, lowest energy, its residual */
    kl_keeper keeper; /* to be handed on; from is set by kl_edkeep_vectors */
    kl_keepfile file;
    kl_pace pace;
} kl_edkeep;

/* path is borrowed; every: seconds. */
void kl_edkeep_open(kl_edkeep *k, kl_exec *ex, const char *path, double every, const kl_watch *watch);
void kl_edkeep_close(kl_edkeep *k);

/* Stage, numbers and lengths of what the file keeps; then keeper.from, whose vectors have to be n long (0:
   any). They stay in the file until they are fetched. */
kl_status kl_edkeep_read(kl_edkeep *k, kl_err *err) KL_MUST_CHECK;
kl_status kl_edkeep_vectors(kl_edkeep *k, int64_t n, kl_err *err) KL_MUST_CHECK;

#endif
