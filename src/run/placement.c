/* See placement.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/placement.h"
#include "base/mem.h"
#include "comm/comm.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

int kl_placement_automatic(const kl_options *o) { return o->exec == NULL || strcmp(o->exec, "auto") == 0; }

kl_device_choice kl_placement_device(const kl_options *o)
{
    const kl_comm *const c = kl_comm_world();
    if (o->device >= 0) return (kl_device_choice){.number = (int)o->device};
    return c != NULL ? (kl_device_choice){c->local, 1} : KL_ANY_DEVICE;
}

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
    p->wanted = kl_placement_device(o);
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

/* of kl_tune_exec */
enum {
    OFFLOAD = 1,
    CUDA = 2,
};

static kl_status open_kind(const kl_placement *p, int which, kl_exec **out, kl_err *err)
{
    return which == CUDA ? kl_exec_open_cuda(p->wanted, out, err)
                         : kl_exec_open_offload(p->wanted, 0, out, err);
}

/* Devices of one machine have numbers: ranks take others than the one that was measured. */
static int same_kind(const char *here, const char *there)
{
    const char *const a = strchr(here, '('), *const b = strchr(there, '(');
    return kl_comm_world() != NULL && a != NULL && b != NULL ? strcmp(a, b) == 0 : strcmp(here, there) == 0;
}

static kl_status open_as_measured(kl_placement *p, int which, kl_exec **out, kl_err *err)
{
    kl_status st = open_kind(p, which, out, err);
    if (st != KL_OK) return st;
    kl_exec *const device = *out;
    if (!same_kind(device->where, p->table.where[which])) {
        st = kl_fail(err, KL_EABSENT, "%s", device->where);
        kl_exec_close(out);
        return st;
    }
    memcpy(device->chosen, p->why, sizeof device->chosen - 1);
    device->nthread = p->host->nthread; /* of what the host does: LAPACK's part of a truncation */
    device->most_bytes = p->device_memory;
    kl_placement_eigen(&p->table, which, device);
    kl_tune_ways(&p->table, device);
    return KL_OK;
}

#define OPENING 0.05 /* seconds until target regions can run, where that was not measured */

static kl_status open_regions(void *self, kl_exec **out, kl_err *err)
{
    return open_as_measured(self, OFFLOAD, out, err);
}

/* In addition to the device that sweeps are faster on, the other executor on it, where that is faster in some
   operation by itself. CUDA gives out the memory, so it is opened first; a limit of it can be kept by one
   alone. */
static void open_beside(kl_placement *p)
{
    kl_err ignored;
    kl_mixed_time time[KL_TUNE_MOST];
    kl_exec *none = NULL, *cuda = NULL, *both = NULL;
    const double *const opening = p->table.opening;
    const double measured = opening[OFFLOAD] - opening[CUDA]; /* CUDA comes first, and has the driver begin */
    const kl_mixed_later later = {open_regions, p,
                                  opening[CUDA] > 0 && measured > OPENING ? measured : OPENING};
    const int n = kl_tune_times(&p->table, CUDA, OFFLOAD, time), by_cuda = p->which == CUDA;
    if (p->alone || p->device_memory > 0 || n == 0 || (by_cuda && !kl_mixed_ever(time, n)) ||
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

/* Of m states here, by the plan: some hundredths of a second for a run of minutes. NAN: there is none. */
static double planned_seconds(void *placement, int m)
{
    const kl_placement *const p = placement;
    kl_dmrg_plan plan;
    kl_err none;
    if (kl_dmrg_make_plan(*p->terms, p->host, p->opts, m, &plan, &none) != KL_OK) return NAN;
    const double seconds = plan.seconds_sweep;
    kl_dmrg_plan_clear(&plan);
    return seconds;
}

void kl_placement_plan(kl_placement *p, kl_terms *const *terms, kl_dmrg_opts *opts)
{
    p->terms = terms;
    p->opts = opts;
    p->run = p;
    p->sweep_seconds = planned_seconds;
    p->nsweep = opts->nsweep;
    p->sweep = opts->sweep;
    opts->placer = p;
    opts->place = kl_placement_at;
}

/* Of a run whose schedule is not known: so many sweeps at this m, or fewer and then more states. */
#define LIKELY_SWEEPS 4
/* Beyond what opening takes: libraries and kernels are loaded when they are first used, and operators are
   made anew. On an H100 the first density matrices took 0.15 to 0.4 s. */
#define FIRST_USE 0.25

static double gain_of_sweep(const kl_placement *p, int m)
{
    const double here = kl_tune_seconds(&p->table, KL_TIMED_SWEEP, m, 0),
                 there = kl_tune_seconds(&p->table, KL_TIMED_SWEEP, m, p->which);
    return p->sweep_seconds(p->run, m) * (1 - there / here);
}

double kl_placement_gain(const kl_placement *p, int m)
{
    double gain = 0, of = 0;
    int last = 0;
    if (p->nsweep == 0) return LIKELY_SWEEPS * gain_of_sweep(p, m);
    for (int i = 0; i < p->nsweep; i++) {
        if (p->sweep[i].m < m) continue;
        if (p->sweep[i].m != last) of = gain_of_sweep(p, p->sweep[i].m);
        last = p->sweep[i].m;
        gain += of;
    }
    return gain;
}

/* A gain that is not known is no reason against it. */
static int is_worth_opening(kl_placement *p, int m)
{
    if (!p->sweep_seconds) return 1;
    if (m <= p->asked) return 0;
    p->asked = m;
    const double gain = kl_placement_gain(p, m), price = p->table.opening[p->which] + FIRST_USE;
    if (gain < price)
        snprintf(p->why, sizeof p->why,
                 "host: by the plan the sweeps to come would take %s %.2g s less, and opening it %.2g s",
                 kl_tune_exec[p->which], fmax(0, gain), price);
    return !(gain < price);
}

kl_exec *kl_placement_at(void *placement, int m)
{
    kl_placement *const p = placement;
    if (m < p->from || p->which == 0) return p->host;
    if (!p->device && !p->refused && is_worth_opening(p, m)) {
        open_device(p);
        p->began = m;
    }
    return p->device ? p->device : p->host;
}

const char *kl_placement_name(kl_placement *p)
{
    if (!p->device) return p->host->name;
    snprintf(p->name, sizeof p->name, "host, %s from m = %d", p->device->name, p->began);
    return p->name;
}

kl_exec *kl_placement_last(const kl_placement *p) { return p->device ? p->device : p->host; }

/* ---------------------------------------------------------------- exact diagonalization, CI */

/* What belongs to the products of a step: a recurrence has one pass over some vectors for each. A step of a
   block of w vectors multiplies w of them and makes some 19 w^2 inner products and updates, each product 2 w
   times what was measured, in a few passes: as w passes of twice the length take (seen to 0.8 to 1.3 of it:
   LOBPCG of 5 and 6 vectors of 0.7 and 0.85 million numbers, an H200 and 16 cores). */
static double vector_seconds(const kl_tune *t, const kl_work *w, int e)
{
    const double alone = w->products - w->block;
    double seconds = alone > 0 ? alone * kl_tune_seconds(t, KL_TIMED_FUSE, w->n, e) : 0;
    if (w->block > 0) seconds += w->block * w->width * kl_tune_seconds(t, KL_TIMED_FUSE, 2 * w->n, e);
    return seconds;
}

void kl_work_seconds(const kl_tune *t, int64_t nwork, const kl_work *work, double seconds[KL_WORK_TIMES])
{
    for (int e = 0; e < KL_TUNE_NEXEC; e++) {
        seconds[e] = e == 0 || t->opening[e] > 0 ? t->opening[e] : NAN;
        for (int64_t i = 0; i < nwork; i++) {
            const kl_work *const w = &work[i];
            if (!(w->products > 0)) continue;
            seconds[e] +=
                w->products * w->scale * kl_tune_seconds(t, w->what, w->size, e) + vector_seconds(t, w, e);
            if (w->what == KL_TIMED_SPMV) seconds[e] += kl_tune_seconds(t, KL_TIMED_BRING, w->size, e);
        }
    }
}

/* All that one part needs at a time. */
static double most_bytes(int64_t nwork, const kl_work *work)
{
    double most = 0;
    for (int64_t i = 0; i < nwork; i++) most = fmax(most, work[i].bytes);
    return most;
}

/* The device, where it has the memory; NULL, p->why being the reason. measured: it has to be the table's. */
static kl_exec *open_with_room(kl_placement *p, int which, double need, int measured)
{
    kl_err reason;
    kl_exec *ex = NULL;
    char a[32], b[32];
    const kl_status st =
        measured ? open_as_measured(p, which, &ex, &reason) : open_kind(p, which, &ex, &reason);
    if (st != KL_OK) {
        snprintf(p->why, sizeof p->why,
                 "host: the tune table says %s, measured on '%.50s', and here is %.90s", kl_tune_exec[which],
                 p->table.where[which], reason.text);
        return NULL;
    }
    ex->most_bytes = p->device_memory;
    const int64_t bytes = ex->vt.room(ex);
    const double room = (double)bytes;
    /* A device that does not know how much memory is free may be the host itself, and cannot take what the
       host has not the memory for. */
    if (room >= need && (measured || bytes < INT64_MAX)) return ex;
    snprintf(p->why, sizeof p->why, "host: %s would be ahead, but has %s of the %s that are needed",
             kl_tune_exec[which], kl_mem_text(room, a), kl_mem_text(need, b));
    kl_exec_close(&ex);
    return NULL;
}

/* Seconds that a device has to save: tables that are brought and kernels that are loaded are in no row of the
   table. Chosen after ten runs on an H100, in which wrong choices cost 0.01 to 0.11 s. */
#define SURELY 0.05

static void say_times(kl_placement *p, int which, double products, const double *seconds)
{
    int used = snprintf(p->why, sizeof p->why, "%s: some %.3g products with H and what belongs to them take",
                        kl_tune_exec[which], products);
    for (int e = 0; e < KL_TUNE_NEXEC; e++)
        if (isfinite(seconds[e]))
            used += snprintf(p->why + used, sizeof p->why - (size_t)used, " %s %.3g s", kl_tune_exec[e],
                             seconds[e]);
    snprintf(p->why + used, sizeof p->why - (size_t)used, " by the tune table");
}

/* Where the times, or the memory, of the work say; NULL: the host. */
static kl_exec *settle(kl_placement *p, int64_t nwork, const kl_work *work)
{
    const double need = most_bytes(nwork, work), has = kl_mem_machine_bytes();
    double seconds[KL_TUNE_NEXEC], products = 0;
    char a[32], b[32];
    int best = 0;
    for (int64_t i = 0; i < nwork; i++) products += work[i].products;
    if (need > has) { /* no matter how long it takes */
        for (int e = CUDA; e >= OFFLOAD; e--) {
            kl_exec *const ex = open_with_room(p, e, need, 0);
            if (!ex) continue;
            ex->nthread = p->host->nthread;
            kl_tune_ways(&p->table, ex);
            snprintf(p->why, sizeof p->why, "%s: %s are needed, and the host has %s", kl_tune_exec[e],
                     kl_mem_text(need, a), kl_mem_text(has, b));
            return ex;
        }
        snprintf(p->why, sizeof p->why, "host: no device has the %s that are needed", kl_mem_text(need, a));
        return NULL;
    }
    if (p->table.n == 0) return NULL; /* p->why says what became of the table */
    if (!(products > 0)) {
        snprintf(p->why, sizeof p->why, "host: all states of a small sector, by LAPACK");
        return NULL;
    }
    kl_work_seconds(&p->table, nwork, work, seconds);
    for (int e = 1; e < KL_TUNE_NEXEC; e++)
        if (isfinite(seconds[e]) && isfinite(seconds[0]) && seconds[e] + SURELY < seconds[0] &&
            seconds[e] < seconds[best])
            best = e;
    say_times(p, best, products, seconds);
    if (!isfinite(seconds[0]))
        snprintf(p->why, sizeof p->why, "host: the tune table knows nothing of such products with H");
    return best > 0 ? open_with_room(p, best, need, 1) : NULL;
}

kl_status kl_placement_work(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec *host,
                            kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_placement *p = NULL;
    KL_TRY(kl_placement_create(o, host, &p, err));
    *out = settle(p, nwork, work);
    snprintf(*out ? (*out)->chosen : host->chosen, sizeof host->chosen, "%.199s", p->why);
out:
    kl_placement_destroy(&p);
    return st;
}

/* ---------------------------------------------------------------- ranks */

kl_status kl_placement_ranks(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec *host,
                             kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_comm *const c = kl_comm_world();
    kl_placement *p = NULL;
    kl_work *share = NULL;
    const int ed = o->command == KL_CMD_ED, widest = kl_options_widest(o);
    snprintf(host->chosen, sizeof host->chosen, "host: ranks share vectors there");
    if ((!ed || work == NULL) && o->command != KL_CMD_DMRG) return KL_OK;
    if (ed) {
        KL_TRY(kl_alloc(&share, nwork, KL_MEM_MISC, err));
        for (int64_t i = 0; i < nwork; i++) {
            share[i] = work[i];
            share[i].size /= c->size;
            share[i].n /= c->size;
            share[i].bytes /= c->size;
        }
        KL_TRY(kl_placement_work(o, nwork, share, host, out, err));
    } else {
        KL_TRY(kl_placement_create(o, host, &p, err));
        p->alone = 1;
        *out = kl_placement_at(p, widest > 0 ? widest : 1024);
        if (*out == p->device) p->device = NULL; /* the caller's now */
        else *out = NULL;
        if (*out)
            snprintf((*out)->chosen, sizeof host->chosen, "%s, for ranks stay where they begin: %.140s",
                     (*out)->name, p->why);
        else snprintf(host->chosen, sizeof host->chosen, "%.199s", p->why);
    }
    if (kl_comm_most(c, *out == NULL || (ed && !(*out)->vt.rows_take)) && *out) {
        kl_exec_close(out);
        snprintf(host->chosen, sizeof host->chosen, "host: not every rank has a device that all could take");
    }
out:
    kl_free(&share);
    kl_placement_destroy(&p);
    return st;
}
