/* The inner products of a fused step as entries of 8 x 8 blocks of the Gram matrix of all its vectors, which
   tensor cores of a device add up: which blocks hold them, and how the warps of a thread block share these.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GRAM_H
#define KL_GRAM_H
#include "exec/exec.h"
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KL_GRAM_MOST = 16 /* blocks a warp adds up */ };

typedef struct kl_gram {
    int nblock, share;                   /* blocks; warps that split them, the others splitting the rows */
    /* vectors 8 a.. and 8 b.., sorted, so that a warp keeps its left fragment */
    short block[KL_FUSE_MOST_PAIR][2];
    short entry[KL_FUSE_MOST_PAIR][2];   /* of a pair: its block, and 8 row + column there */
} kl_gram;

/* Returns what a warp takes: 1, 2, 4, 8 or 16 blocks. */
static inline int kl_gram_choose(const kl_fuse *f, kl_gram *g)
{
    enum { SIDE = (KL_FUSE_MOST + KL_FUSE_MOST_OUT) / 8 };
    short number[SIDE][SIDE];
    memset(number, 0, sizeof number);
    for (int q = 0; q < f->npair; q++) {
        const int a = f->pair[q][0], b = f->pair[q][1];
        number[(a < b ? a : b) / 8][(a < b ? b : a) / 8] = 1;
    }
    g->nblock = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = i; j < SIDE; j++)
            if (number[i][j]) {
                number[i][j] = (short)g->nblock;
                g->block[g->nblock][0] = (short)i;
                g->block[g->nblock++][1] = (short)j;
            }
    int each = 1;
    while (each < KL_GRAM_MOST && each < g->nblock) each *= 2;
    g->share = 1;
    while (g->share * each < g->nblock) g->share *= 2;
    for (int q = 0; q < f->npair; q++) {
        const int a = f->pair[q][0], b = f->pair[q][1], i = a < b ? a : b, j = a < b ? b : a;
        g->entry[q][0] = number[i / 8][j / 8];
        g->entry[q][1] = (short)(8 * (i % 8) + j % 8);
    }
    return each;
}

#ifdef __cplusplus
}
#endif
#endif
