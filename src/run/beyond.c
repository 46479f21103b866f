/* See beyond.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/beyond.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "exec/streamed.h"
#include "run/optime.h"

/* Pools of device memory give it in steps of an eighth. */
static double taken(double bytes) { return 9.0 / 8.0 * bytes; }

kl_beyond kl_beyond_what(int64_t nwork, const kl_work *work, double room)
{
    const double buffers = room / 4; /* of rows that come by, of panels and lists */
    kl_beyond what = KL_BEYOND_NOTHING;
    for (int64_t i = 0; i < nwork; i++) {
        const kl_work *const w = &work[i];
        const double others = w->what == KL_TIMED_KRON ? taken(w->tables) : buffers;
        if (taken(w->bytes) <= room) continue;
        const kl_beyond here = taken(w->least) + others > room ? KL_BEYOND_VECTORS
                               : w->what == KL_TIMED_SPMV      ? KL_BEYOND_MATRIX
                                                               : KL_BEYOND_NOTHING;
        if (here > what) what = here;
    }
    return what;
}

/* Seconds of a product where everything fits, by the tune table of this machine; 0: not known. */
static double inside(const kl_work *w, const kl_exec *ex)
{
    kl_tune *t = NULL;
    kl_err none;
    double seconds = 0;
    if (kl_alloc(&t, 1, KL_MEM_MISC, &none) != KL_OK) return 0;
    if (kl_tune_read(NULL, t, &none) == KL_OK)
        for (int e = 1; e < KL_TUNE_NEXEC; e++)
            if (strcmp(ex->name, kl_tune_exec[e]) == 0)
                seconds = w->scale * kl_tune_seconds(t, w->what, w->size, e);
    kl_free(&t);
    return isfinite(seconds) ? seconds : 0;
}

/* What a product of the largest part will take. */
static void say_seconds(const kl_work *w, kl_exec *ex)
{
    const size_t used = strlen(ex->chosen), left = sizeof ex->chosen - used;
    if (w->what == KL_TIMED_SIGMA) return; /* panels take most of its time */
    if (w->what == KL_TIMED_ROWS) return; /* the processor makes the elements then */
    const kl_streamed_facts f =
        kl_streamed_expect(ex, w->n, w->what == KL_TIMED_SPMV ? w->size * (int)KL_OPTIME_ROW : 0);
    const double fits = inside(w, ex), seconds = kl_streamed_seconds(&f, fits);
    if (fits > 0)
        snprintf(ex->chosen + used, left, ": a product takes about %.2g s, %.3g times as long", seconds,
                 seconds / fits);
    else snprintf(ex->chosen + used, left, ": a product takes about %.2g s", seconds);
}

kl_status kl_beyond_wrap(int64_t nwork, const kl_work *work, kl_exec **ex, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *device = *ex;
    char needed[32], has[32];
    double most = 0, least = 0;
    if (device->space != KL_SPACE_DEVICE || device->ranks) return KL_OK;
    const double room = (double)device->vt.room(device);
    const kl_beyond what = kl_beyond_what(nwork, work, room);
    if (what == KL_BEYOND_NOTHING) return KL_OK;
    const kl_work *largest = work;
    for (int64_t i = 0; i < nwork; i++) {
        most = fmax(most, work[i].bytes);
        least = fmax(least, work[i].least);
        if (work[i].n > largest->n) largest = &work[i];
    }
    KL_TRY(kl_exec_open_streamed_take(&device, what == KL_BEYOND_VECTORS, (int64_t)taken(least), ex, err));
    snprintf((*ex)->chosen, sizeof(*ex)->chosen, "%s: %s are needed and the device has %s, so %s",
             (*ex)->name, kl_mem_text(most, needed), kl_mem_text(room, has),
             what == KL_BEYOND_VECTORS ? "vectors wait on the host and come by in pieces"
                                       : "the matrix waits on the host and comes by in groups of rows");
    say_seconds(largest, *ex);
out:
    return st;
}
