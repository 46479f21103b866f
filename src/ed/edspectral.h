/* Spectral functions of exact diagonalization: A(w) = -1/pi Im <0| O+ (w + i eta + E0 - H)^-1 O |0> as a
   continued fraction (Gagliano and Balseiro, Phys. Rev. Lett. 59, 2999 (1987)). O is a sum of operators of
   one site each, and may lead to another sector.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDSPECTRAL_H
#define KL_EDSPECTRAL_H
#include "ed/ed.h"
#include "model/siteop.h"

typedef struct kl_ed_spectral_opts {
    double broadening;   /* eta > 0 */
    int max_steps;       /* of the fraction; 0: 1000 */
    int nomega;          /* 0: chosen, so that all weight is seen */
    const double *omega; /* [nomega] */
    void *self;          /* of the monitor: */
    int (*step)(void *self, int step, double change); /* nonzero: stop; may be NULL */
    const kl_keeper *keeper; /* NULL, or keeps the recurrence; one that goes on ends with the same bits */
} kl_ed_spectral_opts;

typedef struct kl_ed_spectral {
    double total;        /* <0| O+ O |0>, the integral of A over all w */
    int nstep;           /* levels of the fraction */
    int stopped;         /* the monitor said so */
    /* the last ten changed A by less than 1e-6 of its largest value, or the fraction ended; no peak narrower
       than eta means anything */
    int converged;
    int npole;
    double *pole, *weight; /* [npole] energies above E0 and their shares of total */
    int64_t dim; /* of the sector that O leads to; 0: there is none */
    int nomega;
    double *omega, *a; /* [nomega] */
} kl_ed_spectral;

/* x: a normalized eigenstate of ed with the energy e0 (the constant of the terms included), device.
   coef[nsite] by position. EINPUT: an operator without a definite change of the charges. */
kl_status kl_ed_spectral_run(const kl_ed *ed, const kl_terms *terms, kl_dptr x, double e0,
                             const kl_siteop *op, const double *coef, const kl_ed_spectral_opts *opts,
                             kl_ed_spectral *out, kl_err *err) KL_MUST_CHECK;

/* Orders the poles of a run, or of the sum of some, with equal ones as one, and makes the curve from them; s
   had none yet. */
kl_status kl_ed_spectral_finish(kl_ed_spectral *s, const kl_ed_spectral_opts *opts,
                                kl_err *err) KL_MUST_CHECK;

/* The change of the charges by an operator, and whether it is fermionic. */
kl_status kl_ed_spectral_shift(const kl_siteop *op, kl_qn *shift, int *odd, kl_err *err) KL_MUST_CHECK;
void kl_ed_spectral_clear(kl_ed_spectral *s);

#endif
