/* A term list as growth records per site: which operators a block keeps at each cut, and how they grow by one
   site from either side. H = sum_b L_b R_b + (h.c. where b is not self-adjoint), b running over the operators
   of a cut; one of each adjoint pair is listed. The operators of all cuts come from one pass of minimum
   vertex covers from left to right (Ren, Li, Jiang, Shuai, J. Chem. Phys. 153 (2020) 084118), done on adjoint
   pairs. What is kept of a single string is in the symbolic records of the terms; the signs of sums of them
   come from phase.h. Knows nothing of sectors or truncation.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MPO_H
#define KL_MPO_H
#include "model/qn.h"
#include "model/terms.h"

typedef struct kl_cut_op {
    /* of L_b; R_b shifts by the negative, and where the total spin is a charge by the same spin: there an
       operator of a rank k is 2k + 1 of them, one for each change of the spin */
    kl_qn shift;
    int rank; /* twice that of the total spin */
    int odd;
    /* +1: L_b^T = L_b, -1: L_b^T = -L_b, 0: not self-adjoint, H holds the adjoint of its product too */
    int self;
    int left_identity; /* L_b = 1 */
    int right_identity; /* R_b = 1 */
} kl_cut_op;

/* One growth record: grown operator += coef * (op of the block, transposed if dag) (x) (op of the site). */
typedef struct kl_grow {
    int in; /* operator of the block's cut */
    int dag;
    int op; /* operator of the site; KL_OP_IDENTITY */
    double coef;
} kl_grow;

typedef struct kl_grow_list {
    int n;
    int64_t first; /* into kl_mpo.grow */
} kl_grow_list;

typedef struct kl_mpo {
    const kl_model *model;
    int nsite;
    const kl_site_type **type; /* [nsite] */
    double constant; /* energy of the identity term, not in the records */
    /* [nsite+1]: operators of cut k (between sites k-1 and k); cut 0 and cut nsite have one */
    int *nop;
    kl_cut_op **op; /* [nsite+1][nop] */
    kl_grow_list **left; /* [nsite][nop of cut p+1]: L at cut p+1 from L at cut p (x) site p */
    kl_grow_list **right; /* [nsite][nop of cut p]:   R at cut p from site p (x) R at cut p+1 */
    int64_t ngrow;
    kl_grow *grow;
    int nop_max;
    /* [nsite] of each: the same records, those that are many together: opsums.h */
    struct kl_opsums *left_sums, *right_sums;
} kl_mpo;

/* t is borrowed. ENOMEM is the only failure: the terms were checked. */
kl_status kl_mpo_create(const kl_terms *t, kl_mpo **out, kl_err *err) KL_MUST_CHECK;
void kl_mpo_destroy(kl_mpo **m);

#endif
