/* What ranks can tell each other in a second, as `kronlat devices' says it and `kronlat tune' keeps it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANKRATESCLI_H
#define KL_RANKRATESCLI_H
#include <stdio.h>

#include "base/json.h"
#include "run/options.h"

/* All ranks call, and rank 0 tells. */
kl_status kl_rankratescli_measure(kl_err *err) KL_MUST_CHECK;
/* Nothing where nothing was measured. */
void kl_rankratescli_print(FILE *to);
void kl_rankratescli_json(kl_json *j);
/* Puts them into the tune table beside what it has, and tells them. */
kl_status kl_rankratescli_keep(const char *path, kl_err *err) KL_MUST_CHECK;

#endif
