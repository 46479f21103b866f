/* Files are written beside their names and take them when they are whole. What stood there stays until then,
   and of several processes that write the same name the last one wins with a whole file. No link of another
   user is followed, and no file is emptied that is not our own left-over.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARTIAL_H
#define KL_PARTIAL_H
#include "base/base.h"
#include <signal.h>
#include <stdio.h>

enum { KL_PARTIAL_LEAF = 256 }; /* NAME_MAX of Linux, with its 0 */

typedef struct kl_partial {
    int fd;                           /* open for reading and writing; its lock keeps the name ours */
    int folder;                       /* both names are in it */
    char target[KL_PARTIAL_LEAF];     /* what will be replaced */
    char name[KL_PARTIAL_LEAF + 24];  /* TARGET.partial; TARGET.2.partial and so on where that is taken */
    struct kl_partial *volatile next; /* another open one */
} kl_partial;

/* Makes an empty file; p must not move until publish or drop. A symbolic link at path stays: the file it
   points at is replaced. _at: path counts from an open folder.
   EINPUT: the name is too long, or path is a link of another user or no ordinary file (a device, a pipe, a
   folder), which the new file would replace.
   EIO: the place refuses; the message says why without a name. */
kl_status kl_partial_open(const char *path, kl_partial *p, kl_err *err) KL_MUST_CHECK;
kl_status kl_partial_open_at(int folder, const char *path, kl_partial *p, kl_err *err) KL_MUST_CHECK;

/* A stream that writes the file through its descriptor; it is closed apart. NULL with errno: no memory or no
   descriptors. */
FILE *kl_partial_stream(const kl_partial *p) KL_MUST_CHECK;

/* The file takes its name, and the new entry is asked to reach the disk; EIO with the reason alone. Ends what
   open began. */
kl_status kl_partial_publish(kl_partial *p, kl_err *err) KL_MUST_CHECK;

void kl_partial_drop(kl_partial *p); /* removes it; accepts one that is ended, or {.fd = -1} */

/* Removes all that are open: for the handler of a signal that ends the program, in the thread that writes. */
void kl_partial_abandon(void);

/* Between the two no handler of SIGINT or SIGTERM comes in this thread: what is made is also noted. */
void kl_signals_wait(sigset_t *before);
void kl_signals_come(const sigset_t *before);

#endif
