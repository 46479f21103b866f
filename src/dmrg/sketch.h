/* What expand.c, which sketches H psi, and sketchstates.c, which makes states of the sketch, share. Nobody
   else includes it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SKETCH_H
#define KL_SKETCH_H
#include "comm/share.h"
#include "dmrg/expand.h"

enum {
    /* projections of states out of the known basis: one leaves rounding of what it takes away */
    KL_SKETCH_CLEANINGS = 2
};

/* A sector of the far side and its partner on the near one. */
typedef struct kl_strip {
    int near, far;
    int rows, few; /* of the sketch, of a wavefunction, and of a light one; 0: there is nothing to add */
    int dim, known; /* states of the enlarged block here; of the known basis */
    int sec; /* of the known basis, or -1 */
    int owner; /* the rank that has its sketch and finds its states */
    int64_t g; /* [nstate rows x dim], with the owner */
    int count, taken, most; /* rows of all wavefunctions; states that are added, that could be */
    int64_t gram, first; /* [count x count] of `small`, [count] of `value` */
    int64_t e; /* the states taken: [dim x taken] */
} kl_strip;

typedef struct kl_sketch {
    kl_exec *ranks; /* each has the sketches of its own sectors, */
    kl_exec *ex; /* on the executor as one of this rank alone; or all have all, and this is `ranks` */
    const kl_expand_opts *o;
    const kl_basis *near, *far;
    int nstrip;
    kl_strip *strip; /* [sectors of the near side] */
    int ldomega; /* rows of Omega, those of the largest sector */
    int64_t nrow; /* of all sectors' sketches */
    int64_t nomega, ng, ne;
    kl_dptr omega, k, g, e;
    int64_t *kplace; /* [operators of the cut][adjoint 0, 1][near sectors]: of K, or -1 */
    int64_t nk;
    double *guess, *small, *value; /* of Omega; eigenvectors of G G^T, and values, ascending */
    double square; /* |G|^2 before the known basis was taken out of it */
    int all; /* 1: no sketch is made: every state that the block has is taken */
} kl_sketch;

/* Rows of the sketch, and states taken, of a sector that this rank has. */
static inline int kl_sketch_rows(const kl_sketch *t, const kl_strip *s)
{
    return s->owner == kl_ranks_mine(t->ranks) ? s->count : 0;
}
static inline int kl_sketch_taken(const kl_sketch *t, const kl_strip *s)
{
    return s->owner == kl_ranks_mine(t->ranks) ? s->taken : 0;
}
static inline int kl_sketch_shared(const kl_sketch *t) { return t->ex != t->ranks; }

/* Takes the known basis out of all rows of G, or out of all columns of E. */
kl_status kl_sketch_clean(kl_sketch *t, int rows, kl_err *err) KL_MUST_CHECK;
/* How many states of each sector are taken, those of the largest weight of all. */
kl_status kl_sketch_choose(kl_sketch *t, kl_expand_info *info, kl_err *err) KL_MUST_CHECK;
/* All that there are, without any sketch: random columns that these are made of. */
kl_status kl_sketch_take_all(kl_sketch *t, kl_expand_info *info, kl_err *err) KL_MUST_CHECK;
/* The states taken, orthonormal to each other and to the known ones. */
kl_status kl_sketch_states(kl_sketch *t, kl_err *err) KL_MUST_CHECK;
/* The known states and the ones taken, sector by sector. */
kl_status kl_sketch_join(const kl_sketch *t, kl_isometry **out, kl_dptr *data, kl_err *err) KL_MUST_CHECK;

#endif
