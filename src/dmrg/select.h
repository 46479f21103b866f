/* Which states a truncation keeps, from their weights alone.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SELECT_H
#define KL_SELECT_H
#include "base/base.h"

typedef struct kl_weight {
    double w;        /* share of the wavefunctions' norm */
    int sec, column; /* the state: a column of the sector's vectors, weights ascending */
    int keep;        /* 1: selected */
} kl_weight;

/* sorted[n]: the weights, largest first; spare[n] is overwritten. Fast where neighbours are in order already,
   falling or rising as within a sector. */
void kl_weights_sort(int64_t n, kl_weight *w, kl_weight **sorted, kl_weight **spare);

/* Weights of exact methods that differ by no more than this part are of one multiplet. */
#define KL_EQUAL_WEIGHTS 1e-8

typedef struct kl_selection {
    int m;           /* states kept at most; a cluster of equal weights may overshoot it */
    int m_min;       /* at least, where that many have weight */
    int nstate;      /* wavefunctions; as many states are kept in any case */
    double discard;  /* keep no more than leaves this weight out; 0: m alone decides */
    double unseen;   /* weight in addition to that of the states */
    double cluster;  /* weights that differ from the last one kept by no more than this part stay with it */
    double floor;    /* weights below it are rounding noise */
    /* 1: sectors that noise opened keep a state each, in all up to a quarter of m in addition */
    int reopen;
    int even;        /* 1: sectors of even dimension, see sectorfill.h */
    int full;        /* 1: with even, sectors filled up to whole tiles */
} kl_selection;

/* Marks the weights to keep; w[n]: largest first, of sectors below nsec. room[3 * nsec] is overwritten.
   Returns how many are kept. */
int64_t kl_select(const kl_selection *s, kl_weight *const *w, int64_t n, int nsec, int *room);

#endif
