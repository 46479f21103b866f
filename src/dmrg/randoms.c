/* See randoms.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/randoms.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/random.h"
#include <math.h>

enum { TOGETHER = 1 << 14 }; /* numbers that a thread makes at a time */

typedef struct making {
    uint64_t seed;
    int64_t n;
    double *to;
} making;

static void make_task(void *self, int64_t i, int thread)
{
    const making *const m = self;
    const int64_t from = i * TOGETHER, to = from + TOGETHER < m->n ? from + TOGETHER : m->n;
    (void)thread;
    for (int64_t k = from; k < to; k++) m->to[k] = sqrt(3.0) * kl_random_at(m->seed, k);
}

kl_status kl_randoms_want(kl_exec *ex, kl_randoms *r, uint64_t seed, int64_t n, kl_err *err)
{
    kl_status st = KL_OK;
    making m = {.seed = seed, .n = n + n / 2}; /* the next one may want more */
    if (r->n >= n && r->seed == seed) return KL_OK;
    if (r->n > m.n) m.n = r->n;
    KL_TRY(kl_realloc(&m.to, m.n, KL_MEM_WORK, err));
    kl_par_for(m.n > TOGETHER ? ex->nthread : 1, (m.n + TOGETHER - 1) / TOGETHER, make_task, &m);
    kl_randoms_forget(ex, r);
    KL_TRY(kl_exec_copy_in(ex, m.to, m.n, &r->data, err));
    r->seed = seed;
    r->n = m.n;
out:
    kl_free(&m.to);
    return st;
}

void kl_randoms_forget(kl_exec *ex, kl_randoms *r)
{
    ex->vt.release(ex, &r->data);
    r->n = 0;
}
