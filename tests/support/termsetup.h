/* Terms of a model on a lattice, and their H by plain Kronecker products against the oracle's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TERMSETUP_H
#define TERMSETUP_H
#include "core.h"
#include "kl_test.h"

typedef struct term_setup {
    kl_lattice *lat;
    kl_params *par;
    kl_terms *terms;
} term_setup;

/* lattice: a spec, "torus:2x2 doubled" with double bonds; sets: "name=text" ..., NULL. */
kl_status term_try(term_setup *s, const kl_model *m, const char *lattice, const char *order,
                   const char *const *sets, kl_err *err);
/* The same, which has to work. */
term_setup term_make(const kl_model *m, const char *lattice, const char *order, const char *const *sets);
void term_drop(term_setup *s);

/* H[dim][dim] of the list, to be freed. */
double *term_expand(const kl_terms *t, int64_t dim);
/* The list's H equals the oracle's, is symmetric, and keeps the charges. */
void term_compare(const term_setup *s, oracle *o);

#endif
