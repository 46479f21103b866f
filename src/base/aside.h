/* A thread beside the one that runs.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ASIDE_H
#define KL_ASIDE_H
#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fn(self) in a new thread that leaves all signals to the others; to be joined. 0: it could not be made. */
int kl_aside_begin(pthread_t *thread, void *(*fn)(void *), void *self);

#ifdef __cplusplus
}
#endif
#endif
