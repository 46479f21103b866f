/* Problems with H that are larger than the device that was asked for: what then waits on the host.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BEYOND_H
#define KL_BEYOND_H
#include "run/placement.h"

typedef enum kl_beyond {
    KL_BEYOND_NOTHING, /* all fits, or the eigensolver takes care of what does not */
    KL_BEYOND_MATRIX,  /* rows of the matrix, and columns of the eigensolver's basis */
    KL_BEYOND_VECTORS, /* all vectors, and what of a matrix does not fit */
} kl_beyond;

/* What of the work does not fit in `room` bytes: a pure function. */
kl_beyond kl_beyond_what(int64_t nwork, const kl_work *work, double room);

/* *ex for this work: itself where all fits, else one that streams (exec/streamed.h), whose `chosen' says so.
   Hosts and ranks are left as they are. */
kl_status kl_beyond_wrap(int64_t nwork, const kl_work *work, kl_exec **ex, kl_err *err) KL_MUST_CHECK;

#endif
