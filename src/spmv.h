/* y = A x and Y = A X for stored sparse matrices, behind one interface for every format and executor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPMV_H
#define KL_SPMV_H
#include "exec.h"
#include "spmat.h"

#define KL_SPMV_MAX_VEC 16

typedef struct kl_spmv kl_spmv;

/* Prepares a matrix for products on an executor. The matrix is borrowed and must stay as it is. */
kl_status kl_spmv_create(kl_exec *ex, const kl_spmat *m, kl_spmv **out, kl_err *err) KL_MUST_CHECK;
void kl_spmv_destroy(kl_spmv **s);

/* y[nvec][ldy] = A x[nvec][ldx], vectors contiguous, any nvec >= 0 (in groups of at most 16); y may not alias x. The same bits whatever
   the number of threads. */
kl_status kl_spmv_apply(kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy, kl_err *err) KL_MUST_CHECK;

/* Bytes that one product with nvec vectors must move at least: the arrays of the format, x and y once. */
int64_t kl_spmv_bytes(const kl_spmat *m, int nvec);

/* spmv_tmpl.c, compiled for 16- and 32-bit columns: units [from, to) (rows; slices of sliced ELL) of Y = A X, x [ncol][nv], y [nrow][nv],
   nv 1, 2, 4, 8 or 16. Symmetric halves: adds to the mirrored rows in z [nrow][nv], and writes y without them. */
typedef void kl_spmv_units(const kl_spmat *m, int64_t from, int64_t to, int nv, const double *x, double *y, double *z);
kl_spmv_units kl_spmv_units_16, kl_spmv_units_32;

#endif
