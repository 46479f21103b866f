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

/* The folder of the file that this code was loaded from: of the shared library, or of the program. */
static void code_folder(char *out)
{
    static const char here;
    Dl_info info;
    out[0] = '\0';
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) return;
    const char *const slash = strrchr(info.dli_fname, '/');
    if (slash != NULL) snprintf(out, KL_MODULE_PATH, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
}

kl_status kl_module_open(const kl_module *m, void **out, char path[KL_MODULE_PATH], kl_err *err)
{
    const char *const named = getenv(m->variable);
    char own[KL_MODULE_PATH], code[KL_MODULE_PATH];
    *out = NULL;
    own_folder(own);
    code_folder(code);
    for (int place = named && *named ? 0 : 1; place < 5; place++) {
        const int n = place == 0   ? snprintf(path, KL_MODULE_PATH, "%s", named)
                      : place == 1 ? snprintf(path, KL_MODULE_PATH, "%s/%s", code, m->file)
                      : place == 2 ? snprintf(path, KL_MODULE_PATH, "%s/%s", own, m->file)
                      : place == 3 ? snprintf(path, KL_MODULE_PATH, "%s/../%s", own, m->file)
                                   : snprintf(path, KL_MODULE_PATH, "%s/%s", KL_LIBDIR, m->file);
        if (n < 0 || n >= KL_MODULE_PATH || (place > 0 && access(path, F_OK) != 0)) continue;
        *out = dlopen(path, RTLD_NOW | (m->global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (*out) return KL_OK;
        return kl_fail(err, KL_EABSENT, "%s: %.300s cannot be loaded: %.400s", m->what, path, dlerror());
    }
    return kl_fail(err, KL_EABSENT,
                   "%s is not built into this program: %s is neither in %.300s nor in %.200s, and %s names "
                   "none (meson option %s)",
                   m->what, m->file, code[0] != '\0' ? code : own, KL_LIBDIR, m->variable, m->option);
}
