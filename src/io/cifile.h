/* Results of configuration interaction as a checked HDF5 file: energies, spins, leading determinants,
   densities; and unfinished runs, with what they go on from.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIFILE_H
#define KL_CIFILE_H
#include "ci/ci.h"
#include "io/result.h"

typedef struct kl_ci_record {
    kl_ci_result r;
    int finished;              /* 0: an unfinished run, without states */
    int has_run;               /* read: kl_cifile_read_run has something */
    char *program, *command_line;
    char *options;             /* "name=value" lines, which --resume reads back */
    char *fcidump, *space;
    char integrals[20];        /* kl_fcidump_hash in hexadecimal; "": older files do not say */
} kl_ci_record;
void kl_cifile_clear(kl_ci_record *c);

/* A checked file (checked.h). run NULL: the run is finished. */
kl_status kl_cifile_write(const char *path, const kl_ci_record *c, const kl_result_run *run,
                          kl_err *err) KL_MUST_CHECK;

/* As kl_result_read_run. */
kl_status kl_cifile_read_run(const char *path, kl_result_run *run, kl_err *err) KL_MUST_CHECK;

int kl_cifile_is(const char *path); /* 1: a file of this kind */

/* EIO or EINPUT, one line, for what is no whole file of this kind. */
kl_status kl_cifile_read(const char *path, kl_ci_record *out, kl_err *err) KL_MUST_CHECK;

/* Of a checkpoint of version 0.1.0: at most `most` vectors of an irrep; *nvec 0: there are none. EINPUT when
   they are of another length. */
kl_status kl_cifile_vectors(const char *path, int irrep, int most, int64_t n, int *nvec, double *x,
                            kl_err *err) KL_MUST_CHECK;

#endif
