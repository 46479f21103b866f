/* Files are written under temporary names in the same folder and take their own when they are whole. What
   stood there stays until then, and of several processes that write the same name the last one wins with a
   whole file. No link of another user is followed, and no file is emptied that is not our own left-over.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ATOMICFILE_H
#define KL_ATOMICFILE_H
#include "base/base.h"
#include <signal.h>
#include <stdio.h>

enum { KL_ATOMIC_LEAF = 256 }; /* NAME_MAX of Linux, with its 0 */

typedef struct kl_atomic_file {
    int fd; /* open for reading and writing; its lock keeps the name ours */
    int folder; /* both names are in it */
    char target[KL_ATOMIC_LEAF]; /* what will be replaced */
    char name[KL_ATOMIC_LEAF + 24]; /* TARGET.partial; TARGET.2.partial and so on where that is taken */
    struct kl_atomic_file *volatile next; /* another open one */
} kl_atomic_file;

/* Makes an empty file; p must not move until publish or drop. A symbolic link at path stays: the file it
   points at is replaced. _at: path counts from an open folder.
   EINPUT: the name is too long, or path is a link of another user or no ordinary file (a device, a pipe, a
   folder), which the new file would replace.
   EIO: the folder refuses; the message says why without a name. */
kl_status kl_atomic_open(const char *path, kl_atomic_file *p, kl_err *err) KL_MUST_CHECK;
kl_status kl_atomic_open_at(int folder, const char *path, kl_atomic_file *p, kl_err *err) KL_MUST_CHECK;

/* A stream that writes the file through its descriptor; it is closed apart. NULL with errno: no memory or no
   descriptors. */
FILE *kl_atomic_stream(const kl_atomic_file *p) KL_MUST_CHECK;

/* The file takes its name, and the new entry is asked to reach the disk; EIO with the reason alone. Ends what
   open began. */
kl_status kl_atomic_publish(kl_atomic_file *p, kl_err *err) KL_MUST_CHECK;

void kl_atomic_drop(kl_atomic_file *p); /* removes it; accepts one that is ended, or {.fd = -1} */

/* Removes all that are open: for whoever ends the program at once, a signal's handler or any thread. */
void kl_atomic_abandon(void);

/* Between the two no handler of SIGINT or SIGTERM comes in this thread: what is made is also noted. */
void kl_signals_wait(sigset_t *before);
void kl_signals_come(const sigset_t *before);

#endif
