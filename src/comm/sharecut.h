/* Groups of a list cut between ranks: some columns of a group's segment, which lie in one piece.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SHARECUT_H
#define KL_SHARECUT_H
#include "record/record.h"

/* Columns of group g's segment, *ld numbers each; 0: they cannot be made by themselves. Pure. */
int kl_cut_columns(const kl_batch *b, const kl_group *g, int *ld);

/* A group of `to` that makes the columns [from, end) of such a group, all of y where it was. Where two
   operators stand left and right of x, the right one comes first: then both products are as much smaller as
   the segment. */
kl_status kl_cut_take(const kl_batch *b, const kl_group *g, int from, int end, kl_batch *to,
                      kl_err *err) KL_MUST_CHECK;

/* Where a rank's part of a list begins: before a group of the list in the order of what groups write, and,
   from column `column` on, inside it. */
typedef struct kl_cut_border {
    int64_t group;
    int column;
} kl_cut_border;

/* The groups of a list in the order of what they write. */
typedef struct kl_cut_list {
    const kl_batch *b;
    int64_t n;
    const int *group; /* [n] */
    const double *cost; /* [n] */
    const int *columns; /* [n] as by kl_cut_columns */
} kl_cut_list;

/* border[size + 1]: nearly the same work for every rank, weighed by speed[size]. Cuts are made at multiples
   of a few columns. Pure. */
void kl_cut_borders(const kl_cut_list *l, int size, const double *speed, kl_cut_border *border);

/* order[ngroup]: the groups in the order of what they write. Pure. */
kl_status kl_cut_order(const kl_batch *b, int *order, kl_err *err) KL_MUST_CHECK;
/* border[size + 1] in that order: groups stay whole, but those of a list with `parts` are cut where a rank
   would have more than `message` flops above its part. Pure. */
kl_status kl_cut_find(const kl_batch *b, const int *order, int size, const double *speed, double message,
                      kl_cut_border *border, kl_err *err) KL_MUST_CHECK;
/* Flops between two borders. Pure. */
double kl_cut_flop(const kl_batch *b, const int *order, kl_cut_border from, kl_cut_border to);

#endif
