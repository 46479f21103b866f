/* H v in any space of determinants, full or listed, with elements that are made as they are needed and never
   kept: all rows, or those that a stored matrix does not hold.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ROWSIGMA_H
#define KL_ROWSIGMA_H
#include "ci/slater.h"
#include "exec/exec.h"

typedef struct kl_rowsigma kl_rowsigma;

/* h is borrowed. A device makes the elements itself, where it has room for the tables and no ranks share the
   work; else the processor does: the device's vectors come to it and go back. */
kl_status kl_rowsigma_create(kl_exec *ex, const kl_slater *h, kl_rowsigma **out, kl_err *err) KL_MUST_CHECK;
void kl_rowsigma_destroy(kl_rowsigma **s);

/* cost[alpha strings]: about the elements that are looked at for the rows of each. */
void kl_rowsigma_costs(const kl_rowsigma *s, double *cost);

/* stored[alpha strings]: 1 where a matrix has the rows; NULL: nowhere. To be called once, before products;
   ranks divide what is left. */
kl_status kl_rowsigma_divide(kl_rowsigma *s, const uint8_t *stored, kl_err *err) KL_MUST_CHECK;

/* The elements of y[nvec][ldy] = H x[nvec][ldx] that belong to rows not stored; the others stay as they are.
   y may not alias x. The same bits whatever the number of threads and ranks. */
kl_status kl_rowsigma_apply(kl_rowsigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                            kl_err *err) KL_MUST_CHECK;

int kl_rowsigma_there(const kl_rowsigma *s); /* 1: the device makes them, from kl_rowsigma_divide on */

/* Operations of one product, about, and the rows that it makes. */
int64_t kl_rowsigma_flops(const kl_rowsigma *s);
int64_t kl_rowsigma_rows(const kl_rowsigma *s);

#endif
