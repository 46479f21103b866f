/* The table of sweeps of a result file. Does not open files: result.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SWEEPFILE_H
#define KL_SWEEPFILE_H
#include "dmrg/dmrg.h"
#include "io/h5.h"

/* Bytes that it takes, about. */
int64_t kl_sweepfile_size(const kl_dmrg_result *d);
/* Rows of d; failures of the disk stay in w. */
kl_status kl_sweepfile_put(kl_h5_out *w, const kl_dmrg_result *d, kl_err *err) KL_MUST_CHECK;
/* d->nstate is known. */
kl_status kl_sweepfile_get(const kl_h5_in *in, kl_dmrg_result *d, kl_err *err) KL_MUST_CHECK;

#endif
