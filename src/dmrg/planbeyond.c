/* See planbeyond.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/planbeyond.h"
#include <math.h>

/* Pools of device memory give it in steps of an eighth. */
static double taken(double bytes) { return 9.0 / 8.0 * bytes; }

/* 1. Operators fit beside the least that an eigensolver wants, or all of them stay on the host.
   2. The next product's first chunks come in while the solver works on vectors: a product takes as long as
      it would, or as its copies do.
   3. What is kept beside the vectors and does not fit waits on the host: a block goes out when it is made,
      and comes back when its bond is asked for. */
kl_plan_beyond kl_plan_beyond_of(int n, const kl_plan_bond *bond, int middle, const kl_plan_rates *r)
{
    kl_plan_beyond out = {.apply_seconds = r->seconds};
    if (r->up <= 0 || r->down <= 0) return out;
    for (int i = 0; i < n; i++) {
        const kl_plan_bond *const b = &bond[i];
        /* 1. */
        if (taken(b->operator_bytes) + b->least_bytes > r->room) {
            const double copies = bond[middle].operator_bytes > 0 ? r->moved_bytes * b->operator_bytes /
                                                                        bond[middle].operator_bytes / r->up
                                                                  : 0,
                         more = fmax(0, copies - b->work * r->seconds); /* 2. */
            out.nstreamed++;
            out.seconds += 2 * r->nproduct * more;
            if (i == middle) out.apply_seconds += more;
        }
        /* 3. */
        const double over = taken(b->kept_bytes) + b->vector_bytes - r->room;
        if (over > 0) out.carried_bytes += 2 * fmin(b->block_bytes, over);
    }
    out.seconds += out.carried_bytes * (1 / r->up + 1 / r->down);
    return out;
}
