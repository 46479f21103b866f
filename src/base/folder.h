/* Folders that only this user and root can change: what a program trusts without having been told its name is
   kept there.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FOLDER_H
#define KL_FOLDER_H
#include "base/base.h"

/* Opens the folder path for openat; `make`: it and those above it are made where they are missing, for this
   user alone. Every folder of the path is opened below the one before, links included, so that what was
   looked at is what is used. *fd is -1 on failure. EABSENT: it is not there. EIO: the system's reason.
   EINPUT: a folder or link of the path belongs to neither this user nor root, or all users can write it. One
   with the sticky bit, such as /tmp, may stand above: nobody can exchange another's folder there. */
kl_status kl_folder_open_own(const char *path, int make, int *fd, kl_err *err) KL_MUST_CHECK;

#endif
