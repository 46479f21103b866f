/* Blocks of long columns made orthonormal by Gram matrices: all work with the columns is lists of products
   that any executor runs; matrices as wide as a block visit the host, whose threads take a block each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GRAMCOLUMNS_H
#define KL_GRAMCOLUMNS_H
#include "exec/exec.h"
#include "record/record.h"

typedef struct kl_column_block {
    int rows, width;
    int64_t at; /* where it begins; -1: there is nothing of it */
    int64_t gram; /* set by kl_gramcolumns_open: of its [width x width] in Gram matrices and triangles */
} kl_column_block;

/* Room for passes over blocks of these widths. */
typedef struct kl_gramcolumns {
    kl_exec *ex; /* borrowed */
    int nblock;
    int *order; /* [nblock] widest first */
    int64_t ngram;
    kl_dptr gram; /* [ngram] */
    double *small; /* [ngram] host */
    char *sorted; /* [nblock] the last pass's: see kl_gram_found */
    double *work; /* host, of each thread */
    int64_t nwork;
} kl_gramcolumns;

/* Sets the blocks' gram. Widths stay as they are from here on. */
kl_status kl_gramcolumns_open(kl_exec *ex, int nblock, kl_column_block *block, kl_gramcolumns *out,
                              kl_err *err) KL_MUST_CHECK;
void kl_gramcolumns_close(kl_gramcolumns *g);

/* alpha Y^T Y into Y at `to': of the columns Y[n][rows] in X at `at'. */
kl_rec kl_gram_rec(int rows, int n, int64_t at, double alpha, int64_t to);

/* Where the columns are: *data and *spare, of `length` numbers each, may change places. */
typedef struct kl_gramcolumns_at {
    const kl_column_block *block; /* [nblock] */
    kl_dptr *data, *spare;
    int64_t n; /* numbers of *data that blocks lie in */
} kl_gramcolumns_at;

/* What becomes of columns that depend on the others. */
typedef enum kl_dependent {
    KL_DEPENDENT_ZERO, /* they become zero; zero columns stay so */
    KL_DEPENDENT_REPLACED, /* others take their place, so that all are orthonormal */
} kl_dependent;

/* What is tried first, of all blocks that are asked for together. */
typedef enum kl_gramcolumns_first {
    KL_FIRST_PASSES,
    KL_FIRST_PRODUCTS, /* they may be nearly orthonormal: products alone are enough then; looks first */
    /* inverse Cholesky factors made on the executor (roots.h), behind which products are enough where columns
       hardly depend on each other: nothing visits the host then */
    KL_FIRST_ROOTS,
} kl_gramcolumns_first;

typedef struct kl_gramcolumns_opts {
    const char *asked; /* [nblock]: 1: this block; the others stay as they are; NULL: all that are there */
    const char *once; /* [nblock]: 1: one pass is enough for this block; NULL: none is */
    kl_dependent dependent;
    kl_gramcolumns_first first; /* without once and tri, unless KL_FIRST_PASSES */
    /* NULL, or [ngram] on the host, ones on diagonals before: R with Y = Q R, upper triangles unless small
       columns stand before far larger ones; */
    double *tri;
    int only_tri; /* 1: the columns themselves are left unfinished then */
} kl_gramcolumns_opts;

/* Deterministic: yes, on any number of threads. */
kl_status kl_gramcolumns_run(kl_gramcolumns *g, const kl_gramcolumns_at *at, const kl_gramcolumns_opts *o,
                             kl_err *err) KL_MUST_CHECK;
/* Ones on the diagonals of tri, zeros elsewhere. */
void kl_gramcolumns_unit(const kl_gramcolumns *g, const kl_column_block *block, double *tri);

#endif
