/* Operators of bonds on a matrix product state.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BONDMEASURE_H
#define KL_BONDMEASURE_H
#include "dmrg/measure.h"
#include "run/bondop.h"

/* value[nbond], or with y value[nbond][nbond], as kl_bondop_each numbers rows. sites: what the state's
   positions are. */
kl_status kl_bondmeasure(kl_measure *m, const kl_terms *sites, const kl_lattice *lat, const kl_bondop *x,
                         const kl_bondop *y, int nbond, const int (*bond)[2], double *value,
                         kl_err *err) KL_MUST_CHECK;

/* value[nvalue] of any products: `each' tells them, with the row that each belongs to. */
typedef kl_status kl_products_each(const void *from, kl_bondop_fn *tell, void *self, kl_err *err);
kl_status kl_productmeasure(kl_measure *m, const kl_terms *sites, const kl_lattice *lat,
                            kl_products_each *each, const void *from, int64_t nvalue, double *value,
                            kl_err *err) KL_MUST_CHECK;

#endif
