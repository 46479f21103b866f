/* Density matrix of one site of a canonical state.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEASURESITE_H
#define KL_MEASURESITE_H
#include "dmrg/measurebase.h"

/* w[d][d], zero before: sum over the sectors of T_(l,t) T_(l,s), with T the centre tensor of site p, of
   m->length[p] numbers. Bits do not depend on the number of threads. */
kl_status kl_measure_density(const kl_measure *m, int p, kl_dptr centre, double *w,
                             kl_err *err) KL_MUST_CHECK;

#endif
