/* Eigenvectors of matrices that an executor has made tridiagonal (vt.tridiagonal): kl_divide finds those of
   the tridiagonal matrices, and operation records apply the reflections to them where these are.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REFLECT_H
#define KL_REFLECT_H
#include "exec/exec.h"

/* Q_i of matrix i: n[i] - 1 reflections, the columns of the matrix of n[i] rows at v + off[i] below its
   diagonal, each 1 on top or all 0. */
typedef struct kl_reflections {
    int nmat;
    const int *n;       /* [nmat] rows */
    const int64_t *off; /* [nmat] */
    kl_dptr v;
    int64_t nv; /* doubles of v */
} kl_reflections;

/* Vectors that Q_i is applied to: count[i] columns of n[i] rows, at `data` + at[i]. */
typedef struct kl_reflected {
    const int *count;  /* [nmat] */
    const int64_t *at; /* [nmat] */
    kl_dptr data;
    int64_t ndata; /* doubles of data */
} kl_reflected;

/* Every column z becomes Q_i z. A panel of reflections is I - V T V^T, with T^-1 the upper half of V^T V
   and half of its diagonal (Puglisi, SIAM J. Sci. Stat. Comput. 13, 723 (1992)). */
kl_status kl_reflect(kl_exec *ex, const kl_reflections *q, const kl_reflected *z, kl_err *err) KL_MUST_CHECK;

#endif
