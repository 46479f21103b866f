/* Charges of loosely joined parts: where H has parts that nothing joins, or hardly, sweeps leave each the
   charges that they began with. H of one part alone is a small problem, and its lowest energies with these
   charges or those are soon asked for; the lowest sum of all parts says where electrons go.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARTCHARGES_H
#define KL_PARTCHARGES_H
#include "dmrg/valleys.h"

/* Descents over the charges of parts, from those of products of low energy, by exchanges between two parts as
   long as the sum of their energies falls. *product: [nsite] the lowest product of site states with the
   charges that the best one ends at, the caller's to free; NULL: there is none, since the total spin is a
   charge, or H is one part. *flop grows by what it took; behind `most' no more energies are asked for.
   e: of the whole, for one wavefunction. */
kl_status kl_partcharges_find(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e, const kl_dmrg_opts *o,
                              const kl_dmrg_monitor *mon, double most, int **product, double *flop,
                              kl_err *err) KL_MUST_CHECK;

#endif
