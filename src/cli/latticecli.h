/* `kronlat lattice'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LATTICECLI_H
#define KL_LATTICECLI_H
#include "run/options.h"

kl_status kl_latticecli_show(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
