/* Results of configuration interaction as an HDF5 file: energies, spins, leading determinants, densities.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIFILE_H
#define KL_CIFILE_H
#include "ci.h"

/* Whether path can be written, tried before hours are spent. */
kl_status kl_cifile_probe(const char *path, kl_err *err) KL_MUST_CHECK;

/* Written beside and renamed: the name holds a whole file at any moment. */
kl_status kl_cifile_write(const char *path, const kl_ci_result *r, const char *fcidump, const char *space, const char *program, const char *command_line,
                          kl_err *err) KL_MUST_CHECK;

#endif
