/* Products of operators of sites on a state of exact diagonalization, whatever they are and however many. The
   state becomes matrices between the two halves of the lattice, once; of each product the matrix elements
   within either half are listed, and the vector is gone through once. Correlations of operators that a
   model's tables have stay where the state is by kl_ed_expect.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDPRODUCT_H
#define KL_EDPRODUCT_H
#include "ed/bipartition.h"

/* A state across the cut that halves the lattice, on the host. */
typedef struct kl_ed_cut {
    kl_bipartition *own; /* NULL, or the basis by sites where the state's own is by flavours */
    const kl_bipartition *h; /* by sites */
    int *block_of_right; /* [right.nsec], -1: no partner */
    int64_t *column; /* [nblock + 1]: right states of the blocks before */
    int64_t *off; /* [nblock + 1] of the matrices in x */
    double *x; /* of each block left states by right ones, column-major, physical mode order */
    double square; /* <x|x> */
} kl_ed_cut;

/* x[space->n] on the host, in a basis of these terms; only read. Borrows space and what the terms borrow. */
kl_status kl_ed_cut_create(const kl_terms *terms, const kl_bipartition *space, const double *x, int nthread,
                           kl_ed_cut **out, kl_err *err) KL_MUST_CHECK;
void kl_ed_cut_destroy(kl_ed_cut **c);

/* An operator at a position of DMRG. */
typedef struct kl_ed_factor {
    int pos;
    const double *a; /* [dim * dim] of the position's site type, column-major */
} kl_ed_factor;

/* *value = <x| f[0] f[1] ... f[n - 1] |x> / <x|x>, positions in any order, repeated or not. The same bits on
   any number of threads. */
kl_status kl_ed_product(const kl_ed_cut *c, int n, const kl_ed_factor *f, int nthread, double *value,
                        kl_err *err) KL_MUST_CHECK;

#endif
