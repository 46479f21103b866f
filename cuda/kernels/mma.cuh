/* What the kernel of products asks of the GPU that C++ has no word for: copies to shared memory, barriers
   that count arrivals, products on FP64 tensor cores.

   An older GPU, before Hopper (sm_80 to sm_89), has the smallest product alone and barriers that are looked
   at, not slept on. Registers move between warps on those GPUs alone whose own features are asked for
   (90a, 100a): elsewhere every warp has the same number.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_MMA_CUH
#define KL_CUDA_MMA_CUH
#include <cuda_runtime.h>
#include <stdint.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define KL_OLDER_GPU 1
#else
#define KL_OLDER_GPU 0
#endif
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(__CUDA_ARCH_SPECIFIC__) && \
    !defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#define KL_EQUAL_REGISTERS 1
#else
#define KL_EQUAL_REGISTERS 0
#endif

namespace
{

__device__ __forceinline__ void copy16(uint32_t to, const double *from)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy16_part(uint32_t to, const double *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy8_part(uint32_t to, const double *from, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0],[%1],8,%2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_init(uint32_t b, int n)
{
    asm volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(b), "r"(n) : "memory");
}
__device__ __forceinline__ void barriers_ready()
{
#if !KL_OLDER_GPU
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ __forceinline__ void arrive(uint32_t b)
{
    asm volatile("mbarrier.arrive.shared.b64 _,[%0];" ::"r"(b) : "memory");
}
__device__ __forceinline__ void arrive_after_copies(uint32_t b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b) : "memory");
}
__device__ __forceinline__ void wait(uint32_t b, uint32_t phase)
{
#if KL_OLDER_GPU
    asm volatile("{.reg .pred p; W: mbarrier.test_wait.parity.shared.b64 p,[%0],%1; @!p bra W;}" ::"r"(b),
                 "r"(phase)
                 : "memory");
#else
    asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p,[%0],%1; @!p bra W;}" ::"r"(b),
                 "r"(phase)
                 : "memory");
#endif
}
/* All warps of four neighbours together give registers back, and take what others gave. */
template <int N>
__device__ __forceinline__ void fewer_registers()
{
#if !KL_EQUAL_REGISTERS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N>
__device__ __forceinline__ void more_registers()
{
#if !KL_EQUAL_REGISTERS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
__device__ __forceinline__ double2 load2(uint32_t a)
{
    double2 v;
    asm volatile("ld.shared.v2.f64 {%0,%1},[%2];" : "=d"(v.x), "=d"(v.y) : "r"(a));
    return v;
}
__device__ __forceinline__ double load1(uint32_t a)
{
    double v;
    asm volatile("ld.shared.f64 %0,[%1];" : "=d"(v) : "r"(a));
    return v;
}
#if KL_OLDER_GPU
/* m8n8k4 is all there is. Registers stand as in the larger products: a[2 q] and a[2 q + 1] are rows g and
   g + 8 at the values of k of quarter q. */
__device__ __forceinline__ void multiply4(double *c, double a, double b)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(a), "d"(b));
}
__device__ __forceinline__ void multiply8(double (&c)[4], const double *a, const double *b)
{
#pragma unroll
    for (int q = 0; q < 2; q++) {
        multiply4(c, a[2 * q], b[q]);
        multiply4(c + 2, a[2 * q + 1], b[q]);
    }
}
#else
__device__ __forceinline__ void multiply16(double (&c)[4], const double *a, const double *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15},{%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
                   "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}
__device__ __forceinline__ void multiply8(double (&c)[4], const double *a, const double *b)
{
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#endif

} // namespace
#endif
