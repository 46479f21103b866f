/* What ranks can tell each other in a second: measured, for reports, plans and the tune table.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANKRATES_H
#define KL_RANKRATES_H
#include "comm/comm.h"

/* Of the ranks' processors, or of their devices. */
typedef struct kl_rankrate {
    int ranks, hosts;
    double rate;    /* bytes that a rank gets from the others in a second, all at the same time; 0: none */
    double latency; /* seconds of a sum over all, or of the smallest exchange */
} kl_rankrate;

typedef struct kl_rankrates {
    kl_rankrate host, device;
    double link;        /* bytes a second from the host to its device, all at the same time */
    char (*where)[160]; /* [ranks] devices; NULL: not every rank has one */
} kl_rankrates;

/* All ranks call. The devices are those of CUDA, one a rank. */
kl_status kl_rankrates_measure(kl_comm *c, kl_rankrates *out, kl_err *err) KL_MUST_CHECK;
void kl_rankrates_clear(kl_rankrates *r);

#endif
