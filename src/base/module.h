/* Libraries of ours that are opened while the program runs, so that one program runs with and without what
   they need.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MODULE_H
#define KL_MODULE_H
#include "base/base.h"

enum { KL_MODULE_PATH = 4096 };

typedef struct kl_module {
    const char *what;     /* as messages call it: "--exec cuda" */
    const char *file;     /* libkronlat-cuda.so */
    const char *variable; /* of the environment, names the file */
    const char *option;   /* of the build that makes it */
    int global;           /* 1: libraries that it opens see its names and those of what it needs */
} kl_module;

/* The variable names the file; else it lies in the folder of the shared library that is in use, in that of
   the program, in the one above it (a build's tests), or where libraries are installed. It stays open for the
   life of the program. *out: the handle of dlopen. EABSENT says what is missing. */
kl_status kl_module_open(const kl_module *m, void **out, char path[KL_MODULE_PATH],
                         kl_err *err) KL_MUST_CHECK;

#endif
