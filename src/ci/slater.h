/* Matrix elements between determinants by the Slater-Condon rules, and H as a sparse matrix in a space of
   determinants: only pairs that H connects are ever looked at. Knows no solvers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SLATER_H
#define KL_SLATER_H
#include "ci/determinant.h"
#include "chem/fcidump.h"
#include "sparse/spmat.h"

/* H = core + T_alpha + T_beta + V_ab, with T acting on one string alone. Borrows f and s. */
typedef struct kl_slater {
    const kl_fcidump *f;
    const kl_detspace *s;
    int nthread;
    int64_t most_nnz;    /* kl_slater_matrix stores no more; 0: any number */
    double *diag[2];     /* [strings] T's diagonal */
    double *single[2];   /* [moves] T's element for the move, sign included */
    int64_t *two_off[2]; /* [strings + 1] */
    int32_t *two_to[2];  /* double excitations inside the list of strings, ascending */
    double *two[2];
} kl_slater;

/* Tables of T for both spins; no matrix yet. */
kl_status kl_slater_create(const kl_fcidump *f, const kl_detspace *s, int nthread, kl_slater **out,
                           kl_err *err) KL_MUST_CHECK;
void kl_slater_destroy(kl_slater **s);

/* d[s->n] by position, core included. */
void kl_slater_diagonal(const kl_slater *h, double *d);

/* <A B| H |C D>, any two determinants; core included on the diagonal. */
double kl_slater_element(const kl_fcidump *f, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* Which rows of alpha strings a matrix keeps where most_nnz has no room for all. */
typedef struct kl_slater_part {
    const double
        *cost; /* [alpha strings] in: of making their elements; the costliest for its size goes first */
    uint8_t *stored; /* [alpha strings] out: 1: they are there; the other rows are empty */
} kl_slater_part;

/* H as CSR; lower: the columns up to the diagonal only, marked symmetric. Elements below 1e-14 are left out,
   the diagonal never. part NULL: all of it, or ENOMEM. */
kl_status kl_slater_matrix(const kl_slater *h, int lower, const kl_slater_part *part, kl_spmat **out,
                           kl_err *err) KL_MUST_CHECK;

/* T of one spin between the strings of one irrep, t[n][n], symmetric; core on alpha's diagonal. */
void kl_slater_spin_block(const kl_slater *h, int spin, int irrep, double *t);

/* Orbital pairs sorted by irrep, and the integrals (pq|rs) of an alpha with a beta pair. */
typedef struct kl_slater_pairs {
    int n[8];        /* by irrep */
    int16_t *local;  /* [all pairs] index among those of its irrep */
    uint8_t *irrep;  /* [all pairs] */
    double *v[8];    /* [n][n], rows alpha */
} kl_slater_pairs;
kl_status kl_slater_pairs_make(const kl_fcidump *f, kl_slater_pairs *out, kl_err *err) KL_MUST_CHECK;
void kl_slater_pairs_clear(kl_slater_pairs *p);

/* Non-zeros that kl_slater_matrix would store: exactly, or, from one in `every` of the rows of alpha strings,
   about. */
kl_status kl_slater_count(const kl_slater *h, int lower, int every, int64_t *nnz, kl_err *err) KL_MUST_CHECK;

#endif
