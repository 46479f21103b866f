/* The Neumann expansion of (H - theta)^-1 about its diagonal: sum over k of (-D^-1 A)^k D^-1 with D = diag(H)
   - theta and A the rest, which is Jacobi's iteration; a preconditioner that costs products with H.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_NEUMANN_H
#define KL_NEUMANN_H
#include "solve/eigbase.h"

typedef struct kl_neumann {
    kl_precond precond; /* for kl_eig_opts */
    const kl_linop *h; /* with a diagonal */
    /* terms behind the first; even ones keep the sum definite where the bare series no longer converges */
    int order;
    kl_dptr work; /* [n] */
    int products; /* with H, made so far */
    kl_status st; /* the first failure: a preconditioner cannot tell */
    kl_err *err;
} kl_neumann;

/* h is borrowed and has a diagonal; `out' may not move afterwards, for its precond points to it. */
kl_status kl_neumann_open(const kl_linop *h, int order, kl_neumann *out, kl_err *err) KL_MUST_CHECK;
void kl_neumann_close(kl_neumann *n);

#endif
