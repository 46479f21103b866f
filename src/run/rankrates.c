/* See rankrates.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/rankrates.h"

#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "comm/ranks.h"

enum {
    TIMES = 7,
    SUMS = 200,
    HOST_N = 1 << 20, /* numbers of a rank's part */
    DEVICE_N = 1 << 23,
    SMALL_N = 32,
};

/* The middle one of the times of the slowest rank. */
static double middle(kl_comm *c, double *seconds)
{
    for (int i = 0; i < TIMES; i++) seconds[i] = -kl_comm_least(c, -seconds[i]);
    for (int i = 1; i < TIMES; i++)
        for (int k = i; k > 0 && seconds[k] < seconds[k - 1]; k--) {
            const double a = seconds[k];
            seconds[k] = seconds[k - 1], seconds[k - 1] = a;
        }
    return seconds[TIMES / 2];
}

static kl_status measure_host(kl_comm *c, kl_rankrate *out, kl_err *err)
{
    kl_status st = KL_OK;
    double *all = NULL, seconds[TIMES], one = 1.0;
    kl_comm_part *part = NULL;
    kl_comm_wait *wait = NULL;
    KL_TRY(kl_alloc(&all, c->size * (int64_t)HOST_N, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&part, 2 * c->size, KL_MEM_WORK, err));
    for (int i = -1; i < TIMES; i++) { /* the first time fills pages and opens what is needed */
        int n = 0;
        kl_comm_meet(c);
        const double start = kl_prof_seconds();
        for (int r = 0; r < c->size; r++) {
            if (r == c->rank) continue;
            part[n++] = (kl_comm_part){r, 1, all + c->rank * (int64_t)HOST_N, HOST_N};
            part[n++] = (kl_comm_part){r, 0, all + r * (int64_t)HOST_N, HOST_N};
        }
        KL_TRY(kl_comm_start(c, n, part, &wait, err));
        kl_comm_finish(c, &wait);
        if (i >= 0) seconds[i] = kl_prof_seconds() - start;
    }
    *out = (kl_rankrate){.ranks = c->size, .hosts = c->nhost};
    out->rate = 8.0 * (int)HOST_N * (c->size - 1) / middle(c, seconds);
    for (int i = 0; i < TIMES; i++) {
        kl_comm_meet(c);
        const double start = kl_prof_seconds();
        for (int k = 0; k < SUMS; k++) kl_comm_sum(c, 1, &one);
        seconds[i] = (kl_prof_seconds() - start) / (int)SUMS;
    }
    out->latency = middle(c, seconds);
out:
    kl_free(&all);
    kl_free(&part);
    return st;
}

static double time_gather(kl_exec *ex, const int64_t *begin, kl_dptr x, kl_dptr whole, kl_err *err)
{
    double seconds[TIMES], number = 0.0;
    int bad = 0;
    for (int i = -1; i < TIMES; i++) {
        kl_comm_meet(ex->ranks->comm);
        const double start = kl_prof_seconds();
        bad |= kl_ranks_gather(ex, begin, x, whole, err) != KL_OK ||
               ex->vt.download(ex, &number, whole, 1, err) != KL_OK;
        if (i >= 0) seconds[i] = kl_prof_seconds() - start;
    }
    const double found = middle(ex->ranks->comm, seconds);
    return kl_ranks_any(ex, bad) ? 0.0 : found;
}

static double time_upload(kl_exec *ex, kl_dptr x, const double *from, kl_err *err)
{
    double seconds[TIMES];
    int bad = 0;
    for (int i = 0; i < TIMES; i++) {
        kl_comm_meet(ex->ranks->comm);
        const double start = kl_prof_seconds();
        bad |= ex->vt.upload(ex, x, from, DEVICE_N, err) != KL_OK;
        seconds[i] = kl_prof_seconds() - start;
    }
    const double found = middle(ex->ranks->comm, seconds);
    return kl_ranks_any(ex, bad) ? 0.0 : found;
}

/* Nothing where a rank has no device. */
static kl_status measure_devices(kl_comm *c, kl_rankrates *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *ex = NULL;
    kl_dptr x = {0}, whole = {0};
    int64_t *begin = NULL;
    double *numbers = NULL, seconds;
    kl_err why;
    int good = kl_exec_open_cuda((kl_device_choice){.number = c->local, .in_turn = 1}, &ex, &why) == KL_OK;
    if (kl_comm_most(c, !good)) goto out;
    KL_TRY(kl_ranks_join(ex, c, err));
    KL_TRY(kl_alloc(&out->where, c->size, KL_MEM_MISC, err));
    kl_comm_gather(c, ex->where, out->where, sizeof *out->where);
    KL_TRY(kl_alloc(&begin, c->size + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&numbers, DEVICE_N, KL_MEM_WORK, err));
    good = ex->vt.alloc(ex, DEVICE_N, &x, &why) == KL_OK &&
           ex->vt.alloc(ex, c->size * (int64_t)DEVICE_N, &whole, &why) == KL_OK;
    if (kl_comm_most(c, !good)) goto out;
    out->device = (kl_rankrate){.ranks = c->size, .hosts = c->nhost};
    seconds = time_upload(ex, x, numbers, &why);
    if (seconds > 0) out->link = 8.0 * (int)DEVICE_N / seconds;
    for (int r = 0; r <= c->size; r++) begin[r] = r * (int64_t)DEVICE_N;
    seconds = time_gather(ex, begin, x, whole, &why);
    if (seconds > 0) out->device.rate = 8.0 * (int)DEVICE_N * (c->size - 1) / seconds;
    for (int r = 0; r <= c->size; r++) begin[r] = r * (int64_t)SMALL_N;
    out->device.latency = time_gather(ex, begin, x, whole, &why);
out:
    if (ex) {
        if (x.addr) ex->vt.release(ex, &x);
        if (whole.addr) ex->vt.release(ex, &whole);
        kl_exec_close(&ex);
    }
    kl_free(&begin);
    kl_free(&numbers);
    return st;
}

kl_status kl_rankrates_measure(kl_comm *c, kl_rankrates *out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_rankrates){0};
    KL_TRY(measure_host(c, &out->host, err));
    KL_TRY(measure_devices(c, out, err));
out:
    if (st != KL_OK) kl_rankrates_clear(out);
    return st;
}

void kl_rankrates_clear(kl_rankrates *r) { kl_free(&r->where); }
