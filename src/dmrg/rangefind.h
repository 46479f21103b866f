/* The leading left singular vectors of a wavefunction's sectors, found by products alone: from columns that
   are nearly right already, the basis of the sweep before, and some random ones. Subspace iteration with
   oversampling (Halko, Martinsson, Tropp, SIAM Rev. 53, 217 (2011); in DMRG: McCulloch, Osborne, arXiv
   2403.00562). Knows sectors, but no charges and no selection of states.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANGEFIND_H
#define KL_RANGEFIND_H
#include "dmrg/gramcolumns.h"

/* ORDER KL_RANGE: nothing depends on it */
typedef enum kl_range_mode {
    KL_RANGE_TRIED,   /* `width` columns are tried */
    KL_RANGE_COLUMNS, /* all columns of A are made orthonormal: for few columns and many rows; nothing is left
                         out */
    KL_RANGE_DUAL, /* the same, by way of A^T A: columns are made only where they are kept */
    KL_RANGE_ROWS, /* Q is the identity, for few rows; nothing is left out */
} kl_range_mode;

/* One sector. A: its wavefunctions side by side, rows x (nstate cols), rows being the side that is truncated.
 */
typedef struct kl_range_part {
    kl_range_mode mode;
    int rows, cols; /* cols: of one wavefunction */
    int64_t psi; /* where the sector begins in each wavefunction */
    int nwarm; /* TRIED, one wavefunction: orthonormal columns, cols numbers each, that A^T nearly maps to, */
    int64_t warm; /* from here on in kl_range.warm, the more important last */
    int width; /* columns of Q: TRIED: nwarm <= width <= rows and nstate cols; COLUMNS, DUAL: nstate cols;
                     ROWS: rows */
    int64_t q, bt; /* found: offsets of Q and B^T in kl_range's arrays; q: -1 for ROWS; both: -1
                       for DUAL */
    int64_t gram; /* of a matrix [width x width] among ngram numbers */
} kl_range_part;

typedef struct kl_range {
    /* given; all borrowed */
    kl_exec *ex;
    int transposed; /* 0: sectors are stored rows x cols; 1: cols x rows */
    int nstate;
    int64_t npsi; /* length of one wavefunction */
    kl_dptr psi; /* [nstate][npsi], on the executor */
    kl_dptr warm;
    int npart;
    kl_range_part *part;
    int more; /* passes behind the first product with A and A^T: each squares what columns lack */
    /* found */
    kl_dptr q; /* of each part [rows x width], columns orthonormal */
    kl_dptr bt; /* [nstate cols x width]: A^T Q */
    int64_t nq, nbt, ngram;
    kl_dptr spare;
    int64_t nspare;
    kl_gramcolumns columns; /* of one block a part */
    kl_column_block *block; /* [npart] */
} kl_range;

/* Finds q and bt. Deterministic: yes, on any number of threads. */
kl_status kl_range_find(kl_range *r, kl_err *err) KL_MUST_CHECK;
/* B B^T / divisor of part i, of DUAL A^T A / divisor, both triangles, to off[sec[i]] of to[nto], on the
   executor. */
kl_status kl_range_gram(kl_range *r, int divisor, const int64_t *off, const int *sec, int64_t nto, kl_dptr to,
                        kl_err *err) KL_MUST_CHECK;
/* tri[ngram], host: of each part the triangle R, [width x width] at its `gram`, with A^T Q = P R, P
 * orthonormal; bt is lost. */
kl_status kl_range_triangle(kl_range *r, double *tri, kl_err *err) KL_MUST_CHECK;
/* sum over the parts of |A - Q Q^T A|^2, from that difference itself; wants bt. */
kl_status kl_range_lost(kl_range *r, double *sum, kl_err *err) KL_MUST_CHECK;
/* Columns Q z of each part: z [width x count[i]] at zoff[i] of z, to data at off[i], both on the executor. Of
   DUAL the columns A z, made orthonormal; bt is lost. */
typedef struct kl_range_view {
    const int *count;
    const int64_t *zoff, *off;
    const double *weight; /* [all counts], part after part: |A z|^2 of DUAL; NULL where no part is that */
} kl_range_view;
kl_status kl_range_columns(kl_range *r, const kl_range_view *t, kl_dptr z, int64_t nz, int64_t ndata,
                           kl_dptr data, kl_err *err) KL_MUST_CHECK;
void kl_range_clear(kl_range *r);

#endif
