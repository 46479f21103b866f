/* y = A x and Y = A X for stored sparse matrices, behind one interface for every format and executor.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPMV_H
#define KL_SPMV_H
#include "exec/exec.h"
#include "sparse/spmat.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KL_SPMV_MAX_VEC 16

/* How a device goes about it; the host knows AUTO alone. ORDER KL_SPWAY: names in spmv.c */
typedef enum kl_spway {
    /* CSR: what was measured to be fastest for such matrices and this number of products (kl_spway_choose);
       other formats: with their own layout */
    KL_SPWAY_AUTO,
    KL_SPWAY_THREAD, /* a thread a row: ELL and sliced forms as stored (mahmoud2018, Alg. 2 to 5) */
    KL_SPWAY_WARP, /* a warp, or a part of one, a row: CSR, and both parts of the hybrid (Alg. 7) */
    KL_SPWAY_WARPS, /* two warps a row: one for each part of the hybrid (section 4.2) */
    /* a warp a row; columns as steps of 8 or 16 bits, the first part of x in shared memory */
    KL_SPWAY_PACKED,
    KL_SPWAY_TILES, /* a lane a row; dense columns by blocks of x in shared memory */
    KL_SPWAY_CUSPARSE, /* the library's best algorithm: a yardstick */
    KL_SPWAY_CSR5, /* Liu and Vinter 2015: a yardstick */
    KL_NSPWAY
} kl_spway;

typedef struct kl_spmv kl_spmv;
struct kl_spmv {
    kl_exec *ex;
    const kl_spmat *m; /* borrowed */
    kl_spway way; /* asked for, then taken; of the host AUTO */
    int threads; /* of a block, 0: chosen */
    int64_t products; /* see below */
    int64_t pays; /* products from which on AUTO would lay it out anew; 0: it would not */
    double seconds; /* that it took to lay the matrix out and to bring it there */
    void *plan; /* the executor's */
};

/* Prepares a matrix for products on an executor. The matrix is borrowed and must stay as it is. products:
   about how many vectors it will be multiplied with. A faster layout that has to be made first is worth its
   time for many only. */
#define KL_SPMV_MANY INT64_MAX
kl_status kl_spmv_create(kl_exec *ex, const kl_spmat *m, int64_t products, kl_spmv **out,
                         kl_err *err) KL_MUST_CHECK;
/* The same by a way of one's choice, with a number of threads a block (0: chosen). EABSENT: this executor, or
   this format, does not know that way. */
kl_status kl_spmv_create_way(kl_exec *ex, const kl_spmat *m, kl_spway way, int threads, kl_spmv **out,
                             kl_err *err) KL_MUST_CHECK;
void kl_spmv_destroy(kl_spmv **s);
const char *kl_spway_name(kl_spway way);

/* y[nvec][ldy] = A x[nvec][ldx], vectors contiguous, any nvec >= 0 (in groups of at most 16); y may not alias
   x. The same bits whatever the number of threads and from run to run; halves of symmetric matrices on a
   device may differ in the last bits. */
kl_status kl_spmv_apply(kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                        kl_err *err) KL_MUST_CHECK;

/* Bytes that one product with nvec vectors must move at least: the arrays of the format, x and y once. */
int64_t kl_spmv_bytes(const kl_spmat *m, int nvec);

/* spmv_tmpl.c, compiled for 16- and 32-bit columns: units [from, to) (rows; slices of sliced ELL) of Y = A X,
   x [ncol][nv], y [nrow][nv], nv 1, 2, 4, 8 or 16. Symmetric halves: adds to the mirrored rows in z
   [nrow][nv], and writes y without them. */
typedef void kl_spmv_units(const kl_spmat *m, int64_t from, int64_t to, int nv, const double *x, double *y,
                           double *z);
kl_spmv_units kl_spmv_units_16, kl_spmv_units_32;

/* The same for one vector, whole matrices of rows (CSR, HYBRID) and at most 2^31 columns, on x86 processors
   with AVX2. */
typedef void kl_spmv_rows(const kl_spmat *m, int64_t from, int64_t to, const double *x, double *y);
kl_spmv_rows kl_spmv_rows_gathered_16, kl_spmv_rows_gathered_32;

#ifdef __cplusplus
}
#endif
#endif
