/* Sparse matrices in Matrix Market files (coordinate form, real, integer or pattern, general or symmetric).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MMFILE_H
#define KL_MMFILE_H
#include <stdio.h>

#include "sparse/spmat.h"

/* CSR; a symmetric file gives a symmetric half. Elements that are given twice are added, as is usual. EINPUT:
   "FILE:LINE: what". */
kl_status kl_mmfile_read(const char *path, kl_spmat **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_mmfile_read_stream(FILE *from, const char *name, kl_spmat **out, kl_err *err) KL_MUST_CHECK;

/* Any format; written under a temporary name and renamed. comment: a line, or NULL. */
kl_status kl_mmfile_write(const char *path, const kl_spmat *m, const char *comment,
                          kl_err *err) KL_MUST_CHECK;

#endif
