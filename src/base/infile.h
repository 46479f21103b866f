/* Files that a user names for reading. Only ordinary files and pipes are opened, and no wait for one outlasts
   a request to stop (kl_interrupted). Writes nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_INFILE_H
#define KL_INFILE_H
#include <stdio.h>

#include "base/base.h"

/* For fclose. A read that a request to stop ends fails with EINTR. Folders and devices, which may have no
   end, are EIO, as is what cannot be opened. */
kl_status kl_infile_open(const char *path, FILE **out, kl_err *err) KL_MUST_CHECK;

/* All of a file of at most `most` bytes, with a zero behind it; *text is for kl_free. EINPUT for a longer
   one. */
kl_status kl_infile_read(const char *path, int64_t most, char **text, int64_t *n, kl_err *err) KL_MUST_CHECK;

/* Opens without waiting: the descriptor of an ordinary file, for code that seeks in it. */
kl_status kl_infile_descriptor(const char *path, int flags, int *fd, kl_err *err) KL_MUST_CHECK;

/* Of all that was read through streams until now: the same where the same was read in the same order. */
uint64_t kl_infile_digest(void);

#endif
