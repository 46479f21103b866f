/* Weights and states of one side of the wavefunctions, sector by sector: eigenvectors of density matrices, or
   singular vectors of the wavefunctions themselves; of large sectors only the leading ones. Most states stay
   unmade until it is known which are kept.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPECTRA_H
#define KL_SPECTRA_H
#include "dmrg/density.h"
#include "dmrg/entropies.h"
#include "dmrg/leading.h"
#include "dmrg/select.h"
#include "dmrg/state.h"

typedef struct kl_spectra kl_spectra;

/* d: the side; its psi is normalized. o: which sectors are done exactly; precise: 1: by singular values,
   exact to 1e-16 of the largest; 0: by density matrices, exact to 1e-8 of it, faster. noise: share of the
   weight that the states get which H leads to; with it all is exact, and not by singular values. d must live
   as long. */
kl_status kl_spectra_create(kl_exec *ex, const kl_density *d, const kl_leading_opts *o, double noise,
                            kl_spectra **out, kl_err *err) KL_MUST_CHECK;
void kl_spectra_destroy(kl_spectra **s);

/* Rows of the largest matrix. */
int kl_spectra_largest(const kl_spectra *s);

/* Every state's weight as a share of all, sector by sector; (*w)[*n], which the caller frees; *unseen: the
   share of what is orthogonal to them, a norm. EBROKEN: there is no weight. */
kl_status kl_spectra_weights(kl_spectra *s, kl_weight **w, int64_t *n, double *unseen,
                             kl_err *err) KL_MUST_CHECK;

/* Sectors of which not all weights were looked for; those of them of which only what goes was diagonalized:
   their other weights are a mean. Of all ranks, after kl_spectra_weights. */
int kl_spectra_tried(const kl_spectra *s);
int kl_spectra_least(const kl_spectra *s);
/* kept[sectors]: states that stay of each. *narrow: 1 where a sector keeps nearly all that were found in it,
   so that more columns have to be tried there: least[sectors]. */
kl_status kl_spectra_narrow(const kl_spectra *s, const int *kept, int *least, int *narrow,
                            kl_err *err) KL_MUST_CHECK;

/* What kl_leading_opts' put_off left unread of the n weights, whose copies or matrices u takes: nothing where
   all are known. spin: of a sector's charges the total spin, or -1. After kl_spectra_weights. */
kl_status kl_spectra_unread_take(kl_spectra *s, int spin, const kl_weight *w, int64_t n, kl_unread *u,
                                 kl_err *err) KL_MUST_CHECK;

/* The states of the n weights that are marked, as the matrices of iso, which lie at data on the executor. */
kl_status kl_spectra_states(kl_spectra *s, const kl_weight *w, int64_t n, const kl_isometry *iso,
                            kl_dptr data, kl_err *err) KL_MUST_CHECK;

#endif
