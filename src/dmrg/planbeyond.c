/* See planbeyond.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/planbeyond.h"
#include <math.h>

/* Pools of device memory give it in steps of an eighth. */
static double taken(double bytes) { return 9.0 / 8.0 * bytes; }

/* Regions of the host's memory are so much larger than what is in use of them (base/regions.h; its test has
   1.36). */
#define DIVIDED 1.36

/* 1. Operators fit beside the least that an eigensolver wants, or all of them stay on the host.
   2. The next product's first chunks come in while the solver works on vectors: a product takes as long as
      it would, or as its copies do. Its list is made chunk by chunk.
   3. What is kept beside the vectors and does not fit waits on the host: a block goes out when it is made,
      and comes back when its bond is asked for.
   4. The host's memory for as much as waits there at a time, and for what is divided among blocks of other
      sizes meanwhile, is made ready once. */
kl_plan_beyond kl_plan_beyond_of(int n, const kl_plan_bond *bond, int middle, const kl_plan_rates *r)
{
    kl_plan_beyond out = {.apply_seconds = r->seconds};
    if (r->up <= 0 || r->down <= 0) return out;
    for (int i = 0; i < n; i++) {
        const kl_plan_bond *const b = &bond[i];
        double waits = 0;
        /* 1. */
        if (taken(b->operator_bytes) + b->least_bytes > r->room) {
            const double copies = bond[middle].operator_bytes > 0 ? r->moved_bytes * b->operator_bytes /
                                                                        bond[middle].operator_bytes / r->up
                                                                  : 0,
                         more = fmax(0, copies - b->work * r->seconds); /* 2. */
            out.nstreamed++;
            waits = b->operator_bytes;
            out.seconds += 2 * (r->nproduct * more + r->list);
            if (i == middle) out.apply_seconds += more;
        }
        /* 3. */
        const double over = taken(b->kept_bytes) + b->vector_bytes - r->room;
        if (over > 0) {
            out.carried_bytes += 2 * fmin(b->block_bytes, over);
            out.seconds += 2 * r->wait;
        }
        waits += fmin(b->kept_bytes, fmax(0, over));
        out.locked_bytes = fmax(out.locked_bytes, DIVIDED * waits);
    }
    if (r->lock > 0) out.lock_seconds = out.locked_bytes / r->lock;
    out.seconds += out.lock_seconds + out.carried_bytes * (1 / r->up + 1 / r->down);
    return out;
}
