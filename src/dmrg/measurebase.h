/* The wavefunction that measure.c and measureenergy.c read: see measure.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEASUREBASE_H
#define KL_MEASUREBASE_H
#include "dmrg/measure.h"

struct kl_measure {
    kl_exec *ex;
    const kl_lattice *lat;  /* borrowed */
    kl_canonical *can;
    kl_dptr *iso, *centre;  /* [nsite] on the executor: left isometries; the same times the bond beyond, */
    int64_t **at;           /* [nsite][sectors of the isometry]: one matrix behind the other */
    /* [nsite]: density matrix of each site, dim x dim; between states of unlike charge 0 */
    double **site;
};

#endif
