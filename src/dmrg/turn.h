/* Eigenvectors of matrices that an executor has made tridiagonal (vt.tridiagonal): those of the tridiagonal
   ones, which kl_divide finds, are turned where the reflections are, by operation records.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TURN_H
#define KL_TURN_H
#include "exec/exec.h"

/* Q_i z for count[i] columns z of n[i] rows, at columns + at[i], in place. Q_i: n[i] - 1 reflections, the
   columns of the matrix at v + off[i] below its diagonal, each 1 on top or all 0: I - V T V^T for a panel of
   them, with T^-1 the upper half of V^T V and half of its diagonal (Puglisi, SIAM J. Sci. Stat. Comput. 13,
   723 (1992)). nv and nz: doubles of v and of all columns. */
kl_status kl_turn(kl_exec *ex, int nmat, const int *n, const int64_t *off, int64_t nv, kl_dptr v,
                  const int *count, const int64_t *at, int64_t nz, kl_dptr columns,
                  kl_err *err) KL_MUST_CHECK;

#endif
