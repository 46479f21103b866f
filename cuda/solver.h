/* Matrices by cuSOLVER and cuBLAS, several at a time: one of a thousand rows leaves most of the device idle.
   The libraries are looked up at run time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CUDA_SOLVER_H
#define KL_CUDA_SOLVER_H
#include "crew.h"
#include <stdatomic.h>

/* CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER */
enum {
    KL_CUSOLVER_VECTORS = 1,
    KL_CUSOLVER_LOWER = 0,
};

typedef struct kl_cusolver {
    int (*create)(void **);
    int (*destroy)(void *);
    int (*set_stream)(void *, cudaStream_t);
    int (*syevd_size)(void *, int, int, int, const double *, int, const double *, int *);
    int (*syevd)(void *, int, int, int, double *, int, double *, double *, int, int *);
    int (*potrf_size)(void *, int, int, double *, int, int *);
    int (*potrf)(void *, int, int, double *, int, double *, int, int *);
} kl_cusolver;

/* Matrices are taken from the largest to the smallest one by whichever solver is free. */
typedef struct kl_solver_job {
    kl_cuda *self;
    int nmat;
    const int *n, *order; /* rows; largest first */
    /* what is done to matrix i; not 0: what a library said */
    int (*one)(const struct kl_solver_job *j, const kl_cuda_solver *s, int i);
    const char *what; /* for messages */
    atomic_int next;
} kl_solver_job;

/* What a look at the library found, once: looking takes longer than a small matrix. NULL: it is not here. */
const kl_cusolver *kl_cuda_cusolver(void);

/* Opens solver i, once: a handle of cuSOLVER takes tens of milliseconds. 0: it cannot be had. */
int kl_cuda_solver_open(kl_cuda *self, int i);

void kl_cuda_solver_order(int nmat, const int *n, int *order); /* largest first */

/* All matrices by the first nworker solvers, after the event self->done. Back when they are done. */
kl_status kl_cuda_solver_run(kl_solver_job *j, int nworker, kl_err *err);

#endif
