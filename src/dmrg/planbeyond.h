/* What less memory on the device than a run wants costs a sweep (nemes2014, sections 6 and 7): pure functions
   of the sizes at each bond and of measured rates. Operators of a bond that do not fit come over the bus in
   every product, beside it; blocks that no bond asks for go out once and come back once, while nothing else
   runs. The host's memory for them is taken, and locked, when it is first wanted.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLANBEYOND_H
#define KL_PLANBEYOND_H

typedef struct kl_plan_bond {
    double work; /* of one product with H, in products at the middle bond */
    double operator_bytes; /* that it reads */
    double least_bytes; /* of vectors that have to be on the device then, */
    double vector_bytes; /* and that are there if it has room */
    double kept_bytes; /* of all blocks and isometries that are kept meanwhile */
    double block_bytes; /* of the one that a step there makes */
} kl_plan_bond;

typedef struct kl_plan_rates {
    double room; /* bytes of the device */
    double up, down; /* bytes a second over the bus, to the device and back; 0: not known */
    double lock; /* bytes a second of the host's memory that are made ready for it; 0: not known */
    double seconds; /* of a product with H at the middle where everything fits */
    double moved_bytes; /* of it over the bus, where operators do not fit */
    double list; /* seconds that a list in chunks takes the host more than one whose operators are there */
    double wait; /* seconds of a step from which a block goes out: the host waits for the device there */
    double nproduct; /* products with H at a bond */
} kl_plan_rates;

typedef struct kl_plan_beyond {
    int nstreamed; /* bonds whose operators come over the bus in every product */
    double apply_seconds; /* one product with H at the middle */
    double carried_bytes; /* of blocks that go out and come back in a sweep there and back */
    double locked_bytes; /* of the host, for what waits there at a time */
    double lock_seconds; /* of these, in the first sweep that wants them */
    double seconds; /* that all of this adds to such a sweep */
} kl_plan_beyond;

/* bond[n], from the left end to the right one; `middle' is the number of the middle one. */
kl_plan_beyond kl_plan_beyond_of(int n, const kl_plan_bond *bond, int middle, const kl_plan_rates *r);

#endif
