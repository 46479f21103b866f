/* Strings of operators as couplings of irreducible ones: see spinpaths.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPINPATHS_H
#define KL_SPINPATHS_H
#include "dmrg/measurenodes.h"
#include "dmrg/measurespin.h"

/* An operator of the multiplets on sites of one type. */
typedef struct kl_reduced {
    int type;
    const kl_irreducible *x;
} kl_reduced;

/* <term> += coef <[beginning end]^0>. */
typedef struct kl_path {
    int64_t term;
    int begin, end;
    double coef;
} kl_path;

/* Of all strings of two operators and more of a term list. Nodes of no site (pos -1) are the tensors of the
   edge; op numbers `reduced`. */
typedef struct kl_spinpaths {
    const kl_measure *m; /* borrowed */
    const kl_terms *t;   /* borrowed: of the variant without the total spin */
    struct known **known; /* [ntype][nop]: operators of t, cut into parts */
    int nreduced;
    kl_reduced *reduced;
    kl_nodes begin, end;
    int64_t npath, room;
    kl_path *path;  /* [npath] by their ends: */
    int64_t *first; /* [end.n + 1] */
} kl_spinpaths;

/* All but m and t empty before. */
kl_status kl_spinpaths_make(kl_spinpaths *s, kl_err *err) KL_MUST_CHECK;
void kl_spinpaths_clear(kl_spinpaths *s);

#endif
