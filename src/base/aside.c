/* See aside.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/aside.h"
#include <signal.h>

int kl_aside_begin(pthread_t *thread, void *(*fn)(void *), void *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the thread that runs */
    const int made = pthread_create(thread, NULL, fn, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}
