/* The tables of a sum of Kronecker products on a device as they are, for kernels in which a thread gathers
   what its row names: plain structs in one run of memory. Kernels with fast memory of their own have better
   lists (devkron.h).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_GATHER_H
#define KL_GATHER_H
#include "exec/kron.h"
#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses are the device's; 0: none. */
typedef struct kl_gather_op { /* kl_kron_op */
    uint64_t ptr, minus, idx16, idx32, coef;
    double scale;
} kl_gather_op;

typedef struct kl_gather_cross {
    int32_t a, b; /* in the list of operators */
    int32_t source, spare;
} kl_gather_cross;

typedef struct kl_gather_block { /* kl_kron_block */
    int64_t off, nl, nr, unit;    /* first of its units: (tile, KL_GATHER_ROWS left states) */
    int32_t a, b, nbit, nfeature; /* a, b: -1 for none */
    int32_t first_cross, ncross;
    double weight;                /* all bits are worth this much, or 0 */
    uint64_t dl, dr, mask, bits, fl, fr;
    uint64_t transposed;              /* weight: [8 ntile] the bits of a right state */
} kl_gather_block;

enum { KL_GATHER_ROWS = 32 };

typedef struct kl_gather {
    void *memory;           /* of the device: blocks, operators, cross terms, and the arrays behind them */
    int64_t bytes, nunit;
    int nblock;
    const kl_gather_block *block;
    const kl_gather_op *op;
    const kl_gather_cross *cross;
} kl_gather;

/* k->device becomes a kl_gather. */
kl_status kl_gather_prepare(kl_kron *k, kl_pool *pool, kl_err *err) KL_MUST_CHECK;
void kl_gather_release(kl_kron *k, kl_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
