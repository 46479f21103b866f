/* Two executors of one device, operation by operation: each call goes to the one that was measured to be
   faster at its size.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MIXED_H
#define KL_MIXED_H
#include "exec/exec.h"

/* What one operation takes on both, until its result is there. size: length of the vectors; of a list
   kl_batch_mean_size. */
typedef struct kl_mixed_time {
    kl_op op; /* COPY; AXPBY, which speaks for PRECONDITION too; DOTS, COMBINE, FUSE, BATCH */
    int64_t size;
    double seconds[2];
} kl_mixed_time;

/* 0 or 1: who takes an operation of this size, by the times at the nearest size (by ratio); *by: those, or
   NULL where nothing was measured. The second one has to be ahead by more than it costs to hand over. */
int kl_mixed_which(const kl_mixed_time *time, int n, kl_op op, double size, const kl_mixed_time **by);
/* 1 when any of these sizes is the second one's. */
int kl_mixed_ever(const kl_mixed_time *time, int n);

/* How the second one is opened, if it is not open yet: when what it would have saved comes to the seconds
   that this takes. */
typedef struct kl_mixed_later {
    kl_status (*open)(void *self, kl_exec **out, kl_err *err);
    void *self;
    double seconds;
} kl_mixed_later;

/* Takes both; *second may be NULL, then `later` opens it. They see the same memory, which the first one gives
   out; entries of the second return when they are done, as those of offload do. Lists that want memory of
   their own beyond a small part of what is left, and those whose operators wait on the host, are the first
   one's, as is all that is not in the table. */
kl_status kl_exec_open_mixed_take(kl_exec **first, kl_exec **second, const kl_mixed_later *later,
                                  const kl_mixed_time *time, int n, kl_exec **out, kl_err *err) KL_MUST_CHECK;

#endif
