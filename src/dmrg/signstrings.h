/* Whether a state has lost a product of signs and flips of single sites that H is invariant under: a loop of
   the toric code, a row of the compass model, all sites of an ordered Ising chain. Its image is then another
   state of the very same energy, however far the two are apart, and no guard need have met it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SIGNSTRINGS_H
#define KL_SIGNSTRINGS_H
#include "dmrg/state.h"

/* A string of local operators: signs of basis states, and on sites of two states, where no charge tells them
   apart, the exchange of both. A list generates all strings that each term of H commutes with. */
typedef struct kl_signstrings {
    int n, d; /* strings; states of the largest site */
    char *sign; /* [n][nsite][d]: 1 where the state changes its sign */
    char *flip; /* [n][nsite] */
} kl_signstrings;

/* At most `most` of them, by linear algebra over two elements; with `all` those, too, that the charges make,
   which have one value in a whole sector. None of very many terms, of the total spin. */
kl_status kl_signstrings_find(const kl_terms *t, int all, int most, kl_signstrings *out,
                              kl_err *err) KL_MUST_CHECK;
void kl_signstrings_clear(kl_signstrings *s);

/* <psi|string k|psi> of the lowest wavefunction, whose centre is at position 0: 1 or -1 of a state that has
   the symmetry. */
kl_status kl_signstrings_value(const kl_signstrings *s, int k, const kl_state *state, double *value,
                               kl_err *err) KL_MUST_CHECK;

/* *yes 1: some string's value is neither. 0, too: there is nothing to tell it by. */
kl_status kl_signstrings_lost(const kl_terms *t, const kl_state *state, int *yes, kl_err *err) KL_MUST_CHECK;

#endif
