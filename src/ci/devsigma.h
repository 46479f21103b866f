/* H v in a full space of determinants on a device: what acts on one spin is one list of dense products; what
   acts on both goes by slabs of rows, each a fetch, a list of products and a landing (moves.h). sigma.c does
   the same on the host, row by row.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DEVSIGMA_H
#define KL_DEVSIGMA_H
#include "exec/exec.h"
#include "ci/slater.h"

typedef struct kl_devsigma kl_devsigma;

/* h is of a full space, borrowed. slab: doubles of the panels of a slab; 0: chosen. ENOMEM says what it would
   take. */
kl_status kl_devsigma_create(kl_exec *ex, const kl_slater *h, int64_t slab, kl_devsigma **out,
                             kl_err *err) KL_MUST_CHECK;
void kl_devsigma_destroy(kl_devsigma **s);

/* y[nvec][ldy] = H x[nvec][ldx]; y may not alias x. The same bits in every run. */
kl_status kl_devsigma_apply(kl_devsigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                            kl_err *err) KL_MUST_CHECK;
int64_t kl_devsigma_flops(const kl_devsigma *s); /* of one product */

#endif
