/* Tuples of conserved charges: add, subtract, compare, print. Values are the model's integers (2*Sz, N_up,
   ...).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_QN_H
#define KL_QN_H
#include "model/model.h"

typedef struct kl_qn {
    int16_t v[KL_MAX_CHARGE]; /* unused entries are 0 */
} kl_qn;

/* Sums and differences charge by charge; those of Z_n are reduced to 0..n-1. What is left of a target by a
   part of the total spin j has the spin j: the whole with its left edge is a singlet, so that kl_qn_sub gives
   the spin of b. */
kl_qn kl_qn_zero(void);
kl_qn kl_qn_of(const kl_model *m, const int charge[KL_MAX_CHARGE]);
kl_qn kl_qn_add(const kl_model *m, kl_qn a, kl_qn b);
kl_qn kl_qn_sub(const kl_model *m, kl_qn a, kl_qn b);
/* *to = q with step s of the site, or without it (sign -1). Returns 0 where the triangle of spins does not
   close. */
int kl_qn_step(const kl_model *m, kl_qn q, const kl_site_type *site, int s, int sign, kl_qn *to);
/* Charges of the block of no sites to the left: those of the whole have its spin there. */
kl_qn kl_qn_edge(const kl_model *m, kl_qn target);
int kl_qn_odd(const kl_model *m, kl_qn a); /* fermion parity, 0 or 1 */

/* Lexicographic: <0, 0, >0. Here, for searches and sorts of bases are full of it. */
static inline int kl_qn_cmp(kl_qn a, kl_qn b)
{
    for (int c = 0; c < KL_MAX_CHARGE; c++)
        if (a.v[c] != b.v[c]) return a.v[c] < b.v[c] ? -1 : 1;
    return 0;
}

/* "1/2": a stored integer of that charge in the user's unit, into buf; returns buf. */
char *kl_charge_print(const kl_charge *c, int value, char *buf, size_t size);

/* The bit of a molecule's irrep, from 0, that a charge of this name is; -1: it is none. */
int kl_charge_irrep_bit(const char *name);

/* "Sz=1/2 N=3" into buf, always terminated; returns buf. Values in the user's units; bits of an irrep are one
   number from 1, as FCIDUMP files count: irrep=3. */
char *kl_qn_print(const kl_model *m, kl_qn a, char *buf, size_t size);

/* name "Sz", text "1/2" -> stored integer in *index-th charge. EINPUT lists the charges and the unit. */
kl_status kl_qn_set(const kl_model *m, kl_qn *a, const char *name, const char *text,
                    kl_err *err) KL_MUST_CHECK;

#endif
