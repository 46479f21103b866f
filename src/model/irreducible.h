/* A matrix of a site as components of irreducible operators of the total spin: what a measurement names in
   states of Sz, in the multiplets of a run with S.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_IRREDUCIBLE_H
#define KL_IRREDUCIBLE_H
#include "model/qn.h"

/* One component of operators of one rank, on every site type that has it. Elements are those of the reduced
   matrix (wigner.h), one for every two steps of its multiplets. */
typedef struct kl_irreducible {
    kl_qn shift;    /* of the charges that are no spin */
    int odd;        /* 1: fermionic */
    int rank, part; /* doubled: of the tensor, and which of its components */
    int *n;         /* [ntype] */
    kl_elem **elem; /* [ntype][n] */
} kl_irreducible;

typedef struct kl_irreducibles {
    int ntype, n;
    kl_irreducible *list;
} kl_irreducibles;

/* Adds the parts of a[row + col*dim] on sites of type t of a model with the total spin; rows and columns are
   the states that the site has without it. */
kl_status kl_irreducibles_add(const kl_model *m, int t, const double *a, kl_irreducibles *x,
                              kl_err *err) KL_MUST_CHECK;
/* Adds the identity on every site type. */
kl_status kl_irreducibles_add_identity(const kl_model *m, kl_irreducibles *x, kl_err *err) KL_MUST_CHECK;
void kl_irreducibles_clear(kl_irreducibles *x);

#endif
