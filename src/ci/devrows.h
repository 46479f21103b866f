/* H v in any space of determinants on a device, with elements that are made as they are needed: the tables
   that its kernels read (dets.h), made once. rowsigma.c does the same on the host.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DEVROWS_H
#define KL_DEVROWS_H
#include "ci/slater.h"
#include "exec/exec.h"

typedef struct kl_devrows kl_devrows;

/* h is borrowed. diagonal[n] by position. stored[alpha strings]: 1 where a matrix has the rows, which are not
   made; NULL: nowhere. search: 1: rows are searched by halves, also where tables of places are small. ENOMEM:
   the device has no room for the tables; EABSENT: it has no such kernels. */
kl_status kl_devrows_create(kl_exec *ex, const kl_slater *h, const double *diagonal, const uint8_t *stored,
                            int search, kl_devrows **out, kl_err *err) KL_MUST_CHECK;
void kl_devrows_destroy(kl_devrows **s);

/* The elements of y[nvec][ldy] = H x[nvec][ldx] of the rows that are made; the others stay as they are. y may
   not alias x. The same bits in every run. */
kl_status kl_devrows_apply(kl_devrows *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                           kl_err *err) KL_MUST_CHECK;

#endif
