/* Names beside names: see partial.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "partial.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static kl_partial *volatile held; /* the open ones, for a signal's handler, which may come at any instruction */

static void hold(kl_partial *p)
{
    p->next = held;
    held = p;
}

static void let_go(const kl_partial *p)
{
    if (held == p) {
        held = p->next;
        return;
    }
    for (kl_partial *at = held; at != NULL; at = at->next) {
        if (at->next == p) at->next = p->next;
    }
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

/* 1: fd is locked and still what the name stands for; 0: another process has it, or had it a moment ago; -1: no locks on this disk. */
static int take(int fd, const char *name)
{
    struct stat mine, there;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return -1;
    }
    return fstat(fd, &mine) == 0 && stat(name, &there) == 0 && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

static kl_status open_unseen(const char *path, kl_partial *p, kl_err *err)
{
    kl_status st = KL_OK;
    enum { MOST = 10000 }; /* who find the name before theirs taken */
    struct stat info;
    char number[24] = "";
    p->fd = -1;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return kl_fail(err, KL_EINPUT, "%.300s: is no ordinary file; what is written would replace it", path);
    for (int k = 2; k < MOST; k++) {
        if (snprintf(p->name, sizeof p->name, "%s%s.partial", path, number) >= (int)sizeof p->name) return kl_fail(err, KL_EINPUT, "%.80s...: the name of the file is too long", path);
        p->fd = open(p->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (p->fd < 0) return kl_fail(err, KL_EIO, "%s", strerror(errno));
        const int got = take(p->fd, p->name);
        const int ours = got > 0 || (got < 0 && number[0] != '\0');
        if (ours) hold(p);
        if (ours && ftruncate(p->fd, 0) == 0) return KL_OK;
        if (ours) KL_TRY(kl_fail(err, KL_EIO, "%s", strerror(errno)));
        if (got < 0) kl_partial_drop(p);
        else close(p->fd);
        p->fd = -1;
        if (got < 0) snprintf(number, sizeof number, ".p%ld", (long)getpid()); /* the best there is without locks */
        else snprintf(number, sizeof number, ".%d", k);
    }
    st = kl_fail(err, KL_EIO, "%d processes write it now", MOST);
out:
    kl_partial_drop(p);
    return st;
}

kl_status kl_partial_open(const char *path, kl_partial *p, kl_err *err)
{
    sigset_t before;
    kl_signals_wait(&before);
    const kl_status st = open_unseen(path, p, err);
    kl_signals_come(&before);
    return st;
}

kl_status kl_partial_publish(kl_partial *p, const char *path, kl_err *err)
{
    sigset_t before;
    kl_signals_wait(&before);
    const int bad = rename(p->name, path) != 0, why = errno;
    if (!bad) let_go(p); /* the name may be another's now */
    kl_signals_come(&before);
    if (bad) kl_partial_drop(p);
    else close(p->fd);
    p->fd = -1;
    return bad ? kl_fail(err, KL_EIO, "%s", strerror(why)) : KL_OK;
}

void kl_partial_drop(kl_partial *p)
{
    sigset_t before;
    if (p->fd < 0) return;
    kl_signals_wait(&before);
    unlink(p->name);
    let_go(p);
    kl_signals_come(&before);
    close(p->fd); /* only now another may have the name */
    p->fd = -1;
}

void kl_partial_abandon(void)
{
    for (const kl_partial *p = held; p != NULL; p = p->next) unlink(p->name);
}
