/* The bus between a device and the memory of its host that it reaches.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BUS_H
#define KL_BUS_H
#include "exec/exec.h"

typedef struct kl_bus { /* bytes a second, of one long copy that is waited for */
    double up;          /* to the device */
    double down;        /* and back */
    /* bytes a second of taking memory of the host that the device reaches, which the driver locks; 0: not
       known */
    double lock;
    double both; /* how much longer a copy takes beside one of the other way; 1: no longer */
} kl_bus;

/* In some milliseconds, with a quarter of what the device has free at most. EABSENT: it reaches no memory of
   the host, or copies nothing beside its products. */
kl_status kl_bus_measure(kl_exec *ex, kl_bus *out, kl_err *err) KL_MUST_CHECK;

#endif
