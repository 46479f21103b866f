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
/* It looks no more; it may still be asked what follows. NULL, here and there: nobody else is known. */
void kl_comm_watch_hush(kl_comm_watch *w);
/* The signal by which a rank calls the others, and what the program has to do when it comes: a library leaves
   signals to the program, which says so before it opens the ranks. */
int kl_comm_watch_signal(void);
void kl_comm_watch_on_signal(int signal);
/* The other ranks of this machine end in a moment, whatever they do: somebody tells why. */
void kl_comm_watch_call(const kl_comm_watch *w);
int kl_comm_watch_called(void); /* 1: another one has done so */
/* 1: all the others of this machine are gone. */
int kl_comm_watch_alone(const kl_comm_watch *w);

#endif
