/* Which charges the states of some sites can have, and how many states have each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WAYS_H
#define KL_WAYS_H
#include "model/qn.h"

typedef struct kl_ways {
    int64_t n;
    kl_qn *q;      /* [n] ascending */
    double *count; /* [n] */
} kl_ways;

/* (*out)[p], p = 0 .. npos: of the first p positions. */
kl_status kl_ways_create(const kl_model *m, const kl_site_type *const *type, int npos, kl_ways **out,
                         kl_err *err) KL_MUST_CHECK;
void kl_ways_free(kl_ways **w, int npos);

/* Number of a charge, -1: none. */
int64_t kl_ways_find(const kl_ways *w, kl_qn q);

#endif
