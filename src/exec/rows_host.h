/* The host executor's entries for rows of vectors.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ROWS_HOST_H
#define KL_ROWS_HOST_H
#include "exec/exec.h"
#include "exec/rows.h"

kl_status kl_host_rows_take(kl_exec *ex, const kl_rows *r, kl_dptr x, kl_dptr buffer, kl_err *err);
kl_status kl_host_rows_add(kl_exec *ex, const kl_rows *r, kl_dptr buffer, kl_dptr y, kl_err *err);

#endif
