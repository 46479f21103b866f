/* Sweeps over one half of the lattice, where H is its own image when positions are counted from the other end
   (model/inversion.h): at the middle the sites of the other half become images of those that the sweep has
   just optimized, and it turns round. The wavefunctions may be even, odd or neither.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_HALVES_H
#define KL_HALVES_H
#include "dmrg/engine.h"

/* The centre at which a half-sweep to the right turns round: the left block is then half of the lattice, but
   for a site in the middle. */
static inline int kl_halves_turn(int nsite) { return nsite / 2; }
/* And that from which it goes back: the bond in the middle, or of two the left one. */
static inline int kl_halves_back(int nsite) { return kl_halves_turn(nsite) - 1; }

/* 1: H is its own image, the right block can be one of the left block, and both have sites. */
int kl_halves_possible(const kl_terms *t, kl_qn target);

/* The sign of |s> |block> beside |block> |s>, in which s leads from the block's charges to those of both. */
double kl_halves_sign(const kl_model *m, const kl_site_type *site, int s, kl_qn block, kl_qn both);

/* At the centre where it turns, reached from the left and not yet optimized: all isometries of the other half
   become images of those to the left, the wavefunctions are projected on what these span, and the centre is
   the one that a half-sweep to the left begins with. *lost: the largest part of the square of a wavefunction
   that is not there; where it is more than most_lost, *done is 0 and nothing changes. So it is after a
   failure, too, unless *done is 1: then blocks are wanting, but all tensors are there. */
kl_status kl_halves_fold(kl_engine *e, double most_lost, int *done, double *lost, kl_err *err) KL_MUST_CHECK;

#endif
