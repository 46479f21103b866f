/* The lowest determinants as a small dense block: its eigenvectors start the solver, its inverse
   preconditions it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PSPACE_H
#define KL_PSPACE_H
#include "ci/determinant.h"
#include "chem/fcidump.h"
#include "solve/eigbase.h"

typedef struct kl_pspace_run { /* positions that follow each other */
    int64_t at;
    int first, n;
} kl_pspace_run;

typedef struct kl_pspace {
    kl_precond precond;
    kl_exec *ex;
    int64_t n;
    kl_dptr diagonal;
    int size, nrun;
    kl_pspace_run *run; /* [nrun] */
    double *vector; /* [size][size] eigenvectors as columns */
    double *energy; /* [size] */
    double *in, *mid; /* [size] */
} kl_pspace;

/* About the `want' lowest determinants, with all that differ from one of them in the spins of open shells
   alone: eigenvectors of the block are such of S^2. d: the diagonal on the host. */
kl_status kl_pspace_make(kl_pspace *b, const kl_fcidump *g, const kl_detspace *s, kl_exec *ex,
                         kl_dptr diagonal, const double *d, int want, kl_err *err) KL_MUST_CHECK;
void kl_pspace_clear(kl_pspace *b);

#endif
