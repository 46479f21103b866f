/* What the files of measurements share, the wavefunction first: see measure.h.
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

/* States beyond site p that go with sector k of its left isometry. */
int kl_measure_beyond(const kl_canonical *c, int p, int k);

/* An operator of one charge shift in a basis: sector i is mapped to sector dst[i]. */
typedef struct kl_opshape {
    kl_qn shift;
    int nsec;
    int *dst;     /* [nsec]; -1: to none */
    int64_t *off; /* [nsec] of dim[dst] x dim[i], column-major */
    int64_t len;
} kl_opshape;
kl_status kl_opshape_make(const kl_model *model, const kl_basis *b, kl_qn shift, kl_opshape *s,
                          kl_err *err) KL_MUST_CHECK;
void kl_opshape_clear(kl_opshape *s);

#endif
