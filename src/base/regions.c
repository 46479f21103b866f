/* See regions.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/regions.h"
#include "base/mem.h"
#include <string.h>

enum {
    PAGE = 1 << 12,
    HUGE_PAGE = 1 << 21,
};
#define LEAST_REGION ((int64_t)1 << 24)
#define MOST_REGION ((int64_t)1 << 30)

static int64_t up_to(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

int64_t kl_regions_size(int64_t bytes) { return up_to(bytes > 0 ? bytes : 1, PAGE); }

int64_t kl_regions_next(const kl_regions *r, int64_t size)
{
    int64_t next = r->bytes / 2;
    if (next > MOST_REGION) next = MOST_REGION;
    if (next < LEAST_REGION) next = LEAST_REGION;
    return up_to(size > next ? size : next, HUGE_PAGE);
}

static int more_holes(kl_regions *r)
{
    if (r->nhole < r->cap_hole) return 1;
    const int64_t cap = 2 * r->cap_hole + 64;
    if (kl_realloc(&r->hole, cap, KL_MEM_MISC, NULL) != KL_OK) return 0;
    r->cap_hole = cap;
    return 1;
}

static void remove_hole(kl_regions *r, int64_t i)
{
    memmove(&r->hole[i], &r->hole[i + 1], (size_t)(--r->nhole - i) * sizeof *r->hole);
}

static void insert_hole(kl_regions *r, int64_t i, kl_hole hole)
{
    memmove(&r->hole[i + 1], &r->hole[i], (size_t)(r->nhole++ - i) * sizeof *r->hole);
    r->hole[i] = hole;
}

/* Of the first hole behind an address. */
static int64_t hole_behind(const kl_regions *r, const char *at)
{
    int64_t low = 0, high = r->nhole;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (r->hole[mid].at < at) low = mid + 1;
        else high = mid;
    }
    return low;
}

void *kl_regions_take(kl_regions *r, int64_t size)
{
    int64_t best = -1;
    for (int64_t i = 0; i < r->nhole; i++)
        if (r->hole[i].bytes >= size && (best < 0 || r->hole[i].bytes < r->hole[best].bytes)) best = i;
    if (best < 0) return NULL;
    char *const at = r->hole[best].at;
    r->hole[best].at += size;
    r->hole[best].bytes -= size;
    if (r->hole[best].bytes == 0) remove_hole(r, best);
    return at;
}

static char *region_of(const kl_regions *r, const char *at)
{
    for (int64_t i = 0; i < r->nregion; i++)
        if (at >= r->region[i].at && at < r->region[i].at + r->region[i].bytes) return r->region[i].at;
    return NULL;
}

void kl_regions_give(kl_regions *r, void *block, int64_t size)
{
    kl_hole hole = {block, size, region_of(r, block)};
    int64_t i = hole_behind(r, hole.at);
    if (i < r->nhole && r->hole[i].of == hole.of && hole.at + hole.bytes == r->hole[i].at) {
        hole.bytes += r->hole[i].bytes;
        remove_hole(r, i);
    }
    if (i > 0 && r->hole[i - 1].of == hole.of && r->hole[i - 1].at + r->hole[i - 1].bytes == hole.at) {
        r->hole[i - 1].bytes += hole.bytes;
        return;
    }
    if (more_holes(r)) insert_hole(r, i, hole); /* else nobody gets these bytes before the end */
}

int kl_regions_add(kl_regions *r, void *at, int64_t bytes)
{
    if (r->nregion == r->cap_region) {
        const int64_t cap = 2 * r->cap_region + 16;
        if (kl_realloc(&r->region, cap, KL_MEM_MISC, NULL) != KL_OK) return 0;
        r->cap_region = cap;
    }
    if (!more_holes(r)) return 0;
    r->region[r->nregion++] = (kl_region){at, bytes};
    r->bytes += bytes;
    insert_hole(r, hole_behind(r, at), (kl_hole){at, bytes, at});
    return 1;
}

void *kl_regions_drop(kl_regions *r, int64_t *bytes)
{
    for (int64_t k = r->nregion - 1; k >= 0; k--) {
        char *const at = r->region[k].at;
        const int64_t i = hole_behind(r, at);
        if (i == r->nhole || r->hole[i].at != at || r->hole[i].bytes != r->region[k].bytes) continue;
        *bytes = r->region[k].bytes;
        r->bytes -= *bytes;
        remove_hole(r, i);
        memmove(&r->region[k], &r->region[k + 1], (size_t)(--r->nregion - k) * sizeof *r->region);
        return at;
    }
    return NULL;
}

void kl_regions_clear(kl_regions *r)
{
    kl_free(&r->region);
    kl_free(&r->hole);
    *r = (kl_regions){.bytes = 0};
}
