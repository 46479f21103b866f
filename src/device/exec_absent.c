/* Executors that this build leaves out: asking for one is an error that names the option.
   SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "exec/exec.h"

#if !KL_HAVE_OFFLOAD
kl_status kl_exec_open_offload(kl_device_choice which, int plain, kl_exec **out, kl_err *err)
{
    (void)which;
    (void)plain;
    *out = NULL;
    return kl_fail(err, KL_EABSENT,
                   "--exec: offload is not built into this program (meson option -Doffload=nvptx, amdgcn or "
                   "host); allowed: host auto");
}
#endif
