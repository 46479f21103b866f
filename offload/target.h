/* Every spelling of a target region, launch sizes, and what a compiler needs to be told, in one place.

   A kernel is the body of a loop over t, or a function of (t, T) that works in strides of T, so the same text
   runs on any target. It is started in one of two forms: FLAT, a combined directive that every target has, or
   BARE, the compiler's extension for GPUs without the runtime's bookkeeping (half the launch time, registers
   as a native kernel has them). A bare region exists in images for NVIDIA GPUs only and crashes on a host
   device: it is entered only when the probe of exec.c met such a GPU.

   Facts that the rules here come from (clang 22): -fopenmp-cuda-mode always, or arrays on the stack move to
   the heap and OpenMPOpt may empty a kernel without a word; int indices; no reduction clauses (a third of the
   bandwidth); host and device pass must capture the same variables in the same order; no region but combined
   ones and what the compiler makes such (KL_TEAMS), or all of the program's launches become slow
   (exec.c).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TARGET_H
#define KL_TARGET_H
#include <stdint.h>
#include "config.h"
#include "device/reduce_device.h"

#define KL_PRAGMA(...) _Pragma(#__VA_ARGS__)

enum {
    KL_BLOCK = 256 /* threads of a team in streaming kernels */,
    KL_REDUCE = KL_BLOCK /* doubles of shared memory that adding up their sums takes */
};

#define KL_FLAT(NT, ...) \
    KL_PRAGMA(omp target teams distribute parallel for num_teams(NT) thread_limit(256) __VA_ARGS__)
/* A number of threads that is no constant, or the compiler takes it for its only budget of registers,
   whatever the file was given. */
#define KL_FLAT_OF(NT, NTHREAD, ...) \
    KL_PRAGMA(omp target teams distribute parallel for num_teams(NT) thread_limit(NTHREAD) __VA_ARGS__)
/* Teams whose threads share memory and meet at barriers: what stands in it is that memory and one parallel
   region. The compiler then makes of it what it makes of a combined directive. */
#define KL_TEAMS(NT, NTHREAD, ...) KL_PRAGMA(omp target teams num_teams(NT) thread_limit(NTHREAD) __VA_ARGS__)
#define KL_BARE(NT, NTHREAD, BYTES, ...)                                                                \
    KL_PRAGMA(omp target teams ompx_bare num_teams(NT) thread_limit(NTHREAD) ompx_dyn_cgroup_mem(BYTES) \
                  __VA_ARGS__)

/* Runs BODY for every t < COUNT, one thread each, neighbours on neighbouring numbers; CLAUSES name what it
   captures. Where memory is the limit, short-lived blocks in their order beat blocks that stay and stride:
   4.2 against 3.9 TB/s. */
#if KL_OFFLOAD_BARE
#define KL_KERNEL(self, COUNT, BODY, ...)                                              \
    do {                                                                               \
        const int kl_count = (COUNT), kl_teams = (kl_count + KL_BLOCK - 1) / KL_BLOCK; \
        if (kl_count > 0 && (self)->bare) {                                            \
            KL_BARE(kl_teams, 256, 0, __VA_ARGS__ firstprivate(kl_count))              \
            {                                                                          \
                const int t = kl_thread();                                             \
                if (t < kl_count) BODY;                                                \
            }                                                                          \
        } else if (kl_count > 0) {                                                     \
            KL_FLAT(kl_teams, __VA_ARGS__ firstprivate(kl_count))                      \
            for (int t = 0; t < kl_count; t++) BODY;                                   \
        }                                                                              \
    } while (0)
#else
#define KL_KERNEL(self, COUNT, BODY, ...)                                                                 \
    do {                                                                                                  \
        const int kl_count = (COUNT), kl_teams = kl_teams_of(self, (kl_count + KL_BLOCK - 1) / KL_BLOCK); \
        if (kl_count > 0) {                                                                               \
            KL_FLAT(kl_teams, __VA_ARGS__ firstprivate(kl_count))                                         \
            for (int t = 0; t < kl_count; t++) BODY;                                                      \
        }                                                                                                 \
    } while (0)
#endif

/* REGION(BYTES, NV) for widths of an index or step and for numbers of vectors: regions of their own, since
   what could be any number takes registers. */
#define KL_BY_SIZE(REGION, NARROW, WIDE, bytes, nv)            \
    do {                                                       \
        if (bytes == NARROW && nv == 2) REGION(NARROW, 2)      \
        else if (bytes == NARROW && nv == 4) REGION(NARROW, 4) \
        else if (bytes == NARROW && nv == 8) REGION(NARROW, 8) \
        else if (bytes == NARROW) REGION(NARROW, 16)           \
        else if (nv == 2) REGION(WIDE, 2)                      \
        else if (nv == 4) REGION(WIDE, 4)                      \
        else if (nv == 8) REGION(WIDE, 8)                      \
        else REGION(WIDE, 16)                                  \
    } while (0)

/* moves as one access where the address is a multiple of 16 */
typedef double kl_two __attribute__((vector_size(16)));

/* What a bare region knows of itself. The host pass compiles these as well and never runs them. */
#ifdef __NVPTX__
static inline int kl_thread(void)
{
    return (int)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
                 __nvvm_read_ptx_sreg_tid_x());
}
static inline int kl_threads(void)
{
    return (int)(__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x());
}
static inline int kl_add(int *p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
extern void *llvm_omp_target_dynamic_shared_alloc(void);
/* Of the lane whose number differs in those bits. */
static inline double kl_shuffle(double v, int bits)
{
    union {
        double d;
        int i[2];
    } u = {.d = v};
    u.i[0] = __nvvm_shfl_sync_bfly_i32(~0u, u.i[0], bits, 31);
    u.i[1] = __nvvm_shfl_sync_bfly_i32(~0u, u.i[1], bits, 31);
    return u.d;
}
/* One step of kl_warp_sums: lanes `half` apart. Constants are known where this is used, or v would lie in
   memory. */
static inline __attribute__((always_inline)) void kl_sum_step(const int P, const int half, double *v)
{
    const int upper = (__nvvm_read_ptx_sreg_tid_x() & half) != 0;
    _Pragma("clang loop unroll(full)") for (int j = 0; j < (half < P ? half : P); j++)
    {
        const double low = v[j], high = half < P ? v[j + half] : low,
                     other = kl_shuffle(upper ? low : high, half);
        v[j] = (upper ? high : low) + other;
    }
}
/* s[n] of all lanes added up: lane j returns number j, j < n <= 32. Each step halves what a lane still
   carries, so that many take hardly more shuffles than 32 lanes. */
static inline __attribute__((always_inline)) double kl_warp_sums(const int n, const double *s)
{
    const int P = n <= 1 ? 1 : n <= 2 ? 2 : n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32;
    double v[32];
    _Pragma("clang loop unroll(full)") for (int j = 0; j < P; j++) v[j] = j < n ? s[j] : 0.0;
    kl_sum_step(P, 16, v), kl_sum_step(P, 8, v), kl_sum_step(P, 4, v), kl_sum_step(P, 2, v),
        kl_sum_step(P, 1, v);
    return v[0];
}
/* s[n], n <= 32, of all threads of a block, KL_BLOCK of them, added up: thread j returns number j, j < n; n
   is a constant where this is used. What threads had in the shared memory of the launch, KL_REDUCE doubles at
   its beginning, they no longer need. */
static inline __attribute__((always_inline)) double kl_block_sums(const int n, const double *s)
{
    double *const shared = llvm_omp_target_dynamic_shared_alloc();
    const int me = (int)__nvvm_read_ptx_sreg_tid_x();
    const double a = kl_warp_sums(n, s);
    double b = 0.0;
    if (me % 32 < n) shared[me / 32 * n + me % 32] = a;
    kl_block_sync();
    if (me < n)
        for (int w = 0; w < KL_BLOCK / 32; w++) b += shared[w * n + me];
    return b;
}
/* Those of all blocks into result[n]. */
static inline __attribute__((always_inline)) void kl_reduce(const int n, const double *s, uint64_t launch,
                                                            kl_slot *slot, double *result)
{
    kl_reduce_blocks(KL_BLOCK, n, kl_block_sums(n, s), launch, slot, result,
                     llvm_omp_target_dynamic_shared_alloc());
}
/* Those of each block into result[block][n], for the host to add up: where they are few, it has done so
   before a block would have met those of all others. */
static inline __attribute__((always_inline)) void kl_post(const int n, const double *s, double *result)
{
    const int me = (int)__nvvm_read_ptx_sreg_tid_x();
    const double b = kl_block_sums(n, s);
    if (me < n) result[(int)__nvvm_read_ptx_sreg_ctaid_x() * n + me] = b;
}
#else
static inline int kl_thread(void) { return 0; }
static inline int kl_threads(void) { return 1; }
static inline void kl_reduce(const int n, const double *s, uint64_t launch, kl_slot *slot, double *result)
{
    (void)n, (void)s, (void)launch, (void)slot, (void)result;
}
static inline void kl_post(const int n, const double *s, double *result) { (void)n, (void)s, (void)result; }
#endif

#endif
