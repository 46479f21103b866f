/* A fixed table of counters that only grows. Additions are relaxed atomics: a reader may see a call whose time is not in yet,
   which is fine for a report.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "prof.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { NCOUNTER = 129 }; /* the last one is "other" */

struct kl_prof {
    const char *name;
    _Atomic int64_t nanoseconds, calls, flops, bytes;
};

static struct kl_prof table[NCOUNTER];
static _Atomic int ncounter;
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

static kl_prof *find(const char *name, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

kl_prof *kl_prof_named(const char *name)
{
    kl_prof *found = find(name, atomic_load_explicit(&ncounter, memory_order_acquire));
    if (found != NULL) return found;
    pthread_mutex_lock(&growing);
    const int n = atomic_load_explicit(&ncounter, memory_order_relaxed);
    found = find(name, n);
    if (found == NULL && n == NCOUNTER) found = &table[NCOUNTER - 1];
    if (found == NULL) {
        found = &table[n];
        found->name = n < NCOUNTER - 1 ? name : "other";
        atomic_store_explicit(&ncounter, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&growing);
    return found;
}

int64_t kl_prof_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_nsec;
}

double kl_prof_seconds(void)
{
    return 1e-9 * (double)kl_prof_clock();
}

double kl_prof_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void kl_prof_add(kl_prof *p, int64_t start, int64_t flops, int64_t bytes)
{
    atomic_fetch_add_explicit(&p->nanoseconds, kl_prof_clock() - start, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->calls, 1, memory_order_relaxed);
    if (flops != 0) atomic_fetch_add_explicit(&p->flops, flops, memory_order_relaxed);
    if (bytes != 0) atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed);
}

int kl_prof_read(int max, kl_prof_view *view)
{
    int n = atomic_load_explicit(&ncounter, memory_order_acquire);
    if (n > max) n = max;
    for (int i = 0; i < n; i++)
        view[i] = (kl_prof_view){.name = table[i].name,
                                 .seconds = 1e-9 * (double)atomic_load_explicit(&table[i].nanoseconds, memory_order_relaxed),
                                 .calls = atomic_load_explicit(&table[i].calls, memory_order_relaxed),
                                 .flops = atomic_load_explicit(&table[i].flops, memory_order_relaxed),
                                 .bytes = atomic_load_explicit(&table[i].bytes, memory_order_relaxed)};
    return n;
}

void kl_prof_reset(void)
{
    const int n = atomic_load_explicit(&ncounter, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        atomic_store_explicit(&table[i].nanoseconds, 0, memory_order_relaxed);
        atomic_store_explicit(&table[i].calls, 0, memory_order_relaxed);
        atomic_store_explicit(&table[i].flops, 0, memory_order_relaxed);
        atomic_store_explicit(&table[i].bytes, 0, memory_order_relaxed);
    }
}
