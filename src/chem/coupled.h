/* Electrons of an orbital with the total spin as a charge: its operators as reduced matrices (wigner.h), and
   products of creators and annihilators that are summed over spins as strings of such operators, coupled from
   left to right to a scalar. Knows no integrals, irreps or order of orbitals.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COUPLED_H
#define KL_COUPLED_H

enum {
    KL_COUPLED_OPS = 10, /* 0 is the identity */
    KL_COUPLED_SHELLS = 3, /* multiplets of an orbital by their electrons; one electron has the spin 1/2 */
    KL_COUPLED_FACTORS = 4,
    KL_COUPLED_MOST = 16, /* strings that one product makes */
};

typedef struct kl_coupled {
    const char *name[KL_COUPLED_OPS];
    double reduced[KL_COUPLED_OPS][KL_COUPLED_SHELLS][KL_COUPLED_SHELLS]; /* [to][from] */
    int rank[KL_COUPLED_OPS]; /* doubled */
    int adds[KL_COUPLED_OPS]; /* electrons */
    int adjoint[KL_COUPLED_OPS];
    double adjoint_factor[KL_COUPLED_OPS];
} kl_coupled;

/* Fills the tables, which are the same for every molecule. */
void kl_coupled_create(kl_coupled *c);

/* Twice the spin of a multiplet. */
static inline int kl_coupled_spin(int shell) { return shell == 1; }

typedef struct kl_coupled_string {
    int n;
    int site[KL_COUPLED_FACTORS]; /* rising */
    int op[KL_COUPLED_FACTORS]; /* none is the identity */
    int rank[KL_COUPLED_FACTORS]; /* doubled, of the string up to here */
    double coef;
} kl_coupled_string;

typedef struct kl_coupled_sum {
    int n;
    kl_coupled_string string[KL_COUPLED_MOST];
} kl_coupled_sum;

/* n = 2: sum over s of c+_{0,s} c_{1,s}; n = 4: sum over s, t of c+_{0,s} c+_{1,t} c_{2,t} c_{3,s}, where
   factor k acts on site[k], from 0 to KL_COUPLED_FACTORS - 1. */
void kl_coupled_product(const kl_coupled *c, int n, const int *site, kl_coupled_sum *sum);

#endif
