/* Density matrices of one side of the wavefunctions, and the noise that is added to them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DENSITY_H
#define KL_DENSITY_H
#include "dmrg/superblock.h"

typedef struct kl_density {
    kl_side side;    /* LEFT: of the rows of psi (left block (x) site), psi psi^T; RIGHT: of the columns */
    kl_wave wave;    /* its psi is not looked at where records alone are asked for */
    int nstate; /* wavefunctions, averaged by the squares of their norms, which are 1 on average */
    const kl_bigop *grown; /* operators of the enlarged block of this side, for noise; may be NULL without */
    /* [sectors] where the matrix of each goes, -1: it is not made; NULL: all, one after the other */
    const int64_t *place;
    int64_t nplace; /* numbers of the array that they go to */
} kl_density;

/* The bases of its side, and of the other one. */
static inline const kl_basis *kl_density_mine(const kl_density *d)
{
    return d->side == KL_LEFT ? &d->wave.row->basis : &d->wave.col->basis;
}
static inline const kl_basis *kl_density_other(const kl_density *d)
{
    return d->side == KL_LEFT ? &d->wave.col->basis : &d->wave.row->basis;
}

/* Records that make the matrices of the sectors I, dim(I)^2 numbers each: the average of psi psi^T over the
   states. */
kl_status kl_density_records(const kl_density *d, kl_batch *b, kl_err *err) KL_MUST_CHECK;

/* Bytes of the lists that add noise to them; nothing is listed. */
int64_t kl_density_noise_bytes(const kl_exec *ex, const kl_density *d);

/* Writes the matrices to rho. */
kl_status kl_density_make(kl_exec *ex, const kl_density *d, kl_dptr rho, kl_err *err) KL_MUST_CHECK;

/* Adds noise to rho as a share of the whole weight, whatever the units of the couplings. Each rank has the
   matrices of some sectors. */
kl_status kl_density_add_noise(kl_exec *ranks, const kl_density *d, double share, kl_dptr rho,
                               kl_err *err) KL_MUST_CHECK;

#endif
