/* What a vector over a space of determinants says: spin, one-body density matrices, weights.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DETSTATE_H
#define KL_DETSTATE_H
#include "ci/determinant.h"

/* <S^2> of the normalized vector c[s->n]; alpha and beta orbitals alike. */
kl_status kl_detstate_spin(const kl_detspace *s, int nthread, const double *c, double *s2,
                           kl_err *err) KL_MUST_CHECK;

/* gamma[spin][norb][norb] = <c+_p c_q>, real symmetric. */
kl_status kl_detstate_density(const kl_detspace *s, int nthread, const double *c, double *alpha, double *beta,
                              kl_err *err) KL_MUST_CHECK;

/* The n positions of largest |c|, largest first; those with equal |c| by position. Returns how many there are
   (s->n may be less). */
int kl_detstate_leading(const kl_detspace *s, const double *c, int n, int64_t *at);

#endif
