/* Operators of a block of sites, and of a block with one more site in factored form. They are lists
   of dense pieces between sectors; what the operators mean is the matter of mpo.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BLOCK_H
#define KL_BLOCK_H
#include "exec/exec.h"
#include "dmrg/opsums.h"
#include "record/record.h"
#include "model/sector.h"

typedef enum kl_side { KL_LEFT, KL_RIGHT } kl_side; /* block (x) site, or site (x) block */

/* The operators of one cut, on the block to one side of it. Operator b maps sector i to sector dst[b*nsec +
   i] (-1: to none) by the matrix dim[dst] x dim[i] at off[b*nsec + i] of data, column-major, packed.
   Identities hold no data (off -1). */
typedef struct kl_block {
    kl_side side;
    int cut;
    const kl_mpo *mpo; /* borrowed */
    kl_basis basis;
    int nop;
    int *dst, *src; /* [nop * nsec]; src: dst[b][src[b][i]] == i, or -1 */
    int64_t *off;
    int64_t ndata;
    kl_exec *ex;
    kl_dptr data;
    int away; /* 1: it waits, and of data each rank has its part: kl_share_put_away */
    int file; /* of scratch.h, plus 1: data waits there; 0: it does not */
} kl_block;

/* Doubles from one matrix to the next: they begin at even offsets, where a GPU loads two numbers at once. */
static inline int64_t kl_block_room(int rows, int cols)
{
    const int64_t n = (int64_t)rows * cols;
    return n + n % 2;
}

/* An operator of the block, seen from its side. */
static inline int kl_block_identity(const kl_block *b, int op)
{
    const kl_cut_op *const o = &b->mpo->op[b->cut][op];
    return b->side == KL_LEFT ? o->left_identity : o->right_identity;
}

/* Structure with room for data, contents undefined; basis is copied. */
kl_status kl_block_create(kl_exec *ex, const kl_mpo *mpo, kl_side side, int cut, const kl_basis *basis,
                          kl_block **out, kl_err *err) KL_MUST_CHECK;
/* The block of no sites; on the left it has the spin of the target. */
kl_status kl_block_create_edge(kl_exec *ex, const kl_mpo *mpo, kl_side side, kl_qn target, kl_block **out,
                               kl_err *err) KL_MUST_CHECK;
void kl_block_destroy(kl_block **b);
/* Its numbers, which are in the host's memory, wait in a file of the folder (scratch.h); and where they do,
   they come back. */
kl_status kl_block_file(kl_block *b, const char *folder, kl_err *err) KL_MUST_CHECK;
kl_status kl_block_unfile(kl_block *b, kl_err *err) KL_MUST_CHECK;

/* A piece of an operator of the enlarged block: rows [row, row+nrow) of the target sector from columns [col,
   col+ncol) of the source one, coef * (matrix at off of the block's data or of the pack, its transpose if
   dag), or coef * identity where off is -1. */
typedef struct kl_part {
    int row, nrow, col, ncol;
    int ld;
    uint8_t dag, packed;
    int64_t off;
    double coef;
} kl_part;

/* All operators of the cut beyond the site, in four-factor form: (block operator) x (element of a site
   operator). Where several records fall on the same matrix (many block operators with one site operator, as
   in long-range models; a constant and an operator) their sum is packed once, so that no product is made
   twice. */
typedef struct kl_bigop {
    const kl_block *block; /* borrowed */
    const kl_enlarged *enlarged; /* borrowed */
    int cut, nop; /* the cut beyond the site */
    kl_dptr pack; /* matrices made for this */
    int64_t npack;
    int *dst, *src; /* [nop * nsec], sectors of the enlarged basis */
    int64_t *first; /* [nop * nsec + 1]: parts of (operator, source sector) */
    int64_t npart, cap_part;
    kl_part *part;
    int64_t list_bytes; /* that making its sums took for a while */
    /* where operators are multiplied out: their kinds, and where those stand stacked; see opdense.h */
    kl_kinds kinds;
    int64_t *stack; /* [kinds.n * nsec]; NULL: they are not multiplied out */
} kl_bigop;

/* pos: position of the site. */
kl_status kl_bigop_create(const kl_block *block, const kl_enlarged *e, int pos, kl_bigop **out,
                          kl_err *err) KL_MUST_CHECK;
void kl_bigop_destroy(kl_bigop **g);
/* Where the matrix of a part lies, for a record; and the addresses of these matrices, for a batch. */
static inline kl_at kl_bigop_at(const kl_bigop *g, const kl_part *p)
{
    return g->block->side == KL_LEFT ? (p->packed ? KL_AT_LEFT_PACK : KL_AT_LEFT)
                                     : (p->packed ? KL_AT_RIGHT_PACK : KL_AT_RIGHT);
}
void kl_bigop_bases(const kl_bigop *g, kl_batch *b);
/* The record that adds a part to the matrix at `to` of y, of leading dimension ld: a matrix, or a multiple of
   the identity. */
kl_rec kl_bigop_add(const kl_bigop *g, const kl_part *p, int64_t to, int ld);
/* 1 when operator op beyond the site is the identity. */
int kl_bigop_identity(const kl_bigop *g, int op);

#endif
