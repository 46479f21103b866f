/* When one more product with H is not worth its time: what it would gain is little beside what truncation
   takes from the same wavefunction, or beside what is not known of its energy in any case. Knows no solver.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_WORTH_H
#define KL_WORTH_H

typedef struct kl_worth {
    double share;  /* of what is lost or uncertain: gains below it are not worth a product; 0: all are */
    double before; /* energy of the wavefunction before the truncation that made the start */
    double error;  /* of the energy, as far as this eigenproblem has a part in it */
} kl_worth;

/* What has been seen of the lowest root. */
typedef struct kl_worth_seen {
    double first, last; /* energies: of the start, and of the step before */
    double residual; /* of the step before */
} kl_worth_seen;

/* The energy and the residual after a step, which counts from 0 for the start. 1: the next one is not worth
   it. */
int kl_worth_ends(const kl_worth *w, kl_worth_seen *seen, int step, double energy, double residual);

#endif
