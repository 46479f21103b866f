/* Sorting by several threads.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARSORT_H
#define KL_PARSORT_H
#include <stddef.h>
#include <stdint.h>

/* As qsort: n elements of `size` bytes. What compares as equal has no order. Long arrays are sorted in
   pieces, which are merged; where there is no memory for that, by qsort. */
void kl_par_sort(int nthread, void *base, int64_t n, size_t size, int (*compare)(const void *, const void *));

#endif
