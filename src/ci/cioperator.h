/* H of one irrep of a configuration interaction as products with a caller's own vectors, for solvers that are
   not ours. Finds no states.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CIOPERATOR_H
#define KL_CIOPERATOR_H
#include "ci/cisector.h"

typedef struct kl_ci_operator {
    double unit; /* what products and diagonal are counted in */
    kl_fcidump *f; /* a copy of the integrals in this unit */
    kl_ciorbitals orbitals;
    kl_cisector sector; /* op: y = H x */
    double *diagonal; /* [n] */
} kl_ci_operator;

/* EINPUT: the molecule has several irreps and o names none; the space has no determinant of it. ex is
   borrowed; the integrals are copied. */
kl_status kl_ci_operator_create(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *o, kl_ci_operator **out,
                                kl_err *err) KL_MUST_CHECK;
void kl_ci_operator_destroy(kl_ci_operator **op);

/* The determinant of element i of a vector: occupation[norb] of the file's orbitals, 0, or 1 for an alpha
   electron, plus 2 for a beta one. *sign: the determinant times it is the product of creation operators
   orbital by orbital, alpha before beta in each. */
void kl_ci_operator_at(const kl_ci_operator *op, int64_t i, int *occupation, int *sign);
/* Its index, or -1. */
int64_t kl_ci_operator_find(const kl_ci_operator *op, const int *occupation);

#endif
