/* How work on a device is timed. See bench_lines.h; bench_offload.c says why so.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench/bench_lines.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/report.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int by_time(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static void rest(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

enum {
    NINE = 9,
    MANY = 99,
};

/* The median of `runs` runs, an odd number. */
static kl_status median(int runs, kl_bench_fn *f, void *self, double *seconds, kl_err *err)
{
    double t[MANY];
    for (int i = 0; i < runs; i++) {
        const double t0 = kl_clock();
        const kl_status st = f(self, err);
        if (st != KL_OK) return st;
        t[i] = kl_clock() - t0;
    }
    qsort(t, (size_t)runs, sizeof *t, by_time);
    *seconds = t[runs / 2];
    return KL_OK;
}

int kl_bench_wanted(kl_bench_device *b, const char *name)
{
    const int is = !b->only || strstr(name, b->only) != NULL;
    b->any |= is;
    return is;
}

kl_status kl_bench_burst(const kl_bench_device *b, kl_bench_fn *f, void *self, double *seconds, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(f(self, err));
    rest(b->quick ? 0.05 : 0.3);
    KL_TRY(f(self, err));
    KL_TRY(median(NINE, f, self, seconds, err));
out:
    return st;
}

/* Among others of the same work, which has gone on for so long. */
static kl_status lasting(double before, int runs, kl_bench_fn *f, void *self, double *seconds, kl_err *err)
{
    kl_status st = KL_OK;
    for (const double t0 = kl_clock(); kl_clock() - t0 < before;) KL_TRY(f(self, err));
    KL_TRY(median(runs, f, self, seconds, err));
out:
    return st;
}

kl_status kl_bench_sustained(const kl_bench_device *b, kl_bench_fn *f, void *self, double *seconds,
                             kl_err *err)
{
    *seconds = NAN;
    return b->quick ? KL_OK : lasting(0.6, NINE, f, self, seconds, err);
}

kl_status kl_bench_steady(kl_bench_fn *f, void *self, double *seconds, kl_err *err)
{
    return lasting(0.05, MANY, f, self, seconds, err);
}

kl_status kl_bench_put_random(kl_exec *ex, kl_dptr p, int64_t n, kl_err *err)
{
    enum { CHUNK = 1000003 };
    kl_status st = KL_OK;
    double *host = NULL;
    uint64_t seed = 1;
    KL_TRY(kl_alloc(&host, CHUNK, KL_MEM_WORK, err));
    for (int i = 0; i < CHUNK; i++) host[i] = kl_random_uniform(&seed);
    for (int64_t at = 0; at < n; at += CHUNK)
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(p, at), host, n - at < CHUNK ? n - at : CHUNK, err));
out:
    kl_free(&host);
    return st;
}
