/* Eigenvectors of many small symmetric matrices that lie on an executor, to the host: by both of them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EIGMANY_H
#define KL_EIGMANY_H
#include "exec/exec.h"

/* The matrices: i has n[i] rows, maybe none, and lies at off[i] of a, both triangles, and of host[length]. */
typedef struct kl_eigen_many {
    int count;
    const int *n;
    const int64_t *off;
    int64_t length;
    kl_dptr a; /* spoilt */
    double *host; /* eigenvectors */
    double *w; /* values, ascending, after those of the matrices before */
} kl_eigen_many;

/* shared: 1: the executor takes the largest where that is faster, by what it has saved in this run so far;
   0: threads of this machine do all. */
kl_status kl_eigen_many_find(kl_exec *ex, const kl_eigen_many *m, int shared, kl_err *err) KL_MUST_CHECK;

#endif
