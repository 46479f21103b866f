/* A reflection of charges under which a Hamiltonian stays as it is: Sz -> -Sz, or N_up and N_dn exchanged.
   Sectors that are each other's image have the same energies.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MIRROR_H
#define KL_MIRROR_H
#include "model/qn.h"
#include "model/terms.h"

/* Charge c of the image is sum[c] + sign[c] * (charge from[c]). */
typedef struct kl_mirror {
    int sum[KL_MAX_CHARGE], sign[KL_MAX_CHARGE], from[KL_MAX_CHARGE];
} kl_mirror;

/* Looks for maps that take each state of a site to one, up to a sign, and compares all terms with their
   images. *found 0: there is none, or none that is seen so: terms of more than four sites, states of a site
   that share their charges, or very many terms are not looked at. */
kl_status kl_mirror_find(const kl_terms *t, int *found, kl_mirror *out, kl_err *err) KL_MUST_CHECK;

kl_qn kl_mirror_image(const kl_model *m, const kl_mirror *by, kl_qn q);

#endif
