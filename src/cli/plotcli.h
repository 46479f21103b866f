/* `kronlat plot'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLOTCLI_H
#define KL_PLOTCLI_H
#include "run/options.h"

kl_status kl_plotcli_run(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
