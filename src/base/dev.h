/* What host code and kernels have in common: the address in the memory space of an executor, as a type that
   host code cannot dereference by mistake, and the words for functions of kernels that serve CUDA and OpenMP
   regions alike.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DEV_H
#define KL_DEV_H
#include <stdint.h>

#ifndef KL_DEV /* cuda/device.h has others */
#define KL_DEV static inline __attribute__((always_inline))
#define KL_ON_DEVICE /* of functions that the host calls as well */
#endif

typedef struct kl_dptr {
    uintptr_t addr; /* 0: none. Host executors keep a host address here. */
} kl_dptr;

/* The address `elements` doubles further on. */
static inline kl_dptr kl_dptr_at(kl_dptr p, int64_t elements)
{
    kl_dptr q = {p.addr + (uintptr_t)elements * sizeof(double)};
    return q;
}

#endif
