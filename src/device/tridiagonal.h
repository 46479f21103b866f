/* What both executors' reductions of symmetric matrices to tridiagonal ones share (cuda/tridiagonal.c,
   offload/reduce.c): how matrices of a call lie beside one another, which blocks work on which, what a launch
   reads and writes. All matrices of a call are reduced side by side, a launch a row.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TRIDIAGONAL_H
#define KL_TRIDIAGONAL_H
#include "base/dev.h"
#include <math.h>

#ifdef __CUDACC__
#define KL_SQRT sqrt
#define KL_COPYSIGN copysign
#else
#define KL_SQRT __builtin_sqrt
#define KL_COPYSIGN __builtin_copysign
#endif

enum {
    KL_TRIDIAGONAL_COLUMNS = 4, /* that a warp has at a time */
    KL_TRIDIAGONAL_STRIPS = 4,  /* of 32 rows in flight */
    KL_TRIDIAGONAL_VECTORS = 6  /* of all rows, on the device */
};

/* A matrix: n rows, elements from off on, vectors from at on; its first block, and how many. */
typedef struct kl_tridiagonal_matrix {
    int64_t off;
    int32_t n, at, first, blocks;
} kl_tridiagonal_matrix;

/* What a step reads and writes: vectors of all matrices, one after the other. */
typedef struct kl_tridiagonal_vectors {
    const double *v, *p; /* of the step before */
    double *next_v, *next_p, *d, *e;
} kl_tridiagonal_vectors;

/* tau, and what w = tau p - share v takes of v. */
KL_DEV double kl_tridiagonal_factors(double pv, double vv, double *share)
{
    const double tau = vv > 0.0 ? 2.0 / vv : 0.0;
    *share = 0.5 * tau * tau * pv;
    return tau;
}

/* Of a column with the element x below the diagonal and the squares of all under it: the tridiagonal matrix'
   element, and the factor of the new v, 0 where there is nothing to be done. */
KL_DEV double kl_tridiagonal_reflected(double x, double squares, double *scale)
{
    if (!(squares > 0.0) && squares == squares) {
        *scale = 0.0;
        return x;
    }
    const double alpha = -KL_COPYSIGN(KL_SQRT(x * x + squares), x);
    *scale = 1.0 / (x - alpha);
    return alpha;
}

/* The matrices by their rows, largest first, so that those that are done first come last, and the blocks that
   each has, by what it is of the work of two blocks a multiprocessor; columns: of a block; 0: a row is a
   block. order[2 * nmat] is room. Returns the number of blocks. */
static inline int64_t kl_tridiagonal_lay_out(int nmat, const int *n, const int64_t *off, int nsm, int columns,
                                             int *order, kl_tridiagonal_matrix *table)
{
    double squares = 0;
    int64_t work = 0;
    int *const at = order + nmat; /* where vectors begin */
    for (int i = 0; i < nmat; i++) {
        int k = i;
        squares += (double)n[i] * n[i];
        at[i] = i > 0 ? at[i - 1] + n[i - 1] : 0;
        for (; k > 0 && n[order[k - 1]] < n[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (int k = 0; k < nmat; k++) {
        const int rows = n[order[k]];
        const int share = (int)ceil(2.0 * nsm * rows * rows / squares);
        const int most = columns > 0 ? (rows + columns - 1) / columns : rows;
        table[k].off = off[order[k]];
        table[k].n = rows;
        table[k].at = at[order[k]];
        table[k].first = (int32_t)work;
        table[k].blocks = columns > 0 && share < most ? share : most;
        work += table[k].blocks;
    }
    return work;
}

/* owner[...]: the matrix of each block. */
static inline void kl_tridiagonal_owners(int nmat, const kl_tridiagonal_matrix *table, int *owner)
{
    for (int i = 0; i < nmat; i++)
        for (int k = 0; k < table[i].blocks; k++) owner[table[i].first + k] = i;
}

/* Those of step j, which take turns: vector[KL_TRIDIAGONAL_VECTORS * total] on the device, the diagonals from
   4 * total on, then what is beside them. */
static inline kl_tridiagonal_vectors kl_tridiagonal_turn(double *vector, int64_t total, int j)
{
    const int odd = j & 1;
    kl_tridiagonal_vectors u;
    u.v = vector + (odd ? 0 : total);
    u.p = vector + (odd ? 2 * total : 3 * total);
    u.next_v = vector + (odd ? total : 0);
    u.next_p = vector + (odd ? 3 * total : 2 * total);
    u.d = vector + 4 * total;
    u.e = vector + 5 * total;
    return u;
}

/* Blocks of the matrices that have a row j; *active: of the steps before, nmat at first. */
static inline int kl_tridiagonal_blocks(const kl_tridiagonal_matrix *table, int j, int *active)
{
    while (*active > 0 && table[*active - 1].n <= j) --*active;
    return *active > 0 ? table[*active - 1].first + table[*active - 1].blocks : 0;
}

/* The first matrix with an element that is not finite; -1: none. */
static inline int kl_tridiagonal_broken(int nmat, const int *n, const double *d, const double *e)
{
    int64_t at = 0;
    for (int i = 0; i < nmat; at += n[i++])
        for (int k = 0; k < n[i]; k++)
            if (!isfinite(d[at + k]) || !isfinite(e[at + k])) return i;
    return -1;
}

#endif
