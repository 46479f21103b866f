/* Density matrices of electrons from expectation values of operator strings: which strings these are, as a
   term list, and what their values make. Knows no wavefunction. Orbitals are those of the molecule's
   integrals, whatever their order along the sites.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DENSITIES_H
#define KL_DENSITIES_H
#include "chem/molecule.h"

typedef struct kl_densities kl_densities;

/* two: 1 for two-body density matrices, too. m must live as long. */
kl_status kl_densities_create(const kl_molecule *m, int two, kl_densities **out, kl_err *err) KL_MUST_CHECK;
void kl_densities_destroy(kl_densities **d);

/* The strings, one of each adjoint pair, coefficients 1: what kl_measure_terms takes. `value` below is what
   it gives. Real wavefunctions of one charge sector only. */
const kl_terms *kl_densities_terms(const kl_densities *d);

/* up, dn[norb][norb] = <c+_p c_q>. */
void kl_densities_one(kl_densities *d, const double *value, double *up, double *dn);

/* gamma[norb][norb][norb][norb] = <c+_p c+_r c_s c_q> at [p][q][r][s], so that the energy is core + sum h_pq
   <c+_p c_q> + 1/2 sum (pq|rs) gamma. ORDER of spins of (pq) and (rs): up up, dn dn, up dn. */
void kl_densities_two(kl_densities *d, const double *value, double *gamma[3]);

/* <S^2> of a state with Sz = ms2 / 2, of orbitals that both spins share. */
double kl_densities_spin(kl_densities *d, const double *value, int ms2);
/* How far such an <S^2> lies above that of the least total spin, |ms2| / 2, where no total spin has it: too
   few states keep spins together, and states of several are mixed. Else 0. */
double kl_densities_spin_mixed(double s2, int ms2);

/* entropy[norb], information[norb][norb]: -sum w ln w of each orbital's density matrix; of two orbitals the
   sum of theirs less that of both together, on the diagonal that of one, as kl_reduced_mutual has it of sites
   (Rissler, Noack, White, Chem. Phys. 323 (2006) 519 halve it). */
kl_status kl_densities_information(kl_densities *d, const double *value, double *entropy, double *information,
                                   kl_err *err) KL_MUST_CHECK;

/* What the integrals make of density matrices. */
double kl_densities_energy(const kl_fcidump *f, const double *up, const double *dn,
                           const double *const gamma[3]);

#endif
