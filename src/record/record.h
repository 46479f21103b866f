/* Operation records: y = H x, the growth of operators and the transform of wavefunctions, all as one list of
   dense products on segments. Knows neither what the operands mean nor who runs the list.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RECORD_H
#define KL_RECORD_H
#include "base/base.h"
#include "base/dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where an operand lies; offsets count doubles from its base. ORDER KL_AT */
typedef enum kl_at {
    KL_AT_X,     /* the argument */
    KL_AT_Y,     /* the result */
    KL_AT_WORK,  /* intermediates of one group; every group may begin at 0 again */
    KL_AT_LEFT,  /* operators of the left block, or an isometry */
    KL_AT_RIGHT, /* operators of the right block, or an isometry */
    KL_AT_LEFT_PACK,  /* operands made for this list: sums of left, */
    KL_AT_RIGHT_PACK, /* and of right operators */
    KL_AT_STACK, /* operands stacked by concat.c */
    KL_NAT
} kl_at;

typedef enum kl_rec_kind {
    KL_REC_GEMM, /* C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C */
    KL_REC_ADD,  /* C (m x n) = alpha op(A) + beta C; with m = 1 and steps lda, ldc a diagonal */
    /* C (m x n) = alpha + beta C; with m = 1 and ldc one more than a leading dimension, a multiple of 1 */
    KL_REC_FILL,
} kl_rec_kind;

/* byte 0    1    2    3    4    5    6    7    8..19     20..31        32..55   56..63
        kind ta   tb   beta at_a at_b at_c -    m n k     lda ldb ldc   a b c    alpha
   Matrices are column-major; ta, tb say transpose; beta is 0 or 1. */
typedef struct kl_rec {
    uint8_t kind, ta, tb, beta, at_a, at_b, at_c, spare;
    int32_t m, n, k, lda, ldb, ldc;
    int64_t a, b, c;
    double alpha;
} kl_rec;
#ifdef __cplusplus
static_assert(sizeof(kl_rec) == 64, "record layout is shared with device code");
#else
_Static_assert(sizeof(kl_rec) == 64, "record layout is shared with device code");
#endif

/* Records [first, last) that write one segment of y and nothing else of it: groups run side by side, records
   of one group in order. */
typedef struct kl_group {
    int64_t first, last;
    int64_t y, ny; /* the segment: y[y .. y+ny) */
    int64_t nwork; /* doubles of WORK it needs */
    double flop;
} kl_group;

typedef struct kl_batch kl_batch; /* said in exec.h too, which knows no more of it */
struct kl_batch {
    int64_t nrec, cap_rec;
    kl_rec *rec;
    int ngroup, cap_group;
    kl_group *group;
    int64_t nwork; /* largest of a group */
    int64_t nx, ny; /* lengths of x and y */
    kl_dptr base[KL_NAT]; /* LEFT, RIGHT and the packs; the executor's memory */
    int zero; /* 1: a group's segment is zeroed first (H x); 0: its records write all of it */
    int lasting; /* 1: will be applied many times */
    /* 1: will be applied once: how to run it must not take longer to find out than to run it */
    int once;
    int parts; /* 1: where ranks share the list, y is this rank's part of the result; 0: all of it */
    void *shared; /* how ranks share it; NULL: every rank does all of it */
    double flop, bytes;
    int *order; /* [ngroup] largest first: set by kl_batch_close */
    void *prepared; /* the executor's own */
};

void kl_batch_init(kl_batch *b); /* all zero */
/* frees the lists; what an executor prepared must have been released */
void kl_batch_clear(kl_batch *b);
void kl_batch_reset(kl_batch *b); /* empties the lists, keeps their memory */

/* A new group for segment [y, y+ny). */
kl_status kl_batch_open_group(kl_batch *b, int64_t y, int64_t ny, kl_err *err) KL_MUST_CHECK;
/* Room for n more records; kl_batch_push may be called n times after it. */
kl_status kl_batch_reserve(kl_batch *b, int64_t n, kl_err *err) KL_MUST_CHECK;
static inline kl_rec *kl_batch_push(kl_batch *b) { return &b->rec[b->nrec++]; }
/* Ends the group that is open: counts its flops; nwork as given. */
void kl_batch_close_group(kl_batch *b, int64_t nwork);
/* A group of this record alone, of ny numbers from where it writes. */
kl_status kl_batch_push_alone(kl_batch *b, int64_t ny, kl_rec r, kl_err *err) KL_MUST_CHECK;
/* The same for all groups of a list that has been written in place, without intermediates. */
void kl_batch_count(kl_batch *b);
/* Numbers of y that records write without adding to them, none of them twice. */
int64_t kl_batch_written(const kl_batch *b);
/* Appends the groups of another list; its result begins at y of this one. */
kl_status kl_batch_join(kl_batch *b, const kl_batch *more, int64_t y, kl_err *err) KL_MUST_CHECK;
/* Totals and the order of groups. */
kl_status kl_batch_close(kl_batch *b, kl_err *err) KL_MUST_CHECK;

/* Of the products' (m n k)^(1/3), each with the weight of its flops. */
double kl_batch_mean_size(const kl_batch *b);

/* 2 m n k for a product, 2 m n for the others: additions and multiplications. */
double kl_rec_flop(const kl_rec *r);

#ifdef __cplusplus
}
#endif
#endif
