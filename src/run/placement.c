/* See placement.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/placement.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

int kl_placement_automatic(const kl_options *o) { return o->exec == NULL || strcmp(o->exec, "auto") == 0; }

kl_status kl_placement_create(const kl_options *o, kl_exec *host, kl_placement **out, kl_err *err)
{
    kl_err reason;
    char line[160];
    const kl_status st = kl_alloc(out, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    kl_placement *const p = *out;
    p->host = host;
    p->from = INT64_MAX;
    p->device_memory = (int64_t)o->device_memory;
    if (o->device >= 0) p->wanted = (kl_device_choice){.number = (int)o->device};
    else p->wanted = KL_ANY_DEVICE;
    if (kl_tune_read(NULL, &p->table, &reason) != KL_OK) {
        snprintf(p->why, sizeof p->why, "host: %.200s", reason.text);
        return KL_OK;
    }
    p->which = kl_tune_from(&p->table, KL_TIMED_SWEEP, &p->from, line, sizeof line);
    if (p->which > 0)
        snprintf(p->why, sizeof p->why, "host below m = %lld, %s from there on: %s", (long long)p->from,
                 kl_tune_exec[p->which], line);
    else snprintf(p->why, sizeof p->why, "host: %s", line);
    if (p->which < 0) p->which = 0;
    return KL_OK;
}

void kl_placement_destroy(kl_placement **p)
{
    if (*p) kl_exec_close(&(*p)->device);
    kl_free(p);
}

void kl_placement_eigen(const kl_tune *t, int which, kl_exec *device)
{
    /* that KL_TIMED_EIGEN has at a time */
    const double matrices = 8, busy = t->nthread < matrices ? t->nthread : matrices;
    int n = 0;
    for (int i = 0; i < t->n && n < KL_EIGEN_TIMES; i++) {
        const kl_tune_row *const r = &t->row[i];
        if (r->what != KL_TIMED_EIGEN || !(r->seconds[0] > 0) || !(r->seconds[which] > 0)) continue;
        int k = n++;
        for (; k > 0 && device->eigen.time[k - 1].n > r->size; k--)
            device->eigen.time[k] = device->eigen.time[k - 1];
        device->eigen.time[k] =
            (kl_eigen_time){(int)r->size, r->seconds[0] * busy / matrices, r->seconds[which] / matrices};
    }
    if (n > 0) device->eigen.ntime = n;
}

enum { OFFLOAD = 1, CUDA = 2 }; /* of kl_tune_exec */

static kl_status open_as_measured(kl_placement *p, int which, kl_exec **out, kl_err *err)
{
    kl_status st =
        which == CUDA ? kl_exec_open_cuda(p->wanted, out, err) : kl_exec_open_offload(p->wanted, 0, out, err);
    if (st != KL_OK) return st;
    kl_exec *const device = *out;
    if (strcmp(device->where, p->table.where[which]) != 0) {
        st = kl_fail(err, KL_EABSENT, "%s", device->where);
        kl_exec_close(out);
        return st;
    }
    memcpy(device->chosen, p->why, sizeof device->chosen - 1);
    device->nthread = p->host->nthread; /* of what the host does: LAPACK's part of a truncation */
    device->most_bytes = p->device_memory;
    kl_placement_eigen(&p->table, which, device);
    if (which == CUDA) kl_tune_ways(&p->table, device);
    return KL_OK;
}

#define OPENING 0.05 /* seconds until target regions can run */

static kl_status open_regions(void *self, kl_exec **out, kl_err *err)
{
    return open_as_measured(self, OFFLOAD, out, err);
}

/* Beside the device that sweeps are faster on, the other way to use it, where that is ahead in some operation
   by itself. CUDA gives out the memory, so it is opened first; a limit of it can be kept by one alone. */
static void open_beside(kl_placement *p)
{
    kl_err ignored;
    kl_mixed_time time[KL_TUNE_MOST];
    kl_exec *none = NULL, *cuda = NULL, *both = NULL;
    const kl_mixed_later later = {open_regions, p, OPENING};
    const int n = kl_tune_times(&p->table, CUDA, OFFLOAD, time), by_cuda = p->which == CUDA;
    if (p->device_memory > 0 || n == 0 || (by_cuda && !kl_mixed_ever(time, n)) ||
        (!by_cuda && open_as_measured(p, CUDA, &cuda, &ignored) != KL_OK))
        return;
    if (kl_exec_open_mixed_take(by_cuda ? &p->device : &cuda, by_cuda ? &none : &p->device, &later, time, n,
                                &both, &ignored) == KL_OK)
        p->device = both;
    kl_exec_close(&cuda);
}

static void open_device(kl_placement *p)
{
    kl_err reason;
    if (open_as_measured(p, p->which, &p->device, &reason) == KL_OK) {
        open_beside(p);
        return;
    }
    snprintf(p->why, sizeof p->why,
             "host: the tune table says %s, but it was measured on '%.60s' and here is %.100s",
             kl_tune_exec[p->which], p->table.where[p->which], reason.text);
    p->refused = 1; /* another machine's table, or a device that is not free */
}

kl_exec *kl_placement_at(void *placement, int m)
{
    kl_placement *const p = placement;
    if (m < p->from || p->which == 0) return p->host;
    if (!p->device && !p->refused) open_device(p);
    return p->device ? p->device : p->host;
}

const char *kl_placement_name(kl_placement *p)
{
    if (!p->device) return p->host->name;
    snprintf(p->name, sizeof p->name, "host, %s from m = %lld", p->device->name, (long long)p->from);
    return p->name;
}

kl_exec *kl_placement_last(const kl_placement *p) { return p->device ? p->device : p->host; }
