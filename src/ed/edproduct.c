/* Products of operators of sites: see edproduct.h. The factors act one after the other, the last one first,
   each with the sign that the modes before its own give.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/edproduct.h"

#include "base/mem.h"
#include "base/par.h"
#include "phase.h"

enum { CHUNK = 1 << 12 };

typedef struct acting {
    const kl_bipartition *h;
    const double *x;
    int n;
    const kl_ed_factor *f;
    int *state;   /* [threads][nsite] */
    double *part; /* [chunks][2]: of the value, and of the norm */
} acting;

static int state_odd(const kl_bipartition *h, int pos, int state)
{
    return kl_qn_odd(h->model, kl_qn_of(h->model, h->type[pos]->state_charge[state]));
}

/* <x| f[0] .. f[k - 1] |state>, in the physical mode order. */
static double act(const acting *a, int k, int *state)
{
    const kl_bipartition *const h = a->h;
    if (k == 0) {
        int sign;
        const int64_t at = kl_bipartition_rank(h, state, &sign);
        return at < 0 ? 0.0 : sign * a->x[at];
    }
    const kl_ed_factor *const f = &a->f[k - 1];
    const int dim = h->type[f->pos]->dim, col = state[f->pos], odd = state_odd(h, f->pos, col);
    double sum = 0.0;
    int before = -1; /* not counted yet */
    for (int row = 0; row < dim; row++) {
        const double value = f->a[row + col * dim];
        if (value == 0.0) continue;
        const int is_odd = odd ^ state_odd(h, f->pos, row);
        if (is_odd && before < 0) {
            before = 0;
            for (int q = 0; q < f->pos; q++) before ^= state_odd(h, q, state[q]);
        }
        state[f->pos] = row;
        sum += value * kl_phase_record(is_odd, before & 1) * act(a, k - 1, state);
        state[f->pos] = col;
    }
    return sum;
}

static void chunk(void *self, int64_t task, int thread)
{
    const acting *const a = self;
    const kl_bipartition *const h = a->h;
    int *const state = a->state + (int64_t)thread * h->nsite;
    const int64_t end = (task + 1) * CHUNK < h->n ? (task + 1) * CHUNK : h->n;
    double value = 0.0, norm = 0.0;
    for (int64_t i = task * CHUNK; i < end; i++) {
        int sign = 1;
        if (a->x[i] == 0.0 || !kl_bipartition_unrank(h, i, state)) continue;
        if (h->flavours) (void)kl_bipartition_rank(h, state, &sign);
        value += sign * a->x[i] * act(a, a->n, state);
        norm += a->x[i] * a->x[i];
    }
    a->part[2 * task] = value;
    a->part[2 * task + 1] = norm;
}

kl_status kl_ed_product(const kl_bipartition *h, const double *x, int n, const kl_ed_factor *f, int nthread,
                        double *value, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t nchunk = (h->n + CHUNK - 1) / CHUNK;
    acting a = {.h = h, .x = x, .n = n, .f = f};
    KL_TRY(kl_alloc(&a.state, (int64_t)nthread * h->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a.part, 2 * nchunk, KL_MEM_WORK, err));
    kl_par_for(nthread, nchunk, chunk, &a);
    double sum = 0.0, norm = 0.0;
    for (int64_t i = 0; i < nchunk; i++) {
        sum += a.part[2 * i];
        norm += a.part[2 * i + 1];
    }
    *value = sum / norm;
out:
    kl_free(&a.state);
    kl_free(&a.part);
    return st;
}
