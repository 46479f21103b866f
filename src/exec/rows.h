/* Rows of blocks of a vector, and a buffer where they stand side by side: what ranks send each other of it. A
   block is a number of tiles, each of as many rows of KL_ROW numbers as the block says (kron.h). Knows no
   ranks.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ROWS_H
#define KL_ROWS_H
#include <stdint.h>
#include "base/dev.h"

enum { KL_ROW = 8 };

/* Row row[list + j] of tile t, at off + t * stride + 8 row[list + j] of the vector, stands at to + 8 (t *
   nrow + j) of the buffer. to ascends from run to run without gaps, from 0. */
typedef struct kl_rows_run {
    int64_t off, stride, ntile, nrow, list, to;
} kl_rows_run;

typedef struct kl_rows {
    int64_t nrun, nlist, n; /* n: numbers of the buffer */
    kl_rows_run *run;
    uint32_t *row;
    void *device; /* an executor's own copy */
} kl_rows;

/* Where row number i of the buffer stands in the vector. */
static KL_ON_DEVICE inline int64_t kl_rows_place(const kl_rows_run *run, int64_t nrun, const uint32_t *row,
                                                 int64_t i)
{
    int64_t low = 0, high = nrun - 1;
    while (low < high) {
        const int64_t mid = (low + high + 1) / 2;
        if (run[mid].to <= i * KL_ROW) low = mid;
        else high = mid - 1;
    }
    const kl_rows_run *const r = &run[low];
    const int64_t at = i - r->to / KL_ROW;
    return r->off + at / r->nrow * r->stride + (int64_t)row[r->list + at % r->nrow] * KL_ROW;
}

#endif
