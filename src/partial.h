/* Files are written beside their names and take them when they are whole: whatever stood there stays until then, and of several who write the same name
   the last wins with a whole file.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARTIAL_H
#define KL_PARTIAL_H
#include <signal.h>
#include "base.h"

typedef struct kl_partial {
    char name[4096];                  /* PATH.partial, or PATH.2.partial and so on where other processes write the same PATH now; to be written by this name */
    int fd;                           /* holds the lock that keeps the name ours; a killed process gives its lock up, so that the next one takes its name over */
    struct kl_partial *volatile next; /* another open one */
} kl_partial;

/* Makes an empty file; p must not move until publish or drop. EINPUT: the name is too long, or path is no ordinary file (a device, a pipe, a folder), which
   the new file would replace. EIO: the place refuses; the message says why without a name. */
kl_status kl_partial_open(const char *path, kl_partial *p, kl_err *err) KL_MUST_CHECK;

/* The file takes the name path; EIO with the reason alone. Ends what open began. */
kl_status kl_partial_publish(kl_partial *p, const char *path, kl_err *err) KL_MUST_CHECK;
void kl_partial_drop(kl_partial *p); /* removes it; accepts one that is ended, or {.fd = -1} */
void kl_partial_abandon(void);       /* removes all that are open; for the handler of a signal that ends the program, which runs in the thread that writes */

/* Between the two no handler of SIGINT or SIGTERM comes in between in this thread: what is made is also noted. */
void kl_signals_wait(sigset_t *before);
void kl_signals_come(const sigset_t *before);

#endif
