/* Sparse matrices on a device: how they lie there, for offload and CUDA alike. Chooses a way, lays the matrix
   out, uploads it; launches nothing (that is the executor's part, spmv_device.h what its kernels do).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SPDEV_H
#define KL_SPDEV_H
#include "exec/spmv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PACKED: each row is a run of groups of 8 non-zeros. Group g: column of the first = base[g] << (8 *
   step_bytes) | step 0 of its 8, each further step is added to the column before. A distance too long for a
   step is bridged by zeros, or the group ends with zeros of no distance.

   Where x fits into a few blocks of shared memory, rows are cut at the blocks' columns: run b * nrow + i is
   what row i has in block b. Each block of threads takes its rows through one block of x after the other.
   Values of a run of n groups lie from its first entry on in four planes, [4][n][2], so that neighbours read
   neighbouring 16 bytes; steps are [8] of 1 or 2 bytes each.

   TILES: rows are cut into ranges (of a block of threads each: its sums are kept in shared memory), columns
   below dense_width * ndense into ndense blocks, whose part of x is in shared memory in turn; `ndense + 1`
   parts for each range, the last one all further columns. In a part the rows are sorted by their length there
   and go by slices of 32, a lane each; a slice is as wide as its first row. Slices are dealt out to warps,
   the widest first, each to the warp that has least, and lie in the warps' order. Slice after slice makes the
   part's steps: step s is one non-zero of each lane. Four steps are a quad: values [2][32][2], columns
   [32][4] (16 bits, or 32 in the last part). The highest bit of a column says that its slice ends with it.
   Lane k of slice i owns row row_of[32 i + k] of the range; NO_ROW: none. */
enum {
    KL_PACKED_COLUMNS = 16384,
    KL_PACKED_BLOCKS = 4,
    KL_PACKED_ROWS = 4096,
};
enum {
    KL_TILE_ROWS = 8192,
    KL_TILE_COLUMNS = 10500,
    KL_TILE_WARPS = 24,
    KL_TILE_NO_ROW = 0xffff,
};

typedef struct kl_spshare { /* what one warp does of one part */
    uint32_t from, to; /* steps */
    uint32_t slice; /* that step `from` belongs to */
    uint32_t unused;
} kl_spshare;

/* What kernels read; device addresses. */
typedef struct kl_spargs {
    int64_t nrow, ncol;
    int index_bytes, symmetric;
    /* as stored: spmat.h says what lies where; offsets are 8 bytes here */
    const double *value, *rest_value;
    const void *column, *rest_column;
    const uint32_t *length, *order;
    const int64_t *slice_off, *start, *end; /* end NULL: start of the next row */
    int64_t width, height, nslice;
    /* PACKED */
    const double *packed; /* [ngroup][8] */
    const void *step; /* [ngroup][8] */
    const uint16_t *base; /* [ngroup] */
    const uint32_t *group; /* [nxblock * nrow + 1] first group of a run */
    int step_bytes;
    /* blocks of x, one after the other in shared memory; 1: only its first elements, unless it is short */
    int nxblock;
    int nshared; /* elements of a block */
    /* TILES */
    int nrange, ndense, dense_width, most_rows, nworker;
    const uint32_t *range; /* [nrange + 1] first row */
    const kl_spshare *share; /* [nrange][ndense][nworker] */
    /* [nrange][max(ndense, 1)][nworker]: the last part, a piece after each dense one */
    const kl_spshare *rest;
    const double *dense_value, *far_value;
    const uint16_t *dense_column;
    const uint32_t *far_column;
    const uint16_t *dense_row, *far_row; /* row_of */
} kl_spargs;

/* What prepare must know of a device; 0 warps: one that knows no warps takes every format a thread a row. */
typedef struct kl_spmachine {
    int warps, nblock; /* multiprocessors */
    int shared_bytes; /* a block can have */
} kl_spmachine;

enum { KL_SPDEV_ARRAYS = 16 };

typedef struct kl_spdev kl_spdev;
struct kl_spdev {
    kl_spway way; /* never AUTO */
    int lanes; /* WARP: threads a row */
    int threads; /* of a block */
    kl_spargs args;
    kl_dptr device_args;
    int narray;
    kl_dptr array[KL_SPDEV_ARRAYS];
    int64_t bytes; /* of all arrays */
    kl_dptr x; /* [ncol][nv] */
    int nv_room;
    kl_spdev *block; /* TILES: a sliced copy, once a block of vectors asks for it */
    void *library; /* yardsticks: their own objects; they lay the matrix out themselves */
};

/* Fills s->plan with a kl_spdev for s->way. Yardsticks get one without arrays. */
kl_status kl_spdev_prepare(kl_exec *ex, const kl_spmachine *machine, kl_spmv *s, kl_err *err) KL_MUST_CHECK;
void kl_spdev_release(kl_exec *ex, kl_spmv *s);

/* What a product with nvec vectors needs: the layout to use for it, room for x [ncol][nv] in it; *nv: 1, 2,
   4, 8 or 16. */
kl_status kl_spdev_ready(kl_exec *ex, kl_spmv *s, int nvec, kl_spdev **out, int *nv,
                         kl_err *err) KL_MUST_CHECK;

/* The way that AUTO takes for this number of products, where nthread threads of the host lay matrices out; a
   pure function, so that it can be told and tested without a device. cost: kl_exec.layout; what was not
   measured is taken from another machine. *pays: products from which on another layout is worth making; 0:
   none is. */
kl_spway kl_spway_choose(const kl_spmachine *machine, const kl_spmat *m, int64_t products, int nthread,
                         const kl_layout_cost cost[2], int64_t *pays);

/* What kl_exec_explain is told of a product. */
void kl_spdev_explain(const kl_exec *ex, const kl_spmachine *machine, const kl_call *call, kl_choice *c);

#ifdef __cplusplus
}
#endif
#endif
