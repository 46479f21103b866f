/* Where --exec auto runs: small problems on the host, large ones on the device that the tune table says is
   faster from some size on. DMRG asks before every sweep, so that a run begins on the host and moves when it
   keeps enough states; a device that no sweep asks for is never opened.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLACEMENT_H
#define KL_PLACEMENT_H
#include "run/options.h"
#include "run/tune.h"

typedef struct kl_placement {
    kl_tune table;
    kl_exec *host, *device; /* host: borrowed; device: NULL until it is wanted */
    int which;              /* of kl_tune_exec; 0: the host for all */
    int refused;            /* 1: the device is not there, or is not the one that was measured */
    int64_t from;           /* states from which on a sweep is faster there */
    int64_t device_memory;
    kl_device_choice wanted; /* of --device */
    char why[256], name[48];
} kl_placement;

/* 1 when the options leave the choice to the program. */
int kl_placement_automatic(const kl_options *o);

/* Reads the tune table, where there is one; opens nothing. */
kl_status kl_placement_create(const kl_options *o, kl_exec *host, kl_placement **out,
                              kl_err *err) KL_MUST_CHECK;
void kl_placement_destroy(kl_placement **p);

/* The executor for sweeps of m states: kl_dmrg_opts.place. */
kl_exec *kl_placement_at(void *placement, int m);

/* Where it has run so far, in a word or two, and the executor that ran last. */
const char *kl_placement_name(kl_placement *p);
kl_exec *kl_placement_last(const kl_placement *p);

/* Times of eigenvectors on this device and on its host, of a table that was measured on it. */
void kl_placement_eigen(const kl_tune *t, int which, kl_exec *device);

#endif
