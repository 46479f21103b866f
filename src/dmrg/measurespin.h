/* Tensors of the total spin on the left blocks of a state, grown site by site, and what is read of them: see
   measurespin.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEASURESPIN_H
#define KL_MEASURESPIN_H
#include "dmrg/measurebase.h"
#include "model/irreducible.h"

#define KL_SPIN_ZERO 1e-15 /* Wigner's symbols have zeros by accident */

/* Operators of the left block of a cut, one behind the other. Channel c maps sector i to sector dst[c*nsec +
   i], whose spin is higher by 2c - rank. */
typedef struct kl_tensors {
    kl_qn shift; /* of the charges that are no spin */
    int rank, nsec, n;
    int *dst;     /* [(rank+1) * nsec]; -1: to none */
    int64_t *off; /* [(rank+1) * nsec] of dim[dst] x dim[i], column-major */
    int64_t len, at;
} kl_tensors;

typedef struct kl_level { /* all that is carried at a cut */
    int n;
    kl_tensors *list;
    kl_dptr data;
} kl_level;

/* weight * [T x X], T the first operator of a list of the level, or the identity (-1). */
typedef struct kl_source {
    int from;
    const kl_irreducible *x;
    double weight;
} kl_source;

/* What becomes a list of the next cut: every operator of one list (-1: none) times `by`, and, where there are
   sources, one more, their sum. */
typedef struct kl_recipe {
    kl_qn shift;
    int rank, carried;
    const kl_irreducible *by;
    int nsource;
    const kl_source *list;
} kl_recipe;

/* One more list of n operators of this basis; once all lists are there, their room. */
kl_status kl_tensors_add(const kl_measure *m, const kl_basis *b, kl_qn shift, int rank, int n, kl_level *l,
                         kl_err *err) KL_MUST_CHECK;
kl_status kl_tensors_room(const kl_measure *m, kl_level *l, kl_err *err) KL_MUST_CHECK;
/* Which piece of a list goes from sector i to sector j, -1: none; x NULL: the identity's, 0. */
int kl_tensors_place(const kl_measure *m, const kl_tensors *x, const kl_basis *b, int i, int j);

/* A piece of a grown operator of this rank that is being listed: between two sectors of the isometry of
   site p. */
typedef struct kl_tensors_piece {
    const kl_measure *m;
    int p, rank, from, to;
    kl_batch *batch;
    int64_t y, nwork;
} kl_tensors_piece;

/* What an element of x has as its coefficient in the piece, grown from a list (NULL: from the identity);
   0 where it has no place there. */
double kl_tensors_couple(const kl_tensors_piece *z, const kl_tensors *in, const kl_irreducible *x,
                         const kl_elem *el);
/* A group of n numbers at y, of the products of at most so many elements; kl_batch_close_group(batch, nwork)
   ends it. */
kl_status kl_tensors_open(kl_tensors_piece *z, int64_t y, int64_t n, int most, kl_err *err) KL_MUST_CHECK;
/* The products of one element: with operator `which` of a list, or with the identity. */
void kl_tensors_push(kl_tensors_piece *z, const kl_tensors *in, int which, const kl_elem *el, double coef);

/* G^1, G^2, ..., G^n at the edge. */
kl_status kl_tensors_start(const kl_measure *m, int n, kl_level *l, kl_err *err) KL_MUST_CHECK;
void kl_tensors_clear(const kl_measure *m, kl_level *l);
/* The lists of cut p + 1 from those of cut p, which are dropped. */
kl_status kl_tensors_grow(const kl_measure *m, int p, int n, const kl_recipe *r, kl_level *now,
                          kl_err *err) KL_MUST_CHECK;
/* value[o] = <[T_o x X]^0>, X at site p and T_o the operators of a list of cut p, of one rank. */
kl_status kl_tensors_close(const kl_measure *m, int p, const kl_level *now, int which,
                           const kl_irreducible *x, double *value, kl_err *err) KL_MUST_CHECK;

/* Twice S. */
int kl_tensors_spin(const kl_measure *m);
/* (2L+1) <S -S L 0|S -S> */
double kl_tensors_weight(const kl_measure *m, int L);
/* The recipe by which tensors of the edge go on, L = k + 1. */
kl_recipe kl_tensors_edge(int k, const kl_irreducible *one);

/* value[position] of matrices mat[ntype] (NULL: not there). */
kl_status kl_tensors_each_site(const kl_measure *m, double *const *mat, double *value,
                               kl_err *err) KL_MUST_CHECK;
static inline int kl_tensors_type(const kl_measure *m, int p)
{
    return (int)(m->can->type[p] - m->can->model->type);
}

#endif
