/* Charges far from where they belong: where disorder keeps states in place, sweeps leave a charge near the
   site where the first of them put it, and no sweep leads it past sites that want none. Two sites next to the
   state found, with a charge less or more, tell what it takes to remove one here and to add one there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STRAYCHARGES_H
#define KL_STRAYCHARGES_H
#include "dmrg/valleys.h"

/* 1: H has charges that are no total spin, and its couplings differ from place to place, not by a pattern of
   a few sites. *worth is 0 without memory. */
kl_status kl_straycharges_worth(const kl_terms *t, int *worth, kl_err *err) KL_MUST_CHECK;

/* From a copy of the state found in few states: at every second bond the lowest energies of two sites between
   its blocks with other charges of the whole. Where removing a charge at one bond and adding it at another,
   or the other way round, ends lower, or about as low, the state is led there, by a sweep that has the other
   charges between the two; from a lower one that search begins again. *out: the lowest state that it came to,
   lower than the copy or than `here'; its state NULL: there is none. *flop grows by what it took; behind
   `most' there are no more trials. e: as for kl_valleys_compare. */
kl_status kl_straycharges_find(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e,
                               const kl_dmrg_monitor *mon, const kl_valley_here *here, double most,
                               kl_valley *out, double *flop, kl_err *err) KL_MUST_CHECK;

#endif
