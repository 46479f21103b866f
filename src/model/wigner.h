/* Coefficients of the recoupling of spins, with the phases of Condon and Shortley. Spins are stored doubled:
   j = 3 is 3/2. Reduced matrices are defined by <j' m'|T^k_q|j m> = <j m k q|j' m'> T[j', j], so that scalars
   have the matrix that they have between multiplets.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WIGNER_H
#define KL_WIGNER_H

#define KL_WIGNER_MOST 600 /* doubled spins that a sum of three of them may reach, halved */

/* 1: doubled spins a, b and c close a triangle. */
static inline int kl_triangle(int a, int b, int c)
{
    const int least = a > b ? a - b : b - a;
    return (a + b + c) % 2 == 0 && least <= c && c <= a + b;
}

/* {a b c; d e f}, 0 where a triangle does not close. Relative error 1e-15 to spins of 100. */
double kl_wigner_6j(int a, int b, int c, int d, int e, int f);
/* {a b c; d e f; g h i} */
double kl_wigner_9j(int a, int b, int c, int d, int e, int f, int g, int h, int i);

/* One factor of a product of operators: a reduced matrix of rank k from spin `from` to spin `to`. */
typedef struct kl_leg {
    int from, k, to;
} kl_leg;

/* [A^k1 x B^k2]^K from (j1 j2) J to (j1' j2') J' = this * A[j1', j1] * B[j2', j2]. */
double kl_couple(kl_leg a, kl_leg b, kl_leg whole);

/* A~[to, from] = this * A[from, to], where A~_q = (-1)^(k-q) (A_-q)^+. */
double kl_tilde(int to, int from, int k);

/* [L^k x R^k]^0 between singlets of a left and a right part of spins j, j to those of spins j', j'. */
double kl_scalar(int to, int from, int k);

/* [[X A^a]^xa B^b]^c = sum over xb of this * [[X B]^xb A]^c, up to the sign of fermions. */
double kl_swap(int x, int a, int b, int c, int xa, int xb);

/* <j1 m1 j2 m2 | j m> */
double kl_clebsch(int j1, int m1, int j2, int m2, int j, int m);

#endif
