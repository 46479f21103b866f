/* From a record list to a few launches: host code, no target regions.

   Every piece of memory that is written becomes a tile output: a segment of y, or one intermediate in WORK,
   which gets memory of its own because groups run side by side. An output is cut into cells such that each
   record covers a cell wholly or not at all; all records of a cell are one chain, summed in registers and
   written once. Cells that depend on nothing run in the first launch, those that read these in the next, and
   so on; where intermediates do not fit into memory together, the same again in rounds. Groups that do
   anything unforeseen (read y, write what was read) keep the order of their records.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILEPLAN_H
#define KL_TILEPLAN_H
#include "record/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stretch of one output tile's sum over k. Tile t of a launch begins with piece t; next > 0 names the
   following one. ORDER: tensor.c reads 16-byte words */
typedef struct kl_piece {
    uint64_t a, b, c;       /* addresses, or bytes from x or y as KL_P_A and the like say */
    int32_t ldc;
    uint32_t mn;            /* valid rows | valid columns << 16 */
    int32_t lda, ldb, k, next;
    uint32_t flags, turn;   /* turn: of a tile whose sum is cut into parts, its number << 8 | the part */
    double factor;          /* the sum so far is multiplied by this when the piece is done */
} kl_piece;
#ifdef __cplusplus
static_assert(sizeof(kl_piece) == 64, "the layout is shared with device code");
#else
_Static_assert(sizeof(kl_piece) == 64, "the layout is shared with device code");
#endif

enum {
    KL_P_ROWS = 15,         /* units of rows and of columns that the tile has */
    KL_P_COLS = 15 << 4,
    KL_P_LAST = 1 << 8,     /* then write */
    KL_P_BETA = 1 << 9,     /* and add what is there */
    KL_P_TA = 1 << 10,
    KL_P_TB = 1 << 11,
    KL_P_END = 1 << 12,     /* no tile */
    KL_P_EVEN = 1 << 13,    /* columns of C lie at multiples of 16 bytes: found out on the device */
    KL_P_PART = 1 << 14,    /* writing waits until the parts before this one have written */
    KL_P_OVER = 1 << 15,    /* and this piece ends the part; the last part is marked by KL_P_FINAL */
    KL_P_FINAL = 1 << 22,
    KL_P_FIRST = 1 << 25,   /* where it ends, a tile of the launch's first level has been written */
    KL_P_NEXT = 1 << 26,    /* this piece, of whichever tile, begins when all such tiles have been written */
    /* A itself is added, no product: k are the columns of the tile, b and ldb mean nothing */
    KL_P_ADD = 1 << 23,
    KL_P_A = 16,
    KL_P_B = 18,
    KL_P_C = 20, /* two bits each: 0 address, 1 from x, 2 from y */
};

/* Sums of matrices, element by element: a tile of one cell and the terms behind it. */
typedef struct kl_tile_cell {
    uint64_t c;             /* of the cell's corner */
    int32_t ldc, row, col, m, n; /* the tile in it */
    int32_t first, count;   /* terms */
    uint32_t flags;         /* KL_P_BETA, KL_P_C */
} kl_tile_cell;

typedef struct kl_summand {
    uint64_t a;
    double alpha;
    int32_t lda;
    uint32_t flags;         /* KL_P_TA, KL_P_A, KL_P_END: no matrix, alpha itself */
} kl_summand;

/* pieces that a kernel may read at a time; behind the last one lie one less, which mean nothing */
enum { KL_PIECE_BATCH = 8 };
/* most tiles of a launch that are cut into parts, and most parts of one */
enum {
    KL_TURNS = 4096,
    KL_PARTS = 16,
};
enum { KL_CELL = 1024 };    /* most elements of a tile */

typedef struct kl_launch {
    int products, kind;     /* kind: which of the opts the tiles are made for, 0 being the first */
    int adds;               /* 1: among its pieces are matrices that are added */
    int64_t first, n;       /* products: pieces, and tiles of them; else: cells */
    /* number of tiles, at the end, that have one unit and a warp each; never where there are two levels */
    int64_t nlone;
    int64_t nbefore; /* of two levels in one launch: tiles of outputs that the first one writes */
    double units; /* of a step on average, lone tiles apart */
} kl_launch;

typedef struct kl_tile_plan_opts kl_tile_plan_opts;
struct kl_tile_plan_opts {
    int unit_m, unit_n; /* tiles are multiples of this */
    int most_m, most_n; /* units of a tile */
    int depth; /* k is done in steps of this */
    int nblock; /* tiles that run at once */
    int parts; /* 1: the kernel adds up tiles whose sums are cut into parts, a part a block, */
    double cost_part; /* which costs so much each, in the unit of those below */
    /* 1: the kernel knows KL_P_ADD: the terms that are added to an output of products, and the output's old
       value, need no launch of their own */
    int adds;
    int levels; /* 1: and KL_P_FIRST and KL_P_NEXT: a launch takes two levels */
    /* of a step of a lone tile, one unit done by one warp, while others of the block do theirs; 0: the kernel
       has none */
    double cost_lone;
    int most_lone; /* steps of one, since nobody helps it */
    /* 1: for a library: a piece is a product by itself, with its coefficient, and adds to what is there; a
       cell is one tile */
    int apart;
    int whole; /* 1: a tile costs the same however little of it is there */
    /* bytes of slices that a block gets in a cycle while all others load as well; 0: unknown */
    double rate;
    /* of a step: for each unit, row of units, column of units, but never less; of every piece but the first;
       and of a tile; in cycles of a block, roughly */
    double cost_unit, cost_row, cost_col, cost_least, cost_piece, cost_tile;
    /* sums of this number of steps, or more, keep the tiles of an output together: what one brings from
       memory the others find in the cache. Over longer ones tiles of different sizes drift apart, and those
       of one cost had better begin together, whatever outputs they belong to */
    int together;
    int nthread; /* of the host, that plan a long list together; 0: one. The plan does not depend on it */
    const kl_tile_plan_opts *other; /* another kind of block: each launch takes the one that is done sooner */
};

typedef struct kl_tile_plan {
    kl_tile_plan_opts o;
    int64_t nwork; /* doubles of WORK in all */
    int nround, nsequential;
    kl_launch *launch;
    kl_piece *piece;
    kl_tile_cell *cell;
    kl_summand *term;
    int64_t nlaunch, npiece, ncell, nterm, ntile;
    double padded;
    struct kl_tile_plan_maker *planner;
    void **spare; /* of kl_tile_plan_open */
} kl_tile_plan;

/* Finds intermediates and their order; afterwards nwork says what memory is wanted when rounds take `budget`
   doubles (a single one may need more). spare: NULL, or where plans leave the host's memory that they were
   made in, for the next one: fresh pages cost a fifth of what planning does. */
kl_status kl_tile_plan_open(const kl_batch *b, const kl_tile_plan_opts *o, int64_t budget, void **spare,
                            kl_tile_plan *p, kl_err *err) KL_MUST_CHECK;
void kl_tile_plan_free_spare(void **spare);
/* Writes the launches, WORK being at this address. */
kl_status kl_tile_plan_write(const kl_batch *b, uint64_t work, kl_tile_plan *p, kl_err *err) KL_MUST_CHECK;
void kl_tile_plan_forget(kl_tile_plan *p); /* all but the launches and the figures */
void kl_tile_plan_clear(kl_tile_plan *p);

/* Valid rows and columns, of a piece's mn. */
static KL_ON_DEVICE inline int kl_rows_of(uint32_t mn) { return (int)(mn & 0xffff); }
static KL_ON_DEVICE inline int kl_cols_of(uint32_t mn) { return (int)(mn >> 16); }

/* Address of an operand that may count from x or y. */
static KL_ON_DEVICE inline uint64_t kl_where(uint64_t a, uint32_t flags, int shift, const double *x,
                                             const double *y)
{
    const uint32_t from = flags >> shift & 3u;
    return a + (from == 1 ? (uint64_t)(uintptr_t)x : from == 2 ? (uint64_t)(uintptr_t)y : 0);
}

#ifdef __cplusplus
}
#endif
#endif
