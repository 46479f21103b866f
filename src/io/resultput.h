/* What goes into a result's file, for who opens and ends it: result.c and resultaside.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RESULTPUT_H
#define KL_RESULTPUT_H
#include "io/h5.h"
#include "io/result.h"

/* All of r; state and run may be NULL. */
kl_status kl_result_put(kl_h5_out *w, const kl_result *r, const kl_state *state, const kl_result_run *run,
                        kl_err *err) KL_MUST_CHECK;

/* An upper bound of the file's size, near enough to ask the disk for beforehand. */
int64_t kl_result_bytes(const kl_result *r, const kl_state *state, const kl_result_run *run);

#endif
