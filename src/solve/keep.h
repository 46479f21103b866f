/* What a solver keeps of itself so that the same run can go on after the program ended: a list of numbers
   that only the solver reads, and some vectors.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KEEP_H
#define KL_KEEP_H
#include "base/base.h"
#include "base/dev.h"

enum { KL_KEEP_VECTORS = 20 };

typedef struct kl_keep {
    int64_t nnumber;
    const double *number;             /* host */
    int nvector;
    kl_dptr vector[KL_KEEP_VECTORS];  /* device */
    int64_t n[KL_KEEP_VECTORS];       /* length of each; 0: that of the operator at hand */
} kl_keep;

/* due is asked between steps; when it says yes, or the run is stopped, write is called. from: what such a
   call was given, or NULL. */
typedef struct kl_keeper {
    void *self;
    int (*due)(void *self);
    kl_status (*write)(void *self, const kl_keep *k, kl_err *err);
    const kl_keep *from;
} kl_keeper;

#endif
