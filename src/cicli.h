/* `kronlat ci`: from options to a run of configuration interaction, and its report as text or JSON.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CICLI_H
#define KL_CICLI_H
#include "options.h"

kl_status kl_cicli_run(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
