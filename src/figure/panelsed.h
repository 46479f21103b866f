/* Panels in momentum, frequency and temperature: see panels.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PANELSED_H
#define KL_PANELSED_H
#include "figure/figure.h"
#include "io/result.h"

kl_status kl_panels_spectra(const kl_result *r, kl_figure *f, kl_err *err) KL_MUST_CHECK;
kl_status kl_panels_thermal(const kl_result *r, kl_figure *f, kl_err *err) KL_MUST_CHECK;
kl_status kl_panels_structure(const kl_result *r, const kl_measured *m, kl_figure *f,
                              kl_err *err) KL_MUST_CHECK;
/* The first Brillouin zone, in units of pi, as the outline of p; none where the lattice has no two
   vectors. */
void kl_panels_zone(const kl_geometry *g, kl_panel *p);

#endif
