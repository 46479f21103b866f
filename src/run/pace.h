/* The pace of checkpoints: when one is due, and that a disk which refuses one does not end the run. Writes no
   file itself.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PACE_H
#define KL_PACE_H
#include "run/watch.h"

typedef struct kl_pace {
    double every; /* seconds between two, as asked for */
    double last, cost; /* when the last one was written, and how long that took, seconds */
    int warned; /* 1: a failure was told, which is done once */
    int kept; /* there is a checkpoint of this run; a run that goes on from one sets it itself */
    const kl_watch *watch; /* NULL, or who is told of a failure */
} kl_pace;

/* The pace of a run that begins now; every: seconds. */
kl_pace kl_pace_begin(double every, const kl_watch *watch);

/* Vectors can be large and disks slow: no more than a tenth of the time goes to checkpoints. */
int kl_pace_due(const kl_pace *p);

/* After one that was begun at start (kl_prof_seconds): written is what became of it, why the message. */
void kl_pace_done(kl_pace *p, double start, kl_status written, const kl_err *why);

#endif
