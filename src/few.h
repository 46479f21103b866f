/* Fused steps of a few vectors, which devices do all in registers: the steps of LOBPCG and of Lanczos with one vector.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FEW_H
#define KL_FEW_H
#include "exec.h"

enum { KL_FEW_IN = 6, KL_FEW_OUT = 5 }; /* at most */

/* 1 where all of it fits: an even number of elements at even places, and products of one kind, of outputs or, where there are none, of inputs. */
static inline int kl_few_takes(int64_t n, const kl_fuse *f)
{
    uint64_t all = 0;
    if (n < 2 || n % 2 || f->nin < 1 || f->nin > KL_FEW_IN || f->nout > KL_FEW_OUT || f->nout + f->npair == 0) return 0;
    for (int j = 0; j < f->nin; j++) all |= f->in[j].addr;
    for (int k = 0; k < f->nout; k++) all |= f->out[k].addr;
    const int first = f->nout > 0 ? f->nin : 0;
    for (int q = 0; q < f->npair; q++)
        if (f->pair[q][0] < first || f->pair[q][1] < first) return 0;
    return all % 16 == 0;
}

#endif
