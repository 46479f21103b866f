/* Pictures of a lattice by gnuplot: sites, bonds, numbers, the path of DMRG, and values on sites and bonds.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLOTMAP_H
#define KL_PLOTMAP_H
#include <stdio.h>

#include "io/geometry.h"

/* Width of the sites over their height, at least half a spacing each. */
double kl_plotmap_width(int nsite, const double (*xy)[2]);

/* The lattice itself: bonds of class nn by direction (of the checkerboard its crosses too; all where none has
   that name), those that close a circumference as two stubs, numbers, and the order in which DMRG meets the
   sites. */
void kl_plotmap_lattice(FILE *to, const char *title, const kl_geometry *g, int nsite, const double (*xy)[2],
                        const int *order);

/* Values on the sites as circles whose areas are the values, on bonds as lines as wide; NULL: none, NaN: not
   drawn. Signs by colour; bonds of class nn are thin lines where they have no values. */
void kl_plotmap_values(FILE *to, const kl_geometry *g, int nsite, const double (*xy)[2], const double *site,
                       const double *bond, int dark);

#endif
