/* A matrix product state with its centre at every cut: left isometries, right isometries, and the matrix
   between the two. What measurements, entropies and overlaps read. One wavefunction of a state, normalized.
   Host memory; of a device the left isometries stay there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CANONICAL_H
#define KL_CANONICAL_H
#include "dmrg/state.h"
#include "dmrg/superblock.h"

typedef struct kl_canonical {
    const kl_model *model;
    int nsite;
    const kl_site_type **type; /* [nsite] */
    kl_qn target;
    kl_basis edge, end;        /* of the empty blocks to the left and to the right */
    /* [nsite]: columns of left[p] some orthonormal states of sites 0..p; of a device without numbers before
       kl_canonical_bring */
    kl_isometry **left;
    /* [nsite]: the numbers of left[p] on the executor, or on its host where it has little room; NULL: it is
       the host itself */
    kl_dptr *there;
    kl_exec *ex; /* borrowed */
    kl_isometry **right;       /* [nsite]: columns of right[p] some of sites p..nsite-1 */
    int borrowed; /* right[p] of these p and beyond are the state's own */
    /* [nsite+1]: of bond: rows the left states of the cut, columns the right ones */
    kl_layout *layout;
    double **bond;             /* [nsite+1]: psi = sum bond[a][b] |a>|b>; +-1 at cut nsite */
    /* NULL before kl_canonical_schmidt; [nsite+1]: as many values as left states, sector by sector, falling
       within one; those below 1e-15 are 0 */
    double **schmidt;
} kl_canonical;

/* Wavefunction `which` of the state, which has to outlive it, as has the executor: products by the executor,
   decompositions by its threads. No truncation. */
kl_status kl_canonical_create(kl_exec *ex, const kl_state *s, int which, kl_canonical **out,
                              kl_err *err) KL_MUST_CHECK;
void kl_canonical_destroy(kl_canonical **c);

/* The host has the numbers of left[p]. */
kl_status kl_canonical_bring(const kl_canonical *c, int p, kl_err *err) KL_MUST_CHECK;

/* The Schmidt values of every cut, by nthread threads, unless they are there. */
kl_status kl_canonical_schmidt(kl_canonical *c, int nthread, kl_err *err) KL_MUST_CHECK;

/* Basis of sites 0..cut-1, of sites cut..nsite-1. */
const kl_basis *kl_canonical_left(const kl_canonical *c, int cut);
const kl_basis *kl_canonical_right(const kl_canonical *c, int cut);

/* -sum w ln w of the squared Schmidt values, which must be there. */
double kl_canonical_entropy(const kl_canonical *c, int cut);

/* <a|b>; 0 when their charges differ. EINPUT when the sites do. The bases may be anything. */
kl_status kl_canonical_overlap(const kl_canonical *a, const kl_canonical *b, double *out,
                               kl_err *err) KL_MUST_CHECK;

#endif
