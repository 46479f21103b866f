/* `kronlat plan' and `kronlat growth'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLANRUN_H
#define KL_PLANRUN_H
#include "run/options.h"

kl_status kl_planrun_plan(const kl_options *o, kl_err *err) KL_MUST_CHECK;
kl_status kl_planrun_growth(const kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
