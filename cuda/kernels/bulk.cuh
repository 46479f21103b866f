/* Shared memory as bulk copies and their barriers name it, and waiting for such a barrier.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_BULK_CUH
#define KL_CUDA_BULK_CUH
#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ unsigned kl_shared_at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void kl_bulk_wait(uint64_t *bar, int phase)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* no bulk copies either: threads carry (fuse.cu) */
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again: mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(kl_shared_at(bar)),
                 "r"(phase)
                 : "memory");
#else
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(kl_shared_at(bar)),
                 "r"(phase)
                 : "memory");
#endif
}

#endif
