/* Work on whole vectors that ranks divide. Each has all of a list's operands; of its outputs each rank makes
   a range, as much work as the others have (nemes2014, Alg. 5, over ranks), and all get all of them, or, of
   lists with `parts`, keep their own. Groups are as they would be on one rank, and so are the bits of what
   they make; of lists with `parts' what a rank can make of its own part comes before the rest is added.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SHARE_H
#define KL_SHARE_H
#include "comm/ranks.h"
#include "record/record.h"

/* Borrows comm. From here on lists are divided where that is worth its messages. Ranks with more threads get
   more. */
kl_status kl_share_join(kl_exec *ex, kl_comm *comm, kl_err *err) KL_MUST_CHECK;
/* The same executor as one of this rank alone, for work that ranks have divided already; without ranks ex. */
kl_exec *kl_share_alone(kl_exec *ex);
/* The same executor for vectors that are spread, as solvers want it; without ranks ex. */
kl_exec *kl_share_solver(kl_exec *ex);

/* Whether dividing so much work is worth exchanging `numbers` results between the ranks of ex. */
int kl_share_worth(const kl_exec *ex, double flop, int64_t numbers);
/* What a message costs in flops of those who wait for it, between processors, or devices that are linked. */
double kl_share_message(int devices);
/* first[size + 1]: of n tasks in a row rank r gets those from first[r] to first[r + 1], so that the one that
   is done last is done as soon as can be. Pure. */
void kl_share_cut(int64_t n, const double *cost, int size, const double *speed, int64_t *first);
/* owner[n]: of tasks in any order, the costliest first to whoever has done with it soonest. Pure. */
kl_status kl_share_tasks(int n, const double *cost, int size, const double *speed, int *owner,
                         kl_err *err) KL_MUST_CHECK;
/* The same for the ranks of ex; without ranks all are rank 0's. */
kl_status kl_share_owners(const kl_exec *ex, int n, const double *cost, int *owner,
                          kl_err *err) KL_MUST_CHECK;

/* first[ranks + 1] by kl_share_cut for the ranks of ex. */
void kl_share_rows(const kl_exec *ex, int64_t n, const double *cost, int64_t *first);

/* [ranks + 1]: numbers of y that each rank makes of a prepared list with `parts`; NULL: all make all. */
const int64_t *kl_share_begin(const kl_batch *b);

/* *whole: room for n numbers of all ranks' parts, as kl_share_apply_parts wants it; none on one machine,
   whose ranks have memory in common. All ranks together. */
kl_status kl_share_room(kl_exec *ex, int64_t n, kl_dptr *whole, kl_err *err) KL_MUST_CHECK;

/* y = this rank's part of what such a list makes of a vector of which every rank has its part x; whole: by
   kl_share_room. On devices records that read x alone run while the others' parts come. */
kl_status kl_share_apply_parts(kl_exec *ex, const kl_batch *b, kl_dptr x, kl_dptr whole, kl_dptr y,
                               kl_err *err) KL_MUST_CHECK;

/* A stretch of numbers that one rank has found and all want. */
typedef struct kl_share_piece {
    int owner;
    int64_t at, n;
} kl_share_piece;
/* In the host's memory, or in the executor's. Nothing where there are no ranks. */
kl_status kl_share_exchange(kl_exec *ex, int npiece, const kl_share_piece *piece, double *base,
                            kl_err *err) KL_MUST_CHECK;
kl_status kl_share_exchange_there(kl_exec *ex, int npiece, const kl_share_piece *piece, kl_dptr base,
                                  kl_err *err) KL_MUST_CHECK;

/* Numbers that one rank has. */
typedef struct kl_share_list {
    int owner, count;
    double *number;
} kl_share_list;
/* In: this rank's are there; out: those of all, in new memory (KL_MEM_WORK). */
kl_status kl_share_lists(kl_exec *ex, int n, kl_share_list *list, kl_err *err) KL_MUST_CHECK;

/* Of n operators' numbers each rank keeps its part; all of them are there again after kl_share_bring. */
kl_status kl_share_put_away(kl_exec *ex, int64_t n, kl_dptr *data, kl_err *err) KL_MUST_CHECK;
kl_status kl_share_bring(kl_exec *ex, int64_t n, kl_dptr *data, kl_err *err) KL_MUST_CHECK;
/* The same to the host, whole[n]; they stay put away. everywhere: on all ranks; 0: on the first one, whole
   being NULL on the others, which call as well. */
kl_status kl_share_download(kl_exec *ex, int64_t n, kl_dptr data, int everywhere, double *whole,
                            kl_err *err) KL_MUST_CHECK;

#endif
