/* Ranks at the executor's level: vectors of which every rank has a part, in its executor's memory. From
   kl_ranks_join on the executor's inner products go over all ranks, so a solver is the same program for one
   rank and for many.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANKS_H
#define KL_RANKS_H
#include "comm/comm.h"
#include "exec/exec.h"

typedef struct kl_linking kl_linking;

struct kl_ranks {
    kl_comm *comm;
    kl_vtable own; /* entries as they were: of this rank alone */
    /* 1: devices reach each other, or are being linked and expected to; else numbers go through the hosts */
    int linked;
    kl_linking *linking; /* NULL, or what is still being linked: the first transfer tells */
    int spread;    /* 1: every rank has its part of a vector; 0: every rank has all of it: share.h */
    /* of kl_share_join; else NULL: see there */
    kl_exec *alone, *solver;
    const double *speed; /* [ranks] of their processors, in any unit */
};

/* Borrows comm. */
kl_status kl_ranks_join(kl_exec *ex, kl_comm *comm, kl_err *err) KL_MUST_CHECK;
/* Begins to link the devices of all ranks, where there is something for it, while other work goes on: half a
   second. Fills what to says of it. */
kl_status kl_ranks_link(kl_exec *ex, kl_comm *comm, kl_ranks *to, kl_err *err) KL_MUST_CHECK;
/* Before the executor is closed. */
void kl_ranks_unlink(kl_ranks *r);
/* Threads of a process that has a device, of nthread that it could have; asked: somebody wants these. Ranks
   that share cores take half: drivers have threads of their own, and two ranks of 16 threads on 32 cores took
   1.4 times as long as with 8. */
int kl_ranks_threads(int nthread, int asked);
/* Once, in what reports say of the executor. */
void kl_ranks_say_where(kl_exec *ex, const char *how);
/* The entries of vectors that ranks share: sums go over all of them. */
void kl_ranks_overlay(kl_vtable *vt);

static inline int kl_ranks_size(const kl_exec *ex) { return ex->ranks ? ex->ranks->comm->size : 1; }
static inline int kl_ranks_mine(const kl_exec *ex) { return ex->ranks ? ex->ranks->comm->rank : 0; }
static inline int kl_ranks_spread(const kl_exec *ex) { return ex->ranks != NULL && ex->ranks->spread; }
/* 1: this rank tells and writes what all have found. */
static inline int kl_ranks_first(const kl_exec *ex) { return kl_ranks_mine(ex) == 0; }

/* 1 when it is 1 on any rank; without ranks: mine. What decides about the course of a run is asked so. */
int kl_ranks_any(const kl_exec *ex, int mine);
/* The smallest of all. */
double kl_ranks_least(const kl_exec *ex, double mine);
/* x[n] = the sum over ranks. */
void kl_ranks_sum(const kl_exec *ex, int64_t n, double *x);
static inline double kl_ranks_total(const kl_exec *ex, double mine)
{
    kl_ranks_sum(ex, 1, &mine);
    return mine;
}

/* Of n numbers in units of `unit`, nearly the same for every rank: begin[ranks + 1]. */
kl_status kl_ranks_even(const kl_exec *ex, int64_t n, int64_t unit, int64_t **begin,
                        kl_err *err) KL_MUST_CHECK;

typedef struct kl_transfer kl_transfer;
/* After what the executor was asked for until now, at the same time as what it is asked for until finish. */
kl_status kl_ranks_start(kl_exec *ex, int npart, const kl_ranks_part *part, kl_transfer **out,
                         kl_err *err) KL_MUST_CHECK;
kl_status kl_ranks_finish(kl_exec *ex, kl_transfer **t, kl_err *err) KL_MUST_CHECK;

/* whole[begin[ranks]], in the executor's memory and on every rank, from the parts x of all. */
kl_status kl_ranks_gather(kl_exec *ex, const int64_t *begin, kl_dptr x, kl_dptr whole,
                          kl_err *err) KL_MUST_CHECK;
/* The same, of which the others' parts are there after kl_ranks_finish; x stays as it is until then. */
kl_status kl_ranks_gather_start(kl_exec *ex, const int64_t *begin, kl_dptr x, kl_dptr whole,
                                kl_transfer **out, kl_err *err) KL_MUST_CHECK;
/* The same in the host's memory. begin NULL: x is whole, n numbers of it. */
kl_status kl_ranks_download(kl_exec *ex, const int64_t *begin, int64_t n, kl_dptr x, double *whole,
                            kl_err *err) KL_MUST_CHECK;
/* Of a whole vector the numbers [first, first + count), in the first rank's to[count]; all ranks call. far:
   NULL, or this rank's part, which then lies there and not at x. */
kl_status kl_ranks_collect(kl_exec *ex, const int64_t *begin, kl_dptr x, const double *far, int64_t first,
                           int64_t count, double *to, kl_err *err) KL_MUST_CHECK;
/* The part of whole[n] that is this rank's to x. */
kl_status kl_ranks_upload(kl_exec *ex, const int64_t *begin, int64_t n, kl_dptr x, const double *whole,
                          kl_err *err) KL_MUST_CHECK;

#endif
