/* Problems with H that are larger than a device (nemes2014, sections 1 and 6, for what is not a list):
   what does not fit lies in memory of the host that the device reaches, and comes by during the products,
   a piece being copied while the one before is multiplied.

   A stored matrix comes by in groups of rows, each laid out for the device once; as many as the device has
   room for stay there. Where vectors do not fit either, they are the host's: its threads do what a solver
   does with them, and of a product of H in its form of two halves rows of left states come by for what acts
   on right ones, then tiles of right states for the diagonal and what acts on left ones.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STREAMED_H
#define KL_STREAMED_H
#include "exec/exec.h"

/* What one product moves, of the operator that was prepared last, and rates. Bytes: */
typedef struct kl_streamed_facts {
    int far;            /* 1: vectors are the host's */
    int npiece;         /* that come by */
    double left_bytes;  /* of x, and of y, for what acts on left states and the diagonal */
    double again_bytes; /* of y, coming a second time, to which these are added */
    double take_bytes, back_bytes; /* of rows for what acts on right states, and of what they become */
    double packed_bytes; /* that the host's threads copy for them from place to place */
    double matrix_bytes, x_bytes, y_bytes; /* of a stored matrix, and of the vector when it is far */
    double resident;    /* the share of the matrix that stays on the device */
    double up, down;    /* bytes a second to the device and back, measured when the executor was opened */
    double both; /* how much longer copies take while others go the other way; 1: no longer */
    double host;        /* the same of what the host's threads copy from place to place */
    /* Seconds, measured before the first product; 0: not yet: of its copies alone, with what the host does
       for them, and of what the device computes alone. */
    double copies, work;
    double measuring; /* what these measurements took, as a part of products */
} kl_streamed_facts;

/* An executor for a problem that `device` has no room for; takes it. far: 1: vectors are the host's; 0: they
   are the device's, which keeps `keep` bytes for them. EABSENT: it has no such memory and copies. */
kl_status kl_exec_open_streamed_take(kl_exec **device, int far, int64_t keep, kl_exec **out,
                                     kl_err *err) KL_MUST_CHECK;

/* The device of such an executor, for products that it leaves to others; NULL: ex is none, or its vectors are
   on the device. */
kl_exec *kl_streamed_device(kl_exec *ex);

/* NULL: ex is no such executor. */
const kl_streamed_facts *kl_streamed_about(const kl_exec *ex);

/* Before anything is prepared: what it will come to, about, of a product of H on two halves (nnz 0; without
   cross terms, which move more) or of a matrix of nnz non-zeros, on vectors of n numbers. */
kl_streamed_facts kl_streamed_expect(const kl_exec *ex, double n, double nnz);

/* Pieces of rows shorter than this are put side by side by the host, longer ones copied as they lie; to be
   said before anything is prepared. */
void kl_streamed_pack_below(kl_exec *ex, int64_t bytes);

double kl_streamed_bytes(const kl_streamed_facts *f); /* over the bus in one product */
/* Seconds of a product by these rates; `inside' is what it takes where everything fits: copies are hidden
   behind it, or it behind them. */
double kl_streamed_seconds(const kl_streamed_facts *f, double inside);

#endif
