/* One operation at one size, with random operands and the host's answer: checked, then timed, on any
   executor. What `bench compare` prints and `tune` writes down.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPTIME_H
#define KL_OPTIME_H
#include "exec/exec.h"

/* ORDER KL_TIMED: kl_timed_name, kl_timed_size in optime.c */
typedef enum kl_timed {
    KL_TIMED_COPY,    /* size: length */
    KL_TIMED_AXPY,
    KL_TIMED_DOTS,    /* V^T x, 20 columns; size: rows */
    KL_TIMED_COMBINE, /* V y, 20 columns */
    KL_TIMED_FUSE,    /* the ten inner products of a step of LOBPCG: of 6 vectors, in one pass */
    KL_TIMED_SPMV,    /* y = A x, about 60 elements a row; size: rows */
    KL_TIMED_LIST,    /* 64 products size x size x size */
    /* 8 density matrices as truncation wants them: by LAPACK a quarter of the eigenvectors, by cuSOLVER all;
       size: rows */
    KL_TIMED_EIGEN,
    /* the first two sweeps of DMRG, Hubbard chain of 20 sites, three products with H a bond; size: states
       kept */
    KL_TIMED_SWEEP,
    KL_TIMED_KRON, /* y = H x of exact diagonalization, Hubbard chain at half filling; size: its states */
    KL_TIMED_SIGMA, /* y = H x of full CI without a matrix, half filling; size: determinants */
    KL_TIMED_ROWS, /* the same by rows with elements as they are needed, as of truncated spaces */
    KL_TIMED_BRING, /* the matrix of KL_TIMED_SPMV brought there, as it is, and multiplied once */
    KL_NTIMED
} kl_timed;
extern const char *const kl_timed_name[KL_NTIMED];

enum { KL_OPTIME_ROW = 60 }; /* elements of a row of KL_TIMED_SPMV */

typedef struct kl_optime kl_optime;

/* Operands, and the answer by `host`, which must live as long. */
kl_status kl_optime_create(kl_exec *host, kl_timed what, int64_t size, kl_optime **out,
                           kl_err *err) KL_MUST_CHECK;
void kl_optime_destroy(kl_optime **o);

/* The median of some runs, as a caller sees them: until the result is there. EABSENT: this executor does not
   do it. EBROKEN: the answer differs from the host's. library: 1: as the vendor's library does it; vectors
   then by the device's clock, without launch and wait. */
kl_status kl_optime_run(kl_optime *o, kl_exec *ex, int library, double *seconds, double *residual,
                        kl_err *err) KL_MUST_CHECK;

/* What another layout of a sparse matrix of short rows, or of long ones, costs and gains on a device.
   EABSENT: it has no other. quick: a smaller matrix, for tests. */
kl_status kl_optime_layout(kl_exec *ex, int longer, int quick, kl_layout_cost *out,
                           kl_err *err) KL_MUST_CHECK;

/* Of KL_TIMED_SIGMA and KL_TIMED_ROWS: determinants that one is connected with, as kl_ci_connected counts
   them. */
double kl_optime_connected(int64_t size);

double kl_optime_bytes(const kl_optime *o); /* that memory must move at least; 0: work is counted by flop */
double kl_optime_flop(const kl_optime *o);
/* 1: as much is written as read, or nearly: the ceiling is the copy */
int kl_optime_writes(const kl_optime *o);

#endif
