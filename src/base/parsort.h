/* Sorting by several threads.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARSORT_H
#define KL_PARSORT_H
#include "base/base.h"
#include <stddef.h>
#include <stdint.h>

/* As qsort: n elements of `size` bytes. What compares as equal has no order. Long arrays are sorted in
   pieces, which are merged; where there is no memory for that, by qsort. */
void kl_par_sort(int nthread, void *base, int64_t n, size_t size, int (*compare)(const void *, const void *));
/* n elements of `size` bytes by a number of theirs, the largest first, which stands `at` bytes behind their
   beginning, is not negative and not NaN. Those of equal numbers stay in the order in which they are. By
   digits: some ten times as fast as by comparisons. */
kl_status kl_sort_falling(void *base, int64_t n, size_t size, size_t at, kl_err *err) KL_MUST_CHECK;
kl_status kl_sort_rising(void *base, int64_t n, size_t size, size_t at, kl_err *err) KL_MUST_CHECK;

#endif
