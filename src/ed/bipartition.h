/* The basis of exact diagonalization: the states of a charge sector as pairs of states of two halves. The
   halves are the sites before and behind a cut, or, for electrons, all modes of one flavour and all of the
   other (Hubbard's product form).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BIPARTITION_H
#define KL_BIPARTITION_H
#include "ed/flavour.h"
#include "exec/kron.h"
#include "model/qn.h"
#include "model/terms.h"

/* States of one half, sorted by charge and within a sector by code. A code is the local states of its
   positions, the first one the fastest digit.

   Of two flavours the right half's states may be sorted by how many particles are on the last half of the
   positions, then by code: ranks that have neighbouring states read fewer of each other's, since a hop across
   the middle changes that number by one and most hops do not change it. One process has more entries far from
   the diagonal then. */
typedef struct kl_half {
    int first, npos;               /* positions first .. first + npos of the lattice */
    const kl_site_type **type;     /* [npos]: the model's, or one flavour's mode */
    uint64_t *stride;              /* [npos] */
    int most;                      /* states of the largest position */
    unsigned char *odd;            /* [npos][most]: 1 where a local state is fermionic */
    int nsec;
    kl_qn *q;                      /* [nsec] ascending */
    int64_t *begin;                /* [nsec + 1] */
    uint64_t *code;                /* [begin[nsec]] */
    int behind; /* the particles on so many last positions come first; 0: the code alone */
    int64_t *fewer; /* [nsec][behind + 2] states of a sector that have fewer of them */
} kl_half;

/* Digits d[npos] of a code. */
void kl_half_digits(const kl_half *h, uint64_t code, int *d);
/* Number of a sector by its charge; index of a code in its sector, where it is probably close behind `near`.
   -1: none. */
int kl_half_sector(const kl_half *h, kl_qn q);
int64_t kl_half_find_near(const kl_half *h, int sec, uint64_t code, int64_t near);

typedef enum kl_bipartition_form {
    KL_BIPARTITION_AUTO,
    KL_BIPARTITION_SITES,
    KL_BIPARTITION_FLAVOURS,
    KL_BIPARTITION_SORTED = 4 /* a bit beside the others: flavours in the order above */
} kl_bipartition_form;

typedef struct kl_bipartition {
    const kl_model *model;
    const kl_site_type *const *type; /* [nsite], of the terms */
    int nsite;
    kl_qn target;
    int flavours; /* 1: the halves are flavours */
    int cut; /* sites: first position of the right half */
    int flavour_charge[2]; /* which charges count the two flavours */
    kl_flavour *flavour; /* their modes and operators; NULL for sites */
    kl_half left, right;
    int nblock; /* pairs of sectors */
    int *left_sec, *right_sec; /* [nblock] */
    int *block_of; /* [left.nsec], -1: no partner */
    int64_t *off; /* [nblock + 1], as in kron.h */
    int64_t dim; /* states */
    int64_t n; /* length of a vector */
} kl_bipartition;

/* Sizes, known before anything is allocated. Counts beyond 2^53 are rounded. */
typedef struct kl_bipartition_size {
    int flavours, cut;
    double dim, n, left, right; /* states; length of a vector; states of the halves */
    double largest; /* of one half's sector */
} kl_bipartition_size;

/* Electrons with two conserved flavours, coupled by densities alone: AUTO then takes FLAVOURS. EINPUT:
   FLAVOURS asked for where there are none. */
kl_status kl_bipartition_measure(const kl_terms *terms, kl_qn target, kl_bipartition_form form,
                                 kl_bipartition_size *out, kl_err *err) KL_MUST_CHECK;

/* EINPUT: an empty sector, more states than 2^62, a half beyond 2^32 states. Borrows the terms' types and
   model. */
kl_status kl_bipartition_create(const kl_terms *terms, kl_qn target, kl_bipartition_form form,
                                kl_bipartition **out, kl_err *err) KL_MUST_CHECK;
void kl_bipartition_destroy(kl_bipartition **h);

/* Index in a vector of the product state with local states state[nsite] by position, -1 when it is of another
   sector. *sign (NULL allowed): this basis state is sign times the one of the physical mode order. */
int64_t kl_bipartition_rank(const kl_bipartition *h, const int *state, int *sign);
/* The inverse; 0 at elements that are no state (ends of last tiles). */
int kl_bipartition_unrank(const kl_bipartition *h, int64_t index, int *state);

/* c times an operator on one site, between two sectors of the same sites in the same form. */
typedef struct kl_bipartition_op {
    const kl_bipartition *from, *to;
    int p; /* position of the site */
    const double *a; /* [dim * dim], column-major */
    int odd; /* 1: it is fermionic */
    double c;
} kl_bipartition_op;

/* y[i] += <i| op |x> for the elements i of `to` in [begin, end), x of `from`. state: room for nsite numbers.
   Host arrays. */
void kl_bipartition_act(const kl_bipartition_op *op, int64_t begin, int64_t end, const double *x, double *y,
                        int *state);

#endif
