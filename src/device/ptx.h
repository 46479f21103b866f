/* What NVIDIA's GPUs do that C has no word for, for kernels whose text serves CUDA and bare OpenMP regions
   alike. Loads that are used once pass the caches by (.cs), what nobody writes comes through the read-only
   path (.nc). The host pass compiles these as well and never runs them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PTX_H
#define KL_PTX_H
#include <stdint.h>
#include "base/dev.h"

typedef struct kl_pair {
    double a, b;
} kl_pair;

#if defined(__CUDA_ARCH__) || defined(__NVPTX__)
#define KL_PTX __asm__
#define KL_REGISTER(name, what)                    \
    KL_DEV int name(void)                          \
    {                                              \
        int r;                                     \
        KL_PTX("mov.u32 %0, " what ";" : "=r"(r)); \
        return r;                                  \
    }
KL_REGISTER(kl_in_block, "%%tid.x")
KL_REGISTER(kl_block_size, "%%ntid.x")
KL_REGISTER(kl_block_number, "%%ctaid.x")
KL_REGISTER(kl_block_count, "%%nctaid.x")
#undef KL_REGISTER

KL_DEV void kl_block_sync(void) { KL_PTX volatile("bar.sync 0;" :: : "memory"); }
KL_DEV void kl_warp_sync(void) { KL_PTX volatile("bar.warp.sync 0xffffffff;" :: : "memory"); }

KL_DEV double kl_once(const double *p)
{
    double r;
    KL_PTX("ld.global.cs.f64 %0, [%1];" : "=d"(r) : "l"(p));
    return r;
}

KL_DEV kl_pair kl_once_pair(const double *p)
{
    kl_pair r;
    KL_PTX("ld.global.cs.v2.f64 {%0, %1}, [%2];" : "=d"(r.a), "=d"(r.b) : "l"(p));
    return r;
}

KL_DEV uint32_t kl_once_u32(const uint32_t *p)
{
    uint32_t r;
    KL_PTX("ld.global.cs.u32 %0, [%1];" : "=r"(r) : "l"(p));
    return r;
}

KL_DEV uint32_t kl_once_u16(const uint16_t *p)
{
    uint16_t r;
    KL_PTX("ld.global.cs.u16 %0, [%1];" : "=h"(r) : "l"(p));
    return r;
}

KL_DEV uint64_t kl_once_u64(const void *p)
{
    uint64_t r;
    KL_PTX("ld.global.cs.u64 %0, [%1];" : "=l"(r) : "l"(p));
    return r;
}

KL_DEV void kl_once_two_u64(const void *p, uint64_t *a, uint64_t *b)
{
    KL_PTX("ld.global.cs.v2.u64 {%0, %1}, [%2];" : "=l"(*a), "=l"(*b) : "l"(p));
}

/* 32 bytes that are read a while later come to the second-level cache. */
KL_DEV void kl_prefetch(const double *p) { KL_PTX volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

KL_DEV double kl_cached(const double *p)
{
    double r;
    KL_PTX("ld.global.nc.f64 %0, [%1];" : "=d"(r) : "l"(p));
    return r;
}

KL_DEV kl_pair kl_cached_pair(const double *p)
{
    kl_pair r;
    KL_PTX("ld.global.nc.v2.f64 {%0, %1}, [%2];" : "=d"(r.a), "=d"(r.b) : "l"(p));
    return r;
}

KL_DEV uint32_t kl_cached_u32(const uint32_t *p)
{
    uint32_t r;
    KL_PTX("ld.global.nc.u32 %0, [%1];" : "=r"(r) : "l"(p));
    return r;
}

KL_DEV uint64_t kl_cached_u64(const uint64_t *p)
{
    uint64_t r;
    KL_PTX("ld.global.nc.u64 %0, [%1];" : "=l"(r) : "l"(p));
    return r;
}

KL_DEV void kl_cached_two(const uint32_t *p, uint32_t *to)
{
    KL_PTX("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(p));
}
KL_DEV void kl_cached_four(const uint32_t *p, uint32_t *to)
{
    KL_PTX("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]),
           "=r"(to[3]) : "l"(p));
}

/* Three times two words, `step` bytes apart (a constant where this is called): one address for all, which
   compilers left alone do not find. */
#define kl_cached_twos(p, step, to)                                                                          \
    KL_PTX("ld.global.nc.v2.u32 {%0, %1}, [%6]; ld.global.nc.v2.u32 {%2, %3}, [%6+%7]; ld.global.nc.v2.u32 " \
           "{%4, %5}, [%6+%8];" : "=r"((to)[0]),                                                             \
           "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3]), "=r"((to)[4]), "=r"((to)[5]) : "l"(p), "n"(step),    \
           "n"(2 * (step)))

/* Four words, `step` bytes apart (likewise). */
#define kl_cached_words(p, step, to)                                                                 \
    KL_PTX("ld.global.nc.u32 %0, [%4]; ld.global.nc.u32 %1, [%4+%5]; ld.global.nc.u32 %2, [%4+%6]; " \
           "ld.global.nc.u32 %3, [%4+%7];" : "=r"((to)[0]),                                          \
           "=r"((to)[1]), "=r"((to)[2]), "=r"((to)[3]) : "l"(p), "n"(step), "n"(2 * (step)),         \
           "n"(3 * (step)))

/* Four numbers, `step` bytes apart (likewise), or 0 where not `is`. */
#define kl_cached_apart(p, step, is, to)                                                                     \
    KL_PTX("{ .reg .pred q; setp.ne.s32 q, %5, 0; mov.f64 %0, 0d0000000000000000; mov.f64 %1, "              \
           "0d0000000000000000; mov.f64 %2, 0d0000000000000000; "                                            \
           "mov.f64 %3, 0d0000000000000000; @q ld.global.nc.f64 %0, [%4]; @q ld.global.nc.f64 %1, [%4+%6]; " \
           "@q ld.global.nc.f64 %2, [%4+%7]; "                                                               \
           "@q ld.global.nc.f64 %3, [%4+%8]; }" : "=&d"((to)[0]),                                            \
           "=&d"((to)[1]), "=&d"((to)[2]), "=&d"((to)[3]) : "l"(p), "r"(is), "n"(step), "n"(2 * (step)),     \
           "n"(3 * (step)))

KL_DEV void kl_put_once(double *p, double v)
{
    KL_PTX volatile("st.global.cs.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory");
}
KL_DEV void kl_put_once_pair(double *p, kl_pair v)
{
    KL_PTX volatile("st.global.cs.v2.f64 [%0], {%1, %2};" ::"l"(p), "d"(v.a), "d"(v.b) : "memory");
}

/* From shared memory, by its own addresses: what compilers make of array indices is twice as many
   instructions. */
KL_DEV double kl_shared_one(uint32_t at)
{
    double r;
    KL_PTX volatile("ld.shared.f64 %0, [%1];" : "=d"(r) : "r"(at));
    return r;
}

KL_DEV kl_pair kl_shared_pair(uint32_t at)
{
    kl_pair r;
    KL_PTX volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(r.a), "=d"(r.b) : "r"(at));
    return r;
}

KL_DEV void kl_shared_two(uint32_t at, uint32_t *to)
{
    KL_PTX volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
}

/* v with its sign changed where bit 31 of `sign` is set. */
KL_DEV double kl_flip_sign(double v, uint32_t sign)
{
    uint32_t low, high;
    double r;
    KL_PTX("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "d"(v));
    high ^= sign & 0x80000000u;
    KL_PTX("mov.b64 %0, {%1, %2};" : "=d"(r) : "r"(low), "r"(high));
    return r;
}

/* 1, or -1 where the lowest bit of w is set: a shift that adds. */
KL_DEV double kl_sign_of(uint32_t w)
{
    double r;
    const uint32_t high = (w << 31) + 0x3ff00000u;
    KL_PTX("mov.b64 %0, {%1, %2};" : "=d"(r) : "r"(0), "r"(high));
    return r;
}

/* (v & mask), so that what follows is not drawn into it. */
KL_DEV uint32_t kl_masked(uint32_t v, uint32_t mask)
{
    uint32_t r;
    KL_PTX volatile("and.b32 %0, %1, %2;" : "=r"(r) : "r"(v), "r"(mask));
    return r;
}

/* p, whose making compilers are not to repeat wherever it is used. */
KL_DEV const double *kl_steady(const double *p)
{
    const double *r;
    KL_PTX volatile("mov.b64 %0, %1;" : "=l"(r) : "l"(p));
    return r;
}

KL_DEV int kl_bits(uint32_t v)
{
    int r;
    KL_PTX("popc.b32 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}

KL_DEV double kl_lane_below(double v, int by) /* of the lane `by` further on */
{
    int low, high;
    double r;
    KL_PTX("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "d"(v));
    KL_PTX volatile("shfl.sync.down.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(low) : "r"(by));
    KL_PTX volatile("shfl.sync.down.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(high) : "r"(by));
    KL_PTX("mov.b64 %0, {%1, %2};" : "=d"(r) : "r"(low), "r"(high));
    return r;
}

KL_DEV void kl_add_to(double *p, double v)
{
    KL_PTX volatile("red.global.add.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory");
}

/* Stays where it stands, not where its value is wanted. */
KL_DEV uint64_t kl_early_u64(const uint64_t *p)
{
    uint64_t r;
    KL_PTX volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(r) : "l"(p));
    return r;
}

/* A number and its mark, 16 bytes on a multiple of 16: who looks sees both as one block wrote them, or both
   as they were before. */
KL_DEV void kl_put_word(void *p, double v, uint64_t mark)
{
    KL_PTX volatile("{ .reg .b64 u; .reg .b128 t; mov.b64 u, %1; mov.b128 t, {u, %2}; "
                    "st.relaxed.gpu.global.b128 [%0], t; }" ::"l"(p),
                    "d"(v), "l"(mark) : "memory");
}

KL_DEV void kl_look_word(const void *p, double *v, uint64_t *mark)
{
    KL_PTX volatile("{ .reg .b64 u; .reg .b128 t; ld.relaxed.gpu.global.b128 t, [%2]; mov.b128 {u, %1}, t; "
                    "mov.b64 %0, u; }" : "=d"(*v),
                    "=l"(*mark) : "l"(p) : "memory");
}

KL_DEV uint32_t kl_shared_address(const void *p)
{
    uint64_t a;
    KL_PTX("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
    return (uint32_t)a;
}

KL_DEV void kl_barrier_init(uint64_t *bar, int count)
{
    KL_PTX volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(kl_shared_address(bar)),
                    "r"(count) : "memory");
}
KL_DEV void kl_barrier_arrive(uint64_t *bar)
{
    KL_PTX volatile(
        "{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(kl_shared_address(bar)) : "memory");
}
/* 16 bytes of one thread to shared memory, past the first-level cache, and the arrival of a thread when all
   those that it began are there. */
KL_DEV void kl_bring_pair(void *to, const void *from)
{
    KL_PTX volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(kl_shared_address(to)),
                    "l"(from) : "memory");
}
KL_DEV void kl_barrier_brought(uint64_t *bar)
{
    KL_PTX volatile(
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(kl_shared_address(bar)) : "memory");
}
#if __CUDA_ARCH__ >= 900
/* bulk copies see those begun before */
KL_DEV void kl_barrier_ready(void) { KL_PTX volatile("fence.mbarrier_init.release.cluster;" :: : "memory"); }
KL_DEV void kl_barrier_expect(uint64_t *bar, int bytes)
{
    KL_PTX volatile(
        "{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(kl_shared_address(bar)),
        "r"(bytes) : "memory");
}

KL_DEV void kl_barrier_wait(uint64_t *bar, int phase)
{
    int done = 0;
    while (!done)
        KL_PTX volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(
                done) : "r"(kl_shared_address(bar)),
            "r"(phase) : "memory");
}

/* A run of memory, both ends on 16 bytes, to shared memory; the barrier is told. */
KL_DEV void kl_bring(void *to, const void *from, int bytes, uint64_t *bar)
{
    KL_PTX volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            kl_shared_address(to)),
        "l"(from), "r"(bytes), "r"(kl_shared_address(bar)) : "memory");
}
#else /* sm_80 to sm_89: no bulk copies, and barriers that count no bytes */
KL_DEV void kl_barrier_ready(void) {}
KL_DEV void kl_barrier_expect(uint64_t *bar, int bytes)
{
    if (bytes == 0) kl_barrier_arrive(bar); /* else kl_bring arrives when they are there */
}

KL_DEV void kl_barrier_wait(uint64_t *bar, int phase)
{
    int done = 0;
    while (!done)
        KL_PTX volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, "
                        "0, p; }" : "=r"(done) : "r"(kl_shared_address(bar)),
                        "r"(phase) : "memory");
}

/* By the one thread that calls, which waits: those that want the run wait for it anyway. */
KL_DEV void kl_bring(void *to, const void *from, int bytes, uint64_t *bar)
{
    if (bytes == 0) return;
    for (int i = 0; i < bytes; i += 16) kl_bring_pair((char *)to + i, (const char *)from + i);
    KL_PTX volatile("cp.async.wait_all;" :: : "memory");
    kl_barrier_arrive(bar);
}
#endif
#else
KL_DEV int kl_in_block(void) { return 0; }
KL_DEV int kl_block_size(void) { return 32; }
KL_DEV int kl_block_number(void) { return 0; }
KL_DEV int kl_block_count(void) { return 1; }
KL_DEV void kl_block_sync(void) {}
KL_DEV void kl_warp_sync(void) {}
KL_DEV double kl_once(const double *p) { return *p; }
KL_DEV kl_pair kl_once_pair(const double *p) { return *(const kl_pair *)p; }
KL_DEV uint32_t kl_once_u32(const uint32_t *p) { return *p; }
KL_DEV uint32_t kl_once_u16(const uint16_t *p) { return *p; }
KL_DEV uint64_t kl_once_u64(const void *p) { return *(const uint64_t *)p; }
KL_DEV void kl_once_two_u64(const void *p, uint64_t *a, uint64_t *b)
{
    *a = ((const uint64_t *)p)[0], *b = ((const uint64_t *)p)[1];
}
KL_DEV void kl_prefetch(const double *p) { (void)p; }
KL_DEV double kl_cached(const double *p) { return *p; }
KL_DEV kl_pair kl_cached_pair(const double *p) { return *(const kl_pair *)p; }
KL_DEV uint32_t kl_cached_u32(const uint32_t *p) { return *p; }
KL_DEV uint64_t kl_cached_u64(const uint64_t *p) { return *p; }
KL_DEV void kl_cached_two(const uint32_t *p, uint32_t *to) { to[0] = p[0], to[1] = p[1]; }
KL_DEV void kl_cached_four(const uint32_t *p, uint32_t *to)
{
    to[0] = p[0], to[1] = p[1], to[2] = p[2], to[3] = p[3];
}
#define kl_cached_twos(p, step, to)                                                              \
    do {                                                                                         \
        for (int kl_k = 0; kl_k < 6; kl_k++) (to)[kl_k] = (p)[kl_k / 2 * (step) / 4 + kl_k % 2]; \
    } while (0)
#define kl_cached_words(p, step, to)                                              \
    do {                                                                          \
        for (int kl_k = 0; kl_k < 4; kl_k++) (to)[kl_k] = (p)[kl_k * (step) / 4]; \
    } while (0)
#define kl_cached_apart(p, step, is, to)                                                       \
    do {                                                                                       \
        for (int kl_k = 0; kl_k < 4; kl_k++) (to)[kl_k] = (is) ? (p)[kl_k * (step) / 8] : 0.0; \
    } while (0)
KL_DEV void kl_put_once(double *p, double v) { *p = v; }
KL_DEV void kl_put_once_pair(double *p, kl_pair v) { *(kl_pair *)p = v; }
KL_DEV double kl_shared_one(uint32_t at) { return (double)at; }
KL_DEV kl_pair kl_shared_pair(uint32_t at)
{
    kl_pair r = {(double)at, 0.0};
    return r;
}

KL_DEV void kl_shared_two(uint32_t at, uint32_t *to) { to[0] = at, to[1] = 0; }
KL_DEV double kl_sign_of(uint32_t w) { return w & 1 ? -1.0 : 1.0; }
KL_DEV double kl_flip_sign(double v, uint32_t sign) { return sign >> 31 ? -v : v; }
KL_DEV uint32_t kl_masked(uint32_t v, uint32_t mask) { return v & mask; }
KL_DEV const double *kl_steady(const double *p) { return p; }
KL_DEV int kl_bits(uint32_t v) { return (int)v; }
KL_DEV double kl_lane_below(double v, int by) { return by ? 0.0 : v; }
KL_DEV void kl_add_to(double *p, double v) { *p += v; }
KL_DEV uint64_t kl_early_u64(const uint64_t *p) { return *p; }
KL_DEV void kl_put_word(void *p, double v, uint64_t mark) { *(double *)p = v, ((uint64_t *)p)[1] = mark; }
KL_DEV void kl_look_word(const void *p, double *v, uint64_t *mark)
{
    *v = *(const double *)p, *mark = ((const uint64_t *)p)[1];
}
KL_DEV uint32_t kl_shared_address(const void *p) { return (uint32_t)(uintptr_t)p; }
KL_DEV void kl_barrier_init(uint64_t *bar, int count) { *bar = (uint64_t)count; }
KL_DEV void kl_barrier_ready(void) {}
KL_DEV void kl_barrier_arrive(uint64_t *bar) { --*bar; }
KL_DEV void kl_barrier_expect(uint64_t *bar, int bytes) { *bar += (uint64_t)bytes; }
KL_DEV void kl_barrier_wait(uint64_t *bar, int phase) { *bar += (uint64_t)phase; }
KL_DEV void kl_bring(void *to, const void *from, int bytes, uint64_t *bar)
{
    *(char *)to = *(const char *)from, *bar += (uint64_t)bytes;
}
KL_DEV void kl_bring_pair(void *to, const void *from) { *(char *)to = *(const char *)from; }
KL_DEV void kl_barrier_brought(uint64_t *bar) { --*bar; }
#endif

#if defined(__CUDACC__) || defined(__clang__)
#define KL_UNROLL _Pragma("unroll")
#define KL_ROLLED _Pragma("unroll 1")
#else
#define KL_UNROLL
#define KL_ROLLED
#endif

KL_DEV int64_t kl_thread_number(void) { return (int64_t)kl_block_number() * kl_block_size() + kl_in_block(); }
KL_DEV int kl_lane_number(void) { return kl_in_block() & 31; }

/* Sum over `lanes` neighbours, in the first of them. */
KL_DEV double kl_lane_sum(double s, int lanes)
{
    for (int by = lanes / 2; by > 0; by /= 2) s += kl_lane_below(s, by);
    return s;
}

#endif
