/* Sites, classed bonds and the order in which DMRG meets the sites. Knows nothing of operators.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LATTICE_H
#define KL_LATTICE_H
#include "base/base.h"

#define KL_MAX_BOND_CLASS 8 /* classes of one bond */

typedef struct kl_bond {
    int i, j;                    /* lattice numbers, i < j */
    int nclass;
    int cls[KL_MAX_BOND_CLASS];  /* indices into kl_lattice.bond_class */
    double r;                    /* length (shortest image on a ring, cylinder or torus) */
    /* 1: the bond runs from j to i. Bonds run along the lattice, x or y growing, so that one that closes a
       ring runs from the last site to the first, and those of a file as listed: what is not symmetric under i
       <-> j (pairing c_i c_j) needs it */
    int reversed;
} kl_bond;

typedef enum kl_lattice_kind {
    KL_LATTICE_CHAIN,
    KL_LATTICE_RING,
    KL_LATTICE_GRID,
    KL_LATTICE_CELLS, /* copies of a unit cell: kl_cells */
    KL_LATTICE_FILE
} kl_lattice_kind;

/* Where the cells of a lattice lie: cell (x, y) of `grid' is n1 basis[0] + n2 basis[1], whole numbers that
   cells.c makes of x and y. */
typedef struct kl_cells {
    int nsub; /* sites of a cell; site = (x grid[1] + y) nsub + s */
    int grid[2]; /* columns, cells of a column */
    double basis[2][2];
    int span[2][2]; /* in cells: what the grid is repeated by, closed or not */
    int nperiod; /* closed directions: 0, 1 (span[1]) or 2 */
    double period[2][2]; /* [nperiod]: shortest vectors that lead from a site to itself */
} kl_cells;

typedef struct kl_lattice {
    kl_lattice_kind kind;
    char *spec; /* as the user wrote it: "cylinder:3x4" */
    int nsite;
    int lx, ly; /* length and width; ly = 1 for chains */
    int periodic_x, periodic_y;
    kl_cells cells; /* of kind CELLS, whose lx is the columns and ly the sites of a column */
    double (*xy)[2]; /* [nsite] */
    int has_xy; /* 0: a file that gives no coordinates; they are 0 then */
    char **site_name; /* [nsite], NULL entries where the lattice names none */
    char **site_class; /* [nsite], NULL entries likewise */
    int nbond;
    kl_bond *bond; /* sorted by (i, j) */
    int nbond_class;
    char **bond_class; /* "nn", "nnn", "leg", "rung", "diag", "x", "y", ... */
    int *order; /* [nsite]: order[p] = lattice number of the site at DMRG position p */
    int *position; /* [nsite]: inverse of order */
} kl_lattice;

/* spec: chain (needs sites), ring (needs sites), chain:N, ring:N, ladder:LxW, square:LxW, cylinder:LxW (open
   length x circumference), torus:LxW. Numbering is column by column: site = x*W + y. Classes of a chain or
   ring: nn, nnn, "d3" (third neighbours) and so on up to d9; of a grid: nn (with leg = x and rung = y), nnn
   (with diag), and d3 for straight second neighbours. double_bonds: a pair that the same class joins both
   directions round (nn where a circumference is 2, nnn on a ring of 4) is listed once for each, instead of
   once. A class is known by its kind of lattice even where it is empty: a chain of 2 has no nnn bond, but
   "nnn" is no error there. Lattices with a unit cell: cells.c. */
kl_status kl_lattice_create(const char *spec, int nsite, int double_bonds, kl_lattice **out,
                            kl_err *err) KL_MUST_CHECK;
void kl_lattice_destroy(kl_lattice **lat);

/* Empty lattice of kind FILE for a reader to fill (layer 7 reads Lua): it sets xy, site_name and site_class
   (by kl_strdup) and adds the bonds; kl_lattice_finish sorts bonds, checks and sets the identity order. */
kl_status kl_lattice_create_empty(const char *name, int nsite, kl_lattice **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_lattice_add_bond(kl_lattice *lat, int i, int j, double r, const char *const *classes, int nclass,
                              kl_err *err) KL_MUST_CHECK;
kl_status kl_lattice_finish(kl_lattice *lat, kl_err *err) KL_MUST_CHECK;

/* how: "column" (as numbered), "snake" (every other column reversed), "fiedler" (second eigenvector of the
   graph of the nn bonds, or of all bonds where no class has that name; connected pieces one after the other),
   "0,2,1,..." (given). */
kl_status kl_lattice_reorder(kl_lattice *lat, const char *how, kl_err *err) KL_MUST_CHECK;

/* Distance of two sites, shortest image; Euclidean on grids, |i-j| or the shorter arc on chains
   and rings; on a lattice from a file the length of their bond where there is one, else by coordinates; NaN
   where there are none of these either. */
double kl_lattice_distance(const kl_lattice *lat, int i, int j);

/* The shortest vector from site i to j, in coordinates: where it closes a ring or a circumference it leads
   out of the picture. */
void kl_lattice_step(const kl_lattice *lat, int i, int j, double vector[2]);

/* A site as a user knows it: a name of a lattice file, or a number, from the end if negative; -1 if there is
   none. */
int kl_lattice_site(const kl_lattice *lat, const char *text);

/* How many columns, and sites or cells of a column, a lattice has that is no file's. */
void kl_lattice_grid(const kl_lattice *lat, int shape[2]);
/* A grid of momenta in Cartesian components, k[shape[0]][shape[1]][2]: those that fit a lattice, in open
   directions those that would fit if it were closed. EINPUT for a lattice from a file. */
kl_status kl_lattice_momenta(const kl_lattice *lat, int shape[2], double (**k)[2], kl_err *err) KL_MUST_CHECK;

/* Site classes that every lattice has, NULL behind the last: "first", "last", "ends", "even", "odd". */
extern const char *const kl_position_class[];
int kl_is_position_class(const char *name);

/* Index of a bond class or -1. */
int kl_lattice_class(const kl_lattice *lat, const char *name);

/* Closed paths of `length' bonds of a class, without a site twice: site[*n][length], each once, from its
   lowest site towards the lower of that site's two neighbours. Where sites have coordinates, paths around a
   ring, a cylinder or a torus are none. */
kl_status kl_lattice_loops(const kl_lattice *lat, int cls, int length, int *n, int **site,
                           kl_err *err) KL_MUST_CHECK;

#endif
