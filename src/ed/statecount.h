/* Which charges the states of some sites can have, and how many states have each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STATECOUNT_H
#define KL_STATECOUNT_H
#include "model/qn.h"

typedef struct kl_statecount {
    int64_t n;
    kl_qn *q;      /* [n] ascending */
    double *count; /* [n] */
} kl_statecount;

/* (*out)[p], p = 0 .. npos: of the first p positions. */
kl_status kl_statecount_create(const kl_model *m, const kl_site_type *const *type, int npos,
                               kl_statecount **out, kl_err *err) KL_MUST_CHECK;
void kl_statecount_free(kl_statecount **w, int npos);

/* Number of a charge, -1: none. */
int64_t kl_statecount_find(const kl_statecount *w, kl_qn q);

#endif
