/* Groups of a list in strips: rows or columns of a group's segment that can be made side by side, each by the
   same records, shortened, and to the same bits. Nobody has to wait for another between two records.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STRIPS_H
#define KL_STRIPS_H
#include "record/record.h"

typedef enum kl_strip_way { KL_STRIPS_NONE, KL_STRIPS_ROWS, KL_STRIPS_COLUMNS } kl_strip_way;

typedef struct kl_strips {
    kl_strip_way way;
    int n; /* rows or columns of the segment */
    int ld; /* its rows */
} kl_strips;

/* How group g can be taken apart. place[i - g->first]: where record i, or the one that reads what it writes
   to WORK, begins among these n. A strip has as many rows or columns of a record's result, of its first or
   second operand, and of WORK. */
kl_strips kl_group_strips(const kl_batch *b, const kl_group *g, int32_t *place);

#endif
