/* Operators of a bond: sums of products of site operators on its two ends, as a user writes them:
     cdag_up(i)*cdag_dn(j) + cdag_up(j)*cdag_dn(i),  (Sp(i)*Sm(j) + hc)/2 + Sz(i)*Sz(j)
   Measures nothing: who does gets the products one by one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BONDOP_H
#define KL_BONDOP_H
#include "model/lattice.h"
#include "model/qn.h"
#include "model/siteop.h"

enum {
    KL_BONDOP_FACTORS = 4,
    KL_BONDOP_STRINGS = 64,
    KL_BONDOP_OPS = 24,
};

typedef struct kl_bondstring {
    double coef;
    int n;
    int op[KL_BONDOP_FACTORS];  /* into kl_bondop.op */
    int end[KL_BONDOP_FACTORS]; /* 0: i, where the bond begins; 1: j */
} kl_bondstring;

typedef struct kl_bondop {
    const kl_model *model;
    int nop;
    kl_siteop *op[KL_BONDOP_OPS];
    kl_qn shift[KL_BONDOP_OPS]; /* by how much each changes the charges */
    int adjoint[KL_BONDOP_OPS]; /* index of its adjoint, -1: not there yet */
    int nstring;
    kl_bondstring string[KL_BONDOP_STRINGS];
} kl_bondop;

/* EINPUT with what is wrong in the text. */
kl_status kl_bondop_read(const char *text, const kl_model *m, kl_bondop **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_bondop_adjoint(const kl_bondop *x, kl_bondop **out, kl_err *err) KL_MUST_CHECK;
void kl_bondop_destroy(kl_bondop **x);

/* The charge that every product of x (and y behind it) changes, with by how much; NULL: some product changes
   none. */
const char *kl_bondop_forbidden(const kl_bondop *x, const kl_bondop *y, char *by, size_t size);

/* Bonds of a class, in the lattice's order; from and to as they run. *n: how many. */
kl_status kl_bondop_bonds(const kl_lattice *lat, int cls, int *n, int (**bond)[2], kl_err *err) KL_MUST_CHECK;

/* Tells every product that changes no charge: of x on bond b as row b, or with y on bond c behind it as row
   b * nbond + c. Sites are the lattice's numbers, and may repeat. */
typedef kl_status kl_bondop_fn(void *self, int64_t row, double coef, int n, const int *site,
                               const kl_siteop *const *op, const int *odd, kl_err *err);
kl_status kl_bondop_each(const kl_bondop *x, const kl_bondop *y, int nbond, const int (*bond)[2],
                         kl_bondop_fn *tell, void *self, kl_err *err) KL_MUST_CHECK;

#endif
