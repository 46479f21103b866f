/* See devarrays.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/devarrays.h"

#include <string.h>

kl_status kl_devarrays_take(kl_devarrays *a, int64_t n, kl_dptr *out, kl_err *err)
{
    const kl_status st = a->ex->vt.alloc(a->ex, n > 0 ? n : 1, out, err);
    if (st == KL_OK) a->array[a->n++] = *out;
    return st;
}

kl_status kl_devarrays_send(kl_devarrays *a, const void *from, int64_t bytes, uintptr_t *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = bytes / 8, rest = bytes % 8;
    kl_dptr p;
    KL_TRY(kl_devarrays_take(a, n + 1, &p, err));
    if (n > 0) KL_TRY(a->ex->vt.upload(a->ex, p, from, n, err));
    if (rest > 0) {
        double last = 0;
        memcpy(&last, (const char *)from + 8 * n, (size_t)rest);
        KL_TRY(a->ex->vt.upload(a->ex, kl_dptr_at(p, n), &last, 1, err));
    }
    *to = p.addr;
out:
    return st;
}

void kl_devarrays_clear(kl_devarrays *a)
{
    for (int k = 0; k < a->n; k++) a->ex->vt.release(a->ex, &a->array[k]);
    a->n = 0;
}
