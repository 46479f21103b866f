/* Sectors of a truncation that lose few of their columns: only what goes is diagonalized (leastcolumns.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LEADINGLEAST_H
#define KL_LEADINGLEAST_H
#include "dmrg/leading.h"

/* Which of the sectors that are found by A^T A are worth it, and what goes in each. off[sectors]: where their
   matrices lie in gram, on the executor, which are spoilt where all weights are asked for. */
kl_status kl_leading_least_find(kl_leading *l, const kl_leading_opts *o, const int64_t *off, kl_dptr gram,
                                kl_err *err) KL_MUST_CHECK;
/* How many sectors that are. */
int kl_leading_nleast(const kl_leading *l);
/* What was found in sector c, or NULL. */
const kl_least_part *kl_leading_least(const kl_leading *l, int c);
/* Its weights w[n], ascending: those that may go, and for all others, which are larger, their mean, unless
   all weights were asked for. */
void kl_leading_least_weights(const kl_least_part *p, double *w);
/* Their states as kl_range_columns wants them: of part i, a sector of this rank, count[i] stay and begin at
   from[i] of z; all other parts are left alone. */
kl_status kl_leading_least_states(kl_leading *l, const int *count, const int64_t *from, int64_t nz, kl_dptr z,
                                  kl_err *err) KL_MUST_CHECK;

#endif
