/* The leading eigenvectors of density matrices, noise and all, by products: subspace iteration from the unit
   vectors of the largest diagonal elements, in the basis that the density matrix has anyway. For executors
   that make Cholesky factors fast.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DOMINANT_H
#define KL_DOMINANT_H
#include "exec/exec.h"

typedef struct kl_dominant_part {
    int n; /* rows of the matrix */
    int owner; /* the rank that has it */
    int64_t at; /* where it lies, both triangles, with its owner */
    int whole; /* 1: it is left to others */
    /* found */
    int tried; /* columns of Q; 0: this matrix is left to others */
    int64_t q, b; /* of Q [n x tried], orthonormal, and of Q^T rho Q [tried x tried] */
    double trace; /* of the whole matrix */
} kl_dominant_part;

typedef struct kl_dominant {
    /* given; borrowed */
    kl_exec *ranks; /* all know of all parts; each has its own, */
    kl_exec *ex; /* on the executor as one of this rank alone */
    int npart;
    kl_dominant_part *part;
    int64_t m; /* states that are wanted of all of them together */
    int worth; /* rows from which a matrix is worth it */
    /* found */
    struct kl_dominant_element *element; /* [nelement] diagonal elements, the largest first */
    int64_t nelement;
    int64_t nq, nb;
    kl_dptr q, b;
} kl_dominant;

/* rho: this rank's matrices, on the executor. First how many columns are tried in each part, by all ranks
   together; then those of this rank's parts; then all ranks are told in which that has failed. Deterministic:
   yes, on any number of threads. */
kl_status kl_dominant_look(kl_dominant *d, kl_dptr rho, kl_err *err) KL_MUST_CHECK;
kl_status kl_dominant_find(kl_dominant *d, kl_dptr rho, kl_err *err) KL_MUST_CHECK;
kl_status kl_dominant_agree(kl_dominant *d, kl_err *err) KL_MUST_CHECK;
/* 1: so many of the columns tried may be kept, and the last of them is known well. Pure. */
int kl_dominant_sure(int tried, int kept);
/* Q z of each part with count[i] > 0: z [tried x count[i]] at from[i] of z[nz], to to[i] of data[ndata]. */
kl_status kl_dominant_states(const kl_dominant *d, const int *count, const int64_t *from, int64_t nz,
                             kl_dptr z, const int64_t *to, int64_t ndata, kl_dptr data,
                             kl_err *err) KL_MUST_CHECK;
void kl_dominant_clear(kl_dominant *d);

#endif
