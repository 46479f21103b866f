/* What ptx.h names, on the host, for all threads of a block: with it the text of kernels runs in tests
   without a GPU. Threads are coroutines that take turns; one waits where it needs what another one does:
   the value of a lane, a barrier, a bulk copy. Included before what includes ptx.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PTX_H
#define KL_PTX_H
#include "base/dev.h"
#include "kl_test.h"
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define KL_UNROLL
#define KL_ROLLED

typedef struct kl_pair {
    double a, b;
} kl_pair;

enum {
    WARPS_MOST = 1024,
    WARPS_STACK = 1 << 16,
};

static struct {
    int size, number, count;            /* threads of a block; block; blocks */
    int thread;                         /* the thread that runs */
    int arrived, turn;                  /* at the barrier of the block, and how often all have been there */
    int over[WARPS_MOST];
    int asked[WARPS_MOST];              /* how often a lane gave a value */
    double value[2][WARPS_MOST];        /* a lane may give its next one before others have read this */
    int left;                           /* threads that are not over */
    int64_t switches;
    jmp_buf at[WARPS_MOST + 1];         /* MOST: who runs them */
    int born[WARPS_MOST];
    char *stack;                        /* of all threads, which wait for the next run when they are over */
    void (*kernel)(void *);
    void *arg;
    /* shared, with its size, for kernels that use addresses of their own there */
    char *memory;
    int64_t bytes;
} warps;

static void warps_live(void);

/* By jumps: swapcontext asks the kernel for something every time. */
static void warps_switch(int to)
{
    if (_setjmp(warps.at[warps.thread]) != 0) return;
    warps.thread = to;
    if (to == WARPS_MOST || warps.born[to]) _longjmp(warps.at[to], 1);
    ucontext_t c;
    getcontext(&c);
    c.uc_stack.ss_sp = warps.stack + (int64_t)to * WARPS_STACK;
    c.uc_stack.ss_size = WARPS_STACK;
    makecontext(&c, warps_live, 0);
    warps.born[to] = 1;
    setcontext(&c);
}

/* The next thread runs, at last this one again. */
static void warps_yield(void)
{
    int to = warps.thread;
    if (++warps.switches > 1000000000) fail_msg("threads of a block wait for each other");
    do to = (to + 1) % warps.size;
    while (warps.over[to]);
    if (to != warps.thread) warps_switch(to);
}

static void warps_live(void)
{
    for (;;) {
        warps.kernel(warps.arg);
        warps.over[warps.thread] = 1;
        if (--warps.left == 0) warps_switch(WARPS_MOST);
        else warps_yield();
    }
}

/* All blocks, one after the other. */
static void warps_run(int nblock, int size, void (*kernel)(void *), void *arg)
{
    assert_true(size <= WARPS_MOST && size % 32 == 0);
    if (warps.stack == NULL) warps.stack = malloc((size_t)WARPS_MOST * WARPS_STACK);
    /* after a failure: those threads stand where it left them */
    if (warps.left > 0) memset(warps.born, 0, sizeof(warps.born));
    warps.kernel = kernel;
    warps.arg = arg;
    warps.size = size;
    warps.count = nblock;
    for (warps.number = 0; warps.number < nblock; warps.number++) {
        warps.arrived = warps.turn = 0;
        warps.switches = 0;
        warps.left = size;
        for (int t = 0; t < size; t++) warps.over[t] = warps.asked[t] = 0;
        warps.thread = WARPS_MOST;
        warps_switch(0);
    }
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

/* What the warp's lanes give, once all of them have; every one must come by: one that does not is a deadlock
   on a GPU. */
static const double *warps_exchange(double v)
{
    const int t = warps.thread, warp = t / 32 * 32, now = ++warps.asked[t];
    warps.value[now % 2][t] = v;
    for (int lane = 0; lane < 32; lane++)
        while (warps.asked[warp + lane] < now) {
            if (warps.over[warp + lane])
                fail_msg("lane %d has left the warp that lane %d asks", lane, t % 32);
            warps_yield();
        }
    return warps.value[now % 2] + warp;
}

KL_DEV double kl_lane_below(double v, int by)
{
    const int lane = warps.thread % 32;
    const double *const all = warps_exchange(v);
    return lane + by < 32 ? all[lane + by] : v;
}

/* In the order of shuffles, from one exchange. */
KL_DEV double kl_lane_sum(double s, int lanes)
{
    double v[32];
    memcpy(v, warps_exchange(s), sizeof(v));
    for (int by = lanes / 2; by > 0; by /= 2)
        for (int lane = 0; lane < 32; lane++) v[lane] += v[lane + by < 32 ? lane + by : lane];
    return v[warps.thread % 32];
}

KL_DEV double kl_once(const double *p) { return *p; }
KL_DEV kl_pair kl_once_pair(const double *p)
{
    if ((uintptr_t)p % 16 != 0) fail_msg("a pair at an odd address");
    return (kl_pair){p[0], p[1]};
}
KL_DEV uint32_t kl_once_u32(const uint32_t *p) { return *p; }
KL_DEV void kl_prefetch(const double *p) { (void)p; }
KL_DEV uint32_t kl_once_u16(const uint16_t *p) { return *p; }
KL_DEV uint64_t kl_once_u64(const void *p)
{
    uint64_t r;
    memcpy(&r, p, 8);
    return r;
}
KL_DEV void kl_once_two_u64(const void *p, uint64_t *a, uint64_t *b)
{
    *a = kl_once_u64(p), *b = kl_once_u64((const char *)p + 8);
}
KL_DEV double kl_cached(const double *p) { return *p; }
KL_DEV kl_pair kl_cached_pair(const double *p) { return kl_once_pair(p); }
KL_DEV uint32_t kl_cached_u32(const uint32_t *p) { return *p; }
KL_DEV uint64_t kl_cached_u64(const uint64_t *p) { return *p; }
KL_DEV void kl_cached_two(const uint32_t *p, uint32_t *to) { memcpy(to, p, 2 * sizeof *to); }
KL_DEV void kl_cached_four(const uint32_t *p, uint32_t *to) { memcpy(to, p, 4 * sizeof *to); }

#define kl_cached_twos(p, step, to)                                                        \
    do {                                                                                   \
        for (int at_ = 0; at_ < 6; at_++) (to)[at_] = (p)[at_ / 2 * (step) / 4 + at_ % 2]; \
    } while (0)
#define kl_cached_words(p, step, to)                                         \
    do {                                                                     \
        for (int at_ = 0; at_ < 4; at_++) (to)[at_] = (p)[at_ * (step) / 4]; \
    } while (0)
#define kl_cached_apart(p, step, is, to)                                                  \
    do {                                                                                  \
        for (int at_ = 0; at_ < 4; at_++) (to)[at_] = (is) ? (p)[at_ * (step) / 8] : 0.0; \
    } while (0)

KL_DEV void kl_put_once(double *p, double v) { *p = v; }
KL_DEV void kl_put_once_pair(double *p, kl_pair v) { p[0] = v.a, p[1] = v.b; }

/* By addresses of shared memory, in bounds and aligned as the machine wants them. */
KL_DEV void *warps_shared(uint32_t at, uint32_t bytes)
{
    if (at % bytes != 0 || at + bytes > warps.bytes)
        fail_msg("%u bytes at %u of %lld in shared memory", bytes, at, (long long)warps.bytes);
    return warps.memory + at;
}
KL_DEV double kl_shared_one(uint32_t at) { return *(double *)warps_shared(at, 8); }
KL_DEV kl_pair kl_shared_pair(uint32_t at) { return *(kl_pair *)warps_shared(at, 16); }
KL_DEV void kl_shared_two(uint32_t at, uint32_t *to) { memcpy(to, warps_shared(at, 8), 8); }
KL_DEV uint32_t kl_shared_address(const void *p) { return (uint32_t)((const char *)p - warps.memory); }

KL_DEV double kl_sign_of(uint32_t w) { return w & 1 ? -1.0 : 1.0; }
KL_DEV double kl_flip_sign(double v, uint32_t sign) { return sign >> 31 ? -v : v; }
KL_DEV const double *kl_steady(const double *p) { return p; }
KL_DEV uint32_t kl_masked(uint32_t v, uint32_t mask) { return v & mask; }
KL_DEV int kl_bits(uint32_t v) { return __builtin_popcount(v); }

KL_DEV void kl_add_to(double *p, double v) { *p += v; }

/* A barrier in shared memory: arrivals and bytes still wanted, how many arrivals there are in all, and how
   often all have been there. A bulk copy is over when it begins. */
typedef struct warps_barrier {
    uint8_t left, all;
    uint16_t turn;
    int32_t bytes;
} warps_barrier;
KL_DEV void warps_count(uint64_t *bar, int arrivals, int bytes)
{
    warps_barrier *const b = (warps_barrier *)(void *)bar;
    b->left = (uint8_t)(b->left - arrivals);
    b->bytes += bytes;
    if (b->left == 0 && b->bytes == 0) b->left = b->all, b->turn++;
}
KL_DEV void kl_barrier_init(uint64_t *bar, int count)
{
    assert_in_range(count, 1, UINT8_MAX);
    *(warps_barrier *)(void *)bar = (warps_barrier){.left = (uint8_t)count, .all = (uint8_t)count};
}
KL_DEV void kl_barrier_ready(void) {}
KL_DEV void kl_barrier_arrive(uint64_t *bar) { warps_count(bar, 1, 0); }
KL_DEV void kl_barrier_expect(uint64_t *bar, int bytes) { warps_count(bar, 1, bytes); }
KL_DEV void kl_barrier_wait(uint64_t *bar, int phase)
{
    while (((warps_barrier *)(void *)bar)->turn % 2 == phase) warps_yield();
}
KL_DEV void kl_bring(void *to, const void *from, int bytes, uint64_t *bar)
{
    if ((uintptr_t)from % 16 != 0 || (uintptr_t)to % 16 != 0 || bytes % 16 != 0)
        fail_msg("a bulk copy of %d bytes that is not aligned", bytes);
    if (warps.memory != NULL &&
        ((char *)to < warps.memory || (char *)to + bytes > warps.memory + warps.bytes))
        fail_msg("a copy of %d bytes to %lld", bytes, (long long)((char *)to - warps.memory));
    memcpy(to, from, (size_t)bytes);
    warps_count(bar, 0, -bytes);
}
KL_DEV void kl_bring_pair(void *to, const void *from)
{
    if ((uintptr_t)from % 16 != 0 || (uintptr_t)to % 16 != 0)
        fail_msg("a copy of 16 bytes that is not aligned");
    if (warps.memory != NULL && ((char *)to < warps.memory || (char *)to + 16 > warps.memory + warps.bytes))
        fail_msg("a copy to %lld", (long long)((char *)to - warps.memory));
    memcpy(to, from, 16);
}
KL_DEV void kl_barrier_brought(uint64_t *bar) { warps_count(bar, 1, 0); }
#endif
