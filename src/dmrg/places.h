/* The lowest placement: where sites have labels that H keeps (placement.h), the lowest state of all is that
   of some placement, and no sweep leads from one to another. H within a placement is a small problem: it is
   cheap to ask for its energy, and to ask neighbours.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLACES_H
#define KL_PLACES_H
#include "dmrg/placement.h"
#include "dmrg/valleys.h"

/* 1: there are placements, and H has something to move within one: for the search below. */
int kl_places_worth(const kl_labels *l);

/* Where the labels of the state found have few placements, all are asked for; else descents over placements
   go from this one, from regular ones and some at random, by exchanging labels of two sites, near or far, or
   changing that of one, as long as the energy falls, and to images of the best; then runs of the best ones to
   the accuracy of `o`. *lower: a state below the one found; NULL: none was found. settled->rival becomes what
   lies between where a state of another placement is not told apart from it; settled->strings the number of
   strings that H keeps within a placement and no charge tells. Else as kl_valleys_compare. */
kl_status kl_places_compare(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e, const kl_dmrg_opts *o,
                            const kl_dmrg_monitor *mon, const kl_valley_here *here, kl_valley *lower,
                            kl_valley_settled *settled, kl_err *err) KL_MUST_CHECK;

#endif
