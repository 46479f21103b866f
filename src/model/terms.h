/* The Hamiltonian of a model on a lattice as one sorted list of operator strings: h.c. written out, sites
   that coincide multiplied, equal strings merged, zeros dropped. How a term of the model is cut, and its
   signs, are in the model's symbolic records; a product that no table knows (added at run time, or on sites
   that coincide here) is sorted and cut by the rules of the generated phase.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TERMS_H
#define KL_TERMS_H
#include "model/params.h"

typedef struct kl_op_at {
    int pos; /* DMRG position */
    int op;  /* index into the operators of that position's site type; never the identity */
    int rank; /* where the total spin is a charge: twice the rank of the string up to here */
} kl_op_at;

typedef struct kl_term {
    double coef;
    int nop;
    /* ops at op[first .. first+nop), pos strictly increasing; as a fermionic product in that order */
    int64_t first;
} kl_term;

typedef struct kl_terms {
    const kl_model *model;
    int nsite;
    const kl_site_type **type; /* [nsite] by DMRG position */
    double constant;           /* strings that multiplied to the identity */
    int64_t nterm;
    kl_term *term;             /* sorted by their op strings */
    int64_t nop;
    kl_op_at *op;
    /* [nop]: kl_terms_kept: the string from this operator on, what a right block keeps of the term at the cut
       before it */
    int *rest;
    int nkept, kept_room;
    /* [nkept] of strings that no table knows; they are numbered on from the model's */
    kl_kept *kept;
    /* [nterm]: first term definition of the model that the string comes from, for messages; -1:
       kl_terms_add */
    int *def;
    int64_t term_room, op_room; /* capacities, for kl_terms_add */
} kl_terms;

/* What is kept under number i: the model's, then those of t itself. */
static inline const kl_kept *kl_terms_kept(const kl_terms *t, int i)
{
    return i < t->model->nkept ? &t->model->kept[i] : &t->kept[i - t->model->nkept];
}

/* Site type of lattice site i; NULL when no type of the model claims it. */
const kl_site_type *kl_model_type_at(const kl_model *m, const kl_lattice *lat, int i);

/* The sites alone, without any term. EINPUT: a site that no type claims, a type that no site gets. */
kl_status kl_terms_create_sites(const kl_model *m, const kl_lattice *lat, kl_terms **out,
                                kl_err *err) KL_MUST_CHECK;

/* EINPUT: a bond class that this lattice lacks (with those it has), an operator missing on a site type, a
   result that is not Hermitian. */
kl_status kl_terms_create(const kl_model *m, const kl_lattice *lat, const kl_params *p, kl_terms **out,
                          kl_err *err) KL_MUST_CHECK;

/* Adds coef * product (in the order given, lattice positions already DMRG positions; may repeat and be
   unsorted), e.g. a pinning field. Call kl_terms_merge after the last one: it sorts, merges equal strings,
   drops those that cancel (1e-15 of the sum of the magnitudes), and refuses a string that breaks a charge, is
   odd or has more than KL_MAX_FACTOR operators, and a sum that is not Hermitian. When it refuses, the list is
   as it was before the merge. */
kl_status kl_terms_add(kl_terms *t, double coef, int nop, const kl_op_at *ops, int plus_hc,
                       kl_err *err) KL_MUST_CHECK;
kl_status kl_terms_merge(kl_terms *t, kl_err *err) KL_MUST_CHECK;

/* Some strings of t as a list: kl_terms_room makes *to, which has no strings yet, wide enough for all of
   them, with what t keeps; kl_terms_pick appends string i, whose operators are the last of *to. */
kl_status kl_terms_room(kl_terms *to, const kl_terms *t, kl_err *err) KL_MUST_CHECK;
void kl_terms_pick(kl_terms *to, const kl_terms *t, int64_t i);

/* EINPUT where charges of some part of the lattice are no numbers of 16 bits. */
kl_status kl_terms_check_charges(const kl_terms *t, kl_err *err) KL_MUST_CHECK;

void kl_terms_destroy(kl_terms **t);
void kl_terms_clear(kl_terms *t); /* frees all strings; model and sites stay */

/* What energies are measured in, so that no tolerance depends on it: coefficients times the sizes of their
   operators, where these are not of order one, as the author's units may have it. Never 0. */
typedef struct kl_units {
    /* the largest that joins sites, or there is: a strong repulsion on one site says little of what a state
       far off costs */
    double joint;
    /* no more than that, nor than twice the largest that moves anything: levels may lie as close together
       where the larger couplings are all diagonal */
    double gap;
    double all; /* the largest: what rounding is a part of */
} kl_units;
kl_units kl_terms_units(const kl_terms *t);

/* States of the largest site. */
static inline int kl_terms_most_states(const kl_terms *t)
{
    int most = 0;
    for (int p = 0; p < t->nsite; p++)
        if (t->type[p]->dim > most) most = t->type[p]->dim;
    return most;
}

/* The terms counted in their own unit (kl_unit_of their largest coupling, returned): *own is a view of t with
   coefficients and a constant of its own, to be cleared by kl_terms_clear_own. EINPUT: a constant that the
   unit makes infinite. */
kl_status kl_terms_in_own_unit(const kl_terms *t, kl_terms *own, double *unit, kl_err *err) KL_MUST_CHECK;
void kl_terms_clear_own(kl_terms *own);

/* Index of the named operator on a site type, KL_OP_NONE if it has none. */
int kl_site_op_find(const kl_site_type *type, const char *name);

#endif
