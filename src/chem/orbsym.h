/* Which irrep an orbital is of, by the labels that a file gives (ORBSYM) and the integrals, which must not
   contradict them. Reads no file.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ORBSYM_H
#define KL_ORBSYM_H
#include "chem/fcidump.h"

/* Sets f->irrep and f->nirrep by labels[nlabel], one an orbital or one a spin orbital; integrals that they
   forbid and that are rounding become 0. Labels that are of no use leave one irrep, and f->note says why.
   EINPUT: more labels than orbitals. */
kl_status kl_orbsym_use(kl_fcidump *f, int nlabel, const int *labels, kl_err *err) KL_MUST_CHECK;

#endif
