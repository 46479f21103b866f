/* The total spin in the blocks: operators of a rank k are listed as channels, one for each of the 2k + 1
   changes of the spin, and records have the coefficients of their coupling. Without the spin there is nothing
   here.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CHANNEL_H
#define KL_CHANNEL_H
#include "dmrg/block.h"

/* Replaces the operators of every cut, and the records between them, by channels. */
kl_status kl_channels_make(kl_mpo *m, kl_err *err) KL_MUST_CHECK;

/* A piece of a grown operator: which operator it is, by which record, between which sectors of the block,
   steps of the site and sectors of both. */
typedef struct kl_junction {
    const kl_block *block;
    const kl_enlarged *enlarged;
    int cut, op;
    const kl_grow *grow;
    const kl_site_op *site;
    int block_sec[2], step[2], sec[2]; /* from, to */
} kl_junction;

/* What the piece has besides the numbers of its record and of the site: the fermionic sign, times, with the
   spin, the coefficient of its coupling, 0 where the spins do not couple. odd: of the states of the site, or
   of the sectors of the left block. */
double kl_junction_factor(const kl_junction *at, const int *odd);

/* The factor that L R of a superblock has besides its sign, for the pieces between two row sectors; 1 without
   the spin. */
double kl_channel_scalar(const kl_mpo *m, const kl_cut_op *o, int from, int to, const kl_basis *row);

#endif
