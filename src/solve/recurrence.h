/* Lanczos with three vectors, or two: the lowest energy by the recurrence alone, the state by a second run of
   it; and the bare recurrence, for spectra.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RECURRENCE_H
#define KL_RECURRENCE_H
#include "solve/keep.h"
#include "solve/linop.h"

typedef struct kl_recurrence_opts {
    double tol; /* wanted |H x - E x|, absolute, */
    /* or relative to the energy (to a thousandth of the spectrum's width, if that is more): the larger one
       counts */
    double tol_rel;
    int max_apply; /* products with H; 0: 2000 */
    int length; /* steps of one recurrence at most; 0: 600 */
    int want_vector;
    /* 1: two vectors do, where h->add_dot is there, for one pass more a product; 0: where there is no memory
       for three */
    int two;
    void *self;
    kl_status (*start)(void *self, kl_dptr v, kl_err *err); /* writes the same vector at every call */
    /* nonzero: stop there; may be NULL */
    int (*step)(void *self, int napply, double energy, double residual);
    const kl_keeper *keeper; /* NULL: nothing is kept. A run that goes on ends with the same bits */
} kl_recurrence_opts;

typedef struct kl_recurrence_stats {
    int napply, nrestart, nvector; /* nvector: vectors of length n held at most */
    int converged, stopped;
    int stagnated; /* tol is below what rounding leaves */
    double residual; /* by the recurrence; of the vector itself where there is one */
    double norm_h; /* largest |H v| seen */
    double seconds_apply;
} kl_recurrence_stats;

/* x [n], device: written when want_vector, else unused (addr 0); a stopped run leaves no state in it. Not
   converged is no error: look at stats. */
kl_status kl_recurrence_solve(const kl_linop *h, const kl_recurrence_opts *opts, kl_dptr x, double *energy,
                              kl_recurrence_stats *stats, kl_err *err) KL_MUST_CHECK;

/* What is to become of a recurrence after a step: */
typedef enum kl_chain {
    KL_CHAIN_ON,
    KL_CHAIN_ENOUGH,
    KL_CHAIN_PAUSE /* kept where there is a keeper, and ended */
} kl_chain;

/* A recurrence of m steps: H is alpha[m] on the diagonal and beta[m] on the next one, beta[j] joining the
   vectors j and j + 1. */
typedef struct kl_recurrence_run {
    int m;
    double *alpha, *beta;
    const kl_keeper *keeper; /* NULL, or keeps the recurrence */
    kl_chain (*step)(void *self, int done); /* NULL, or asked after each step */
    void *self;
    double norm; /* result: length of the start */
    int done; /* result: steps; fewer than m: its space is exhausted, or step said so */
} kl_recurrence_run;

/* Runs from vector[0], which is destroyed as the other two are. One that goes on from what a keeper has takes
   nothing from vector[0], and ends with the same bits. */
kl_status kl_recurrence_chain(const kl_linop *h, const kl_dptr vector[3], kl_recurrence_run *run,
                              kl_err *err) KL_MUST_CHECK;

#endif
