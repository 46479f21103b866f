/* Lanczos with three vectors: the lowest energy by the recurrence alone, the state by a second run of it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LEAN_H
#define KL_LEAN_H
#include "linop.h"

typedef struct kl_lean_opts {
    double tol;        /* wanted error of the energy, absolute, */
    double tol_rel;    /* or relative to the energy (to a thousandth of the spectrum's width, if that is more): the larger one counts */
    double tol_vector; /* wanted |H x - E x| of the state as well, in units of the width of the spectrum; 0: what tol brings */
    int max_apply;     /* products with H; 0: 2000 */
    int length;        /* steps of one recurrence at most; 0: 300 */
    int want_vector;
    void *self;
    kl_status (*start)(void *self, kl_dptr v, kl_err *err); /* writes the same vector at every call */
    int (*step)(void *self, int napply, double energy, double residual); /* nonzero: stop there; may be NULL */
} kl_lean_opts;

typedef struct kl_lean_stats {
    int napply, nrestart, nvector; /* nvector: vectors of length n held at most */
    int converged, stopped;
    int stagnated;     /* tol is below what rounding leaves */
    double residual;   /* by the recurrence; of the vector itself where there is one */
    double error;      /* bound of the energy's: residual^2 / gap, or the residual */
    double above;      /* next Ritz value seen, less the lowest; 0: none */
    double seconds_apply;
} kl_lean_stats;

/* x [n], device: written when want_vector, else unused (addr 0). Not converged is no error: look at stats. */
kl_status kl_lean_solve(const kl_linop *h, const kl_lean_opts *opts, kl_dptr x, double *energy, kl_lean_stats *stats, kl_err *err) KL_MUST_CHECK;

#endif
