/* What a result tells of its lattice beyond the coordinates of the sites: bonds, their classes, momenta.
   Knows nothing of what was measured.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GEOMETRY_H
#define KL_GEOMETRY_H
#include "io/h5.h"
#include "model/lattice.h"

typedef struct kl_geometry {
    int64_t nbond;
    int (*bond)[2];      /* [nbond] from and to, lattice numbers */
    /* [nbond] from the first to the second site, the shortest image; 0 without coordinates */
    double (*vector)[2];
    double *length; /* [nbond] */
    signed char (*cls)[KL_MAX_BOND_CLASS]; /* [nbond] indices into `classes', -1 behind the last */
    int nclass;
    char **classes; /* [nclass] */
    int has_xy; /* 0: the sites have no coordinates */
    int64_t grid[2]; /* of momenta; 0: a lattice from a file */
    double (*k)[2]; /* [grid[0]][grid[1]] Cartesian */
    double basis[2][2]; /* vectors of the lattice; of a chain the second one is 0, of a file both */
} kl_geometry;

/* What a result keeps of a lattice. */
kl_status kl_geometry_copy(const kl_lattice *lat, kl_geometry *out, kl_err *err) KL_MUST_CHECK;
void kl_geometry_clear(kl_geometry *g);

/* 1: bond b is of this class. */
int kl_geometry_is(const kl_geometry *g, int64_t b, const char *name);

/* Into and from the open group of a lattice; a file without bonds leaves g empty. */
void kl_geometry_put(kl_h5_out *w, hid_t group, const kl_geometry *g);
kl_status kl_geometry_get(const kl_h5_in *in, hid_t group, int nsite, kl_geometry *g,
                          kl_err *err) KL_MUST_CHECK;

#endif
