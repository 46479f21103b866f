/* Run-time numbers of a model: scalars and per-site or per-bond arrays, from the text that a user writes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARAMS_H
#define KL_PARAMS_H
#include "model/lattice.h"
#include "model/model.h"

typedef struct kl_params {
    const kl_model *model;   /* borrowed */
    double *scalar;          /* [nparam] */
    double **array;          /* [nparam]: [sites] or [bonds]; NULL for scalars */
    int nsite, nbond;
    int *nentry;             /* [nparam]: values that the text of an array lists; 0 for scalars */
    /* [nparam][nentry]: their indices in the array. All sites in the lattice's numbering; for a bond array
       the bonds of the classes whose terms use it, in the lattice's order, so that J=@file has one number per
       nn bond */
    int **entry;
} kl_params;

/* The model's defaults on this lattice; both are borrowed. */
kl_status kl_params_create(const kl_model *m, const kl_lattice *lat, kl_params **out,
                           kl_err *err) KL_MUST_CHECK;
void kl_params_destroy(kl_params **p);

/* text: a number ("4", "1/2"), for arrays also "@file" (one number per line or blank; # comments),
   "uniform(a,b)", "normal(mean,sigma)" (arguments are numbers or names of scalar parameters already set, such
   as "uniform(-W/2,W/2)"), "a,b,c,...". A name set twice keeps the last; after an error nothing has changed.
   Unknown names get the closest match and the list. Random numbers depend on seed and name alone, to the last
   bit on every machine: splitmix64 started at seed xor FNV-1a(name); uniform takes the upper 53 bits; normal
   is Marsaglia's polar method on 31-bit integers, its logarithm in integer arithmetic. */
kl_status kl_params_set(kl_params *p, const char *name, const char *text, uint64_t seed,
                        kl_err *err) KL_MUST_CHECK;

#endif
