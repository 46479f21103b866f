/* Results of configuration interaction as a checked HDF5 file: energies, spins, leading determinants,
   densities; and runs under way, with what they go on from.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIFILE_H
#define KL_CIFILE_H
#include "ci/ci.h"

typedef struct kl_ci_record {
    kl_ci_result r;
    int finished;              /* 0: a run under way, without states */
    char *program, *command_line;
    char *options;             /* "name=value" lines, which --resume reads back */
    char *fcidump, *space;
    char integrals[20];        /* kl_fcidump_hash in hexadecimal; "": older files do not say */
} kl_ci_record;
void kl_cifile_clear(kl_ci_record *c);

typedef struct kl_ci_vectors { /* that the run goes on from, of one irrep */
    int irrep, nvec;
    int64_t n;
    const double *x;           /* [nvec][n] */
} kl_ci_vectors;

/* A checked file (checked.h). vectors NULL: none; those of other irreps that the file holds stay. */
kl_status kl_cifile_write(const char *path, const kl_ci_record *c, const kl_ci_vectors *vectors,
                          kl_err *err) KL_MUST_CHECK;

int kl_cifile_is(const char *path); /* 1: a file of this kind */

/* EIO or EINPUT, one line, for what is no whole file of this kind. */
kl_status kl_cifile_read(const char *path, kl_ci_record *out, kl_err *err) KL_MUST_CHECK;

/* At most `most` vectors of an irrep; *nvec 0: there are none. EINPUT when they are of another length. */
kl_status kl_cifile_vectors(const char *path, int irrep, int most, int64_t n, int *nvec, double *x,
                            kl_err *err) KL_MUST_CHECK;

#endif
