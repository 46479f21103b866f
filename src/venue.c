/* See venue.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "venue.h"
#include "mem.h"
#include <stdio.h>
#include <string.h>

int kl_venue_automatic(const kl_options *o) { return o->exec == NULL || strcmp(o->exec, "auto") == 0; }

kl_status kl_venue_create(const kl_options *o, kl_exec *host, kl_venue **out, kl_err *err)
{
    kl_err reason;
    char line[160];
    const kl_status st = kl_alloc(out, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    kl_venue *const p = *out;
    p->host = host;
    p->from = INT64_MAX;
    p->device_memory = (int64_t)o->device_memory;
    if (kl_tune_read(NULL, &p->table, &reason) != KL_OK) {
        snprintf(p->why, sizeof p->why, "host: %.200s", reason.text);
        return KL_OK;
    }
    p->which = kl_tune_from(&p->table, KL_TIMED_SWEEP, &p->from, line, sizeof line);
    if (p->which > 0) snprintf(p->why, sizeof p->why, "host below m = %lld, %s from there on: %s", (long long)p->from, kl_tune_exec[p->which], line);
    else snprintf(p->why, sizeof p->why, "host: %s", line);
    if (p->which < 0) p->which = 0;
    return KL_OK;
}

void kl_venue_destroy(kl_venue **p)
{
    if (*p) kl_exec_close(&(*p)->device);
    kl_free(p);
}

void kl_venue_eigen(const kl_tune *t, int which, kl_exec *device)
{
    const double matrices = 8, busy = t->nthread < matrices ? t->nthread : matrices; /* that KL_TIMED_EIGEN has at a time */
    int n = 0;
    for (int i = 0; i < t->n && n < KL_EIGEN_TIMES; i++) {
        const kl_tune_row *const r = &t->row[i];
        if (r->what != KL_TIMED_EIGEN || !(r->seconds[0] > 0) || !(r->seconds[which] > 0)) continue;
        int k = n++;
        for (; k > 0 && device->eigen_time[k - 1].n > r->size; k--) device->eigen_time[k] = device->eigen_time[k - 1];
        device->eigen_time[k] = (kl_eigen_time){(int)r->size, r->seconds[0] * busy / matrices, r->seconds[which] / matrices};
    }
    if (n > 0) device->neigen_time = n;
}

static void open_device(kl_venue *p)
{
    kl_err reason;
    kl_exec *device = NULL;
    kl_status st = p->which == 2 ? kl_exec_open_cuda(&device, &reason) : kl_exec_open_offload(0, &device, &reason);
    if (st != KL_OK || strcmp(device->where, p->table.where[p->which]) != 0) { /* another machine's table, or a device that is not free */
        snprintf(p->why, sizeof p->why, "host: the tune table says %s, but it was measured on '%.60s' and here is %.100s", kl_tune_exec[p->which], p->table.where[p->which],
                 st == KL_OK ? device->where : reason.text);
        kl_exec_close(&device);
        p->refused = 1;
        return;
    }
    memcpy(device->chosen, p->why, sizeof device->chosen - 1);
    device->nthread = p->host->nthread; /* of what the host does: LAPACK's part of a truncation */
    device->most_bytes = p->device_memory;
    kl_venue_eigen(&p->table, p->which, device);
    if (p->which == 2) kl_tune_ways(&p->table, device);
    p->device = device;
}

kl_exec *kl_venue_at(void *venue, int m)
{
    kl_venue *const p = venue;
    if (m < p->from || p->which == 0) return p->host;
    if (!p->device && !p->refused) open_device(p);
    return p->device ? p->device : p->host;
}

const char *kl_venue_name(kl_venue *p)
{
    if (!p->device) return p->host->name;
    snprintf(p->name, sizeof p->name, "host, %s from m = %lld", p->device->name, (long long)p->from);
    return p->name;
}

kl_exec *kl_venue_last(const kl_venue *p) { return p->device ? p->device : p->host; }
