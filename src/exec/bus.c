/* See bus.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/bus.h"
#include "base/prof.h"
#include <math.h>

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

/* Of two copies at the same time, each way one, until both are done: the second of two. */
static double seconds_of_both(kl_exec *ex, int64_t n, const kl_dptr far[2], const kl_dptr near[2])
{
    double seconds = 0;
    for (int round = 0; round < 2; round++) {
        const double start = kl_prof_seconds();
        const int up = ex->vt.copy_async(ex, n, far[0], near[0], KL_COPY_AFTER),
                  down = ex->vt.copy_async(ex, n, near[1], far[1], KL_COPY_AFTER | KL_COPY_BACK);
        ex->vt.join(ex, up, 1);
        ex->vt.join(ex, down, 1);
        seconds = kl_prof_seconds() - start;
    }
    return seconds;
}

kl_status kl_bus_measure(kl_exec *ex, kl_bus *out, kl_err *err)
{
    enum {
        MOST = 1 << 23, /* doubles */
        LEAST = 1 << 12,
        LONG = 1 << 21, /* as long as the least that is taken at a time */
    };
    kl_status st = KL_OK;
    kl_dptr far[2] = {{0}}, near[2] = {{0}};
    *out = (kl_bus){0};
    if (!ex->vt.alloc_far || !ex->vt.copy_async)
        return kl_fail(err, KL_EABSENT,
                       "--exec %s: the device reaches no memory of the host, from where what it has no room "
                       "for could come by",
                       ex->name);
    int64_t n = ex->vt.room(ex) / 8 / (int64_t)sizeof(double);
    if (n > MOST) n = MOST;
    if (n < LEAST) n = LEAST;
    const double bytes = (double)n * (double)sizeof(double);
    for (int k = 0; k < 2; k++) {
        const double start = kl_prof_seconds();
        KL_TRY(ex->vt.alloc_far(ex, n, &far[k], err));
        /* the first may open streams, and leaves no room for the second if it is long */
        if (k == 1 && n >= LONG) out->lock = bytes / (kl_prof_seconds() - start);
        KL_TRY(ex->vt.alloc(ex, n, &near[k], err));
        for (int64_t i = 0; i < n; i++)
            ((double *)far[k].addr)[i] = 0.0; /* pages are there before the clock */
    }
    const double up = seconds_of(ex, n, far[0], near[0]), down = seconds_of(ex, n, near[1], far[1]);
    out->up = bytes / up;
    out->down = bytes / down;
    out->both = fmax(1, seconds_of_both(ex, n, far, near) / fmax(up, down));
out:
    for (int k = 0; k < 2; k++) {
        if (near[k].addr) ex->vt.release(ex, &near[k]);
        if (far[k].addr) ex->vt.release(ex, &far[k]);
    }
    return st;
}
