/* Checked files: HDF5 files that are whole or refused. Each is written under a temporary name, synced and
   renamed, so that at any moment its name holds a whole one; length and checksum in front of the HDF5 part
   (its user block) tell a file that was cut or changed before HDF5 looks at it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CHECKED_H
#define KL_CHECKED_H
#include "io/h5.h"
#include "base/atomicfile.h"

#define KL_CHECKED_FORMAT 2 /* raise when a reader of the former format would misread */

/* A file that is being written. */
typedef struct kl_checked {
    kl_h5_out out; /* to be written through */
    const char *path; /* borrowed */
    kl_atomic_file atomic;
    kl_h5_quiet quiet;
} kl_checked;

/* Opens a temporary file for path (atomicfile.h) and asks the disk for `bytes` bytes, an upper bound. EINPUT
   for what is no ordinary file, EIO for a folder that refuses. */
kl_status kl_checked_create(const char *path, int64_t bytes, kl_checked *f, kl_err *err) KL_MUST_CHECK;

/* Between the two others may use HDF5. What has been written goes to the disk meanwhile, which nobody waits
   for. Of either, what is not KL_OK is the end: path is as it was. */
kl_status kl_checked_pause(kl_checked *f, kl_status written, kl_err *err) KL_MUST_CHECK;
kl_status kl_checked_resume(kl_checked *f, kl_err *err) KL_MUST_CHECK;

/* Ends what create began. The file replaces path if nothing failed, neither in f->out nor elsewhere
   (`written`, which is then returned); otherwise path is as it was: EIO. */
kl_status kl_checked_finish(kl_checked *f, kl_status written, kl_err *err) KL_MUST_CHECK;

/* Opens for reading; EIO or EINPUT with one line for files that are not there, foreign, cut short, changed or
   of another format. */
kl_status kl_checked_open(const char *path, kl_h5_in *in, kl_err *err) KL_MUST_CHECK;
void kl_checked_close(kl_h5_in *in); /* accepts one that was not opened, {0} */

/* 1: an ordinary file that begins as such files do; what is behind is not looked at. */
int kl_checked_is(const char *path);

/* Tries whether path can be written, before hours are spent. */
kl_status kl_checked_probe(const char *path, kl_err *err) KL_MUST_CHECK;

/* For who reads a file to replace it by one that holds more: waits until no other process does so, which then
   waits until the descriptor is closed. -1 where there is no file or no lock on this disk; reading tells the
   first, and the second is as good as there is. */
int kl_checked_hold(const char *path) KL_MUST_CHECK;

/* Writes length and checksum anew: for who changed a file on purpose. */
kl_status kl_checked_renew(const char *path, kl_err *err) KL_MUST_CHECK;

#endif
