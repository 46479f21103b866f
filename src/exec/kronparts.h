/* The parts of a sum of Kronecker products that one rank works on: its tiles with what acts on left states,
   and rows with what acts on right ones. Tables that are as in the whole are borrowed from it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRONPARTS_H
#define KL_KRONPARTS_H
#include "exec/kron.h"

/* A border between tiles, or between rows, of all blocks: what lies before it is block by block all of
   blocks before, and `at` of this one. */
typedef struct kl_kronborder {
    int64_t block, at;
} kl_kronborder;

/* How much of a block lies before the border; all: its size. */
static inline int64_t kl_kronborder_in(const kl_kronborder *b, int64_t block, int64_t all)
{
    return b->block > block ? all : b->block == block ? b->at : 0;
}

/* Of the index of a tile's border in a vector. */
kl_kronborder kl_kronparts_tile(const kl_kron *k, int64_t place);
/* npiece + 1 borders of nearly equal work between rows. */
void kl_kronparts_rows(const kl_kron *k, int npiece, kl_kronborder *out);

/* Left states of each block whose rows the rows from *from to *to need in addition to their own: list of
   block i is row[first[i]..first[i + 1]), ascending. */
typedef struct kl_kronhalo {
    int64_t *first; /* [nblock + 1] */
    uint32_t *row;
} kl_kronhalo;
kl_status kl_kronhalo_find(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                           kl_kronhalo *out, kl_err *err) KL_MUST_CHECK;
void kl_kronhalo_clear(kl_kronhalo *h);

/* Diagonal and left operators on the tiles from *from to *to. */
kl_status kl_kronparts_left(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                            kl_kron **out, kl_err *err) KL_MUST_CHECK;
/* Right operators and cross terms on the rows from *from to *to: first these, block by block, in x and y,
   then in x those of the halo. *out NULL: nothing acts on them. */
kl_status kl_kronparts_right(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                             const kl_kronhalo *halo, kl_kron **out, kl_err *err) KL_MUST_CHECK;
/* Where k has one block and no cross terms: all that makes y on the tiles from *from to *to. b's columns are
   right states of these tiles first, then of those that are listed (kl_kron_beyond). */
kl_status kl_kronparts_beyond(const kl_kron *k, const kl_kronborder *from, const kl_kronborder *to,
                              int64_t nother, const int64_t *other, kl_kron **out, kl_err *err) KL_MUST_CHECK;
void kl_kronparts_beyond_destroy(kl_kron **part);
/* wanted[tile] = 1 for the tiles that rows of the tiles [low, high) of the one block read by b, their own
   aside. */
void kl_kronparts_wanted(const kl_kron *k, int64_t low, int64_t high, char *wanted);
/* Whether anything acts on right states. */
int kl_kronparts_has_right(const kl_kron *k);
void kl_kronparts_destroy(kl_kron **part);

#endif
