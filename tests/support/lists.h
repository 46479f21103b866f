/* Random lists of records for tests of executors and of what prepares lists for them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef LISTS_H
#define LISTS_H
#include "record/record.h"

/* A number from 0 to n - 1. */
int lists_below(uint64_t *seed, int n);
/* Groups such as the program makes: an intermediate, possibly in parts, then products with it into all of a
   segment or a block of it; sums, diagonals. wild: anything in any order, WORK in pieces, results
   overwritten. room: numbers of x, LEFT and RIGHT; most: of rows and columns. */
void lists_random(kl_batch *b, int64_t room, int ngroup, int most, int wild, int zero, uint64_t *seed);

#endif
