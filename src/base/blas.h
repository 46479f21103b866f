/* Which BLAS and LAPACK this process really runs, made to run one thread and the right kernels, and the
   product used for large matrices.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BLAS_H
#define KL_BLAS_H
#include "base/base.h"

typedef struct kl_blas_info {
    /* the loaded files that hold dgemm_, dsyevd_ and omp_get_max_threads */
    char blas_path[512], lapack_path[512], openmp_path[512];
    char blas_version[64];                 /* "BLIS 0.9.0"; empty when it does not say */
    /* what BLIS runs here ("skx", "haswell", ...); empty when it does not say */
    char kernel[48];
    char steered[96];                      /* why BLIS_ARCH_TYPE was set by us; empty when it was not */
} kl_blas_info;

/* Once per process, before the first call of BLAS; later calls cost a test. kl_exec_open_host and everything
   in dense.h call it. It may set BLIS_ARCH_TYPE in the environment, so a program with threads of its own
   should call it before they start. */
void kl_blas_init(void);
const kl_blas_info *kl_blas_about(void);

/* Files of every BLAS, LAPACK and OpenMP library in this process, whoever asked for it: what is called is
   among them, and what is not called may still start threads or take over symbols. Returns how many there
   are; `most` of them are written. */
int kl_blas_loaded(int most, char (*path)[512]);

/* GFLOP/s of dgemm at n x n, best of a few runs in about a millisecond for n = 256; 0 when there is no
   memory. */
double kl_blas_measure(int n);

/* C (m x n) = alpha op(A) op(B) + beta C, column-major; trans is 'N' or 'T'; beta = 0 never reads C. One
   thread. */
void kl_dgemm(char trans_a, char trans_b, int m, int n, int k, double alpha, const double *a, int lda,
              const double *b, int ldb, double beta, double *c, int ldc);

/* y = alpha op(A) x + beta y, A m x n. One thread; what `kronlat bench` compares loops of our own with. */
void kl_dgemv(char trans, int m, int n, double alpha, const double *a, int lda, const double *x, double beta,
              double *y);

#endif
