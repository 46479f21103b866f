/* Blocks of vectors by PACKED on an offload device, with at most 32 registers a thread (src/meson.build):
   what counts is how many threads wait for memory at the same time.
   SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "target.h"

#include "device/spmv_device.h"

#if KL_OFFLOAD_BARE
#define PACKED_BLOCK(BYTES, NV)                                                                              \
    {KL_BARE(grid, threads, 0,                                                                               \
             is_device_ptr(packed, step, base, group, xs, y) firstprivate(nrow, nxblock, nvec, ldy)){        \
        const kl_spargs a = {                                                                                \
            .nrow = nrow, .nxblock = nxblock, .packed = packed, .step = step, .base = base, .group = group}; \
    kl_sp_packed_block(&a, BYTES, NV, nvec, xs, y, ldy);                                                     \
    }                                                                                                        \
    }

void kl_offload_packed_block(const kl_spdev *d, int nvec, int nv, const double *xs, double *y, int64_t ldy)
{
    const int64_t nrow = d->args.nrow;
    const int nxblock = d->args.nxblock, bytes = d->args.step_bytes, threads = d->threads,
              grid = (int)((nrow * 32 + threads - 1) / threads);
    const double *const packed = d->args.packed;
    const void *const step = d->args.step;
    const uint16_t *const base = d->args.base;
    const uint32_t *const group = d->args.group;
    KL_BY_SIZE(PACKED_BLOCK, 1, 2, bytes, nv);
}
#endif
