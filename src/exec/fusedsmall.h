/* Fused steps of a few vectors, which devices do all in registers: the steps of LOBPCG and of Lanczos with
   one vector.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FUSEDSMALL_H
#define KL_FUSEDSMALL_H
#include "exec/exec.h"

/* at most */
enum {
    KL_FUSED_SMALL_IN = 6,
    KL_FUSED_SMALL_OUT = 5,
};

/* A step as a kernel wants it. */
typedef struct kl_fused_small {
    const double *in[KL_FUSED_SMALL_IN];
    double *out[KL_FUSED_SMALL_OUT], c[KL_FUSED_SMALL_OUT][KL_FUSED_SMALL_IN];
    /* bit KL_FUSED_SMALL_IN k + j: c[k][j] is not 0; what is not asked for may hold anything */
    uint32_t used;
} kl_fused_small;

/* 1 where all of it fits: an even number of elements at even offsets, and products of one kind, of outputs
   or, where there are none, of inputs. */
static inline int kl_fused_small_takes(int64_t n, const kl_fuse *f)
{
    uint64_t all = 0;
    if (n < 2 || n % 2 || f->nin < 1 || f->nin > KL_FUSED_SMALL_IN || f->nout > KL_FUSED_SMALL_OUT ||
        f->nout + f->npair == 0)
        return 0;
    for (int j = 0; j < f->nin; j++) all |= f->in[j].addr;
    for (int k = 0; k < f->nout; k++) all |= f->out[k].addr;
    const int first = f->nout > 0 ? f->nin : 0;
    for (int q = 0; q < f->npair; q++)
        if (f->pair[q][0] < first || f->pair[q][1] < first) return 0;
    return all % 16 == 0;
}

/* The step, on elements `from` and up. */
static inline kl_fused_small kl_fused_small_at(const kl_fuse *f, int64_t from)
{
    kl_fused_small g = {};
    for (int j = 0; j < f->nin; j++) g.in[j] = (const double *)f->in[j].addr + from;
    for (int k = 0; k < f->nout; k++) {
        g.out[k] = (double *)f->out[k].addr + from;
        for (int j = 0; j < f->nin; j++) {
            g.c[k][j] = f->c[k * f->nin + j];
            if (g.c[k][j] != 0.0) g.used |= (uint32_t)1 << (KL_FUSED_SMALL_IN * k + j);
        }
    }
    return g;
}

/* Product q of a step among those a kernel makes: all of its outputs, or of its inputs, entries i <= j of a
   symmetric matrix by columns. */
static inline double kl_fused_small_dot(const kl_fuse *f, int q, const double *made)
{
    const int first = f->nout > 0 ? f->nin : 0, a = f->pair[q][0] - first, b = f->pair[q][1] - first;
    return made[a < b ? b * (b + 1) / 2 + a : a * (a + 1) / 2 + b];
}

#endif
