/* The determinants that low states of a molecule are mostly made of, found for next to nothing: where sweeps
   can begin.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LEADERS_H
#define KL_LEADERS_H
#include "chem/fcidump.h"
#include "ci/determinant.h"

typedef struct kl_leaders {
    int n;
    uint64_t (*det)[2]; /* [n] alpha, beta; by falling weight */
    double *weight;     /* [n] of each in the wanted states together, rising to their number at most */
    double energy;      /* hartree, the lowest of H among these and some more */
    /* [norb][norb] mutual information of the orbitals' occupations, 0 on the diagonal; of the states found
       and of what H leads to from them, to first order */
    double *mutual;
} kl_leaders;

typedef struct kl_leaders_ask {
    uint64_t first[2]; /* a determinant of the wanted numbers of electrons */
    int irrep;         /* of the states, from 0 */
    int nstate;        /* lowest ones that are looked for */
    int most;          /* determinants told at most */
} kl_leaders_ask;

/* Determinants of low energy by descents from the first one and from random ones, with all spins turned over
   as well; then those that H leads to from the weightiest, in a few rounds (heat-bath selection: Holmes,
   Tubman, Umrigar, J. Chem. Theory Comput. 12, 3674 (2016)). The same for every run of the same integrals.
   None, and no error, of more than KL_DET_MAX_ORB orbitals or where no determinant has the irrep. */
kl_status kl_leaders_find(const kl_fcidump *f, const kl_leaders_ask *ask, kl_leaders *out,
                          kl_err *err) KL_MUST_CHECK;
void kl_leaders_clear(kl_leaders *l);

#endif
