/* The pool of threads: every task once, parts and order, tasks that ask for threads themselves, two callers
   at once, and a busy machine.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kl_test.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/par.h"
#include "base/parsort.h"

enum { MOST = 2000 };

typedef struct count {
    _Atomic int done[MOST];
    int nthread;
    _Atomic int stray; /* tasks on a thread that was not asked for */
} count;

static void count_task(void *self, int64_t task, int thread)
{
    count *const c = self;
    if (thread < 0 || thread >= c->nthread) c->stray++;
    c->done[task]++;
}

static void check_counts(count *c, int64_t ntask, int wanted)
{
    expect_eq(c->stray, 0);
    for (int64_t i = 0; i < ntask; i++)
        if (c->done[i] != wanted)
            fail_msg("task %lld of %lld was done %d times", (long long)i, (long long)ntask, c->done[i]);
}

static void test_every_task(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 31, 33, 597, MOST};
    static const int threads[] = {0, 1, 2, 3, 8, 2, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            static count c;
            kl_test_case("%lld tasks, %d threads", (long long)sizes[s], threads[t]);
            memset(&c, 0, sizeof c);
            c.nthread = threads[t] > 1 ? threads[t] : 1;
            if (c.nthread > 64 && sizes[s] > 64) continue; /* no thousand threads for a test */
            for (int round = 0; round < 50; round++) {
                kl_par_for(threads[t], sizes[s], count_task, &c);
                kl_par_split(threads[t], sizes[s], count_task, &c);
            }
            check_counts(&c, sizes[s], 100);
        }
    expect_true(!kl_par_is_inside());
}

static void nested_task(void *self, int64_t task, int thread)
{
    count inner = {.nthread = 1};
    count *const c = self;
    (void)thread;
    expect_true(kl_par_is_inside());
    kl_par_for(4, 20, count_task, &inner);
    for (int i = 0; i < 20; i++) c->stray += inner.done[i] != 1;
    c->stray += inner.stray;
    c->done[task]++;
}

static void *other_caller(void *self)
{
    for (int round = 0; round < 200; round++) kl_par_for(3, 100, count_task, self);
    return NULL;
}

/* A task's own tasks run where it does; of two callers at once one has the threads. */
static void test_within_and_beside(void **state)
{
    (void)state;
    static count c, a, b;
    pthread_t other;
    c.nthread = 1;
    kl_par_for(4, 40, nested_task, &c);
    check_counts(&c, 40, 1);
    a.nthread = b.nthread = 3;
    assert_int_equal(pthread_create(&other, NULL, other_caller, &a), 0);
    other_caller(&b);
    pthread_join(other, NULL);
    check_counts(&a, 100, 200);
    check_counts(&b, 100, 200);
}

/* After a fork the threads are gone: the child does its tasks alone. */
static void test_fork(void **state)
{
    (void)state;
    int status = -1;
    static count c;
    c.nthread = 4;
    kl_par_for(4, 100, count_task, &c);
    const pid_t child = fork();
    if (child == 0) {
        kl_par_for(4, 100, count_task, &c);
        _exit(c.done[99] == 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Some 50 us. */
static void short_task(void *self, int64_t task, int thread)
{
    double *const sum = self;
    (void)thread;
    double x = 1.0;
    for (int i = 0; i < 10000; i++) x = x * 0.999999 + 1e-9;
    sum[task] = x;
}

/* Seconds for short jobs. */
static double time_jobs(int nthread)
{
    double sum[8];
    const double start = clock_now();
    for (int job = 0; job < 1000; job++) kl_par_for(nthread, 8, short_task, sum);
    return clock_now() - start;
}

/* Whether two threads take less than `most` times what one does, by the least of each in three rounds; in up
   to thirty where other programs are in the way, since what is slow by itself is so in every round. */
static int two_take(double most, double cost(int nthread), const char *what)
{
    double one = INFINITY, two = INFINITY;
    int round = 0;
    while (round < 3 || (round < 30 && two >= most * one)) {
        one = fmin(one, cost(1));
        two = fmin(two, cost(2));
        round++;
    }
    print_message("# %s: one thread %.4f, two %.4f, least of %d rounds\n", what, one, two, round);
    return two < most * one;
}

/* With every processor busy two threads are not much slower than one: nobody spins, and nobody waits for a
   thread that has no processor. */
static void test_busy_machine(void **state)
{
    (void)state;
    enum { MOST_HOGS = 64 };
    pid_t hog[MOST_HOGS];
    const int n = kl_par_cpus();
    if (n > MOST_HOGS || KL_TEST_WATCHED || getenv("KL_TEST_ROUNDS") != NULL)
        skip(); /* no times under tools that watch */
    for (int i = 0; i < n; i++) {
        hog[i] = fork();
        if (hog[i] == 0)
            for (;;) continue;
        assert_true(hog[i] > 0);
    }
    const int fast = two_take(2.0, time_jobs, "seconds beside busy processors");
    for (int i = 0; i < n; i++) {
        kill(hog[i], SIGKILL);
        waitpid(hog[i], NULL, 0);
    }
    expect_true(fast); /* 1.3 is the aim; other tests run at the same time */
}

static void brief_task(void *self, int64_t task, int thread)
{
    double *const sum = self;
    (void)thread;
    double x = 1.0;
    for (int i = 0; i < 1000; i++) x = x * 0.999999 + 1e-9;
    sum[task] = x;
}

/* CPU seconds of the process for short jobs, and as much work between them that is nobody else's. */
static double cost_of_jobs(int nthread)
{
    double sum[8];
    const clock_t start = clock();
    for (int job = 0; job < 1000; job++) {
        kl_par_for(nthread, 8, brief_task, sum);
        kl_par_for(1, 8, brief_task, sum);
    }
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* A thread that waits most of the time sleeps: two of them cost what one does. */
static void test_short_jobs(void **state)
{
    (void)state;
    if (KL_TEST_WATCHED || getenv("KL_TEST_ROUNDS") != NULL) skip();
    /* 1.1 is the aim; where one that waits looks on it is 3 to 4 */
    expect_true(two_take(1.4, cost_of_jobs, "CPU seconds"));
}

static void test_threads_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *asked;
        int threads; /* of 8 cores */
    } row[] = {{"3", 3}, {"1", 1}, {"16", 8}, {"4,2", 4}, {"0", 8}, {"-2", 8}, {"", 8}, {"many", 8}};
    const char *const before = getenv("OMP_NUM_THREADS");
    char *const kept = before != NULL ? strdup(before) : NULL;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        setenv("OMP_NUM_THREADS", row[k].asked, 1);
        assert_int_equal(kl_par_threads(8), row[k].threads);
    }
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(kl_par_threads(8), 8);
    if (kept != NULL) setenv("OMP_NUM_THREADS", kept, 1);
    free(kept);
}

typedef struct pair {
    int key, nth;
} pair;

static int by_key(const void *pa, const void *pb)
{
    const pair *const a = pa, *const b = pb;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key) : (a->nth > b->nth) - (a->nth < b->nth);
}

/* Short and long arrays, of many equal keys, by any number of threads. */
static void test_sort(void **state)
{
    (void)state;
    static const int64_t length[] = {0, 1, 2, 9, 1023, 1024, 1025, 4095, 4096, 4097, 30011};
    for (size_t l = 0; l < sizeof length / sizeof *length; l++)
        for (int nthread = 1; nthread <= 5; nthread += 2) {
            const int64_t n = length[l];
            uint64_t seed = 5 + l;
            pair *const a = malloc((size_t)(n + 1) * sizeof *a);
            int64_t sum = 0, found = 0;
            for (int64_t i = 0; i < n; i++) {
                a[i] = (pair){(int)(500 * kl_test_uniform(&seed)), (int)(n - i)};
                sum += a[i].key + a[i].nth;
            }
            kl_par_sort(nthread, a, n, sizeof *a, by_key);
            for (int64_t i = 0; i < n; i++) {
                if (i > 0) expect_true(by_key(&a[i - 1], &a[i]) < 0);
                found += a[i].key + a[i].nth;
            }
            expect_eq(found, sum);
            free(a);
        }
}

typedef struct weighed {
    int nth;
    double w;
} weighed;

/* Falling numbers, of one digit or of all, zeros and equal ones among them; equal ones stay in order. */
static void test_sort_falling(void **state)
{
    (void)state;
    static const int64_t length[] = {0, 1, 2, 9, 63, 64, 65, 1025, 30011};
    for (size_t l = 0; l < sizeof length / sizeof *length; l++)
        for (int kind = 0; kind < 4; kind++) {
            const int64_t n = length[l];
            uint64_t seed = 7 + l;
            kl_err err = {""};
            weighed *const a = malloc((size_t)(n + 1) * sizeof *a);
            double sum = 0, found = 0;
            int64_t nth = 0;
            for (int64_t i = 0; i < n; i++) {
                const double u = fabs(kl_test_uniform(&seed));
                a[i] = (weighed){(int)i, kind == 0   ? floor(9 * u)
                                         : kind == 1 ? exp(700 * (2 * u - 1))
                                         : kind == 2 ? (double)(n - i)
                                                     : 4.5};
                sum += kind == 1 ? log(a[i].w) : a[i].w;
            }
            expect_ok(kl_sort_falling(a, n, sizeof *a, offsetof(weighed, w), &err), err);
            for (int64_t i = 0; i < n; i++) {
                if (i > 0)
                    expect_true(a[i - 1].w > a[i].w || (a[i - 1].w == a[i].w && a[i - 1].nth < a[i].nth));
                found += kind == 1 ? log(a[i].w) : a[i].w;
                nth += a[i].nth;
            }
            expect_near(found, sum, 1e-9 * (1 + fabs(sum)) + 1e-9 * (double)n);
            expect_eq(nth, n * (n - 1) / 2);
            free(a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task),   cmocka_unit_test(test_within_and_beside),
        cmocka_unit_test(test_sort),         cmocka_unit_test(test_fork),
        cmocka_unit_test(test_busy_machine), cmocka_unit_test(test_threads_asked_for),
        cmocka_unit_test(test_short_jobs),   cmocka_unit_test(test_sort_falling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
