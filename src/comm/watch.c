/* See watch.h. A launcher notices a lost rank too, and kills the others, but not every one, and none says
   what becomes of the run.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/aside.h"
#include "base/mem.h"

enum {
    LOOK_MS = 100,
    TELL_MS = 500, /* the rank that tells has so long to do it */
};

struct kl_comm_watch {
    int rank, nprocess;
    int64_t *process;
    kl_comm_end_fn *end;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends; /* so that nobody waits for a nap to be over */
    int over;
};

/* Returns 1 at once when the watch is over. */
static int nap(kl_comm_watch *w, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000L * ms;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&w->lock);
    while (!w->over && pthread_cond_timedwait(&w->ends, &w->lock, &until) == 0) continue;
    const int over = w->over;
    pthread_mutex_unlock(&w->lock);
    return over;
}

/* A rank that has told why the run ends calls the others by a signal that nothing else uses: one that
   computes for seconds hears no message in that time. */
static int called; /* in one thread's handler, read by all: atomic */

int kl_comm_watch_signal(void) { return SIGRTMIN + 9; }

void kl_comm_watch_on_signal(int signal)
{
    (void)signal;
    __atomic_store_n(&called, 1, __ATOMIC_RELEASE);
}

int kl_comm_watch_called(void) { return __atomic_load_n(&called, __ATOMIC_ACQUIRE); }

static int is_gone(int64_t process) { return process > 0 && kill((pid_t)process, 0) != 0 && errno == ESRCH; }

static void *look(void *self)
{
    kl_comm_watch *const w = self;
    char line[200];
    while (!nap(w, LOOK_MS)) {
        if (kl_comm_watch_called()) w->end("");
        int lost = 0, lowest = 0;
        while (lost < w->nprocess && !is_gone(w->process[lost])) lost++;
        if (lost == w->nprocess) continue;
        while (lowest < w->rank && (w->process[lowest] == 0 || is_gone(w->process[lowest]))) lowest++;
        snprintf(
            line, sizeof line,
            "rank %d was lost: its process %lld has ended; the run ends, and its last checkpoint is as it "
            "was",
            lost, (long long)w->process[lost]);
        if (nap(w, lowest < w->rank ? TELL_MS : 0)) break;
        w->end(lowest < w->rank || kl_comm_watch_called() ? "" : line);
    }
    return NULL;
}

kl_status kl_comm_watch_begin(int rank, int nprocess, const int64_t *process, kl_comm_end_fn *end,
                              kl_comm_watch **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_comm_watch *w = NULL;
    pthread_condattr_t clock;
    *out = NULL;
    KL_TRY(kl_alloc(&w, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&w->process, nprocess, KL_MEM_MISC, err));
    memcpy(w->process, process, (size_t)nprocess * sizeof *process);
    /* a container may hide the others: those that are not seen now are not looked for */
    for (int i = 0; i < nprocess; i++)
        if (is_gone(process[i])) w->process[i] = 0;
    w->rank = rank;
    w->nprocess = nprocess;
    w->end = end;
    w->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->ends, &clock);
    pthread_condattr_destroy(&clock);
    if (kl_aside_begin(&w->thread, look, w)) *out = w, w = NULL;
    else pthread_cond_destroy(&w->ends);
out:
    if (w) kl_free(&w->process);
    kl_free(&w);
    return st;
}

void kl_comm_watch_hush(kl_comm_watch *w)
{
    if (!w || w->over) return;
    pthread_mutex_lock(&w->lock);
    w->over = 1;
    pthread_cond_signal(&w->ends);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
}

void kl_comm_watch_call(const kl_comm_watch *w)
{
    for (int i = 0; w && i < w->nprocess; i++)
        if (i != w->rank && w->process[i] > 0) (void)kill((pid_t)w->process[i], kl_comm_watch_signal());
}

int kl_comm_watch_alone(const kl_comm_watch *w)
{
    for (int i = 0; w && i < w->nprocess; i++)
        if (i != w->rank && w->process[i] > 0 && !is_gone(w->process[i])) return 0;
    return 1;
}

void kl_comm_watch_end(kl_comm_watch **watch)
{
    kl_comm_watch *const w = *watch;
    if (!w) return;
    kl_comm_watch_hush(w);
    pthread_cond_destroy(&w->ends);
    kl_free(&w->process);
    kl_free(watch);
}
