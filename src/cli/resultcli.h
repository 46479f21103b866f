/* `kronlat show' and `kronlat measure': what result files hold, and more of it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RESULTCLI_H
#define KL_RESULTCLI_H
#include "lib/handles.h"
#include "run/options.h"

/* The result in a file without its state, as the library loads it: of DMRG or exact diagonalization; ci 1: or
   of configuration interaction. */
kl_status kl_resultcli_load(const char *path, int ci, kronlat_result **r, kl_err *err) KL_MUST_CHECK;

/* Prints what the file holds. */
kl_status kl_resultcli_show(const kl_options *o, kl_err *err) KL_MUST_CHECK;

/* Measures on the state of DMRG in the file, whose options say the system, and writes that into it. */
kl_status kl_resultcli_measure(kl_options *o, kl_err *err) KL_MUST_CHECK;

#endif
