/* The arrays of a stored sparse matrix, and what each row holds, as an HDF5 file: the extra output of
   mahmoud2018's program.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPFILE_H
#define KL_SPFILE_H
#include "sparse/spmat.h"

/* Attributes say format and sizes. Data sets: the arrays of spmat.h by their names, those that the format
   has; row_nonzeros, and, for a boundary above 0, row_nonzeros_reference and row_nonzeros_expansion
   (non-zeros of a row up to and beyond its boundary-th). */
kl_status kl_spfile_write(const char *path, const kl_spmat *m, int64_t boundary, kl_err *err) KL_MUST_CHECK;

#endif
