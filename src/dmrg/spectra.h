/* Weights and states of one side of the wavefunctions, sector by sector: eigenvectors of density matrices, or
   singular vectors of the wavefunctions themselves. Most states stay unmade until it is known which are kept.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPECTRA_H
#define KL_SPECTRA_H
#include "dmrg/density.h"
#include "dmrg/select.h"
#include "dmrg/state.h"

typedef struct kl_spectra kl_spectra;

/* d: the side; its psi is normalized. singular: 1: singular values, exact to 1e-16 of the largest; 0: density
   matrices, exact to 1e-8 of it, faster. noise: share of the weight that the states get which H leads to; 0
   with singular values. d must live as long. */
kl_status kl_spectra_create(kl_exec *ex, const kl_density *d, int singular, double noise, kl_spectra **out,
                            kl_err *err) KL_MUST_CHECK;
void kl_spectra_destroy(kl_spectra **s);

/* Rows of the largest matrix. */
int kl_spectra_largest(const kl_spectra *s);

/* Every state's weight as a share of all, sector by sector; (*w)[*n], which the caller frees. EBROKEN: there
   is no weight. */
kl_status kl_spectra_weights(const kl_spectra *s, kl_weight **w, int64_t *n, kl_err *err) KL_MUST_CHECK;

/* The states of the n weights that are marked, as the matrices of iso, which lie at data on the executor. */
kl_status kl_spectra_states(const kl_spectra *s, const kl_weight *w, int64_t n, const kl_isometry *iso,
                            kl_dptr data, kl_err *err) KL_MUST_CHECK;

#endif
