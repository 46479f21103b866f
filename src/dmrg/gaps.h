/* What the sweeps of a run have seen of states beside the one they ended in: gaps, and lower energies. Every
   sweep looks for the lowest energies in a part of all states, so that none finds less than there is. Pure
   functions of the rows; schedule.h says what follows from them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GAPS_H
#define KL_GAPS_H
#include "dmrg/dmrg.h"

/* Last row that knows the gap of guard i; NULL: none does. */
const kl_dmrg_row *kl_gaps_row(const kl_dmrg_result *res, int i);

/* The gap of guard i above the energies of the last sweep: what that row knows, and no more than an earlier
   one allows. A guard that a sweep loses comes back as a higher state (two levels 1e-6 apart: 0.5 in the
   sweep behind). What a probe saw counts where the guard lies above two of its states. */
double kl_gaps_in(const kl_dmrg_result *res, const kl_dmrg_row *row, int i);

/* 1: in that row the gap of guard i was less than `falling' of what it was one sweep before: it is not known
   yet. */
int kl_gaps_falls(const kl_dmrg_result *res, const kl_dmrg_row *row, int i, double falling);

/* How much lower one of nstate energies was in some sweep than in the last one: with more states, as noise
   leaves them, or in a basis that was lost again. */
double kl_gaps_lower(const kl_dmrg_result *res, int nstate);

/* Between wanted states: the smallest gap of two, INFINITY of one state; 0 where it is within the bar, and
   mixtures of the two are as good. */
double kl_gaps_within(const kl_dmrg_row *row, int nstate, double bar);

#endif
