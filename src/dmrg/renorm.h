/* Truncation of an enlarged block, its operators in the new basis, and the wavefunction carried one site on.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RENORM_H
#define KL_RENORM_H
#include "dmrg/state.h"
#include "dmrg/superblock.h"

/* Devices move what lies at even places in half the time and multiply in tiles of 16 rows and 32 columns, of
   which a sector of 246 states leaves as much unused as 10 more would take. So they keep sectors of even
   dimension, where they have KL_FULL_FROM states on average, and no more states in all than were asked for;
   and then, sectors of many states first, so many more as make these full: multiples of 8, 16 or 32, by size,
   as far as a part of 1 / KL_MORE of what was asked for goes. */
enum { KL_FULL_FROM = 8, KL_MORE = 16 };
int kl_sector_even(int dim, int there); /* of a sector that has no more than so many states */
/* dim[nsec], there[nsec]; at most so many more states */
void kl_sectors_fill(int nsec, int *dim, const int *there, int64_t more);

typedef struct kl_trunc_opts {
    /* states kept at most; a cluster of weights equal to 1e-8 may overshoot it, so may what fills sectors up,
       and nstate are kept in any case */
    int m;
    int m_min;         /* at least, where there are so many with weight */
    double discard;    /* keep no more than leaves this weight out; 0: m alone decides */
    double noise;      /* share of the weight given to the states that H leads to (subspace expansion) */
    int nstate;        /* wavefunctions, averaged with equal weight */
    /* 1: keep m states even where their weight is rounding noise, as fixed-m runs of the literature do */
    int fill;
    /* 1: sectors even and filled up as a device does in any case: see kl_sectors_fill. fill, discard: even
       alone */
    int full;
    /* 1: singular values of the wavefunction, exact to 1e-16 of the largest; 0: density matrix, exact to 1e-8
       of it, faster */
    int precise;
} kl_trunc_opts;

typedef struct kl_trunc_info {
    int m, nsec;
    double discarded; /* sum of the weights left out, added up from the smallest */
    double entropy; /* -sum w ln w of the weights */
    int matrix_max; /* largest matrix diagonalized */
} kl_trunc_info;

/* side LEFT: new basis for the rows of psi (left block (x) site); RIGHT: for the columns. psi
   [nstate][lay->n] on the executor, normalized. grown: the operators of that enlarged block, for the noise.
   The isometry's numbers are in *data, on the executor. */
kl_status kl_truncate(kl_exec *ex, kl_side side, const kl_layout *lay, const kl_enlarged *row,
                      const kl_enlarged *col, kl_dptr psi, const kl_bigop *grown, const kl_trunc_opts *opts,
                      kl_isometry **out, kl_dptr *data, kl_trunc_info *info, kl_err *err) KL_MUST_CHECK;

/* Of n sectors, largest first, how many the executor diagonalizes while the threads of this machine have the
   others; seconds, where that is known: what these take, what it takes, and what the threads would take with
   all. */
int kl_truncate_share(const kl_exec *ex, const int *dim, int n, double seconds[3]);

/* The records of a truncation's density matrices, one after the other, dim(I)^2 numbers each: of `mine`, the
   basis to be truncated, the average of psi psi^T (RIGHT: psi^T psi) over the states; noise: of sum over the
   operators of `grown` of (L psi)(L psi)^T instead. */
kl_status kl_density_records(kl_side side, const kl_layout *lay, const kl_basis *mine, const kl_basis *other,
                             const kl_bigop *grown, int nstate, int noise, kl_batch *b,
                             kl_err *err) KL_MUST_CHECK;

/* Operators of the enlarged block in the basis of the isometry: O^T (block (x) site) O. iso_data: the
   isometry's matrices on the executor. */
kl_status kl_block_grow(kl_exec *ex, const kl_bigop *grown, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err) KL_MUST_CHECK;

/* Carries psi (rows left block (x) site c, columns site c+1 (x) right block) one site on. direction +1:
   `made` is the new isometry of the rows, `used` the one at site c+2 that is opened; -1: mirrored. New layout
   in lay_to. */
kl_status kl_wave_turn(kl_exec *ex, int direction, int nstate, const kl_layout *lay, const kl_enlarged *row,
                       const kl_enlarged *col, const kl_isometry *made, kl_dptr made_data,
                       const kl_isometry *used, kl_dptr used_data, const kl_enlarged *row_to,
                       const kl_enlarged *col_to, const kl_layout *lay_to, kl_dptr psi, kl_dptr psi_to,
                       kl_err *err) KL_MUST_CHECK;

#endif
