/* See bus.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/bus.h"
#include "base/prof.h"

/* Seconds of a copy, its start included: the second of two. */
static double seconds_of(kl_exec *ex, int64_t n, kl_dptr from, kl_dptr to)
{
    double seconds = 0;
    for (int round = 0; round < 2; round++) {
        const double start = kl_prof_seconds();
        ex->vt.join(ex, ex->vt.copy_async(ex, n, from, to, KL_COPY_AFTER), 1);
        seconds = kl_prof_seconds() - start;
    }
    return seconds;
}

kl_status kl_bus_measure(kl_exec *ex, kl_bus *out, kl_err *err)
{
    enum {
        MOST = 1 << 23, /* doubles */
        LEAST = 1 << 12,
    };
    kl_status st = KL_OK;
    kl_dptr far = {0}, near = {0};
    *out = (kl_bus){0};
    if (!ex->vt.alloc_far || !ex->vt.copy_async)
        return kl_fail(err, KL_EABSENT,
                       "--exec %s: the device reaches no memory of the host, from where what it has no room "
                       "for could come by",
                       ex->name);
    int64_t n = ex->vt.room(ex) / 4 / (int64_t)sizeof(double);
    if (n > MOST) n = MOST;
    if (n < LEAST) n = LEAST;
    const double bytes = (double)n * (double)sizeof(double);
    KL_TRY(ex->vt.alloc_far(ex, n, &far, err));
    KL_TRY(ex->vt.alloc(ex, n, &near, err));
    for (int64_t i = 0; i < n; i++) ((double *)far.addr)[i] = 0.0; /* its pages are there before the clock */
    out->up = bytes / seconds_of(ex, n, far, near);
    out->down = bytes / seconds_of(ex, n, near, far);
out:
    if (near.addr) ex->vt.release(ex, &near);
    if (far.addr) ex->vt.release(ex, &far);
    return st;
}
