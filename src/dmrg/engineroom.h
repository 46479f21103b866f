/* What of an engine is on a device that cannot hold all of it, and what waits on the host.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ENGINEROOM_H
#define KL_ENGINEROOM_H
#include "dmrg/engine.h"

/* What is not used at this centre goes to the host, the farthest first, until the device has `bytes` to give.
   */
void kl_engine_make_room(kl_engine *e, int64_t bytes);

/* Operators of the centre on the device, if it has memory for them and for the least that an eigensolver
   wants there, or for what absorbing a site takes (e->absorb_bytes); else on the host, from where lists
   stream them. */
void kl_engine_settle(kl_engine *e);
/* Where a list has left less than that, since none knows its length before: 1, operators are on the host now,
   and it has to be made again. */
int kl_engine_spill(kl_engine *e);
/* No vectors are left: operators that waited on the host for them come in before a block grows from them, for
   all lists of that at once. */
void kl_engine_settle_growth(kl_engine *e, kl_side side);

/* What the product and the eigensolver of this centre take, as e->list: of its operators, b its list. */
void kl_engine_count_memory(kl_engine *e, const kl_bigop *const of[2], const kl_batch *b,
                            const kl_eig_opts *opts);

/* Where host_bytes says how much of the host's memory is to be used: operators of cuts that this centre does
   not use wait in files, the farthest first, until `more` bytes would fit. What the centre itself takes is
   taken. */
kl_status kl_engine_keep_to_memory(kl_engine *e, int64_t more, kl_err *err) KL_MUST_CHECK;
/* The centre's blocks are there: room for as much as the bond before took. */
kl_status kl_engine_begin_bond(kl_engine *e, kl_err *err) KL_MUST_CHECK;
/* Whether operators multiplied out (LR), `doubles` numbers, are within lr_bytes: those of this centre with
   the vectors of its solve, and those that one side grows from (there: 1 where they are made already). The
   same for the same tensors and limit, whatever else is in memory. Far operators go to files for them. */
kl_status kl_engine_lr_multiplies(kl_engine *e, int64_t doubles, int *fits, kl_err *err) KL_MUST_CHECK;
kl_status kl_engine_lr_grows(kl_engine *e, int64_t doubles, int there, int *fits, kl_err *err) KL_MUST_CHECK;
/* Room for the vectors of a solve. */
kl_status kl_engine_begin_solve(kl_engine *e, const kl_eig_opts *o, kl_err *err) KL_MUST_CHECK;

/* Where ranks share work: what the centre does not use lies with all ranks, an equal part with each. One rank
   alone sees to host_bytes. */
kl_status kl_engine_put_away(kl_engine *e, kl_side side, int pos,
                             /* isometry of pos, and the block that it grew from */
                             kl_err *err) KL_MUST_CHECK;
kl_status kl_engine_bring_block(kl_engine *e, kl_block *b, kl_err *err) KL_MUST_CHECK;
kl_status kl_engine_bring_isometry(kl_engine *e, kl_side side, int pos, kl_err *err) KL_MUST_CHECK;

/* The centre goes to bond `to`; wavefunctions are truncated on the way and not optimized. */
kl_status kl_engine_carry(kl_engine *e, int to, const kl_trunc_opts *o, kl_err *err) KL_MUST_CHECK;

#endif
