/* From a record list to a few launches: host code, no target regions.

   Every place that is written becomes a `dest`: a segment of y, or one intermediate in WORK, which gets memory of its own because groups run side by
   side. A dest is cut into cells such that each record covers a cell wholly or not at all; all records of a cell are one chain, summed in registers and
   written once. Cells that depend on nothing run in the first launch, those that read these in the next, and so on; where intermediates do not fit
   into memory together, the same again in rounds. Groups that do anything unforeseen (read y, write what was read) keep the order of their records.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLAN_OFFLOAD_H
#define KL_PLAN_OFFLOAD_H
#include "record.h"

/* A stretch of one output tile's sum over k. Tile t of a launch begins with piece t; next > 0 names the following one. ORDER: tensor.c reads 16-byte words */
typedef struct kl_piece {
    uint64_t a, b, c;       /* addresses, or bytes from x or y as KL_P_A and the like say */
    int32_t ldc;
    uint32_t mn;            /* valid rows | valid columns << 16 */
    int32_t lda, ldb, k, next;
    uint32_t flags, spare;
    double factor;          /* the sum so far is multiplied by this when the piece is done */
} kl_piece;
_Static_assert(sizeof(kl_piece) == 64, "the layout is shared with device code");

enum {
    KL_P_ROWS = 15,         /* units of rows and of columns that the tile has */
    KL_P_COLS = 15 << 4,
    KL_P_LAST = 1 << 8,     /* then write */
    KL_P_BETA = 1 << 9,     /* and add what is there */
    KL_P_TA = 1 << 10,
    KL_P_TB = 1 << 11,
    KL_P_END = 1 << 12,     /* no tile */
    KL_P_EVEN = 1 << 13,    /* columns of C lie at multiples of 16 bytes: found out on the device */
    KL_P_A = 16, KL_P_B = 18, KL_P_C = 20, /* two bits each: 0 address, 1 from x, 2 from y */
};

/* Sums of matrices, element by element: a tile of one cell and the terms behind it. */
typedef struct kl_cell {
    uint64_t c;             /* of the cell's corner */
    int32_t ldc, row, col, m, n; /* the tile in it */
    int32_t first, count;   /* terms */
    uint32_t flags;         /* KL_P_BETA, KL_P_C */
} kl_cell;

typedef struct kl_term {
    uint64_t a;
    double alpha;
    int32_t lda;
    uint32_t flags;         /* KL_P_TA, KL_P_A, KL_P_END: no matrix, alpha itself */
} kl_term;

enum { KL_CELL = 1024 };    /* most elements of a tile */

typedef struct kl_launch {
    int products;
    int64_t first, n;       /* products: pieces, and tiles of them; else: cells */
} kl_launch;

typedef struct kl_plan_opts {
    int unit_m, unit_n;     /* tiles are multiples of this */
    int most_m, most_n;     /* units of a tile */
    int depth;              /* k is done in steps of this */
    int nblock;             /* tiles that run at once */
    int whole;              /* 1: a tile costs the same however little of it is there */
} kl_plan_opts;

typedef struct kl_plan {
    kl_plan_opts o;
    int64_t nwork;          /* doubles of WORK in all */
    int64_t least_work;     /* of the largest intermediate */
    int nround, nsequential;
    kl_launch *launch;
    kl_piece *piece;
    kl_cell *cell;
    kl_term *term;
    int64_t nlaunch, npiece, ncell, nterm, ntile;
    double padded;
    struct kl_planner *planner;
} kl_plan;

/* Finds intermediates and their order; afterwards nwork says what memory is wanted when rounds take `budget` doubles (a single one may need more). */
kl_status kl_plan_open(const kl_batch *b, const kl_plan_opts *o, int64_t budget, kl_plan *p, kl_err *err) KL_MUST_CHECK;
/* Writes the launches, WORK being at this address. */
kl_status kl_plan_write(const kl_batch *b, uint64_t work, kl_plan *p, kl_err *err) KL_MUST_CHECK;
void kl_plan_forget(kl_plan *p); /* all but the launches and the figures */
void kl_plan_clear(kl_plan *p);

#endif
