/* Operator strings as sparse matrices between two sectors of a half, by the coordinates of their elements.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COO_H
#define KL_COO_H
#include "ed/bipartition.h"
#include "ed/strands.h"

typedef struct kl_coo_elem {
    uint32_t row, col;
    double value;
} kl_coo_elem;

/* Elements so far; n = 0 begins anew. */
typedef struct kl_coo {
    int64_t n, room;
    kl_coo_elem *e;
} kl_coo;

/* The strings of one side of n strands, between two sectors of its half. */
typedef struct kl_coo_strings {
    const kl_half *half;
    int side, source, target;
    int64_t n;
    kl_strand *const *p; /* [n] */
    int bare;            /* 1: without their coefficients */
    int partner_odd;     /* 1: the other side's strings are fermionic */
} kl_coo_strings;

/* Adds them column by column, so that rows come out ascending. d: room for digits, near: for n indices. */
kl_status kl_coo_add(kl_coo *out, const kl_model *m, const kl_coo_strings *strings, int *d, int64_t *near,
                     kl_err *err) KL_MUST_CHECK;
/* Rows together, entries of equal indices added up; small remnants of cancellation dropped. */
kl_status kl_coo_close(kl_coo *c, int64_t nrow, kl_err *err) KL_MUST_CHECK;
/* From closed elements; diagonal, if not NULL, takes the diagonal ones. *out stays NULL when there are
   none. */
kl_status kl_coo_op(kl_coo *c, int64_t nrow, int64_t ncol, double *diagonal, kl_kron_op **out,
                    kl_err *err) KL_MUST_CHECK;

#endif
