/* One step of reduce.cu, for cuda/tridiagonal.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_REDUCE_H
#define KL_CUDA_REDUCE_H
#include "../device.h"
#include "device/tridiagonal.h"

enum { KL_REDUCE_COLUMNS = 32 }; /* of a block */

#ifdef __cplusplus
extern "C" {
#endif
/* 1: matrices of so many rows fit; once before the steps. */
int kl_cuda_reduce_fits(const kl_cuda *self, int largest);
void kl_cuda_reduce_step(const kl_cuda *self, int j, int blocks, int largest,
                         const kl_tridiagonal_matrix *all, const int *owner, double *a,
                         const kl_tridiagonal_vectors *u);
#ifdef __cplusplus
}
#endif
#endif
