/* The host executor's fused vector step: fuse of kl_vtable (exec.h), which documents it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FUSE_HOST_H
#define KL_FUSE_HOST_H
#include "exec/exec.h"

void kl_host_fuse(kl_exec *ex, int64_t n, const kl_fuse *f, double *dots);

#endif
