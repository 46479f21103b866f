/* Files are written beside their names and take them when they are whole: whatever stood there stays until then.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARTIAL_H
#define KL_PARTIAL_H
#include "base.h"
#include <stddef.h>

/* PATH.partial, in room for `size` characters. EINPUT: the name is too long, or path is no ordinary file (a device, a pipe, a folder), which the new file would replace. */
kl_status kl_partial_name(const char *path, char *partial, size_t size, kl_err *err) KL_MUST_CHECK;

#endif
