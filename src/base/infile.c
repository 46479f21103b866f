/* A stream over a descriptor that is opened without waiting and read after poll, which no restarted call
   outlasts: see infile.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include "base/infile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    LOOK_MS = 100,
    STREAM_BYTES = 1 << 16,
};

static _Thread_local uint64_t digest = KL_HASH_EMPTY;

uint64_t kl_infile_digest(void) { return digest; }

typedef struct source {
    int fd;
} source;

/* A signal may come between the question and poll, hence a wait that ends by itself. A pipe that nobody has
   opened for writing yet is waited for. */
static ssize_t read_some(void *self, char *to, size_t n)
{
    const source *const s = self;
    for (;;) {
        if (kl_interrupted()) {
            errno = EINTR;
            return -1;
        }
        struct pollfd wait = {.fd = s->fd, .events = POLLIN};
        const int ready = poll(&wait, 1, LOOK_MS);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        const ssize_t got = ready < 0 ? -1 : read(s->fd, to, n);
        for (ssize_t i = 0; i < got; i++) digest = kl_hash_mix(digest, (unsigned char)to[i]);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
    }
}

static int close_source(void *self)
{
    source *s = self;
    const int bad = close(s->fd);
    kl_free(&s);
    return bad;
}

static kl_status open_checked(const char *path, int flags, int pipes, int *fd, kl_err *err)
{
    struct stat info;
    *fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (*fd < 0) return kl_fail(err, KL_EIO, "%.300s: cannot be opened: %s", path, strerror(errno));
    const char *wrong = NULL;
    if (fstat(*fd, &info) != 0) wrong = "cannot be looked at";
    else if (pipes && S_ISDIR(info.st_mode)) wrong = "cannot be read: Is a directory";
    else if (!S_ISREG(info.st_mode) && !(pipes && S_ISFIFO(info.st_mode))) wrong = "is no ordinary file";
    if (wrong == NULL) return KL_OK;
    close(*fd);
    *fd = -1;
    return kl_fail(err, KL_EIO, "%.300s: %s; allowed: a file%s", path, wrong, pipes ? " or a pipe" : "");
}

kl_status kl_infile_descriptor(const char *path, int flags, int *fd, kl_err *err)
{
    return open_checked(path, flags, 0, fd, err);
}

kl_status kl_infile_open(const char *path, FILE **out, kl_err *err)
{
    kl_status st = KL_OK;
    source *s = NULL;
    int fd = -1;
    *out = NULL;
    KL_TRY(open_checked(path, O_RDONLY, 1, &fd, err));
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->fd = fd;
    *out = fopencookie(s, "r", (cookie_io_functions_t){.read = read_some, .close = close_source});
    if (*out == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "%.300s: no memory for a stream", path));
    setvbuf(*out, NULL, _IOFBF, STREAM_BYTES);
    return KL_OK;
out:
    kl_free(&s);
    if (fd >= 0) close(fd);
    return st;
}

kl_status kl_infile_read(const char *path, int64_t most, char **text, int64_t *n, kl_err *err)
{
    kl_status st = KL_OK;
    FILE *f = NULL;
    int64_t have = 0, room = 0;
    size_t got;
    *text = NULL;
    KL_TRY(kl_infile_open(path, &f, err));
    do {
        if (room - have < STREAM_BYTES) {
            room = 2 * room + 2 * STREAM_BYTES;
            KL_TRY(kl_realloc(text, room, KL_MEM_MISC, err));
        }
        got = fread(*text + have, 1, STREAM_BYTES - 1, f);
        have += (int64_t)got;
        if (have > most)
            KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is longer than %.4g MB", path, 1e-6 * (double)most));
    } while (got > 0);
    if (ferror(f)) KL_TRY(kl_fail(err, KL_EIO, "%.300s: cannot be read: %s", path, strerror(errno)));
    (*text)[have] = '\0';
    *n = have;
out:
    if (f != NULL) fclose(f);
    if (st != KL_OK) kl_free(text);
    return st;
}
