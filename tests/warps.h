/* What ptx.h names, on the host, for all threads of a block: with it the text of kernels whose lanes talk to each other runs in tests without a GPU. Threads are
   coroutines that take turns; one gives way where it needs what another one does: the value of a lane, a barrier. Included before what includes ptx.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PTX_H
#define KL_PTX_H
#include "kl_test.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define KL_DEV static inline
#define KL_UNROLL
#define KL_ROLLED

typedef struct kl_pair {
    double a, b;
} kl_pair;

enum { WARPS_MOST = 1024, WARPS_STACK = 1 << 16 };

static struct {
    int size, number, count;            /* threads of a block; block; blocks */
    int thread;                         /* whose turn it is */
    int arrived, turn;                  /* at the barrier of the block, and how often all have been there */
    int over[WARPS_MOST];
    int asked[WARPS_MOST];              /* how often a lane gave a value */
    double value[2][WARPS_MOST];        /* a lane may give its next one before others have read this */
    ucontext_t main, at[WARPS_MOST];
    char *stack;
    void (*kernel)(void *);
    void *arg;
} warps;

static void warps_begin(void)
{
    warps.kernel(warps.arg);
    warps.over[warps.thread] = 1;
    swapcontext(&warps.at[warps.thread], &warps.main);
}

static void warps_yield(void) { swapcontext(&warps.at[warps.thread], &warps.main); }

/* All blocks, one after the other. */
static void warps_run(int nblock, int size, void (*kernel)(void *), void *arg)
{
    assert_true(size <= WARPS_MOST && size % 32 == 0);
    warps.stack = malloc((size_t)size * WARPS_STACK);
    warps.kernel = kernel;
    warps.arg = arg;
    warps.size = size;
    warps.count = nblock;
    for (warps.number = 0; warps.number < nblock; warps.number++) {
        warps.arrived = warps.turn = 0;
        for (int t = 0; t < size; t++) {
            warps.over[t] = warps.asked[t] = 0;
            getcontext(&warps.at[t]);
            warps.at[t].uc_stack.ss_sp = warps.stack + (int64_t)t * WARPS_STACK;
            warps.at[t].uc_stack.ss_size = WARPS_STACK;
            warps.at[t].uc_link = &warps.main;
            makecontext(&warps.at[t], warps_begin, 0);
        }
        for (int left = size, rounds = 0; left > 0; rounds++) {
            if (rounds > 10000000) fail_msg("threads of a block wait for each other");
            left = 0;
            for (int t = 0; t < size; t++) {
                if (warps.over[t]) continue;
                warps.thread = t;
                swapcontext(&warps.main, &warps.at[t]);
                left += !warps.over[t];
            }
        }
    }
    free(warps.stack);
}

KL_DEV int kl_in_block(void) { return warps.thread; }
KL_DEV int kl_block_size(void) { return warps.size; }
KL_DEV int kl_block_number(void) { return warps.number; }
KL_DEV int kl_block_count(void) { return warps.count; }
KL_DEV int64_t kl_thread_number(void) { return (int64_t)warps.number * warps.size + warps.thread; }
KL_DEV int kl_lane_number(void) { return warps.thread % 32; }
KL_DEV void kl_warp_sync(void) {}

KL_DEV void kl_block_sync(void)
{
    const int turn = warps.turn;
    if (++warps.arrived == warps.size) warps.arrived = 0, warps.turn++;
    while (warps.turn == turn) warps_yield();
}

/* Every lane of the warp must come by: one that does not is a deadlock on a GPU. */
KL_DEV double kl_lane_below(double v, int by)
{
    const int t = warps.thread, warp = t / 32 * 32, now = ++warps.asked[t];
    warps.value[now % 2][t] = v;
    for (int lane = 0; lane < 32; lane++)
        while (warps.asked[warp + lane] < now) {
            if (warps.over[warp + lane]) fail_msg("lane %d has left the warp that lane %d asks", lane, t % 32);
            warps_yield();
        }
    return t % 32 + by < 32 ? warps.value[now % 2][t + by] : v;
}

KL_DEV double kl_lane_sum(double s, int lanes)
{
    for (int by = lanes / 2; by > 0; by /= 2) s += kl_lane_below(s, by);
    return s;
}

KL_DEV double kl_once(const double *p) { return *p; }
KL_DEV kl_pair kl_once_pair(const double *p)
{
    if ((uintptr_t)p % 16 != 0) fail_msg("a pair at an odd address");
    return (kl_pair){p[0], p[1]};
}
KL_DEV uint32_t kl_once_u32(const uint32_t *p) { return *p; }
KL_DEV uint32_t kl_once_u16(const uint16_t *p) { return *p; }
KL_DEV uint64_t kl_once_u64(const void *p)
{
    uint64_t r;
    memcpy(&r, p, 8);
    return r;
}
KL_DEV void kl_once_two_u64(const void *p, uint64_t *a, uint64_t *b) { *a = kl_once_u64(p), *b = kl_once_u64((const char *)p + 8); }
KL_DEV double kl_cached(const double *p) { return *p; }
KL_DEV kl_pair kl_cached_pair(const double *p) { return kl_once_pair(p); }
KL_DEV void kl_add_to(double *p, double v) { *p += v; }

/* A barrier in shared memory: arrivals still wanted, how many there are in all, and how often all have been there. A bulk copy is over when it begins. */
typedef struct warps_barrier {
    uint16_t left, all;
    uint32_t turn;
} warps_barrier;
KL_DEV warps_barrier *warps_at(uint64_t *bar) { return (warps_barrier *)(void *)bar; }
KL_DEV void kl_barrier_init(uint64_t *bar, int count) { *warps_at(bar) = (warps_barrier){(uint16_t)count, (uint16_t)count, 0}; }
KL_DEV void kl_barrier_arrive(uint64_t *bar)
{
    warps_barrier *const b = warps_at(bar);
    if (--b->left == 0) b->left = b->all, b->turn++;
}
KL_DEV void kl_barrier_expect(uint64_t *bar, int bytes) { (void)bytes, kl_barrier_arrive(bar); }
KL_DEV void kl_barrier_wait(uint64_t *bar, int phase)
{
    while ((int)(warps_at(bar)->turn % 2) == phase) warps_yield();
}
KL_DEV void kl_bring(void *to, const void *from, int bytes, uint64_t *bar)
{
    (void)bar;
    if ((uintptr_t)from % 16 != 0 || (uintptr_t)to % 16 != 0 || bytes % 16 != 0) fail_msg("a bulk copy of %d bytes that is not aligned", bytes);
    memcpy(to, from, (size_t)bytes);
}
#endif
