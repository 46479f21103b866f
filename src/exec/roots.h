/* Inverse Cholesky factors of many symmetric matrices that lie on an executor: by it, where it has something
   for them, else by the threads of this machine.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ROOTS_H
#define KL_ROOTS_H
#include "exec/exec.h"

/* The matrices: i has n[i] rows, maybe none, and lies at off[i] of a and of t, both of `length` numbers on
   the executor. */
typedef struct kl_roots {
    int count;
    const int *n;
    const int64_t *off;
    int64_t length;
    kl_dptr a; /* lower triangles are read; spoilt */
    kl_dptr t; /* found: T^T A T = 1 */
    char *good; /* [count] found: 0 where A is not positive definite to rounding, T is undefined then */
} kl_roots;

kl_status kl_roots_find(kl_exec *ex, const kl_roots *r, kl_err *err) KL_MUST_CHECK;

#endif
