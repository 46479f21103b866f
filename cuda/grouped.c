/* A prepared list by our kernels: two kinds of blocks for products, one for sums.
   SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

void kl_cuda_list_opts(const kl_exec *ex, kl_tile_plan_opts o[2])
{
    const kl_cuda *const self = ex->self;
    o[0] = kl_cuda_products_opts(self);
    o[1] = kl_cuda_small_opts(self);
    o[0].other = &o[1];
    o[0].nthread = o[1].nthread = ex->nthread;
}

void kl_cuda_launch_list(const kl_cuda *self, const kl_devbatch *p, const double *x, double *y)
{
    for (int64_t i = 0; i < p->plan.nlaunch; i++) {
        const kl_launch *const l = &p->plan.launch[i];
        if (!l->products) kl_cuda_sums(self, p->cell + l->first, (int)l->n, p->term, x, y);
        else if (l->kind) kl_cuda_small(self, p->piece + l->first, (int)l->n, l->adds, x, y);
        else kl_cuda_products(self, p->piece + l->first, (int)l->n, x, y);
    }
}
