/* Looks after the ranks of this machine: a thread of its own notices that one of them has ended, whatever the
   others are waiting for.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COMM_WATCH_H
#define KL_COMM_WATCH_H
#include "comm/comm.h"

typedef struct kl_comm_watch kl_comm_watch;
/* process[nprocess]: of each rank, 0 where it is on another machine. Where no thread can be had, *out is NULL
   and nobody looks. */
kl_status kl_comm_watch_begin(int rank, int nprocess, const int64_t *process, kl_comm_end_fn *end,
                              kl_comm_watch **out, kl_err *err) KL_MUST_CHECK;
void kl_comm_watch_end(kl_comm_watch **w);

#endif
