/* All that an eigensolver knows of H: y = H x on a block of vectors, its diagonal, its size, and the executor
   that holds its vectors.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LINOP_H
#define KL_LINOP_H
#include "exec/exec.h"
#include "comm/ranks.h"

typedef struct kl_linop kl_linop;
struct kl_linop {
    int64_t n; /* length of a vector; of this rank's part of it, where ranks share it: */
    /* [ranks + 1], rank r has the numbers from begin[r] to begin[r + 1]; NULL: vectors are whole */
    const int64_t *begin;
    kl_exec *ex; /* where vectors live */
    void *self;
    /* y[nvec][ldy] = H x[nvec][ldx]; vectors contiguous, ldx, ldy >= n in elements; y may not alias x.
       Deterministic for equal input. */
    kl_status (*apply)(const kl_linop *h, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                       kl_err *err);
    kl_dptr diagonal; /* [n], addr 0 when there is none */
    /* entries of a whole vector that are states, where a layout leaves elements between them, which stay 0;
       0: all of them */
    int64_t dim;
    /* v[n]: random where states are; NULL: everywhere */
    kl_status (*random)(const kl_linop *h, uint64_t seed, kl_dptr v, kl_err *err);
    /* y = H x for one vector with *xy = x . y in the same pass, for solvers that would read both again; NULL
       when it saves nothing. */
    kl_status (*apply_dot)(const kl_linop *h, kl_dptr x, kl_dptr y, double *xy, kl_err *err);
    /* y += H x for one vector, with *xy = x . y in the same pass; NULL: cannot. */
    kl_status (*add_dot)(const kl_linop *h, kl_dptr x, kl_dptr y, double *xy, kl_err *err);
};

/* Length of a whole vector. */
static inline int64_t kl_linop_all(const kl_linop *h)
{
    return h->begin ? h->begin[kl_ranks_size(h->ex)] : h->n;
}

static inline int64_t kl_linop_dim(const kl_linop *h) { return h->dim > 0 ? h->dim : kl_linop_all(h); }

#endif
