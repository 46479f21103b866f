/* Temporary names in the same folder: see atomicfile.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH */
#endif
#include "base/atomicfile.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The open ones, for a signal's handler, which may come at any instruction and asks for no lock, and for the
   thread that sees another rank end. */
static kl_atomic_file *volatile held;
static pthread_mutex_t one_writer = PTHREAD_MUTEX_INITIALIZER; /* of the list */

static void hold(kl_atomic_file *p)
{
    pthread_mutex_lock(&one_writer);
    p->next = held;
    __atomic_store_n(&held, p, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&one_writer);
}

static void let_go(const kl_atomic_file *p)
{
    pthread_mutex_lock(&one_writer);
    if (held == p) __atomic_store_n(&held, p->next, __ATOMIC_RELEASE);
    else
        for (kl_atomic_file *at = held; at != NULL; at = at->next)
            if (at->next == p) __atomic_store_n(&at->next, p->next, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&one_writer);
}

void kl_signals_wait(sigset_t *before)
{
    sigset_t those;
    sigemptyset(&those);
    sigaddset(&those, SIGINT);
    sigaddset(&those, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &those, before);
}

void kl_signals_come(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

/* Opens the folder that path, which counts from the folder `from`, lies in; leaf: what stands behind the last
   slash. */
static kl_status open_folder(int from, const char *path, int *folder, char leaf[KL_ATOMIC_LEAF], kl_err *err)
{
    char before[4096];
    const char *const slash = strrchr(path, '/'), *const last = slash == NULL ? path : slash + 1;
    const size_t length = (size_t)(last - path);
    if (strlen(last) >= KL_ATOMIC_LEAF || length >= sizeof before)
        return kl_fail(err, KL_EINPUT, "%.80s...: the name of the file is too long", path);
    snprintf(before, sizeof before, "%.*s", (int)length, path);
    snprintf(leaf, KL_ATOMIC_LEAF, "%s", last);
    *folder = openat(from, length == 0 ? "." : before, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *folder >= 0 ? KL_OK : kl_fail(err, KL_EIO, "%s", strerror(errno));
}

/* What a name stands for. text[size]: where a link points. EINPUT for a link of another user, who could point
   it at any file of ours; the link is opened itself, so that nobody exchanges it between the question and the
   answer. */
static kl_status look(int folder, const char *leaf, mode_t *mode, char *text, size_t size, const char *path,
                      kl_err *err)
{
    kl_status st = KL_OK;
    struct stat info;
    *mode = 0; /* nothing is there */
    if (leaf[0] == '\0') *mode = S_IFDIR;
    if (leaf[0] == '\0') return KL_OK;
    const int fd = openat(folder, leaf, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? KL_OK : kl_fail(err, KL_EIO, "%s", strerror(errno));
    if (fstat(fd, &info) != 0) KL_TRY(kl_fail(err, KL_EIO, "%s", strerror(errno)));
    *mode = info.st_mode;
    if (!S_ISLNK(info.st_mode)) goto out;
    if (info.st_uid != geteuid())
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "%.300s: is a link of user %ld, and this is user %ld; only own links are followed",
                       path, (long)info.st_uid, (long)geteuid()));
    const ssize_t n = readlinkat(fd, "", text, size);
    if (n < 0) KL_TRY(kl_fail(err, KL_EIO, "%s", strerror(errno)));
    if ((size_t)n >= size)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: the link points at a name that is too long", path));
    text[n] = '\0';
out:
    close(fd);
    return st;
}

/* Follows links from path to the file that is to be replaced. */
static kl_status find_target(int from, const char *path, kl_atomic_file *p, kl_err *err)
{
    enum { MOST = 40 }; /* links, as many as Linux follows */
    kl_status st = KL_OK;
    char text[4096];
    mode_t mode = 0;
    KL_TRY(open_folder(from, path, &p->folder, p->target, err));
    for (int k = 0; k < MOST; k++) {
        const int folder = p->folder;
        KL_TRY(look(folder, p->target, &mode, text, sizeof text, path, err));
        if (mode != 0 && !S_ISLNK(mode) && !S_ISREG(mode))
            KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is no ordinary file; what is written would replace it",
                           path));
        if (!S_ISLNK(mode)) return KL_OK;
        p->folder = -1;
        st = open_folder(folder, text, &p->folder, p->target, err);
        close(folder);
        if (st != KL_OK) return st;
    }
    st = kl_fail(err, KL_EIO, "%s", strerror(ELOOP));
out:
    if (p->folder >= 0) close(p->folder);
    p->folder = -1;
    return st;
}

/* Whether fd, which was there before us, may be emptied: an own ordinary file without a second name. */
static int is_leftover(int fd)
{
    struct stat mine;
    return fstat(fd, &mine) == 0 && S_ISREG(mine.st_mode) && mine.st_uid == geteuid() && mine.st_nlink == 1;
}

/* 1: fd is locked and still what the name stands for; 0: another process has it, or had it a moment ago; -1:
   no locks on this disk. */
static int lock(const kl_atomic_file *p)
{
    struct stat mine, there;
    while (flock(p->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return -1;
    }
    return fstat(p->fd, &mine) == 0 && fstatat(p->folder, p->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* Makes p->name, or takes over what a killed process left of it. 1: it is ours; 0: it is taken, or a link, or
   another user's; -1: the folder refuses, says errno. Without locks a left-over cannot be told from a file
   that is being written, so that only what is new is ours. */
static int take(kl_atomic_file *p)
{
    p->fd = openat(p->folder, p->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    const int made = p->fd >= 0;
    if (!made && errno != EEXIST) return -1;
    if (!made) p->fd = openat(p->folder, p->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (p->fd < 0) return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -1 : 0;
    const int got = lock(p);
    if (made ? got != 0 : got > 0 && is_leftover(p->fd)) {
        hold(p);
        if (ftruncate(p->fd, 0) == 0) return 1;
        const int why = errno;
        kl_atomic_drop(p);
        errno = why;
        return -1;
    }
    close(p->fd);
    p->fd = -1;
    return 0;
}

static kl_status open_unseen(int folder, const char *path, kl_atomic_file *p, kl_err *err)
{
    kl_status st = KL_OK;
    enum { MOST = 10000 }; /* who find the name before theirs taken */
    p->fd = p->folder = -1;
    KL_TRY(find_target(folder, path, p, err));
    for (int k = 1; k < MOST; k++) {
        char number[24] = "";
        if (k > 1) snprintf(number, sizeof number, ".%d", k);
        snprintf(p->name, sizeof p->name, "%s%s.partial", p->target, number);
        const int got = take(p);
        if (got > 0) return KL_OK;
        if (got < 0) KL_TRY(kl_fail(err, KL_EIO, "%s", strerror(errno)));
    }
    st = kl_fail(err, KL_EIO, "%d temporary names for it are taken", MOST);
out:
    if (p->folder >= 0) close(p->folder);
    p->folder = -1;
    return st;
}

kl_status kl_atomic_open_at(int folder, const char *path, kl_atomic_file *p, kl_err *err)
{
    sigset_t before;
    kl_signals_wait(&before);
    const kl_status st = open_unseen(folder, path, p, err);
    kl_signals_come(&before);
    return st;
}

kl_status kl_atomic_open(const char *path, kl_atomic_file *p, kl_err *err)
{
    return kl_atomic_open_at(AT_FDCWD, path, p, err);
}

FILE *kl_atomic_stream(const kl_atomic_file *p)
{
    const int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    FILE *const f = fd < 0 ? NULL : fdopen(fd, "w");
    if (f == NULL && fd >= 0) close(fd);
    return f;
}

/* The renamed entry itself must reach the disk, or a power cut brings the old one back. Some file systems
   cannot; the file itself is safe by then. */
static void sync_folder(int folder)
{
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

static void end(kl_atomic_file *p)
{
    close(p->fd); /* only now another may have the name */
    close(p->folder);
    p->fd = p->folder = -1;
}

kl_status kl_atomic_publish(kl_atomic_file *p, kl_err *err)
{
    sigset_t before;
    kl_signals_wait(&before);
    const int bad = renameat(p->folder, p->name, p->folder, p->target) != 0, why = errno;
    if (!bad) let_go(p); /* the name may be another's now */
    kl_signals_come(&before);
    if (bad) {
        kl_atomic_drop(p);
        return kl_fail(err, KL_EIO, "%s", strerror(why));
    }
    sync_folder(p->folder);
    end(p);
    return KL_OK;
}

void kl_atomic_drop(kl_atomic_file *p)
{
    sigset_t before;
    if (p->fd < 0) return;
    kl_signals_wait(&before);
    unlinkat(p->folder, p->name, 0);
    let_go(p);
    kl_signals_come(&before);
    end(p);
}

void kl_atomic_abandon(void)
{
    const kl_atomic_file *p = __atomic_load_n(&held, __ATOMIC_ACQUIRE);
    for (; p != NULL; p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE)) unlinkat(p->folder, p->name, 0);
}
