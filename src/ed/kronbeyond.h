/* A product with a sum of Kronecker products on vectors that ranks share, of one block without cross terms:
   every rank gets the tiles of others that its rows of b read, and writes its part of y. For few ranks this
   is less traffic than sending rows to where they are whole and back (kronspread.h), and nothing is copied
   on a device that its neighbours reach.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRONBEYOND_H
#define KL_KRONBEYOND_H
#include "comm/ranks.h"
#include "exec/kronparts.h"

typedef struct kl_kronbeyond kl_kronbeyond;

/* tile: [ranks + 1] borders. *out NULL: k is not of this kind, an executor cannot, or it would be more
   traffic. Borrows k and ex. */
kl_status kl_kronbeyond_create(const kl_kron *k, kl_exec *ex, const kl_kronborder *tile, kl_kronbeyond **out,
                               kl_err *err) KL_MUST_CHECK;
void kl_kronbeyond_destroy(kl_kronbeyond **s);

/* y = K x of this rank's part, or, where adds is 1, y += K x; *xy = x . y of all ranks, unless NULL. */
kl_status kl_kronbeyond_apply(kl_kronbeyond *s, int adds, kl_dptr x, kl_dptr y, double *xy,
                              kl_err *err) KL_MUST_CHECK;
/* This rank's tiles as its executor has prepared them; NULL: it has none. */
const kl_kron *kl_kronbeyond_own(const kl_kronbeyond *s);

#endif
