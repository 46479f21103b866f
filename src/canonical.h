/* A matrix product state with its centre at every cut: left isometries onto the Schmidt states of each cut, right isometries, and the matrix
   between the two. What measurements, entropies and overlaps read. Host memory, one wavefunction of a state, normalized.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CANONICAL_H
#define KL_CANONICAL_H
#include "state.h"
#include "superblock.h"

typedef struct kl_canonical {
    const kl_model *model;
    int nsite;
    const kl_site_type **type; /* [nsite] */
    kl_qn target;
    kl_basis edge;             /* of the empty block */
    kl_isometry **left;        /* [nsite]: columns of left[p] are the Schmidt states of sites 0..p */
    kl_isometry **right;       /* [nsite]: columns of right[p] some orthonormal states of sites p..nsite-1 */
    double **schmidt;          /* [nsite+1]: values by left state of the cut, sector by sector, falling within one */
    kl_layout *layout;         /* [nsite+1]: of bond: rows the left states of the cut, columns the right ones */
    double **bond;             /* [nsite+1]: psi = sum bond[a][b] |a>|b>; rows orthogonal, their norms the Schmidt values. Cut nsite: +-1 */
} kl_canonical;

/* Wavefunction `which` of the state, by so many threads. No truncation but of Schmidt values below 1e-15. */
kl_status kl_canonical_create(const kl_state *s, int which, int nthread, kl_canonical **out, kl_err *err) KL_MUST_CHECK;
void kl_canonical_destroy(kl_canonical **c);

/* Basis of sites 0..cut-1, of sites cut..nsite-1. */
const kl_basis *kl_canonical_left(const kl_canonical *c, int cut);
const kl_basis *kl_canonical_right(const kl_canonical *c, int cut);

/* -sum w ln w of the squared Schmidt values. */
double kl_canonical_entropy(const kl_canonical *c, int cut);

/* <a|b>; 0 when their charges differ. EINPUT when the sites do. The bases may be anything. */
kl_status kl_canonical_overlap(const kl_canonical *a, const kl_canonical *b, double *out, kl_err *err) KL_MUST_CHECK;

#endif
