/* Large regions of memory that is slow to get, as page-locked memory of the host is, divided into blocks of
   any size: what comes back joins its neighbours, and a block of another size is cut from it. Not for many
   small blocks: all holes are looked through.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REGIONS_H
#define KL_REGIONS_H
#include "base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kl_region {
    char *at;
    int64_t bytes;
} kl_region;

typedef struct kl_hole {
    char *at;
    int64_t bytes;
    char *of; /* its region; neighbours of two regions stay apart */
} kl_hole;

typedef struct kl_regions {
    kl_region *region;
    int64_t nregion, cap_region;
    kl_hole *hole; /* [nhole], by address */
    int64_t nhole, cap_hole;
    int64_t bytes; /* of all regions */
} kl_regions;

int64_t kl_regions_size(int64_t bytes); /* of a block for so many */
/* Of the next region, where a block of `size' has to fit: regions grow with what there is. */
int64_t kl_regions_next(const kl_regions *r, int64_t size);
/* The smallest hole that has `size' bytes gives them; NULL: none has. */
void *kl_regions_take(kl_regions *r, int64_t size);
void kl_regions_give(kl_regions *r, void *block, int64_t size);
/* One region more. 0: no memory for the tables. */
int kl_regions_add(kl_regions *r, void *at, int64_t bytes);
/* A region without blocks leaves, of several the last: where it is, NULL: all have some. */
void *kl_regions_drop(kl_regions *r, int64_t *bytes);
void kl_regions_clear(kl_regions *r); /* tables alone */

#ifdef __cplusplus
}
#endif
#endif
