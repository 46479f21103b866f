/* What a result file holds to go on from: the state of a DMRG run (/state), or the numbers and vectors that
   the solver of an exact run keeps (/run). Does not open files: result.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STATEFILE_H
#define KL_STATEFILE_H
#include "io/h5.h"
#include "io/result.h"

/* Doubles that each takes in a file; NULL: 0. */
int64_t kl_statefile_size(const kl_state *s);
int64_t kl_statefile_run_size(const kl_result_run *run);

/* Failures of the disk stay in w; the status tells of memory and, for a run, of its part(). */
kl_status kl_statefile_put(kl_h5_out *w, const kl_state *s, kl_err *err) KL_MUST_CHECK;
kl_status kl_statefile_put_run(kl_h5_out *w, const kl_result_run *run, kl_err *err) KL_MUST_CHECK;

/* As kl_result_read_state and kl_result_read_run say. */
kl_status kl_statefile_get(const kl_h5_in *in, const kl_terms *terms, kl_state **out,
                           kl_err *err) KL_MUST_CHECK;
kl_status kl_statefile_get_run(const kl_h5_in *in, kl_result_run *run, kl_err *err) KL_MUST_CHECK;

#endif
