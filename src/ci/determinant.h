/* Strings (occupations of the orbitals by electrons of one spin) and spaces of determinants, each a pair of
   strings. A determinant is the product of the alpha string's creation operators in the order of the
   orbitals, then the beta string's, on the vacuum. Knows no integrals.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DETERMINANT_H
#define KL_DETERMINANT_H
#include "base/base.h"

#define KL_DET_MAX_ORB 64
#define KL_DET_MAX_REF 256

/* <I| c+_p c_q |to> = <to| c+_q c_p |I> = sign, p != q, I the string that the move is listed under: an
   electron goes from p to q. */
typedef struct kl_move {
    int32_t to;
    int16_t pair;    /* kl_pair(p, q) */
    int8_t p, q;
    int32_t sign;    /* +1 or -1 */
} kl_move;

/* Strings of one spin, sorted by irrep, then by bits. */
typedef struct kl_strings {
    int norb, nelec, nirrep;
    int64_t n;
    uint64_t *bits;     /* [n] bit p: orbital p is occupied */
    uint8_t *irrep;     /* [n] */
    int64_t first[9];   /* irrep g: first[g]..first[g+1] */
    int64_t *move_off;  /* [n+1] */
    int64_t *move_to;   /* [nirrep*n+1] where those to strings of irrep g begin: move_to[nirrep*i+g] */
    /* by string that the electron leaves, then by string that it makes; only strings of the list */
    kl_move *move;
    int32_t *table;     /* [mask + 1] open addressing, index + 1 */
    uint64_t mask;
} kl_strings;

/* What a space shall hold. */
typedef struct kl_det_spec {
    int norb, nalpha, nbeta;
    int nirrep;             /* 1: no point group */
    const int *irrep;       /* [norb]; NULL with nirrep 1 */
    int target;             /* irrep of the determinants */
    int full;               /* all determinants; else those below */
    uint64_t levels;        /* bit k: k-fold excitations of a reference */
    int nref;
    const uint64_t (*ref)[2]; /* [nref] alpha, beta */
} kl_det_spec;

/* A space. Row ia: the determinants with alpha string ia, by ascending beta string. Full spaces are products,
   position row_off[ia] + (ib - row_first[ia]); others list their determinants, by excitation level (of the
   nearest reference), then row. */
typedef struct kl_detspace {
    int norb, nalpha, nbeta, nirrep, target, full;
    kl_strings *a, *b;
    int64_t n;
    int64_t *row_off; /* [na+1] */
    int64_t *row_first; /* [na], full only: first beta string of the row */
    int32_t *row_beta; /* [n], not full: beta strings row by row */
    int32_t *row_pos; /* [n], not full: their positions in a vector */
    int32_t *det_a, *det_b; /* [n], not full: strings by position */
    int nlevel;
    int64_t level_count[2 * KL_DET_MAX_ORB + 1]; /* not full: determinants by level */
} kl_detspace;

/* Lists strings, their moves and the determinants. EINPUT: more than 2^31 strings or determinants of a listed
   space. */
kl_status kl_detspace_create(const kl_det_spec *spec, int nthread, kl_detspace **out,
                             kl_err *err) KL_MUST_CHECK;
void kl_detspace_destroy(kl_detspace **s);

/* Number of determinants that kl_detspace_create would list, -1 above 2^62; allocates little. Several
   references: an upper bound (what they share is counted for each). */
kl_status kl_detspace_count(const kl_det_spec *spec, int64_t *out, kl_err *err) KL_MUST_CHECK;

/* Strings of position i. */
void kl_detspace_at(const kl_detspace *s, int64_t i, int64_t *ia, int64_t *ib);
/* Position of a determinant, -1 if it is not there. */
int64_t kl_detspace_find(const kl_detspace *s, uint64_t alpha, uint64_t beta);

/* Index of a string, -1 if it is not listed. */
int64_t kl_strings_find(const kl_strings *s, uint64_t bits);

/* Determinants and, for a closed-shell reference with nalpha = nbeta, singlet configuration state functions
   with exactly k electrons outside of the reference, for k = 0..nlevel-1; count[k] and csf[k] over all irreps
   (target < 0) or of one. Exact below 2^53. csf NULL: not wanted. *nlevel: 1 + highest level. */
kl_status kl_det_levels(const kl_det_spec *spec, int target, int *nlevel,
                        double count[2 * KL_DET_MAX_ORB + 1], double csf[2 * KL_DET_MAX_ORB + 1],
                        kl_err *err) KL_MUST_CHECK;

#endif
