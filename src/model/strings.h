/* Operator strings of a Hamiltonian while it is put together: made by terms.c, merged by termsmerge.c.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STRINGS_H
#define KL_STRINGS_H
#include "model/terms.h"

/* One operator string under construction: at most KL_MAX_FACTOR operators by position. */
typedef struct kl_string {
    double coef;
    int n;
    kl_op_at op[KL_MAX_FACTOR];
    int rest[KL_MAX_FACTOR]; /* as in kl_terms */
} kl_string;

/* The adjoint of a string, in place. */
void kl_string_adjoint(const kl_terms *t, kl_string *s);

/* The order of the strings of a merged list: less than, equal to or greater than 0. */
int kl_ops_compare(const kl_op_at *a, int na, const kl_op_at *b, int nb);

/* Puts a string behind the others, or into the constant where it has no operators; def as in kl_terms. */
kl_status kl_string_push(kl_terms *t, const kl_string *s, int def, kl_err *err) KL_MUST_CHECK;

/* "hubbard.lua:14" or "an added term": where a string comes from; def -1: it was added. */
void kl_string_origin(const kl_terms *t, int def, char *text, size_t size);

#endif
