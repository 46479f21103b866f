/* Bases sorted by charge: of a block of sites, and of a block with one more site. Nothing here knows what an
   operator means.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SECTOR_H
#define KL_SECTOR_H
#include "model/qn.h"

/* A basis cut into sectors of equal charge, ascending by charge. */
typedef struct kl_basis {
    int nsec;
    kl_qn *q;     /* [nsec] */
    int *dim;     /* [nsec], > 0 */
    int64_t total;
} kl_basis;

/* clear frees what is inside; copy fills an empty one. */
void kl_basis_clear(kl_basis *b);
kl_status kl_basis_copy(const kl_basis *from, kl_basis *to, kl_err *err) KL_MUST_CHECK;
int kl_basis_find(const kl_basis *b, kl_qn q); /* sector of that charge or -1 */
/* Its states: with the total spin those of its multiplets, of which total is the number. */
int64_t kl_basis_states(const kl_model *m, const kl_basis *b);

/* A block with one more site. Sector I of the product is cut into parts: part (I, s) holds the block's
   sector part_sec[I*d + s] (the only one whose charge plus that of site state s is I's), at rows part_off[I*d
   + s]; -1 where there is none. The same for block (x) site and site (x) block: the order of factors only
   matters for fermion signs, which records take from phase.h. */
typedef struct kl_enlarged {
    const kl_site_type *site;
    int d;            /* site->dim */
    kl_basis block;   /* own copy */
    kl_basis basis;   /* of the product */
    int *part_sec;    /* [basis.nsec * d] */
    int *part_off;    /* [basis.nsec * d] */
    /* [block.nsec * d]: sector of the product that (i, s) falls into, -1 if it was dropped */
    int *home;
} kl_enlarged;

/* keep: NULL or a predicate on the product's charges; others are dropped (sectors that no partner can
   complete). */
kl_status kl_enlarged_create(const kl_model *m, const kl_basis *block, const kl_site_type *site,
                             int (*keep)(void *self, kl_qn q), void *self, kl_enlarged **out,
                             kl_err *err) KL_MUST_CHECK;
void kl_enlarged_destroy(kl_enlarged **e);

/* Charges that the sites [first, last) can sum up to, ascending, each with the logarithm of the number of
   states that have it. Where there are more than `most` (0: no limit) only the likeliest are kept. */
typedef struct kl_reach {
    int64_t n;
    kl_qn *q;
    double *log_count;
} kl_reach;
kl_status kl_reach_create(const kl_model *m, const kl_site_type *const *type, int first, int last,
                          int64_t most, kl_reach *out, kl_err *err) KL_MUST_CHECK;
/* The same next to a block with these charges. */
kl_status kl_reach_from(const kl_model *m, kl_qn edge, const kl_site_type *const *type, int first, int last,
                        int64_t most, kl_reach *out, kl_err *err) KL_MUST_CHECK;
/* *to = charges of `from` with one more site; to may not be from. */
kl_status kl_reach_extend(const kl_model *m, const kl_reach *from, const kl_site_type *site, int64_t most,
                          kl_reach *to, kl_err *err) KL_MUST_CHECK;
kl_status kl_reach_copy(const kl_reach *from, kl_reach *to, kl_err *err) KL_MUST_CHECK;
void kl_reach_clear(kl_reach *r);
int64_t kl_reach_find(const kl_reach *r, kl_qn q); /* index or -1 */

#endif
