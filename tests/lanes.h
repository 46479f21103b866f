/* What ptx.h names, on the host, for one thread of a team at a time: with it the text of kernels runs in tests without a GPU. Included before what includes ptx.h.
   A team's threads run one after another, up to the barrier that bulk copies end with, then each from its beginning to its end: so kernels may have one such barrier,
   and do before it nothing that may not be done twice. What lanes sum up is summed over all threads, in lanes.sum.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PTX_H
#define KL_PTX_H
#include "kl_test.h"
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#define KL_DEV static inline
#define KL_UNROLL
#define KL_ROLLED

typedef struct kl_pair {
    double a, b;
} kl_pair;

static struct {
    int thread, arriving;     /* arriving: nobody goes beyond the barrier yet */
    jmp_buf barrier;
    char *memory;             /* shared */
    int64_t bytes;
    double sum;               /* of what lanes were to sum up */
} lanes;

static void lanes_one(void (*kernel)(const void *), const void *arg)
{
    if (setjmp(lanes.barrier) == 0) kernel(arg);
}

/* A team. */
static void lanes_run(int team, void (*kernel)(const void *), const void *arg)
{
    for (lanes.arriving = 1; lanes.arriving >= 0; lanes.arriving--)
        for (lanes.thread = 0; lanes.thread < team; lanes.thread++) lanes_one(kernel, arg);
}

KL_DEV int kl_in_block(void) { return lanes.thread; }
KL_DEV int kl_lane_number(void) { return lanes.thread % 32; }
KL_DEV void kl_block_sync(void) {}
KL_DEV void kl_warp_sync(void) {}

KL_DEV kl_pair kl_once_pair(const double *p) { return (kl_pair){p[0], p[1]}; }
KL_DEV double kl_cached(const double *p) { return *p; }
KL_DEV kl_pair kl_cached_pair(const double *p) { return (kl_pair){p[0], p[1]}; }
KL_DEV uint32_t kl_cached_u32(const uint32_t *p) { return *p; }
KL_DEV uint64_t kl_cached_u64(const uint64_t *p) { return *p; }
KL_DEV void kl_cached_four(const uint32_t *p, uint32_t *to) { memcpy(to, p, 4 * sizeof *to); }

#define kl_cached_six(p, step, to)                                                      \
    do {                                                                                \
        for (int at_ = 0; at_ < 6; at_++) (to)[at_] = (p)[at_ * (step) / 4];             \
    } while (0)
#define kl_cached_apart(p, step, is, to)                                                \
    do {                                                                                \
        for (int at_ = 0; at_ < 4; at_++) (to)[at_] = (is) ? (p)[at_ * (step) / 8] : 0.0; \
    } while (0)

KL_DEV void kl_put_once(double *p, double v) { *p = v; }
KL_DEV void kl_put_once_pair(double *p, kl_pair v) { p[0] = v.a, p[1] = v.b; }

/* By addresses of shared memory, in bounds and aligned as the machine wants them. */
KL_DEV void *lanes_shared(uint32_t at, uint32_t bytes)
{
    if (at % bytes != 0 || at + bytes > lanes.bytes) fail_msg("%u bytes at %u of %lld in shared memory", bytes, at, (long long)lanes.bytes);
    return lanes.memory + at;
}
KL_DEV double kl_shared_one(uint32_t at) { return *(double *)lanes_shared(at, 8); }
KL_DEV kl_pair kl_shared_pair(uint32_t at) { return *(kl_pair *)lanes_shared(at, 16); }
KL_DEV uint32_t kl_shared_address(const void *p) { return (uint32_t)((const char *)p - lanes.memory); }

KL_DEV double kl_turned(double v, uint32_t sign) { return sign >> 31 ? -v : v; }
KL_DEV uint32_t kl_masked(uint32_t v, uint32_t mask) { return v & mask; }
KL_DEV int kl_bits(uint32_t v) { return __builtin_popcount(v); }
KL_DEV double kl_lane_sum(double v, int over) { return (void)over, lanes.sum += v, v; }

KL_DEV void kl_barrier_init(uint64_t *bar, int count) { *bar = (uint64_t)count; }
KL_DEV void kl_barrier_ready(void) {}
KL_DEV void kl_barrier_expect(uint64_t *bar, int bytes) { (void)bar, (void)bytes; }
KL_DEV void kl_barrier_wait(uint64_t *bar, int phase)
{
    (void)bar, (void)phase;
    if (lanes.arriving) longjmp(lanes.barrier, 1);
}

KL_DEV void kl_bring(void *to, const void *from, int bytes, uint64_t *bar)
{
    (void)bar;
    const int64_t at = (char *)to - lanes.memory;
    if ((uintptr_t)from % 16 != 0 || at % 16 != 0 || bytes % 16 != 0 || at < 0 || at + bytes > lanes.bytes) fail_msg("a copy of %d bytes to %lld", bytes, (long long)at);
    memcpy(to, from, (size_t)bytes);
}
#endif
