/* What is measured on a matrix product state: expectation values, correlations, strings, structure factors,
   energy and its variance, overlaps. Sites are the lattice's numbers everywhere. Operators of blocks carry
   only the fermionic strings inside their block, as in DMRG itself; all products of operators are meant in
   the order in which they are written.
   In a state of the total spin S operators are those of the variant without it, and values those of the
   component with M = S (measurespin.c); kl_measure_leading knows states without it alone.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEASURE_H
#define KL_MEASURE_H
#include "dmrg/canonical.h"
#include "model/lattice.h"
#include "model/siteop.h"

typedef struct kl_measure kl_measure; /* one wavefunction, ready to be measured */

/* Wavefunction `which` of a state on this lattice. State, executor and lattice have to outlive it. */
kl_status kl_measure_create(kl_exec *ex, const kl_state *s, int which, const kl_lattice *lat,
                            kl_measure **out, kl_err *err) KL_MUST_CHECK;
void kl_measure_destroy(kl_measure **m);
/* Operators that wait in a measurement of the energy do so in files of this folder, as those of a run with a
   limit of the host's memory do: see scratch.h. Borrowed. */
void kl_measure_file(kl_measure *m, const char *scratch);
/* What it reads: lives as long as m. */
kl_canonical *kl_measure_state(const kl_measure *m);

/* 1 where `between` may stand between other operators in this state: with the total spin it has to be a
   scalar of it. NULL may. */
int kl_measure_can_pass(const kl_measure *m, const kl_siteop *between);

/* value[nsite] = <A_i>; 0 on sites whose type lacks a name in A. */
kl_status kl_measure_local(const kl_measure *m, const kl_siteop *a, double *value, kl_err *err) KL_MUST_CHECK;

/* value[nsite][d]: probability of each basis state of a site, d the largest dimension (0 beyond a site's
   own). */
kl_status kl_measure_populations(const kl_measure *m, int *d, double **value, kl_err *err) KL_MUST_CHECK;

/* value[nsite][nsite] = <A_i B_j>, row i. between: NULL, or an operator that conserves the charges, put on
   every site between the two in DMRG order, where it commutes past A and B as an even operator does.
   connected: less <A_i><B_j>. */
kl_status kl_measure_pairs(kl_measure *m, const kl_siteop *a, const kl_siteop *between, const kl_siteop *b,
                           int connected, double *value, kl_err *err) KL_MUST_CHECK;

/* <op[0]_site[0] op[1]_site[1] ...>; sites may repeat and come in any order. between: as above, on all sites
   from the first to the last in DMRG order that the list does not name. */
kl_status kl_measure_product(kl_measure *m, int n, const int *site, const kl_siteop *const *op,
                             const kl_siteop *between, double *value, kl_err *err) KL_MUST_CHECK;

/* The same with `between` on the sites between in the lattice's numbering, whatever the order of DMRG:
   value[nsite][nsite] of pairs, and one product. */
kl_status kl_measure_strings(kl_measure *m, const kl_lattice *lat, const kl_siteop *a,
                             const kl_siteop *between, const kl_siteop *b, double *value,
                             kl_err *err) KL_MUST_CHECK;
kl_status kl_measure_string_product(kl_measure *m, const kl_lattice *lat, int n, const int *site,
                                    const kl_siteop *const *op, const kl_siteop *between, double *value,
                                    kl_err *err) KL_MUST_CHECK;

/* value[nterm] = <string> of every term, without its coefficient: for many strings that begin or end alike,
   such as those of density matrices of two electrons. t: of the variant without the total spin. */
kl_status kl_measure_terms(kl_measure *m, const kl_terms *t, double *value, kl_err *err) KL_MUST_CHECK;

/* The *n <= most product states of the largest amplitudes, falling in size: state[most][nsite],
   amplitude[most], of site bases multiplied in DMRG order. Fewer, where there are no more, or too many
   alike to be told apart. */
kl_status kl_measure_leading(kl_measure *m, int most, int *state, double *amplitude, int *n,
                             kl_err *err) KL_MUST_CHECK;

/* S(k) = 1/N sum_ij cos(k (r_i - r_j)) pair[i][j] for nk vectors k[nk][2]. */
void kl_structure_factor(const kl_lattice *lat, const double *pair, int nk, const double (*k)[2],
                         double *value);

/* *energy = <H>; *variance (NULL: not wanted) = the part of <(H-E)^2> that changes one site or two neighbours
   (Hubig, Haegeman, Schollwoeck, Phys. Rev. B 97, 045125 (2018)): all of it where no term spans more than two
   neighbours in DMRG order, else a lower bound. No difference of large numbers is taken, so that it is good
   far below 1e-16 E^2. */
kl_status kl_measure_energy(kl_measure *m, const kl_terms *terms, double *energy, double *variance,
                            kl_err *err) KL_MUST_CHECK;

/* Largest |sum of a U(1) charge over the sites - target|: what a sound state has to rounding. */
kl_status kl_measure_charge_error(const kl_measure *m, double *error, kl_err *err) KL_MUST_CHECK;

#endif
