/* H v in a full space of determinants without a stored matrix: strings, symmetry blocks and small dense
   products.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SIGMA_H
#define KL_SIGMA_H
#include "exec/exec.h"
#include "ci/slater.h"

typedef struct kl_sigma kl_sigma;

/* h is of a full space, borrowed. */
kl_status kl_sigma_create(kl_exec *ex, const kl_slater *h, kl_sigma **out, kl_err *err) KL_MUST_CHECK;
void kl_sigma_destroy(kl_sigma **s);

/* y[nvec][ldy] = H x[nvec][ldx] on the executor; y may not alias x. The same bits whatever the number of
   threads. */
kl_status kl_sigma_apply(kl_sigma *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                         kl_err *err) KL_MUST_CHECK;

/* From here on rows [from, to) alone, those of alpha strings, are made of y: on the host, by one rank of
   several. */
void kl_sigma_take_rows(kl_sigma *s, int64_t from, int64_t to);
/* About the operations of one row. */
double kl_sigma_row_flops(const kl_sigma *s, int64_t row);

/* Floating-point operations of one product, those of the dense parts with their zeros. */
int64_t kl_sigma_flops(const kl_sigma *s);

#endif
