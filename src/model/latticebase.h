/* What the makers of lattices share: lattice.c, boxes and files, and cells.c, copies of a unit cell.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LATTICEBASE_H
#define KL_LATTICEBASE_H
#include "model/lattice.h"

enum { KL_MAX_SITE = 1000000 };

/* Sites without coordinates, names, classes and bonds, in the order of their numbers. */
kl_status kl_lattice_create_sites(const char *spec, int nsite, kl_lattice **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_lattice_add_class(kl_lattice *lat, const char *name, int *index, kl_err *err) KL_MUST_CHECK;
kl_status kl_lattice_push_bond(kl_lattice *lat, const kl_bond *b, kl_err *err) KL_MUST_CHECK;
/* By (i, j); unless bonds are doubled, one is left of those of the same sites, length and first class. */
void kl_lattice_sort_bonds(kl_lattice *lat, int double_bonds);

/* 1: the spec names a lattice with a unit cell, or a form of square ones that only those have. */
int kl_cells_take(const char *spec);
kl_status kl_cells_create(const char *spec, int nsite, int double_bonds, kl_lattice **out,
                          kl_err *err) KL_MUST_CHECK;
/* The shortest image of the vector from site i to j. */
void kl_cells_step(const kl_lattice *lat, int i, int j, double vector[2]);

#endif
