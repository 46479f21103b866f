/* What finds weights and what makes states of them share: see spectra.h. Nobody else includes it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPECTRUM_H
#define KL_SPECTRUM_H
#include "base/divide.h"
#include "dmrg/dominant.h"
#include "dmrg/leadingleast.h"
#include "dmrg/spectra.h"

/* One sector's states and their weights. The states are, before they are gathered, one of
   - the columns of vec;
   - with the executor, where the density matrix was: vec is NULL and reduced.n is 0;
   - the vectors of `reduced`, the tridiagonal matrix that the density matrix became;
   the first and the last of these still lack the reflections of a matrix that was made tridiagonal. */
typedef struct kl_spectrum {
    /* numbers of a state, in the basis of the columns that were tried where the sector is done by products;
       states, 0 where the sector has no weight */
    int rows, n;
    double *vec, *w; /* [n][rows], [n] */
    kl_divided reduced;
    const double *
        reflections; /* the reflections, where the density matrix was; NULL: none, or the executor has them */
    double *factor; /* their factors (kl_dense_eig_transform) */
} kl_spectrum;

struct kl_spectra {
    kl_exec *ranks; /* each has its own sectors, */
    kl_exec *ex; /* on the executor as one of this rank alone */
    const kl_density *of;
    const kl_basis *mine;
    int singular;
    kl_leading lead; /* sectors by products */
    int nleast; /* sectors of all ranks of which only what goes was diagonalized */
    kl_dominant top; /* of density matrices with noise: a part a sector */
    int top_looked; /* 1: it was looked for */
    double *triangle; /* of those, with singular values: see kl_range_triangle */
    /* |psi|^2 of what they leave out, summed over the states; of this rank's; negative: not known yet */
    double lost, lost_here;
    double sum; /* of all weights, before they became shares */
    double *host; /* the wavefunctions, or density matrices */
    int *rows; /* [sectors] of the matrices */
    int64_t *off; /* [sectors] of the density matrices */
    int64_t *place; /* [sectors] the same, -1 for sectors by products, and those of other ranks */
    int64_t length; /* numbers of all density matrices of this rank */
    int nown; /* sectors of this rank, */
    int *order; /* [nown] largest first */
    int *dim; /* [nown] their rows, in that order */
    int64_t *at; /* [nown] rows of the sectors before, in that order */
    int largest; /* rows, of any sector */
    int nthere; /* sectors, the largest, whose states the executor finds */
    kl_dptr rho; /* where their density matrices were, here */
    double *diagonal, *subdiagonal; /* from `at` on, of density matrices that became tridiagonal */
    kl_status status_there; /* how the executor fared */
    kl_err error_there;
    kl_spectrum *sp; /* [sectors] */
    kl_err *error; /* [sectors] */
    kl_status *status; /* [sectors] */
};

/* Of sector c's density matrix only a part was diagonalized: that, or NULL. */
static inline const kl_dominant_part *kl_spectra_top(const kl_spectra *t, int c)
{
    return t->top_looked && t->top.part[c].tried > 0 ? &t->top.part[c] : NULL;
}

static inline int kl_spectra_own(const kl_spectra *t, int c)
{
    return t->lead.owner[c] == kl_ranks_mine(t->ranks);
}

#endif
