/* Operators of one site from the text that a user measures by: "Sz", "n_up*n_dn", "(Sp+Sm)/2", "expipi(Sz)".
   Matrices only: fermionic signs between sites are the matter of who puts them on sites.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SITEOP_H
#define KL_SITEOP_H
#include "model/model.h"

/* A matrix for every site type of a model. */
typedef struct kl_siteop {
    const kl_model *model;
    char *text;
    /* [ntype]: dim x dim, column-major: mat[row + col*dim]; NULL where a name in the text is none of that
       type's operators */
    double **mat;
} kl_siteop;

/* Names of the model's operators, numbers (multiples of 1), + - * / by a number, brackets, adj(X), its
   adjoint, and expipi(X) = exp(i pi X) for a diagonal X of whole numbers. EINPUT for anything else, and
   for a name that no site type has (with the closest one and the list). */
kl_status kl_siteop_create(const kl_model *m, const char *text, kl_siteop **out, kl_err *err) KL_MUST_CHECK;
void kl_siteop_destroy(kl_siteop **op);

/* Adjoint of a is b, on every site type. */
int kl_siteop_adjoint(const kl_siteop *a, const kl_siteop *b);
int kl_siteop_equal(const kl_siteop *a, const kl_siteop *b);

/* 1 when it changes no charge and vanishes on no site type: what may stand between other operators. */
int kl_siteop_conserves(const kl_siteop *a);

#endif
