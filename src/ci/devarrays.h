/* Tables of any kind in the memory of a device, which holds doubles for its host: several, given back
   together.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DEVARRAYS_H
#define KL_DEVARRAYS_H
#include "exec/exec.h"

enum { KL_DEVARRAYS = 4 + 8 * 6 };

typedef struct kl_devarrays {
    kl_exec *ex; /* borrowed */
    kl_dptr array[KL_DEVARRAYS];
    int n;
} kl_devarrays;

/* Room for n doubles, one at least. */
kl_status kl_devarrays_take(kl_devarrays *a, int64_t n, kl_dptr *out, kl_err *err) KL_MUST_CHECK;
/* A copy of `bytes' bytes; *to: where it begins on the device. */
kl_status kl_devarrays_send(kl_devarrays *a, const void *from, int64_t bytes, uintptr_t *to,
                            kl_err *err) KL_MUST_CHECK;
void kl_devarrays_clear(kl_devarrays *a);

#endif
