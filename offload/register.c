/* Images of target regions are registered when the executor is first opened, not when the program starts: the
   runtime would begin with the driver of every device that the images are for, a fifth of a second in a
   process that may never ask for one. Code that the compiler makes calls __tgt_register_lib before main; the
   one here is found first, and keeps what it was told. Regions must not run before kl_offload_register.
   What is registered late is taken back early: at the program's end the driver shuts down first, if it was
   opened last, and the runtime would then ask a driver that is gone.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "offload.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef void kl_images_fn(void *images);

void __tgt_register_lib(void *images);
void __tgt_unregister_lib(void *images);

/* Written before main. One for each link; a program has one or two. */
enum { MOST = 8 };
static void *waiting[MOST];
static int nwaiting, registered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The runtime's own. */
static kl_images_fn *real(const char *name)
{
    kl_images_fn *f;
    *(void **)&f = dlsym(RTLD_NEXT, name);
    return f;
}

void __tgt_register_lib(void *images)
{
    kl_images_fn *const f = registered || nwaiting == MOST ? real("__tgt_register_lib") : NULL;
    if (f) f(images);
    else waiting[nwaiting++] = images;
}

/* At the end of the program; images that were never registered, or were taken back, are nothing to the
   runtime. */
void __tgt_unregister_lib(void *images)
{
    for (int i = 0; i < nwaiting; i++)
        if (waiting[i] == images) return;
    kl_images_fn *const f = real("__tgt_unregister_lib");
    if (f) f(images);
}

/* Functions for the end run last come first served: this one before those that the driver asked for. */
static void take_back(void)
{
    kl_images_fn *const f = real("__tgt_unregister_lib");
    for (int i = nwaiting - 1; f && i >= 0; i--) f(waiting[i]);
}

int kl_offload_register(void)
{
    kl_images_fn *const f = real("__tgt_register_lib");
    if (!f) return -1;
    pthread_mutex_lock(&lock);
    if (!registered) {
        for (int i = 0; i < nwaiting; i++) f(waiting[i]);
        registered = 1;
        if (nwaiting > 0) atexit(take_back);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
