/* Beginnings and ends of operator strings, each kept once: strings that begin or end alike share what is
   measured of them. For measureterms.c and measurespinterms.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEASURENODES_H
#define KL_MEASURENODES_H
#include "model/qn.h"

/* An operator and what stands before it (of beginnings), or behind it (of ends). */
typedef struct kl_node {
    int pos, op;
    int other; /* node, -1: nothing */
    int rank;  /* twice that of the total spin of both together; 0 without */
    int until; /* cut: the last that asks for a beginning, the first that asks for what is behind it */
    kl_qn shift;
} kl_node;

typedef struct kl_nodes {
    int n;
    int64_t room, nhash; /* nhash: a power of two */
    kl_node *list;
    int *hash; /* node + 1 */
} kl_nodes;

/* *out = the node with x's pos, op, other and rank; x itself where there was none. */
kl_status kl_nodes_find(kl_nodes *s, const kl_node *x, int *out, kl_err *err) KL_MUST_CHECK;
/* A longer beginning begins with a shorter one, which has to be there until it does. */
void kl_nodes_keep(kl_nodes *s);
void kl_nodes_clear(kl_nodes *s);

#endif
