/* Carries the wavefunction one site on, where it is a start vector near the eigenvector (White, PRL 77, 3633
   (1996)).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WAVE_H
#define KL_WAVE_H
#include "dmrg/state.h"
#include "dmrg/superblock.h"

/* By which step of the same multiplet a site joins the block on one side of it, for that by which it joins
   the block on the other. */
static inline int kl_step_from_other(const kl_site_type *site, int s)
{
    return site->other != NULL ? site->other[s] : s;
}

/* An isometry, and where its matrices lie on the executor. */
typedef struct kl_isometry_on {
    const kl_isometry *iso;
    kl_dptr data;
} kl_isometry_on;

/* From the centre (c, c+1) to its neighbour. direction +1: `made` is the new isometry of the rows of `from`,
   `opened` the one at site c+2 that becomes part of the centre; -1: mirrored. nstate wavefunctions of `from`
   become those of `to`, whose psi has room for them. */
kl_status kl_wave_transform(kl_exec *ex, int direction, int nstate, const kl_wave *from, kl_isometry_on made,
                            kl_isometry_on opened, const kl_wave *to, kl_err *err) KL_MUST_CHECK;

/* A side of a centre, a site and what lies beyond, in the basis of an isometry. */
typedef struct kl_absorbed {
    const kl_enlarged *wide; /* its basis without */
    kl_isometry_on by;
} kl_absorbed;
/* Wavefunctions of a centre whose side ahead, with its site, is in the basis of an isometry. */
typedef struct kl_ahead {
    kl_layout layout;
    kl_dptr psi; /* [nstate][layout.n] */
} kl_ahead;
void kl_ahead_clear(kl_exec *ex, kl_ahead *a);
/* From a centre of one site, whose other one lies ahead and is absorbed, to the next: to->psi, which has room
   for them, in the basis of the isometry of the site ahead of that, to->layout being made for it. next: the
   basis of the side that is made, with the site that was absorbed. */
kl_status kl_wave_carry(kl_exec *ex, int direction, int nstate, const kl_wave *from,
                        const kl_absorbed *absorbed, kl_isometry_on made, const kl_enlarged *next,
                        const kl_ahead *to, kl_err *err) KL_MUST_CHECK;
/* The wavefunctions of two sites from those, whose side ahead is in the basis of `opened`. */
kl_status kl_wave_open(kl_exec *ex, int direction, int nstate, const kl_ahead *from, kl_isometry_on opened,
                       const kl_wave *to, kl_err *err) KL_MUST_CHECK;

#endif
