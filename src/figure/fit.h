/* Fits that figures tell: the central charge from entropies, how correlations decay, what a quantity becomes
   for long systems. Pure functions of numbers; errors are told with the values.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FIT_H
#define KL_FIT_H
#include "base/base.h"

enum { KL_FIT_TERMS = 4 };

/* Least squares: y[n] = sum over p terms of coef[k] a[i][k], p <= KL_FIT_TERMS. *rms: what is left, by point.
   0: the terms cannot be told apart. */
int kl_fit_linear(int n, int p, const double (*a)[KL_FIT_TERMS], const double *y, double *coef, double *rms);

/* Entropies s[nsite - 1] of the first 1, 2, ... sites of a chain, open or closed, follow
     c/6 ln chord + const + alternating terms / chord^k   (c/3 where it is closed),
   chord = 4 M/pi sin(pi (2 l + x) / (2 M)), M = nsite + x: x, what an open end shifts the length by, and k
   are found (Calabrese and Cardy, J. Phys. A 42, 504005 (2009); Laflorencie et al., Phys. Rev. Lett. 96,
   100603 (2006); Fagotti and Calabrese, J. Stat. Mech. P01017 (2011)). *error: how far c moves with the cuts
   that are left out at the ends, and with x = 1. *marginal 1: the alternation of an open end falls as in
   isotropic spin chains, or nearly so (k from 0.52 to 0.74), whose c comes with logarithms of the length: the
   error is then up to 2 / ln^2 of the longest chord at least. Closed chains do not tell whether they have
   logarithms: their error is 0.15 / ln^3 at least. curve[nsite - 1], if not NULL: the part without
   alternation.
   0: fewer than 12 sites, or no fit. */
int kl_fit_charge(int nsite, int closed, const double *s, double *c, double *error, int *marginal,
                  double *curve);

typedef struct kl_decay {
    double power, power_error; /* |C| ~ r^-power */
    double length, length_error; /* |C| ~ exp(-r / length) */
    double power_log, length_log; /* ln of the prefactors */
    double power_rms, length_rms; /* of ln |C| */
} kl_decay;
/* Both decays of c[n] at distances r[n] > 0; numbers below `least' of the largest are noise. 0: fewer than 4
   are left, or none decays. */
int kl_fit_decay(int n, const double *r, const double *c, double least, kl_decay *out);

/* y of systems of length l[n], n >= 3, for endless ones: by a few terms in 1/l in those combinations that
   leave a point to spare; error: how far the limit moves with all that leave less than ten times as much
   as the best, and twice as far as it moves without the shortest system. */
typedef struct kl_limit {
    double value, error, rms;
    double coef[KL_FIT_TERMS];
    int power[KL_FIT_TERMS], n; /* terms */
} kl_limit;
int kl_fit_limit(int n, const double *l, const double *y, kl_limit *out);

#endif
