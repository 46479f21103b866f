/* A step that truncates nothing: where a half-sweep of one site adds no states to the basis ahead, the basis
   behind has as many as the wavefunction asks for, an orthonormal basis of its columns.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SETTLE_H
#define KL_SETTLE_H
#include "dmrg/schedule.h"
#include "dmrg/truncate.h"

/* 1: the next sweep of a schedule, of which g are the orders, comes back without expansions and truncations:
   what these take and give is little beside what is left out at this m in any case. The last one does so even
   where that is not known. Pure. */
int kl_settle_wanted(const kl_schedule *s, const kl_stage *g, const kl_dmrg_result *rows);

/* 1: a run may have such a sweep of m states. Pure. */
int kl_settle_planned(const kl_dmrg_opts *o, int m);

/* As kl_truncate, of one wavefunction, of which nothing is lost: of each sector as many states as its rows or
   columns, whichever are fewer. Of o spectrum, unread and watch count. */
kl_status kl_settle(kl_exec *ex, const kl_density *d, const kl_trunc_opts *o, kl_isometry **out,
                    kl_dptr *data, kl_trunc_info *info, kl_err *err) KL_MUST_CHECK;

#endif
