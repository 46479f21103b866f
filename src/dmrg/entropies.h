/* Entropies of the cuts of a run, from the weights of its last truncations. Where a truncation diagonalized
   only what it drops, the other weights are values of tridiagonal matrices, which nobody needs before the run
   ends: they are kept here and read together, by all threads.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ENTROPIES_H
#define KL_ENTROPIES_H
#include "comm/ranks.h"

/* A tridiagonal matrix whose values are weights of one sector: d[n] on its diagonal from `at` on, e[n - 1] on
   the next one. */
typedef struct kl_unread_part {
    int n;
    int states; /* of a weight: more than one with the total spin */
    int64_t at;
} kl_unread_part;

/* Weights of a cut that nobody has read: of the sectors that this rank has. */
typedef struct kl_unread {
    int open; /* 0: all of them are known, on all ranks */
    int npart;
    kl_unread_part *part;
    double *d, *e;
    double sum; /* of all weights, which the parts' are divided by */
    double known; /* entropy of the other weights of this rank */
} kl_unread;

void kl_unread_clear(kl_unread *u);

typedef struct kl_entropies kl_entropies;

/* known[ncut], or NULL: what a run that goes on has told before. */
kl_status kl_entropies_create(int ncut, const double *known, kl_entropies **out, kl_err *err) KL_MUST_CHECK;
void kl_entropies_destroy(kl_entropies **e);
/* Room for weights of this cut, whose entropy was told before or not: that is forgotten. */
kl_unread *kl_entropies_open(kl_entropies *e, int cut);
/* The entropy of this cut, unless weights are to be read first. */
void kl_entropies_put(kl_entropies *e, int cut, double entropy);
/* All into to[ncut], on nthread threads of each of the ranks that ex has; the same bits on any number of
   threads. */
kl_status kl_entropies_read(kl_entropies *e, const kl_exec *ex, int nthread, double *to,
                            kl_err *err) KL_MUST_CHECK;

#endif
