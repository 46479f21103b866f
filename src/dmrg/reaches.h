/* The charges that the sites left and right of every cut can have. Engines of one chain and sector share
   them: a chain of a hundred sites with two charges has half a million, which take longer than a short trial
   beside a run.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REACHES_H
#define KL_REACHES_H
#include "model/sector.h"
#include "model/terms.h"

typedef struct kl_reaches {
    int users; /* of one thread */
    int nsite;
    kl_qn target;
    const kl_model *model;
    const kl_site_type **type; /* [nsite] */
    kl_reach *left; /* [nsite+1]: charges of sites 0..p-1 */
    kl_reach *right; /* [nsite+1]: charges of sites p..nsite-1 */
} kl_reaches;

/* Those of `known`, which may be NULL, where it is of the same sites and sector, else new ones. EINPUT: an
   empty sector. */
kl_status kl_reaches_take(const kl_terms *terms, kl_qn target, kl_reaches *known, kl_reaches **out,
                          kl_err *err) KL_MUST_CHECK;
/* Gone where nobody uses them any more; *r becomes NULL. */
void kl_reaches_leave(kl_reaches **r);

#endif
