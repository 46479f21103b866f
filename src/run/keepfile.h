/* What a run keeps of itself, in a file: numbers at once, vectors a part at a time, from wherever they are.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KEEPFILE_H
#define KL_KEEPFILE_H
#include "io/result.h"
#include "solve/keep.h"

typedef struct kl_keepfile {
    kl_exec *ex;
    const char *path;
    int64_t n; /* length of vectors that do not say it, and who has which part of them */
    const int64_t *begin;
    kl_status (*read)(const char *path, kl_result_run *run, kl_err *err);
    kl_status (*write)(void *self, const kl_result_run *run, kl_err *err);
    void *self; /* of write */
    /* what the file keeps, once it has been read; its vectors stay there until they are fetched */
    kl_keep from;
    double *number; /* what from points at, as is the next */
    int64_t *length;
} kl_keepfile;

/* A file of that stage. Of ranks the first writes, and the others hand it their parts. */
kl_status kl_keepfile_write(kl_keepfile *k, int stage, const kl_keep *kept, kl_err *err) KL_MUST_CHECK;
kl_status kl_keepfile_read(kl_keepfile *k, int *stage, kl_err *err) KL_MUST_CHECK;
void kl_keepfile_close(kl_keepfile *k);

#endif
