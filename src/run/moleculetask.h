/* The molecule that a task of DMRG is about: integrals, the orbitals of the run in their order along the
   sites, the reference determinant. What options say of them is checked here; prints nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MOLECULETASK_H
#define KL_MOLECULETASK_H
#include "chem/molecule.h"
#include "ci/ciorbitals.h"
#include "ci/leaders.h"
#include "dmrg/measure.h"
#include "io/result.h"
#include "run/options.h"

typedef struct kl_moleculetask {
    const kl_fcidump *f;      /* integrals of the file, */
    kl_fcidump *own;          /* which is theirs where it was read here */
    kl_ciorbitals orbitals;   /* which are active; electrons; the reference */
    kl_molecule *m;           /* of the active orbitals; its terms are the task's */
    int *number;              /* [active]: of the orbital in the file, from 1 */
    char *occupation;         /* "2222ud00", all orbitals of the file */
    int named;                /* 1: options say so */
    double reference_energy;
    int irrep;                /* of the sector, from 0; -1: all are tried */
    int reference_irrep;
    kl_leaders lead;          /* that the order of the orbitals is by: of this irrep, of so many states */
    int lead_irrep, lead_nstate;
    int nup, ndn;             /* active electrons, with the total spin those of its component M = S */
    int spin;                 /* twice the total spin where it is a charge, else -1 */
    kl_molecule *other;       /* kl_moleculetask_other has made it */
} kl_moleculetask;

/* The order of the orbitals by default: kl_orbitals_order. */
#define KL_MOLECULE_ORDER "fiedler"

/* given: integrals in memory, borrowed; NULL: those of o->file. */
kl_status kl_moleculetask_create(const kl_options *o, const kl_fcidump *given, kl_moleculetask **out,
                                 kl_err *err) KL_MUST_CHECK;
void kl_moleculetask_destroy(kl_moleculetask **t);

/* The active orbitals as the sites that measurements and results know; named by their numbers. */
kl_status kl_moleculetask_sites(const kl_moleculetask *t, const char *name, kl_lattice **out,
                                kl_err *err) KL_MUST_CHECK;

/* What determinants leave of the first blocks is random, and seeds end where that leads them: Cr2 with 100
   states from 64 of them 16 millihartree apart, from 400 of them 4, and lower by 5 to 17. */
enum { KL_MOLECULE_STARTS = 400 };
/* start[KL_MOLECULE_STARTS][active] by position: the determinants that the lowest nstate states of the irrep
   are mostly made of (ci/leaders.h), with the total spin the paths of these, each once. The reference alone
   where options name one, or, of more than KL_DET_MAX_ORB orbitals, the reference or the lowest determinant
   that one or two electrons away from it has the irrep. *n: how many, 0: there is none such. */
kl_status kl_moleculetask_start(const kl_moleculetask *t, int irrep, int nstate, int *start, int *n,
                                kl_err *err) KL_MUST_CHECK;
/* The sites of the variant without the total spin where the task has it, else of the one with it; the
   caller's. Once only. */
kl_status kl_moleculetask_other(kl_moleculetask *t, kl_terms **out, kl_err *err) KL_MUST_CHECK;

/* Measured on every state after a run: one-body density matrices, leading determinants and, of restricted
   orbitals, natural occupations and S^2; on the lowest one entropies of orbitals and their mutual
   information. two: two-body density matrices, too; they are checked by their traces, and by the energy that
   they make with the integrals. plain: with the total spin the sites of the variant without it, in which the
   component M = S is measured. */
kl_status kl_moleculetask_measure(const kl_moleculetask *t, kl_exec *ex, const kl_lattice *lat,
                                  const kl_terms *plain, const kl_state *state, int two, kl_result *r,
                                  kl_err *err) KL_MUST_CHECK;

/* What a report says of the molecule, as measured values of r. */
kl_status kl_moleculetask_tell(const kl_moleculetask *t, kl_result *r, kl_err *err) KL_MUST_CHECK;

#endif
