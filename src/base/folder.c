/* Own folders: see folder.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_PATH */
#endif
#include "base/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_REST = 2 * PATH_MAX,
    MOST_LINKS = 40,
};

typedef struct walk {
    const char *path;        /* for messages */
    int fd;                  /* the folder reached */
    mode_t mode;             /* of it */
    char name[NAME_MAX + 1]; /* of it */
    char rest[MAX_REST];     /* of the path from there */
    int nlink;               /* links followed */
} walk;

static kl_status refused(const walk *w, const char *name, kl_err *err)
{
    const int why = errno;
    return kl_fail(err, why == ENOENT ? KL_EABSENT : KL_EIO, "the folder %.300s cannot be opened: %.200s: %s",
                   w->path, name, strerror(why));
}

/* Whose it is decides who can exchange it. */
static kl_status check_owner(const walk *w, const struct stat *info, const char *name, kl_err *err)
{
    if (info->st_uid == 0 || info->st_uid == geteuid()) return KL_OK;
    return kl_fail(err, KL_EINPUT,
                   "the folder %.300s is not used: '%.200s' above it belongs to user %ld; allowed are root "
                   "and this user, %ld",
                   w->path, name, (long)info->st_uid, (long)geteuid());
}

/* Of the folder reached; one that has the bit `but` may be written by all. */
static kl_status check_mode(const walk *w, mode_t but, kl_err *err)
{
    if ((w->mode & S_IWOTH) == 0 || (w->mode & but) != 0) return KL_OK;
    return kl_fail(err, KL_EINPUT,
                   "the folder %.300s is not used: all users can write '%.200s' (mode %03o); take that right "
                   "away (chmod o-w), or name another folder",
                   w->path, w->name, (unsigned)(w->mode & 07777));
}

/* Takes over fd as the folder reached. */
static kl_status enter(walk *w, int fd, const struct stat *info, const char *name, kl_err *err)
{
    if (w->fd >= 0) close(w->fd);
    w->fd = fd;
    w->mode = info->st_mode;
    snprintf(w->name, sizeof w->name, "%s", name);
    return check_owner(w, info, name, err);
}

static kl_status enter_root(walk *w, kl_err *err)
{
    struct stat info;
    const int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        const kl_status st = refused(w, "/", err);
        if (fd >= 0) close(fd);
        return st;
    }
    return enter(w, fd, &info, "/", err);
}

/* Puts the text of the link fd before the rest of the path. */
static kl_status follow(walk *w, int fd, const char *name, kl_err *err)
{
    char text[MAX_REST], tail[MAX_REST];
    const ssize_t n = readlinkat(fd, "", text, sizeof text - 1);
    if (n < 0) return refused(w, name, err);
    text[n] = '\0';
    snprintf(tail, sizeof tail, "%s", w->rest);
    errno = ELOOP;
    if (++w->nlink > MOST_LINKS) return refused(w, name, err);
    errno = ENAMETOOLONG;
    if ((size_t)n + strlen(tail) + 2 > sizeof w->rest) return refused(w, name, err);
    snprintf(w->rest, sizeof w->rest, "%.*s/%.*s", (int)n, text, (int)strlen(tail), tail);
    return text[0] == '/' ? enter_root(w, err) : KL_OK;
}

/* Goes one name further. */
static kl_status step(walk *w, const char *name, int make, kl_err *err)
{
    kl_status st = KL_OK;
    struct stat info;
    KL_TRY(check_mode(w, S_ISVTX, err));
    int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(w->fd, name, 0700) != 0 && errno != EEXIST) return refused(w, name, err);
        fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) return refused(w, name, err);
    if (fstat(fd, &info) != 0) {
        st = refused(w, name, err);
    } else if (S_ISDIR(info.st_mode)) {
        return enter(w, fd, &info, name, err);
    } else if (S_ISLNK(info.st_mode)) {
        st = check_owner(w, &info, name, err);
        if (st == KL_OK) st = follow(w, fd, name, err);
    } else {
        errno = ENOTDIR;
        st = refused(w, name, err);
    }
    close(fd);
out:
    return st;
}

/* Takes the first name off the path; 0: there is none left. */
static int next_name(walk *w, char name[NAME_MAX + 1])
{
    const char *const from = w->rest + strspn(w->rest, "/");
    const size_t n = strcspn(from, "/");
    if (n == 0) return 0;
    snprintf(name, NAME_MAX + 1, "%.*s", (int)n, from);
    memmove(w->rest, from + n, strlen(from + n) + 1);
    return 1;
}

kl_status kl_folder_open_own(const char *path, int make, int *fd, kl_err *err)
{
    kl_status st = KL_OK;
    char here[PATH_MAX] = "", name[NAME_MAX + 1];
    walk w = {.path = path, .fd = -1};
    *fd = -1;
    if (path[0] != '/' && getcwd(here, sizeof here) == NULL) KL_TRY(refused(&w, ".", err));
    errno = ENAMETOOLONG;
    if (snprintf(w.rest, sizeof w.rest, "%s/%s", here, path) >= (int)sizeof w.rest)
        KL_TRY(refused(&w, path, err));
    KL_TRY(enter_root(&w, err));
    while (next_name(&w, name)) KL_TRY(step(&w, name, make, err));
    KL_TRY(check_mode(&w, 0, err));
    *fd = w.fd;
    w.fd = -1;
out:
    if (w.fd >= 0) close(w.fd);
    return st;
}
