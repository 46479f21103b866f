/* A sum of Kronecker products on vectors that ranks share. A rank has a row of whole tiles: all left states
   with some of the right ones. What works on left states, and the diagonal, stays on the rank. What works on
   right states is done on rows: every rank gets some left states with all right ones, in a few chunks, and
   sends back what they become. Where it is less traffic ranks get what they read instead: kronbeyond.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRONSPREAD_H
#define KL_KRONSPREAD_H
#include "comm/ranks.h"
#include "exec/kron.h"

typedef struct kl_kronspread kl_kronspread;

/* Which tiles a rank has: begin[ranks + 1], indices in a whole vector. */
kl_status kl_kronspread_borders(const kl_kron *k, const kl_exec *ex, int64_t **begin,
                                kl_err *err) KL_MUST_CHECK;

/* Borrows k, ex and begin. */
kl_status kl_kronspread_create(const kl_kron *k, kl_exec *ex, const int64_t *begin, kl_kronspread **out,
                               kl_err *err) KL_MUST_CHECK;
void kl_kronspread_destroy(kl_kronspread **s);

/* y = K x of this rank's parts; *xy = x . y of all ranks, unless NULL. */
kl_status kl_kronspread_apply(kl_kronspread *s, kl_dptr x, kl_dptr y, double *xy, kl_err *err) KL_MUST_CHECK;
/* Whether ranks get what they read: then y += K x, likewise, and the rank's tiles, as in kronbeyond.h, else
   NULL. */
int kl_kronspread_can_add(const kl_kronspread *s);
kl_status kl_kronspread_add(kl_kronspread *s, kl_dptr x, kl_dptr y, double *xy, kl_err *err) KL_MUST_CHECK;
const kl_kron *kl_kronspread_own(const kl_kronspread *s);

#endif
