/* Labels of single sites that H keeps: where no operator of H leads from some states of a site to the others,
   which of them the site is in is a number of its own, though no charge tells it (electrons that never move
   among others that do). A placement says it of all sites; H within one is a Hamiltonian of smaller sites.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DMRG_PLACEMENT_H
#define KL_DMRG_PLACEMENT_H
#include "dmrg/engine.h"

typedef struct kl_labels {
    int nsite, most; /* states of the largest site */
    int *n; /* [nsite] labels of each site */
    int *of; /* [nsite][most] label of a state */
    int nfree; /* sites of more than one label */
    int moving; /* 1: some label is that of several states */
} kl_labels;
/* Of the total spin none: each site has one label. */
kl_status kl_labels_find(const kl_terms *t, kl_labels *out, kl_err *err) KL_MUST_CHECK;
void kl_labels_clear(kl_labels *l);
/* Whether positions p and q have states and labels alike. */
int kl_labels_alike(const kl_labels *l, const kl_terms *t, int p, int q);

/* H within a placement: a list of its own for a model of its own. */
typedef struct kl_placed {
    kl_terms terms;
    kl_model model;
    kl_site_type *type; /* [nsite] */
    kl_site_op *op;
    kl_elem *elem;
    int (*charge)[KL_MAX_CHARGE];
    const char **name;
    int most;
    int *state; /* [nsite][most] number of a state among those of the whole site */
} kl_placed;
/* label[nsite]. */
kl_status kl_placed_create(const kl_terms *t, const kl_labels *l, const char *label, kl_placed *out,
                           kl_err *err) KL_MUST_CHECK;
void kl_placed_clear(kl_placed *x);

/* A state of x's terms, whose centre is at position 0, as one of t. o: of one wavefunction. */
kl_status kl_placed_embed(const kl_placed *x, const kl_terms *t, kl_exec *ex, const kl_engine_opts *o,
                          const kl_state *from, kl_state **out, kl_err *err) KL_MUST_CHECK;

#endif
