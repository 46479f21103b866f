/* What results tell, as panels of a figure.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PANELS_H
#define KL_PANELS_H
#include "figure/figure.h"
#include "io/cifile.h"
#include "io/result.h"

/* Of one result: convergence, entropies with the central charge, levels, spectra, thermodynamics, profiles,
   maps, correlations and their decay, structure factors. f borrows what r holds of the lattice. */
kl_status kl_panels_one(const kl_result *r, kl_figure *f, kl_err *err) KL_MUST_CHECK;

/* Of several: what they share, one curve each; where sizes differ, energies and gaps against the size with
   their limits; where one parameter differs, energies and averages against it. */
kl_status kl_panels_many(int n, kl_result *const *r, const char *const *path, kl_figure *f,
                         kl_err *err) KL_MUST_CHECK;

/* Of configuration interaction: states by irrep and spin, their weights by level of excitation, occupations
   of natural orbitals. */
kl_status kl_panels_ci(const kl_ci_record *c, kl_figure *f, kl_err *err) KL_MUST_CHECK;

/* What both use: */
const kl_measured *kl_panels_find(const kl_result *r, const char *name);
/* 1: a chain, 2: a ring, both in the order of their numbers; 0: anything else. */
int kl_panels_line(const kl_result *r);
/* An operator as a reader of papers knows it. */
void kl_panels_pretty(const char *op, char *out, size_t size);
/* "<n> by site", "<Sz_i Sz_j>" of a measured name. */
void kl_panels_title(const kl_result *r, const kl_measured *m, char *out, size_t size);
/* How a correlation falls off with the distance: at the middle of a chain, all around a ring, along the rows
   of a lattice with coordinates. At most `most' values; returns how many. */
int kl_panels_decay(const kl_result *r, const kl_measured *m, int most, double *distance, double *value);
/* Along x: the length after which the lattice closes; INFINITY: it does not. */
double kl_panels_around(const kl_result *r);
/* Means over the sites of equal x, by x; returns how many, `most' at most. */
int kl_panels_columns(const kl_result *r, const double *value, int most, double *x, double *mean);
/* 1: the sites have coordinates in a plane. */
int kl_panels_plane(const kl_result *r);
/* Values on sites or bonds of the lattice, NULL: none; NaN: not drawn. */
kl_status kl_panels_map(const kl_result *r, const char *title, const double *site, const double *bond,
                        kl_figure *f, kl_err *err) KL_MUST_CHECK;
/* bond/... and bondcorr/... */
kl_status kl_panels_bonds(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err) KL_MUST_CHECK;
/* Of bondcorr/...: its title, and means over the pairs of bonds in a row by their distance, `most' at
   most. */
void kl_panels_bond_title(const kl_measured *m, char *title, size_t size);
int kl_panels_bond_decay(const kl_result *r, const kl_measured *m, int most, double *distance, double *value);
/* product/... over letters */
kl_status kl_panels_product(const kl_measured *m, kl_figure *f, kl_err *err) KL_MUST_CHECK;
/* spectrum/weights */
kl_status kl_panels_schmidt(const kl_result *r, const kl_measured *m, kl_figure *f,
                            kl_err *err) KL_MUST_CHECK;
/* Entropies by cut; NULL: none are told. */
const double *kl_panels_entropy(const kl_result *r);

#endif
