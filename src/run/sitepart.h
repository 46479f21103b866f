/* A matrix of a site as a sum of the operators that the model's tables have.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SITEPART_H
#define KL_SITEPART_H
#include "model/model.h"

/* sum of coef[k] * op[k] of a site type; n = 0: that type has no such operator, or it is 0 there. */
typedef struct kl_sitepart {
    int n, *op;
    double *coef;
} kl_sitepart;

/* mat[dim][dim], by columns. *found 0: it is no such sum, for products that no term of the model needs are
   not among the operators. */
kl_status kl_sitepart_find(const kl_site_type *type, const double *mat, kl_sitepart *out, int *found,
                           kl_err *err) KL_MUST_CHECK;
void kl_sitepart_clear(kl_sitepart *p);

#endif
