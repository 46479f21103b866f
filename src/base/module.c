/* Finds and opens the program's own libraries: see module.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

/* The folder of the program, without a slash at its end; "" when the system does not say. */
static void own_folder(char *out)
{
    const ssize_t n = readlink("/proc/self/exe", out, KL_MODULE_PATH - 1);
    out[n > 0 ? n : 0] = '\0';
    char *const slash = strrchr(out, '/');
    if (slash) *slash = '\0';
}

kl_status kl_module_open(const kl_module *m, void **out, char path[KL_MODULE_PATH], kl_err *err)
{
    const char *const named = getenv(m->variable);
    char own[KL_MODULE_PATH];
    *out = NULL;
    own_folder(own);
    for (int place = named && *named ? 0 : 1; place < 4; place++) {
        const int n = place == 0   ? snprintf(path, KL_MODULE_PATH, "%s", named)
                      : place == 1 ? snprintf(path, KL_MODULE_PATH, "%s/%s", own, m->file)
                      : place == 2 ? snprintf(path, KL_MODULE_PATH, "%s/../%s", own, m->file)
                                   : snprintf(path, KL_MODULE_PATH, "%s/%s", KL_LIBDIR, m->file);
        if (n < 0 || n >= KL_MODULE_PATH || (place > 0 && access(path, F_OK) != 0)) continue;
        *out = dlopen(path, RTLD_NOW | (m->global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (*out) return KL_OK;
        return kl_fail(err, KL_EABSENT, "%s: %.300s cannot be loaded: %.400s", m->what, path, dlerror());
    }
    return kl_fail(err, KL_EABSENT,
                   "%s is not built into this program: %s is neither in %.300s nor in %.200s, and %s names "
                   "none (meson option %s)",
                   m->what, m->file, own, KL_LIBDIR, m->variable, m->option);
}
