/* What an executor's operations are compared with: other implementations of them, timed by the device's own
   clock. Only benchmarks and tests ask for these.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BASELINES_H
#define KL_BASELINES_H
#include "exec/exec.h"

/* Ways to do one operation, which can be timed against each other. ORDER KL_WAY: kl_way_name in exec.c */
typedef enum kl_way {
    KL_WAY_OWN, /* as the executor does it; V^T x on a GPU: sums of a block by shuffles */
    KL_WAY_SHARED, /* V^T x: the same, sums by a tree in shared memory */
    KL_WAY_LIBRARY, /* the vendor's library: V^T x and V y by gemv */
    KL_WAY_GEMM, /* V^T x by the library's gemm */
    KL_WAY_READ, /* V^T x: nothing but reading as many bytes, the ceiling; out[0] is of no use */
    KL_NWAY
} kl_way;
extern const char *const kl_way_name[KL_NWAY];

/* Operands as those of the entry of that name; COPY: x to y; AXPBY: y = a x + y with a = c[0]. */
typedef struct kl_trial {
    kl_op op; /* COPY, AXPBY, DOTS, COMBINE */
    kl_way way;
    int belt, repeat; /* columns of a pass, 0: as wide as there are; runs that the time is the mean of */
    int64_t n, ldv;
    int nvec;
    kl_dptr v, x, y;
    const double *c;
    double *out; /* DOTS: [nvec] */
    double seconds; /* by the device's clock: launches and waiting of the host do not count */
} kl_trial;

/* H v of a Hubbard model by others' means, to be compared with ours: Tables 1 and 3 of yamada2020. ORDER
   KL_CONTEST; of parts: the diagonal, V A_dn^T, A_up V, V transposed, a product transposed and added. The
   tuned way has the diagonal in V A_dn^T; ours has it in A_up V and transposes nothing. 0: not measured. */
enum { KL_CONTEST_CONVENTIONAL, KL_CONTEST_CUSPARSE, KL_CONTEST_TUNED, KL_CONTEST_OURS, KL_NCONTEST };
typedef struct kl_kron_contest {
    int steps; /* given: of LOBPCG; 0: none */
    double ms[KL_NCONTEST][5], total[KL_NCONTEST];
    /* largest deviation of H v from ours, relative to the largest element */
    double worst[KL_CONTEST_OURS];
    double seconds[KL_NCONTEST], energy[KL_NCONTEST]; /* LOBPCG with `vectors' for all but H v */
    const char *vectors; /* who does what a step does with vectors, one operation after the other */
    double flop; /* of a step of LOBPCG, as the paper counts them */
} kl_kron_contest;

typedef struct kl_baselines {
    /* times a way; EABSENT where that way is not here; may be NULL */
    kl_status (*trial)(kl_exec *ex, kl_trial *t, kl_err *err);
    /* k is prepared; may be NULL */
    kl_status (*kron_contest)(kl_exec *ex, const kl_kron *k, kl_kron_contest *out, kl_err *err);
} kl_baselines;

#endif
