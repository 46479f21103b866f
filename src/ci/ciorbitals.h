/* Which orbitals and electrons a run of configuration interaction is about: references, and inactive, active
   and deleted orbitals, the inactive ones folded into the integrals.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIORBITALS_H
#define KL_CIORBITALS_H
#include "ci/ci.h"
#include "ci/determinant.h"

typedef struct kl_ciorbitals {
    const kl_fcidump *f;
    int nalpha, nbeta;       /* of the file's orbitals */
    int nref;
    unsigned char *occ;      /* [nref][2][norb] */
    int ncore, nactive;
    int *core, *active;      /* orbitals of the file */
    const kl_fcidump *g;     /* integrals of the active orbitals */
    kl_fcidump *own;         /* g where it was made here */
    uint64_t (*ref)[2];      /* [nref] of the active orbitals; NULL with kl_ci_opts.wide */
    uint64_t odd;            /* bit p: an odd number of core orbitals lies above active orbital p */
} kl_ciorbitals;

/* What the options make of the orbitals of f. EINPUT: electrons, spaces and references that do not agree. */
kl_status kl_ciorbitals_make(const kl_fcidump *f, const kl_ci_opts *o, kl_ciorbitals *l,
                             kl_err *err) KL_MUST_CHECK;
void kl_ciorbitals_clear(kl_ciorbitals *l);

/* "2222ud00": all orbitals of the file. */
kl_status kl_ciorbitals_text(const kl_ciorbitals *l, uint64_t alpha, uint64_t beta, char **out,
                             kl_err *err) KL_MUST_CHECK;
/* The sign that a determinant of the active orbitals has among all orbitals. */
double kl_ciorbitals_sign(const kl_ciorbitals *l, uint64_t alpha, uint64_t beta);
/* The determinants of an irrep that the options ask for. */
kl_det_spec kl_ciorbitals_spec(const kl_ciorbitals *l, const kl_ci_opts *o, int irrep);
/* The first reference: its occupations and its energy. */
kl_status kl_ciorbitals_facts(const kl_ciorbitals *l, char **reference, double *energy,
                              kl_err *err) KL_MUST_CHECK;

#endif
