/* Thermodynamics from typical states: the finite-temperature Lanczos method (Jaklic and Prelovsek, Phys. Rev.
   B 49, 5065 (1994)), summed over sectors; the lowest states of each by themselves, small sectors by all
   their energies. k_B = 1.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDTHERMAL_H
#define KL_EDTHERMAL_H
#include "ed/ed.h"

typedef struct kl_thermal kl_thermal; /* energies and weights of the sectors so far */

typedef struct kl_thermal_opts {
    int nsample; /* random vectors in each sector, >= 2 for error bars */
    int nstep; /* Lanczos steps of each at most; 0: 100 */
    int full; /* largest number of states of a sector for LAPACK; 0: KL_ED_FULL_AUTO */
    uint64_t seed;
    void *self; /* of the monitor: */
    /* nonzero: stop; may be NULL. sample -1: of the lowest states */
    int (*step)(void *self, int sample, int step);
    /* NULL, or keeps the sum so far. from is looked at by create for numbers, and by the first add for
       vectors: the sectors that are in (kl_thermal_about) are left out by the caller; the run ends with the
       same bits */
    const kl_keeper *keeper;
} kl_thermal_opts;

/* How the lowest states of a sector of `dim` states are found, nstate of them; 0: none are. */
kl_ed_opts kl_thermal_lowest(double dim);

/* No sector yet. m is borrowed, the options are copied. */
kl_status kl_thermal_create(const kl_model *m, const kl_thermal_opts *opts, kl_thermal **out,
                            kl_err *err) KL_MUST_CHECK;
void kl_thermal_destroy(kl_thermal **t);

/* Adds the sector of ed. *stopped: the monitor said so, and the sector is not in, though a keeper has what
   there was of it. */
kl_status kl_thermal_add(kl_thermal *t, kl_ed *ed, int *stopped, kl_err *err) KL_MUST_CHECK;

/* What has a susceptibility: each charge of the model, in its order, and of N_up and N_dn their sum N and
   half of their difference, Sz. */
enum { KL_MAX_CHI = KL_MAX_CHARGE + 2 };
typedef struct kl_thermal_charge {
    const char *name;
    double factor[KL_MAX_CHARGE]; /* of each charge in the user's units; 0 of Z_n charges */
} kl_thermal_charge;
/* How many there are. */
int kl_thermal_charges(const kl_model *m, kl_thermal_charge out[KL_MAX_CHI]);

/* Error bars: jackknife over samples, wider where these are few, and no less than what random vectors are
   known to vary by; 0 where every sector was small, NaN where one sample cannot tell. */
typedef struct kl_thermal_row {
    double temperature;
    double energy, heat, entropy; /* <H>, (<H^2> - <H>^2) / T^2, ln Z + <H> / T */
    double energy_error, heat_error, entropy_error;
    /* (<Q^2> - <Q>^2) / T of kl_thermal_charges; Z_n charges: 0 */
    double chi[KL_MAX_CHI], chi_error[KL_MAX_CHI];
} kl_thermal_row;
/* Of the sectors added so far; temperature > 0 in the units of the energy. */
kl_status kl_thermal_evaluate(const kl_thermal *t, double temperature, kl_thermal_row *row,
                              kl_err *err) KL_MUST_CHECK;

/* What is in it: sectors, those by all energies, states of the others that stand by themselves, products with
   H; states, the lowest energy seen. */
typedef struct kl_thermal_facts {
    int64_t nsector, nfull, nlow, napply;
    double dim, lowest;
} kl_thermal_facts;
kl_thermal_facts kl_thermal_about(const kl_thermal *t);

#endif
