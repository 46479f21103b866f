/* Sums of energies of neighbouring runs of a table, --gap 'E(N+1)+E(N-1)-2E': charge gaps, spin gaps, binding
   of pairs. Knows rows by their labels alone, "U=4 N=32 Sz=1/2".
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GAPTABLE_H
#define KL_GAPTABLE_H
#include <stdio.h>

#include "base/base.h"
#include "base/json.h"

typedef struct kl_gaptable_row {
    const char *label;
    double energy, error;
} kl_gaptable_row;

typedef struct kl_gaptable {
    int nformula, n;
    char *const *formula;       /* [nformula] borrowed */
    const kl_gaptable_row *row; /* [n] borrowed */
    double *value, *error;      /* [nformula][n]; NAN: a run that it asks for is not in the table */
} kl_gaptable;

/* Sums of E(NAME+NUMBER,NAME-NUMBER,...), the run with these values in place of the row's own, E being the
   row's; numbers before and behind, brackets. EINPUT: what is no such sum, or a name that labels do not have.
   label: of any run; NULL: names are not looked at. */
kl_status kl_gaptable_check(int nformula, char *const *formula, const char *label,
                            kl_err *err) KL_MUST_CHECK;
/* The error of a sum is the sum of its energies' errors. */
kl_status kl_gaptable_create(int nformula, char *const *formula, int n, const kl_gaptable_row *row,
                             kl_gaptable *out, kl_err *err) KL_MUST_CHECK;
void kl_gaptable_clear(kl_gaptable *g);

/* A block of lines for each formula; nothing where there is none. */
void kl_gaptable_print(FILE *to, const kl_gaptable *g);
/* "gaps" of a document that is open. */
void kl_gaptable_json(kl_json *j, const kl_gaptable *g);

#endif
