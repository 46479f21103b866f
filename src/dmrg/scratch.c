/* Files of no name: see scratch.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkostemp */
#endif
#include "dmrg/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { PIECE = 1 << 20 }; /* numbers that pass through the host at a time */

static kl_status failed(const char *what, const char *folder, kl_err *err)
{
    return kl_fail(err, KL_EIO, "--host-memory: a file in %.300s cannot be %s: %s", folder, what,
                   strerror(errno));
}

static kl_status write_all(int fd, const char *from, size_t size, const char *folder, kl_err *err)
{
    while (size > 0) {
        const ssize_t n = write(fd, from, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed("written", folder, err);
        from += n;
        size -= (size_t)n;
    }
    return KL_OK;
}

kl_status kl_scratch_write(const char *folder, const double *x, int64_t n, int *fd, kl_err *err)
{
    char path[600];
    const char *const named = getenv("TMPDIR");
    if (folder == NULL) folder = named != NULL && named[0] != '\0' ? named : "/var/tmp";
    *fd = -1;
    if (snprintf(path, sizeof path, "%s/kronlat-XXXXXX", folder) >= (int)sizeof path)
        return kl_fail(err, KL_EINPUT, "--scratch: the name of the folder is too long");
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0) return failed("made", folder, err);
    unlink(path);
    const kl_status st = write_all(*fd, (const char *)x, (size_t)n * sizeof *x, folder, err);
    if (st != KL_OK) kl_scratch_close(fd);
    return st;
}

static kl_status read_all(int fd, char *to, size_t size, int64_t at, kl_err *err)
{
    while (size > 0) {
        const ssize_t n = pread(fd, to, size, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return kl_fail(err, KL_EIO, "--host-memory: what was written cannot be read: %s",
                           n < 0 ? strerror(errno) : "the file has ended");
        to += n;
        size -= (size_t)n;
        at += n;
    }
    return KL_OK;
}

kl_status kl_scratch_read(int fd, kl_exec *ex, kl_dptr x, int64_t n, kl_err *err)
{
    kl_status st = KL_OK;
    double *piece = NULL;
    if (ex->space == KL_SPACE_HOST || kl_exec_is_far(ex, x))
        return read_all(fd, (char *)x.addr, (size_t)n * sizeof(double), 0, err);
    KL_TRY(kl_alloc(&piece, n < PIECE ? n : PIECE, KL_MEM_WORK, err));
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t count = n - at < PIECE ? n - at : PIECE;
        KL_TRY(read_all(fd, (char *)piece, (size_t)count * sizeof *piece, at * (int64_t)sizeof *piece, err));
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(x, at), piece, count, err));
    }
out:
    kl_free(&piece);
    return st;
}

void kl_scratch_expect(int fd) { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED); }

void kl_scratch_close(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}
