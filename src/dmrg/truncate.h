/* Truncation of an enlarged block to the states of the largest weight in the wavefunctions.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TRUNCATE_H
#define KL_TRUNCATE_H
#include "dmrg/entropies.h"
#include "dmrg/leading.h"

typedef struct kl_trunc_watch kl_trunc_watch;

typedef struct kl_trunc_opts {
    /* states kept at most; a cluster of weights equal to 1e-8 may overshoot it, so may what fills sectors up,
       and nstate are kept in any case */
    int m;
    int m_min; /* at least, where that many have weight */
    double discard; /* keep no more than leaves this weight out; 0: m alone decides */
    double noise; /* share of the weight given to the states that H leads to (subspace expansion) */
    int nstate; /* wavefunctions, averaged by the squares of their norms, which are 1 on average */
    /* 1: keep m states even where their weight is rounding noise, as fixed-m runs of the literature do */
    int fill;
    int all; /* 1: with fill, those of no weight, too */
    /* 1: sectors even and filled up as a device does in any case: see kl_sectors_fill. fill, discard: even
       alone */
    int full;
    /* 1: singular values of the wavefunction, exact to 1e-16 of the largest; 0: density matrix, exact to 1e-8
       of it, faster */
    int precise;
    kl_truncation way; /* by products, or exactly */
    int narrow; /* 1: the other side has no site of its own: see kl_sector_case; */
    kl_qn target; /* of the wavefunctions, if narrow: noise is sampled then, see noisecolumns.h */
    int settled; /* 1: the sweep before was one without noise */
    int settle; /* 1: nothing goes, if narrow: see settle.h */
    int spectrum; /* 1: the weights of all states are wanted: info's entropy; */
    /* NULL; or, where one rank has all, takes those that take long to read; what it has is dropped */
    kl_unread *unread;
    const kl_warm *warm; /* the isometry that was opened last; NULL: there was none */
    const kl_trunc_watch *watch; /* NULL: nobody looks on */
} kl_trunc_opts;

typedef struct kl_trunc_info {
    int m, nsec;
    int64_t states; /* m, or with the total spin the states of m multiplets */
    /* weight left out: of the states, from the smallest up; of products also the norm that they do not see */
    double discarded;
    double entropy; /* -sum w ln w of the weights; NAN: not all of them are known, or have been read */
    int matrix_max; /* largest matrix diagonalized */
    int ntried, nattempt; /* sectors of which not all weights were looked for; 1, more where too few columns
                             had been tried */
    int nleast; /* of them those of which only what goes was diagonalized */
} kl_trunc_info;

/* Told of every truncation: of which wavefunctions, and the isometry that was found, whose numbers are at
   data on the executor. */
struct kl_trunc_watch {
    void *self;
    void (*seen)(void *self, kl_exec *ex, const kl_density *d, const kl_trunc_opts *o, const kl_isometry *iso,
                 kl_dptr data, const kl_trunc_info *info);
};

/* side LEFT: new basis for the rows of psi (left block (x) site); RIGHT: for the columns. The wave holds
   opts->nstate wavefunctions. grown: the operators of that enlarged block, for the noise; NULL
   without. The isometry's numbers are in *data, on the executor. */
kl_status kl_truncate(kl_exec *ex, kl_side side, const kl_wave *wave, const kl_bigop *grown,
                      const kl_trunc_opts *opts, kl_isometry **out, kl_dptr *data, kl_trunc_info *info,
                      kl_err *err) KL_MUST_CHECK;

#endif
