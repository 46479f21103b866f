/* The pieces of a tile, from the links of its output. Tiles of one output differ in where they are and in how
   much of them is there, so that of many the first one is written and the others are copies of it, moved.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILEPIECES_H
#define KL_TILEPIECES_H
#include "device/tileoutputs.h"
#include "device/tileplan.h"

typedef struct kl_tile {
    const kl_output *o;
    int row, col, m, n, um, un;
} kl_tile;

/* What pieces are written from; work: where WORK begins. */
typedef struct kl_tile_from {
    const kl_tile_plan_maker *s;
    const kl_batch *b;
    uint64_t work;
} kl_tile_from;

/* Where a tile's pieces go: the next head, and the next of the others; what comes of them. */
typedef struct kl_tile_pen {
    int64_t head, more;
    double padded;
    int adds;
} kl_tile_pen;

/* Steps [from, to) of a tile's sum. */
typedef struct kl_tile_part {
    int64_t from, to;
    uint32_t turn, mark; /* turn and the marks among the flags of its pieces */
} kl_tile_part;

/* Address of an operand from an element of it on; from: the intermediate. */
uint64_t kl_tile_operand(const kl_tile_from *f, int at, int from, int64_t element, int shift,
                         uint32_t *flags);
/* A part as a chain of pieces: its head at base[head], the others from base[more] on. */
void kl_tile_write_part(const kl_tile_from *from, const kl_tile_plan_opts *q, const kl_tile *w,
                        const kl_tile_part *of, kl_piece *base, kl_tile_pen *at);
/* The pieces of a part behind its head. */
int64_t kl_tile_further_pieces(const kl_tile_plan_maker *s, const kl_tile_plan_opts *q, const kl_output *o,
                               const kl_tile_part *of);

enum { KL_PATTERN = 66 }; /* pieces of a tile up to which it is copied */
typedef struct kl_tile_pattern {
    kl_tile first;
    int64_t n;
    kl_piece piece[KL_PATTERN];
} kl_tile_pattern;

/* The whole of a tile. */
void kl_tile_pattern_make(const kl_tile_from *from, const kl_tile_plan_opts *q, const kl_tile *w,
                          const kl_tile_part *of, kl_tile_pattern *out);
/* Another tile of the same output, likewise whole. */
void kl_tile_pattern_write(const kl_tile_pattern *p, const kl_tile_plan_opts *q, const kl_tile *w,
                           kl_piece *base, kl_tile_pen *at);

#endif
