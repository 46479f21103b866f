/* A state that is no image of itself where H is (model/inversion.h): an electron in one of two wells, one of
   two patterns of charges. Its image has the same energy, and both of them lie between two eigenstates, even
   and odd, that are as far apart as tunnelling makes them. No sweep leads from one to the other.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TWINS_H
#define KL_TWINS_H
#include "dmrg/engine.h"

/* The image of the lowest wavefunction of s, whose centre is 0, as a state of its own. */
kl_status kl_twins_image(kl_exec *ex, const kl_state *s, kl_state **out, kl_err *err) KL_MUST_CHECK;

/* Both as wavefunctions in bases that hold them exactly, the image being the second; *out NULL: s is even or
   odd, as far as the overlap with its image is more than `same`. e: of an H that is its own image. */
kl_status kl_twins_find(kl_exec *ex, const kl_engine *e, const kl_state *s, double same, double *overlap,
                        kl_state **out, kl_err *err) KL_MUST_CHECK;

#endif
