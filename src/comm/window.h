/* Memory of every rank's device that the devices of all other ranks write into, where all are of one host and
   reach each other (peers.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WINDOW_H
#define KL_WINDOW_H
#include "comm/ranks.h"
#include "exec/peers.h"

typedef struct kl_window {
    kl_exec *ex;
    kl_dptr own; /* 0 at first */
    kl_dptr *there; /* [ranks] the others' */
} kl_window;

/* n numbers of this rank's; all ranks call. *out NULL: on some rank there is no such thing, or
   KRONLAT_PEERS=off asks for none. */
kl_status kl_window_open(kl_exec *ex, int64_t n, kl_window **out, kl_err *err) KL_MUST_CHECK;
/* of `counts': where the others write how far they are; all of them have to come to `last' before memory is
   given back. A rank that waits for one that is lost keeps it. */
void kl_window_close(kl_window **w, int64_t counts, uint32_t last);

#endif
