/* Small dense products for the host: any shape, transposition and factor, no packing of large panels and
   nothing compiled at run time. DMRG meets thousands of shapes a few times each, with signs, factors and
   transposed operators. libxsmm makes a kernel for each shape (50 to 100 us), for factor 1 and a plain first
   operand only; once made they are no faster from n = 24 on, so they never pay for themselves: `kronlat bench
   gemm`.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GEMM_H
#define KL_GEMM_H

/* C (m x n) = alpha op(A) op(B) + beta C, column-major; op(A) is m x k, op(B) is k x n; ta, tb: 1 transposes.
   beta = 0 never reads C. m, n, k >= 0. C may not overlap A or B. */
typedef void kl_gemm_fn(int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                        const double *b, int ldb, double beta, double *c, int ldc);

/* The same source for three instruction sets (gemm_tmpl.c). */
kl_gemm_fn kl_gemm_avx512, kl_gemm_avx2, kl_gemm_generic;

/* The fastest that this CPU runs; KRONLAT_ISA=avx512|avx2|generic overrides. *name (may be NULL) is set to
   its name. */
kl_gemm_fn *kl_gemm_choose(const char **name);

#endif
