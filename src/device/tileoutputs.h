/* What a list writes: segments of y and intermediates, the uses that records make of them, and where
   intermediates lie in WORK, round by round. What tilecells.c makes of them stands here too; all of it is
   tileplan.c's own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TILEOUTPUTS_H
#define KL_TILEOUTPUTS_H
#include "base/mem.h"
#include "record/record.h"

typedef struct kl_tile_output {
    int64_t base, size;  /* of y, or of the group's WORK */
    int64_t work;        /* in the WORK of all */
    int64_t first, last; /* its uses, a list */
    int ld, group, level, round;
    int home;            /* whose `work` and `base` addresses are made of */
    char in_work, read;
    char keep;           /* 1: the old value counts */
    char zero;           /* 1: elements that nothing is written to become 0 */
    /* of a group whose records keep their order: nothing of it may run before what stands before it */
    char strict;
} kl_tile_output;

typedef struct kl_use {
    int64_t rec, next;
    int da, db; /* intermediates that are read, or -1 */
} kl_use;

/* One rectangle of a launch and the records summed into it. */
typedef struct kl_link {
    int64_t rec;
    int da, db;   /* intermediates that are read, or -1 */
    int row, col; /* corner of the rectangle in the record's result */
    int late;     /* reads what the launch's first level writes */
    int k;        /* of the product; 0: a matrix that is added */
    double alpha;
    int64_t steps; /* of its product, for the depth that tiles are written with: kl_link_steps */
    /* of alpha to the next link's, 0 where that leaves the range; known when tiles are written */
    double ratio;
} kl_link;

typedef struct kl_output {
    uint64_t c;
    int64_t first, count; /* links */
    double cost;
    int64_t slot;
    int ldc, m, n;
    int most_m, most_n;  /* units of a tile */
    int lone;            /* its tiles have one unit, and a warp does each */
    int strict;
    uint32_t flags;
    int depth[2];        /* 0, or the depths that `steps` are for */
    int64_t steps[2];    /* of its sum: see kl_tile_shape_steps */
} kl_output;

/* A matrix that is added counts as one step, since it takes about as long as one step of a product. */
static inline int64_t kl_link_steps(const kl_link *l, int depth)
{
    return l->k > 0 ? (l->k + depth - 1) / depth : 1;
}

/* Where a use's record lies in its tile output. */
typedef struct kl_span {
    int64_t use;
    int row, col, m, n;
} kl_span;

/* Where in the open group's WORK an intermediate is to be found. */
typedef struct kl_alive {
    int64_t from, to;
    int dest;
} kl_alive;

typedef struct kl_tile_plan_maker {
    kl_tile_output *dest;
    kl_use *use;
    kl_link *link;
    kl_output *output;
    kl_output *sorted; /* room for sorting outputs */
    int64_t ndest, cap_dest, nuse, cap_use, nlink, cap_link, noutput, cap_output, cap_sorted;
    kl_alive *live;
    int64_t nlive, cap_live;
    kl_span *span;       /* [4][cap_span] and */
    int *border;         /* [2][2 cap_span + 2]: room that one output after the other uses */
    int64_t cap_span;
    int adds;            /* of the opts */
    /* [cap_] of the plan, while it is none's */
    struct kl_piece *piece;
    struct kl_tile_cell *cell;
    struct kl_summand *term;
    int64_t cap_piece, cap_cell, cap_term;
} kl_tile_plan_maker;

#define KL_ROOM(array, n, cap)                                       \
    do {                                                             \
        if ((n) == (cap)) {                                          \
            const int64_t room_ = 2 * (int64_t)(cap) + 64;           \
            KL_TRY(kl_realloc(&(array), room_, KL_MEM_RECORD, err)); \
            (cap) = (__typeof__(cap))room_;                          \
        }                                                            \
    } while (0)

/* The same for all of n; what stood there is lost. */
#define KL_ROOM_FOR(array, n, cap)                                 \
    do {                                                           \
        if ((n) > (cap)) {                                         \
            kl_free(&(array));                                     \
            (cap) = 0;                                             \
            KL_TRY(kl_realloc(&(array), (n), KL_MEM_RECORD, err)); \
            (cap) = (n);                                           \
        }                                                          \
    } while (0)

/* A row of neighbours is a column, which is how everything here is cut. */
static inline int kl_is_row(const kl_rec *r) { return r->m == 1 && r->n != 1 && r->ldc == 1; }
static inline kl_rec kl_upright(const kl_rec *r)
{
    kl_rec u = *r;
    if (!kl_is_row(r)) return u;
    u.m = r->n;
    u.n = 1;
    u.ldc = r->n;
    if (r->kind == KL_REC_ADD) u.ta = !r->ta;
    if (r->kind == KL_REC_GEMM) {
        u.at_a = r->at_b, u.a = r->b, u.lda = r->ldb, u.ta = !r->tb;
        u.at_b = r->at_a, u.b = r->a, u.ldb = r->lda, u.tb = !r->ta;
    }
    return u;
}

/* The same where it is read only; *own is room for it. */
static inline const kl_rec *kl_upright_of(const kl_rec *r, kl_rec *own)
{
    if (!kl_is_row(r)) return r;
    *own = kl_upright(r);
    return own;
}

/* Numbers from the first to the last element of an m x n matrix with leading dimension ld. */
static inline int64_t kl_extent(int m, int n, int ld) { return (int64_t)(n - 1) * ld + m; }

/* The tile outputs of a group: uses as records name them, or, where there is something unforeseen, records
   one after the other, WORK as the group has it. */
kl_status kl_tile_outputs_find(kl_tile_plan_maker *s, const kl_batch *b, int group, int *foreseen,
                               kl_err *err) KL_MUST_CHECK;
kl_status kl_tile_outputs_in_order(kl_tile_plan_maker *s, const kl_batch *b, int group,
                                   kl_err *err) KL_MUST_CHECK;
/* Offsets in WORK, and rounds. Groups that stay in order come first, all in round 0; a group is torn apart
   only when it is too large by itself. */
void kl_tile_outputs_place(kl_tile_plan_maker *s, int64_t budget, int64_t *nwork, int *nround);
/* Rectangles by their slots, of which there are *nslot; those of one stay in the order in which they are,
   which is that of their links. hands: threads. */
kl_status kl_tile_outputs_sort(kl_tile_plan_maker *s, int hands, int64_t *nslot, kl_err *err) KL_MUST_CHECK;

#endif
