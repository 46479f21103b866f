/* The commands that only look: `kronlat models` and `kronlat devices`.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LISTING_H
#define KL_LISTING_H
#include "run/options.h"

/* `models [MODEL]', `devices': print to stdout, as text or, with --json, as JSON. */
kl_status kl_list_models(const kl_options *o, kl_err *err) KL_MUST_CHECK;
kl_status kl_list_devices(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
