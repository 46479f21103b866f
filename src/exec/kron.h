/* H as a sum of Kronecker products on two halves of a system, each half's states sorted by charge: what exact
   diagonalization applies. A vector is a row of blocks, one for each pair of sectors whose charges sum to the
   target; nothing of the size of the full space is stored. Knows neither sites nor operators. Who fills the
   tables is ed.c; executors only read them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRON_H
#define KL_KRON_H
#include "base/base.h"
#include "base/dev.h"

typedef struct kl_kron kl_kron;

enum { KL_KRON_LANES = 8 }; /* right states side by side in a tile */

/* Sparse matrix of one half between two of its sectors, by rows. When all entries are of one size (unit), a
   row lists those of +scale first, then those of -scale, and a product with it takes additions only. Columns
   are 16-bit where they fit: the lists are read once for every tile of a vector. */
typedef struct kl_kron_op {
    int64_t nrow, ncol, nnz;
    int unit;
    double scale;
    uint32_t *ptr; /* [nrow + 1] */
    uint32_t *minus; /* unit: [nrow], first entry with minus; else NULL */
    uint16_t *idx16; /* one of these two, [nnz] */
    uint32_t *idx32;
    double *coef; /* not unit: [nnz] */
} kl_kron_op;

/* y of the block that lists it += (a (x) b) x of block `source`. */
typedef struct kl_kron_cross {
    kl_kron_op *a, *b;
    int64_t source;
} kl_kron_cross;

/* One pair of sectors: nl left states times nr right states. Element (l, r) lies at off + ((r / 8) * nl + l)
   * 8 + r % 8: a tile of 8 right states is one run of memory for all l, so a left operator works on a run
   that a cache holds, and a right one on 8 left states transposed in registers. Elements of a last tile
   beyond nr are 0 in every vector and stay so: the diagonal holds a number there that lies above all of H.

   Diagonal(l, r) = dl[l] + dr[r] + sum over bits k of mask[l]: bits[k][r] + sum_k fl[l][k] fr[k][r]. */
typedef struct kl_kron_block {
    int64_t off, nl, nr, ntile;
    int64_t first_tile; /* tiles of the blocks before */
    kl_kron_op *a, *b; /* a (x) 1 and 1 (x) b without their diagonals; NULL: none */
    double *dl; /* [nl] */
    double *dr; /* [8 ntile] */
    int nbit; /* <= 64 */
    uint64_t *mask; /* [nl] */
    double *bits; /* [nbit][8 ntile] */
    int nfeature;
    double *fl; /* [nl][nfeature] */
    double *fr; /* [nfeature][8 ntile] */
    int64_t ncross;
    kl_kron_cross *cross;
    double cost_left, cost_right; /* of one tile, and of 8 left states; for the partition between threads */
} kl_kron_block;

struct kl_kron {
    int64_t n; /* length of a vector, the unused ends of last tiles included */
    /* of y; behind these block[] may go on with blocks that are only read, from cross.source: x is
       longer than y then */
    int64_t nblock;
    kl_kron_block *block;
    int64_t ntile_max, ntile_all;
    double flop; /* of one product */
    void *device; /* an executor's own copy */
};

/* What y = (1 (x) b) x reads beside x, where b of the one block has more columns than the block has right
   states: tile ntile + t of x, left states [first, last) of it, at x + t * 8 (last - first). first is a
   multiple of 8, and so is last, or it is nl. */
typedef struct kl_kron_beyond {
    kl_dptr x;
    int64_t first, last;
} kl_kron_beyond;

void kl_kron_op_destroy(kl_kron_op **o);
void kl_kron_destroy(kl_kron **k);

/* Of its diagonal the elements from begin to end, which are borders of tiles. */
void kl_kron_diagonal(const kl_kron *k, int64_t begin, int64_t end, double *d);

/* Bytes of the tables. */
int64_t kl_kron_bytes(const kl_kron *k);

#endif
