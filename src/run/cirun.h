/* Configuration interaction as options ask for it: integrals read, the run, its checkpoints, the matrices
   that are to be written out. Prints nothing; leaves the result to the caller.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIRUN_H
#define KL_CIRUN_H
#include "io/cifile.h"
#include "run/keepfile.h"
#include "run/options.h"
#include "run/pace.h"
#include "run/placement.h"

typedef struct kl_cirun {
    const kl_options *o;   /* borrowed, as are those below */
    const kl_watch *watch; /* NULL: nobody is told */
    const kl_fcidump *integrals;
    const char *path;      /* of results and checkpoints; NULL: none */
    kl_ci_opts opts;
    kl_exec *ex;           /* opened by kl_cirun_begin */
    kl_ci_record record;   /* what is found, or what a checkpoint says */
    kl_pace pace;
    kl_keepfile file;
    kl_keeper keeper;
    int resumed, nmatrix, narrays;
    int old; /* resumed from a checkpoint of version 0.1.0, which has start vectors alone */
    int64_t boundary;
    char begun[20]; /* hash of the integrals that a resumed run was begun with, "" otherwise */
} kl_cirun;

/* Where result and checkpoints go: the file that goes on, or --output. NULL: nowhere. */
const char *kl_cirun_path(const kl_options *o);

/* Reads what --resume names, whose options o takes over, and checks all options. The integrals are still to
   be set: those of o->file, or the caller's. */
kl_status kl_cirun_open(kl_options *o, kl_cirun *x, kl_err *err) KL_MUST_CHECK;
/* Before work begins: files can be written, integrals are those of the run that goes on, devices are
   there. */
kl_status kl_cirun_begin(kl_cirun *x, kl_err *err) KL_MUST_CHECK;
/* x->record.r.stopped: kl_interrupted said yes. */
kl_status kl_cirun_go(kl_cirun *x, kl_err *err) KL_MUST_CHECK;
void kl_cirun_clear(kl_cirun *x);

#endif
