/* Operator strings cut in two: what of a term acts on the left half of a system, and what on the right.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STRANDS_H
#define KL_STRANDS_H
#include "ed/flavour.h"

/* coef * (string on the left half) (string on the right half) */
typedef struct kl_strand {
    double coef;
    int n[2];
    kl_op_at op[2][KL_MAX_FACTOR]; /* positions within the half */
} kl_strand;

typedef struct kl_strands {
    int64_t n, room;
    kl_strand *p;
    double constant;
} kl_strands;

/* Terms [from, to) appended to out, equal ones added up: the halves are the flavours of f, or, f being NULL,
   the positions before and from `cut` on. */
kl_status kl_strands_split(const kl_terms *t, int64_t from, int64_t to, const kl_flavour *f, int cut,
                           kl_strands *out, kl_err *err) KL_MUST_CHECK;
void kl_strands_clear(kl_strands *s);

/* Order by the string of one side (0: left). */
int kl_strand_compare(const kl_strand *a, const kl_strand *b, int side);
/* type: of the positions of that half. */
int kl_strand_is_diagonal(const kl_site_type *const *type, const kl_strand *p, int side);

/* Orders a list by the side that has fewer strings; returns that side. */
int kl_strands_group(int64_t n, kl_strand **p);
/* Strings of a side in an ordered list. */
int64_t kl_strands_distinct(int64_t n, kl_strand *const *p, int side);

#endif
