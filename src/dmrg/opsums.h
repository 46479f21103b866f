/* Sums of a block's operators as products. Where many operators of one kind grow into many of another, as
   the complementary operators of molecules do, all their sums between two sectors are one product: the
   matrices side by side in memory, times a matrix of coefficients that knows nothing of sectors.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPSUMS_H
#define KL_OPSUMS_H
#include "dmrg/mpo.h"

/* The operators of a cut that hold numbers on one side, those of a kind behind each other: of one shift, rank
   and parity, so that they have matrices between the same sectors. */
typedef struct kl_kinds {
    int n, nop;
    int *order; /* [nop] operators, identities left out */
    int *first; /* [n + 1] into order, by kind */
} kl_kinds;

/* left: of the side that the cut's operators act on. */
kl_status kl_kinds_create(const kl_mpo *m, int left, int cut, kl_kinds *out, kl_err *err) KL_MUST_CHECK;
/* Of those that hold numbers on both sides; such as are their own adjoint are kinds of their own. */
kl_status kl_kinds_create_both(const kl_mpo *m, int cut, kl_kinds *out, kl_err *err) KL_MUST_CHECK;
void kl_kinds_clear(kl_kinds *k);

/* Operators of one kind, as they are or transposed, by site operators of one parity and rank. */
typedef struct kl_sum_term {
    int in, nin; /* the first of them in their block, and how many follow it in the order of kinds */
    int dag;
    int64_t grow; /* one of its growth records: sign and coupling are those of all */
    int64_t w; /* its matrix, nin x nout, in kl_opsums.w */
} kl_sum_term;

/* One that grows from the identity. */
typedef struct kl_sum_one {
    int out; /* into the place's operators */
    int64_t grow;
    double coef;
} kl_sum_one;

/* What grown operators of one kind have between two states of the site. */
typedef struct kl_sum_place {
    int s, t; /* from, to */
    int nout, nterm, none;
    int64_t out, term, one; /* the first ones in kl_opsums */
    int transposed; /* 1: all terms are, and so is the sum */
} kl_sum_place;

/* A growth record and an element of its site operator that are in no place. */
typedef struct kl_sum_rest {
    int64_t grow;
    int elem;
} kl_sum_rest;

/* How the operators of the cut beyond a site grow. */
typedef struct kl_opsums {
    int nplace;
    kl_sum_place *place;
    int64_t nout, nterm, none, nw;
    int *out;
    kl_sum_term *term;
    kl_sum_one *one;
    double *w;
    /* of grown operator b, from first_of[b] on to first_of[b + 1]: places, and which of their operators it
       is */
    int *place_of, *out_of;
    int64_t *first_of; /* [nop + 1] */
    kl_sum_rest *rest;
    int64_t *first_rest; /* [nop + 1] */
} kl_opsums;

/* left: the block is left of the site at pos. */
kl_status kl_opsums_create(const kl_mpo *m, int left, int pos, kl_opsums *out, kl_err *err) KL_MUST_CHECK;
void kl_opsums_clear(kl_opsums *s);

#endif
