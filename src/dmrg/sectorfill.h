/* Sector dimensions that suit the tiles of a device's products.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SECTORFILL_H
#define KL_SECTORFILL_H
#include <stdint.h>

/* Devices move what lies at even offsets in half the time and multiply in tiles of 16 rows and 32 columns, of
   which a sector of 246 states leaves as much unused as 10 more would take. So they keep sectors of even
   dimension, where they have KL_FULL_FROM states on average, and no more states in all than were asked for;
   and then, largest sectors first, they add states until dimensions are multiples of 8, 16 or 32, by size; in
   all no more than a part of 1 / KL_MORE of the states that were asked for. */
enum {
    KL_FULL_FROM = 8,
    KL_MORE = 16,
};

/* dim made even, but no larger than `there`, the number of states that the sector has. */
int kl_sector_even(int dim, int there);

/* The multiple that a sector of that many states is filled up to. */
int kl_sector_unit(int dim);

/* Rounds dim[nsec] up to full tiles; there[nsec]: states that the sectors have; more: states that may be
   added in all. */
void kl_sectors_fill(int nsec, int *dim, const int *there, int64_t more);

#endif
