/* A Hamiltonian that is its own image when positions are counted from the other end, as chains, ladders and
   cylinders without a field of their own are.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_INVERSION_H
#define KL_INVERSION_H
#include "model/terms.h"

/* 1: every string of t, with position p taken to nsite - 1 - p, is one of t, with the same coefficient.
   Strings of three and more operators that the total spin couples are not looked at: 0. */
int kl_inversion_keeps(const kl_terms *t);

#endif
