/* A molecule with the total spin as a charge: its tables and its strings. For molecule.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MOLECULESPIN_H
#define KL_MOLECULESPIN_H
#include "chem/molecule.h"

/* What both kinds of tables say alike: the formula, and the charges of the point group, charge[0..2]; returns
   how many these are. */
extern const char kl_molecule_formula[];
int kl_molecule_irrep_charges(const kl_fcidump *f, kl_charge *charge);
/* The model of m, whose orbitals are known. */
kl_status kl_molecule_spin_tables(const kl_fcidump *f, kl_molecule *m, kl_err *err) KL_MUST_CHECK;
/* The strings of H, to be merged. */
kl_status kl_molecule_spin_terms(const kl_fcidump *f, double threshold, kl_molecule *m,
                                 kl_err *err) KL_MUST_CHECK;
/* spin: doubled. */
void kl_molecule_spin_charges(const kl_molecule *m, int electrons, int spin, int irrep, int *charge);
/* start[norb]: states of a site without S, of which singly occupied ones become the step that keeps the path
   as far from Sz = 0 as those electrons are; ms2: of all of them. */
void kl_molecule_spin_path(const kl_molecule *m, int ms2, int *start);

#endif
