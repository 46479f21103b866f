/* Copies to the device that the host does not wait for. Only C files of the module know of this.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_COPIES_H
#define KL_CUDA_COPIES_H
#include "device.h"

enum {
    KL_RING = 64, /* a list takes one at least: the host may be as far ahead of the device */
    KL_RING_BYTES = 1 << 20, /* of each piece */
};

/* What the pool of device memory works with: the executor, blocks, and pinned memory that copies go through,
   piece by piece in turn. A copy begins when the device comes to it. */
typedef struct kl_cuda_copies {
    kl_cuda *self;
    char *pinned; /* NULL until it is wanted */
    cudaEvent_t sent[KL_RING];
    int next, refused;
    /* Blocks within a limit of the user's: the driver's own pool, which it divides in microseconds, has them.
       -1: it has none */
    int divides;
    void **divided; /* [ndivided] */
    int64_t ndivided, cap_divided;
} kl_cuda_copies;

kl_status kl_cuda_copies_open(kl_cuda *self, void **copies, kl_err *err);
void kl_cuda_copies_close(kl_cuda_copies **c);
/* As kl_cuda_put, for what the executor's own stream alone reads: the device may not have it yet when the
   call returns, unless there are copies on streams of their own (loads.c), which would not wait. */
int kl_cuda_put_later(void *copies, void *to, const void *from, int64_t bytes);

#endif
