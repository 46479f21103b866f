/* What a run tells whoever waits for it, while it goes on. Asks nothing: whether to stop says kl_interrupted.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WATCH_H
#define KL_WATCH_H
#include "ci/ci.h"
#include "dmrg/dmrg.h"

/* Each may be NULL. */
typedef struct kl_watch {
    void *self;
    void (*note)(void *self, const char *text); /* worth knowing and no failure: a line */
    /* DMRG: a bond is optimized; a sweep is done, of which row[nrow - 1] tells */
    void (*bond)(void *self, const kl_dmrg_step *step);
    void (*sweep)(void *self, const kl_dmrg_row *row, int nrow);
    /* exact diagonalization: products with H so far, the lowest energy and its residual; levels of a spectral
       function; steps of a random state, in the sector `charges` */
    void (*product)(void *self, int nproduct, double energy, double residual);
    void (*level)(void *self, int level, double change);
    void (*sample)(void *self, const char *charges, int sample, int step);
    /* configuration interaction: a block is built (done 0) or solved (1); products with it so far */
    void (*block)(void *self, int irrep, const kl_ci_block *block, int done);
    void (*block_product)(void *self, int irrep, int nproduct, double energy, double residual);
} kl_watch;

static inline void kl_watch_note(const kl_watch *w, const char *text)
{
    if (w != NULL && w->note != NULL) w->note(w->self, text);
}

#endif
