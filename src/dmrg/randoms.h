/* Random numbers on an executor, kept from call to call: making and copying them takes longer than many a
   product that they are for.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANDOMS_H
#define KL_RANDOMS_H
#include "exec/exec.h"

typedef struct kl_randoms {
    uint64_t seed;
    int64_t n; /* 0: none yet */
    kl_dptr data; /* [n] uniform, of variance 1 */
} kl_randoms;

/* At least n numbers of this seed; those of another one, or fewer, are replaced. Number i depends on the seed
   and i alone. */
kl_status kl_randoms_want(kl_exec *ex, kl_randoms *r, uint64_t seed, int64_t n, kl_err *err) KL_MUST_CHECK;
void kl_randoms_forget(kl_exec *ex, kl_randoms *r);

#endif
