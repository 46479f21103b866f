/* Sparse products of the CUDA overlay.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPMV_CUDA_H
#define KL_SPMV_CUDA_H
#include "spdev.h"
#include <cuda_runtime.h>

#ifndef KL_PACKED_THREADS
enum { KL_PACKED_THREADS = 448 }; /* of a block: 14 warps, 144 registers a thread */
#endif

/* Starts y = A x for 1 to 16 vectors on the stream; nblock: multiprocessors. */
void kl_cuda_spmv_launch(const kl_spdev *d, cudaStream_t stream, int nblock, int nvec, int nv, const double *x, int64_t ldx, double *y, int64_t ldy);

#endif
