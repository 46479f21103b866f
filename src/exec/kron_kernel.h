/* The inner loops of kron_host.c, one set per instruction set (kron_tmpl.c).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRON_KERNEL_H
#define KL_KRON_KERNEL_H
#include "exec/kron.h"

typedef struct kl_kron_kernel {
    const char *name;
    /* Left states [l0, l1) of a block, l0 a multiple of 8: y = (1 (x) b + cross terms) x. z, acc: [8 * 8
       ntile_max] each. stream: y goes past the caches. */
    void (*right)(const kl_kron *k, const kl_kron_block *b, int64_t l0, int64_t l1, const double *x,
                  double *y, double *z, double *acc, int stream);
    /* Tile t: y += (diagonal + a (x) 1) x, or, where adds is 0, y = that; returns x . y over the tile. */
    double (*left)(const kl_kron_block *b, int64_t t, int adds, const double *x, double *y);
    /* Left states [l0, l1) of a block, l0 a multiple of 8: y += (1 (x) b) x, z: [8 columns of b, rounded up
       to 8]. Tiles of x beyond the block's own stand at others + t * stride, left state l0 first. */
    void (*beyond)(const kl_kron_block *b, int64_t l0, int64_t l1, const double *x, const double *others,
                   int64_t stride, double *y, double *z);
} kl_kron_kernel;

extern const kl_kron_kernel kl_kron_avx512, kl_kron_avx2, kl_kron_generic;

/* The fastest that this CPU runs; KRONLAT_ISA=avx512|avx2|generic overrides. */
const kl_kron_kernel *kl_kron_choose(void);

#endif
