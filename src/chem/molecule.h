/* The Hamiltonian of a molecule as the term list that DMRG takes: one site an orbital, its states 0, up, dn
   and updn; charges N_up, N_dn and up to three of modulus 2 for the point group, so that sites of different
   irreps are of different types; with the total spin N, those of the point group and S, and sites whose
   states are multiplets. The tables that kl_model holds are made in memory from the integrals. Knows no
   determinants and no options.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MOLECULE_H
#define KL_MOLECULE_H
#include "chem/fcidump.h"
#include "model/qn.h"
#include "model/terms.h"

/* The operators of a site by these bits a, b, c, d: cdag_up^a cdag_dn^b c_dn^c c_up^d; 0 is the identity. The
   states of a site by the bits 1 (up) and 2 (dn). */
enum {
    KL_CDAG_UP = 1,
    KL_CDAG_DN = 2,
    KL_C_DN = 4,
    KL_C_UP = 8,
    KL_MOLECULE_OPS = 16,
};

typedef struct kl_molecule {
    kl_model model;
    struct kl_molecule_tables *tables; /* what the model's pointers point to, */
    struct kl_spin_tables *spin_tables; /* or these, with the total spin */
    int norb;
    int *order; /* [norb]: orbital of the integrals at DMRG position p */
    int *position; /* [norb]: inverse of order */
    int *irrep; /* [norb] by orbital, from 0 */
    kl_terms *terms; /* the constant is the file's core energy */
    int64_t ndropped; /* strings that the threshold left out, */
    double dropped; /* and by how much no energy is changed more for it (sum of their sizes) */
} kl_molecule;

/* order[norb]: orbital of each position, a permutation. Strings whose coefficient is below the threshold in
   size are left out; 0 leaves none. spin: 1 for the total spin as a charge in place of Sz, which unrestricted
   orbitals do not have. f is needed during the call only. */
kl_status kl_molecule_create(const kl_fcidump *f, const int *order, double threshold, int spin,
                             kl_molecule **out, kl_err *err) KL_MUST_CHECK;
/* The same without terms. */
kl_status kl_molecule_create_sites(const kl_fcidump *f, const int *order, int spin, kl_molecule **out,
                                   kl_err *err) KL_MUST_CHECK;
void kl_molecule_destroy(kl_molecule **m);

/* The sector of these numbers of electrons, with the total spin that of 2 S = nalpha - nbeta; irrep from 0.
   EINPUT: there is none such. */
kl_status kl_molecule_target(const kl_molecule *m, int nalpha, int nbeta, int irrep, kl_qn *out,
                             kl_err *err) KL_MUST_CHECK;
/* From 0: the irrep of a sector. */
int kl_molecule_irrep(const kl_molecule *m, kl_qn sector);
/* The product state of a determinant: up[norb], dn[norb] are 0 or 1 by orbital, start[norb] by position; with
   the total spin the path of multiplets that follows its electrons. Returns its irrep. */
int kl_molecule_start(const kl_molecule *m, const unsigned char *up, const unsigned char *dn, int *start);

/* Which orbital stands where. how: "fiedler" (the second eigenvector of the graph whose edges weigh what the
   exchange integrals (pq|pq) do; orbitals that none joins one group after the other), "mutual" (edges weigh
   what mutual[norb][norb] says, where it is not NULL), "genetic" (fiedler, and improved by a genetic
   algorithm), "canonical" (as in the file), or a list of all orbitals by their numbers: "2,1,3".
   number[norb], ascending: what users call each; NULL: they count from 1. */
kl_status kl_orbitals_order(const kl_fcidump *f, const int *number, const char *how, const double *mutual,
                            int *order /* [norb] */, kl_err *err) KL_MUST_CHECK;

#endif
