/* Names beside names: see partial.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "partial.h"
#include <stdio.h>
#include <sys/stat.h>

kl_status kl_partial_name(const char *path, char *partial, size_t size, kl_err *err)
{
    struct stat info;
    if (snprintf(partial, size, "%s.partial", path) >= (int)size) return kl_fail(err, KL_EINPUT, "%.80s...: the name of the file is too long", path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return kl_fail(err, KL_EINPUT, "%.300s: is no ordinary file; what is written would replace it", path);
    return KL_OK;
}
