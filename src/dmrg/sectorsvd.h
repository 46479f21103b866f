/* Singular vectors of one sector of the wavefunctions, by LAPACK.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SECTORSVD_H
#define KL_SECTORSVD_H
#include "dmrg/density.h"

/* Of the segments of all wavefunctions of sector c of d's side, which are side by side, this side's states as
   rows: (*vec)[*n][rows] and (*w)[*n], the squares of the singular values, descending, which the caller
   frees; *n 0: there is no such segment. psi: the wavefunctions on the host. Threads may call at once. */
kl_status kl_sector_svd(const kl_density *d, const double *psi, int c, double **vec, double **w, int *n,
                        kl_err *err) KL_MUST_CHECK;

#endif
