/* One step of reduce.cu, for cuda/tridiagonal.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_REDUCE_H
#define KL_CUDA_REDUCE_H
#include "../device.h"

enum { KL_REDUCE_COLUMNS = 32 }; /* of a block */

/* A matrix: elements from off on, vectors from at on; its first block, and how many. */
typedef struct kl_reduce_matrix {
    int64_t off;
    int n, at, first, blocks;
} kl_reduce_matrix;

/* What a step reads and writes: vectors of all matrices, one after the other. */
typedef struct kl_reduce_vectors {
    const double *v, *p; /* of the step before */
    double *next_v, *next_p, *d, *e;
} kl_reduce_vectors;

#ifdef __cplusplus
extern "C" {
#endif
/* 1: matrices of so many rows fit; once before the steps. */
int kl_cuda_reduce_fits(const kl_cuda *self, int largest);
void kl_cuda_reduce_step(const kl_cuda *self, int j, int blocks, int largest, const kl_reduce_matrix *all,
                         const int *owner, double *a, const kl_reduce_vectors *u);
#ifdef __cplusplus
}
#endif
#endif
