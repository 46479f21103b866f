/* Reduced density matrices of a few sites, and the mutual information of all pairs, from expectation values
   of products of matrix units. Measures nothing itself: who can, by whatever method, is asked.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REDUCED_H
#define KL_REDUCED_H
#include "model/lattice.h"
#include "model/siteop.h"
#include "model/terms.h"

enum { KL_REDUCED_MOST = 64 }; /* states of the sites together */

typedef struct kl_reduced_source {
    void *self;
    /* value[nsite][nsite] = <A_i B_j>, of which those with i <= j are read */
    kl_status (*pairs)(void *self, const kl_siteop *a, const kl_siteop *b, double *value, kl_err *err);
    /* <op[0] at site[0] op[1] at site[1] ...> */
    kl_status (*product)(void *self, int n, const int *site, const kl_siteop *const *op, double *value,
                         kl_err *err);
    /* NULL, or value[nterm] = <string> of many products at once, of operators that t has itself */
    kl_status (*strings)(void *self, const kl_terms *t, double *value, kl_err *err);
} kl_reduced_source;

/* States of these sites together. */
double kl_reduced_states(const kl_terms *sites, const kl_lattice *lat, int n, const int *site);

/* rho[states][states], of the product states of the sites in the order given, the last one fastest. sites:
   what the positions of the lattice are. */
kl_status kl_reduced_density(const kl_terms *sites, const kl_lattice *lat, int n, const int *site,
                             const kl_reduced_source *source, double *rho, kl_err *err) KL_MUST_CHECK;

/* value[nsite][nsite] = S_i + S_j - S_ij; on the diagonal S_i, all in natural units. */
kl_status kl_reduced_mutual(const kl_terms *sites, const kl_lattice *lat, const kl_reduced_source *source,
                            double *value, kl_err *err) KL_MUST_CHECK;

#endif
