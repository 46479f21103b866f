/* One irrep of a configuration interaction: its space, H on it, start vectors, and its lowest states.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CISECTOR_H
#define KL_CISECTOR_H
#include "ci/ciorbitals.h"
#include "comm/share.h"
#include "ci/pspace.h"
#include "ci/rowsigma.h"
#include "ci/sigma.h"
#include "ci/slater.h"
#include "exec/spmv.h"

enum {
    KL_CISECTOR_GUARD = 1,    /* roots above the wanted ones, at least */
    KL_CISECTOR_PRODUCTS = 20 /* of a root, about: 15 to 25 are seen */
};

typedef struct kl_cisector {
    int irrep;
    kl_detspace *space;
    kl_slater *h;
    kl_spmat *matrix;
    kl_spmv *spmv;
    /* of products without a matrix: in full spaces sigma; else rowsigma, which also makes the rows that a
       matrix has no room for */
    kl_sigma *sigma;
    kl_rowsigma *rowsigma;
    kl_linop op;
    /* [ranks] numbers of y that each makes by sigma or matrix, whose owners all of them stand in order; NULL:
       there are no ranks */
    kl_share_piece *piece;
    kl_dptr x; /* [nvec][n] */
    int nvec, nroot;
    int done; /* stages behind it: 1: coarse, 2: fine */
    kl_pspace block;
    double *energy, *residual; /* [nvec] */
    kl_eig_stats stats;
} kl_cisector;

/* Bytes of the largest matrix that is stored. */
int64_t kl_cisector_memory(const kl_ci_opts *o);

/* What is to be found of an irrep. */
typedef struct kl_cisector_stage {
    int nroot;
    double tol, ceiling; /* roots above the ceiling are followed until they are known to stay there */
    int last; /* 1: nothing comes behind it */
} kl_cisector_stage;

/* Space, H on it and its diagonal, d[n] to be freed (NULL where the space is empty). */
kl_status kl_cisector_open(kl_cisector *s, const kl_ciorbitals *l, kl_exec *ex, const kl_ci_opts *o,
                           const kl_ci_monitor *monitor, kl_ci_block *info, double **d,
                           kl_err *err) KL_MUST_CHECK;
/* The same, and start vectors. */
kl_status kl_cisector_make(kl_cisector *s, const kl_ciorbitals *l, kl_exec *ex, const kl_ci_opts *o,
                           const kl_ci_monitor *monitor, kl_ci_block *info, kl_err *err) KL_MUST_CHECK;
void kl_cisector_clear(kl_cisector *s, kl_exec *ex);
/* keeper: NULL, or the solver's. */
kl_status kl_cisector_solve(kl_cisector *s, const kl_ci_opts *o, const kl_cisector_stage *g,
                            const kl_ci_monitor *monitor, const kl_keeper *keeper, kl_ci_block *info,
                            kl_err *err) KL_MUST_CHECK;

#endif
