/* A pool of threads: see par.h. Knows nothing of what they do.
   1. The caller puts up a job and opens the gate; 2. it wakes who sleeps; 3. workers pass the gate and take
   tasks, as the caller does; 4. when no task is left the caller closes the gate and waits for those inside
   alone.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "base/par.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_THREADS = 1024,
    JOB = 2 * MAX_THREADS, /* from one job to the next, and all digits of a number of threads */
    /* looks before a thread offers its processor to others: about what waking it would cost */
    SPINS = 1000,
    /* how long it goes on offering it before it sleeps: jobs of one solver come closer together */
    PATIENCE_US = 2000,
    CONTENDED_US = 50,   /* an offer that takes so long was taken: others need the processor */
    FIRST_US = 1000,     /* what a worker may wait awake before it has worked */
    LATER_US = 150, /* a job that was shorter the last time wakes nobody before it has lasted so long */
    /* A thread waits awake for n n / WORTH of the time that it has worked, n threads being at it: for an
       eighth where they are two, as both are paid for, for eight times that where they are 16, as all would
       have to be woken. */
    WORTH = 32,
    NKIND = 64, /* of jobs that are remembered */
    CLOSED = 1 << 30
};

typedef struct part {
    _Alignas(64) _Atomic int64_t next; /* its first task that nobody has taken */
} part;

/* Jobs of one function: the next one is mostly about as long as the last, which took so many microseconds. */
typedef struct kind {
    kl_par_fn *fn;
    int64_t us;
} kind;

static struct pool {
    atomic_flag busy; /* a caller has a job here */
    _Atomic unsigned gate; /* workers inside; CLOSED: no more may come */
    /* counts jobs, each with its number of threads in the last digits: workers sleep on it, and those that a
       job has nothing for stay away from the gate */
    _Atomic unsigned round;
    _Atomic int nasleep; /* workers that have to be woken */
    _Atomic int caller_asleep;
    int nworker; /* threads made so far; the caller is thread 0 */
    _Atomic int spins;
    kl_par_fn *fn; /* the job, written while the gate is closed and nobody is inside */
    void *self;
    int64_t ntask;
    int nthread, npart;
    int64_t begin; /* of the job while those who sleep are not woken, else 0; the caller's alone */
    kind kind[NKIND];
    part part[MAX_THREADS];
} pool = {.busy = ATOMIC_FLAG_INIT, .gate = CLOSED};

static _Thread_local int inside;

int kl_par_is_inside(void) { return inside; }

static void look_again(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t microseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Back when *word is another than `old`, or at any time; *nasleep counts who sleeps. Where processors are
   free, a thread that sleeps too soon makes all others wait for its waking; where they are not, one that
   looks on takes time from those that work. An offer of the processor tells which it is. Waits awake for
   `patience` at most, and says how many microseconds it did. */
static int64_t wait_while(_Atomic unsigned *word, unsigned old, int64_t patience, _Atomic int *nasleep)
{
    const int64_t begin = microseconds(), least = begin + (patience < PATIENCE_US ? patience : PATIENCE_US);
    int64_t now = begin;
    for (int i = 0; i < (patience > 0 ? pool.spins : 0); i++) {
        if (*word != old) return microseconds() - begin;
        look_again();
    }
    if (patience > 0 && pool.spins > 0) {
        now = microseconds();
        for (int64_t before = now; before < least; before = now) {
            if (*word != old) return before - begin;
            sched_yield();
            now = microseconds();
            if (now - before > CONTENDED_US) break;
        }
        if (*word != old) return now - begin;
    }
    /* who changes *word after this sees a sleeper, and before it there is no sleep */
    ++*nasleep;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    --*nasleep;
    return now - begin;
}

static void wake(_Atomic unsigned *word, const _Atomic int *nasleep)
{
    if (*nasleep > 0) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The next task for a thread, of its own part first; -1: all are taken. */
static int64_t take(int thread)
{
    for (int k = 0; k < pool.npart; k++) {
        const int p = (thread + k) % pool.npart;
        const int64_t end = pool.ntask * (p + 1) / pool.npart;
        if (pool.part[p].next >= end) continue;
        const int64_t task = pool.part[p].next++;
        if (task < end) return task;
    }
    return -1;
}

/* Those who sleep cost more to wake than a short job takes: they are left alone until it has lasted. */
static void wake_later(void)
{
    if (pool.begin == 0 || microseconds() - pool.begin < LATER_US) return;
    pool.begin = 0;
    wake(&pool.round, &pool.nasleep);
}

static void work(int thread)
{
    inside = 1;
    for (int64_t task = take(thread); task >= 0; task = take(thread)) {
        pool.fn(pool.self, task, thread);
        if (thread == 0) wake_later();
    }
    inside = 0;
}

static int enter(void)
{
    unsigned seen = pool.gate;
    while (!(seen & CLOSED))
        if (atomic_compare_exchange_weak(&pool.gate, &seen, seen + 1)) return 1;
    return 0;
}

static void *worker(void *number)
{
    const int thread = (int)(intptr_t)number;
    unsigned round = 0;
    int64_t allowed = FIRST_US; /* to wait awake */
    for (;;) {
        while (pool.round == round) allowed -= wait_while(&pool.round, round, allowed, &pool.nasleep);
        round = pool.round;
        if (thread >= (int)(round % JOB) || !enter()) continue;
        if (thread < pool.nthread) { /* of this job, or of one behind it */
            const int64_t begin = microseconds(), n = pool.nthread;
            work(thread);
            allowed += (microseconds() - begin) * n * n / WORTH;
        }
        if (--pool.gate == CLOSED) wake(&pool.gate, &pool.caller_asleep);
    }
    return NULL;
}

/* Makes threads up to nthread, the caller counted; as many as there is memory for. They leave signals to the
   others. */
static void make_workers(int nthread)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t id;
    if (pool.nworker + 1 >= nthread || pthread_attr_init(&detached) != 0) return;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.nworker + 1 < nthread &&
           pthread_create(&id, &detached, worker, (void *)(intptr_t)(pool.nworker + 1)) == 0)
        pool.nworker++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    pool.spins = pool.nworker < kl_par_cpus() ? SPINS : 0;
}

static void run(int nthread, int npart, int64_t ntask, kl_par_fn *fn, void *self)
{
    if (nthread > MAX_THREADS) nthread = MAX_THREADS;
    if (nthread > ntask) nthread = (int)ntask;
    if (nthread <= 1 || inside || atomic_flag_test_and_set(&pool.busy)) {
        for (int64_t task = 0; task < ntask; task++) fn(self, task, 0);
        return;
    }
    make_workers(nthread);
    kind *const k = &pool.kind[((uintptr_t)fn >> 4) % NKIND];
    const int64_t begin = microseconds();
    pool.begin = k->fn == fn && k->us < LATER_US ? begin : 0;
    pool.fn = fn;
    pool.self = self;
    pool.ntask = ntask;
    pool.nthread = nthread;
    pool.npart = npart < nthread ? npart : nthread;
    for (int p = 0; p < pool.npart; p++) pool.part[p].next = ntask * p / pool.npart;
    pool.gate = 0; /* 1. */
    pool.round = pool.round / JOB * JOB + JOB + (unsigned)nthread; /* 2. */
    if (pool.begin == 0) wake(&pool.round, &pool.nasleep);
    work(0); /* 3. */
    unsigned seen = pool.gate |= CLOSED; /* 4. */
    while (seen != CLOSED) {
        wait_while(&pool.gate, seen, PATIENCE_US, &pool.caller_asleep);
        seen = pool.gate;
    }
    *k = (kind){fn, microseconds() - begin};
    atomic_flag_clear(&pool.busy);
}

void kl_par_for(int nthread, int64_t ntask, kl_par_fn *fn, void *self) { run(nthread, 1, ntask, fn, self); }
void kl_par_split(int nthread, int64_t ntask, kl_par_fn *fn, void *self)
{
    run(nthread, MAX_THREADS, ntask, fn, self);
}

/* Processors' worth of time that a cgroup allows, rounded up; 0: no limit, or no such file. */
static int quota_of(const char *folder)
{
    char path[4200], quota[32];
    long period = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    FILE *const f = fopen(path, "re");
    if (f == NULL) return 0;
    const int n = fscanf(f, "%31s %ld", quota, &period);
    fclose(f);
    const long us = n == 2 ? atol(quota) : 0; /* "max" is 0 */
    return us > 0 && period > 0 ? (int)((us + period - 1) / period) : 0;
}

int kl_par_cpus(void)
{
    cpu_set_t set;
    char line[4096], *end;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    FILE *const f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "0::", 3) != 0) continue; /* version 2, the only one that new systems have */
        line[strcspn(line, "\n")] = '\0';
        do { /* a limit on any folder above holds, too */
            const int quota = quota_of(line + 3);
            if (quota > 0 && quota < n) n = quota;
            end = strrchr(line + 3, '/');
            if (end != NULL) *end = '\0';
        } while (end != NULL);
    }
    if (f != NULL) fclose(f);
    return n > 0 ? n : 1;
}

int kl_par_hands(int nthread, double work, double worth)
{
    return work < worth * nthread ? 1 + (int)(work / worth) : nthread;
}

int kl_par_threads(int cores)
{
    const char *const asked = getenv("OMP_NUM_THREADS"); /* 4, or 4,2 of nested regions */
    const long n = asked != NULL ? strtol(asked, NULL, 10) : 0;
    return n > 0 && n < cores ? (int)n : cores;
}
