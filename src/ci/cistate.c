/* States of a configuration interaction, described. See cistate.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cistate.h"

#include <math.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"

/* Of a density matrix of norb orbitals, which is lost. */
static kl_status occupations(int norb, double *density, double **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(out, norb, KL_MEM_MISC, err));
    KL_TRY(kl_dense_eig(norb, density, norb, *out, err));
    for (int k = 0; k < norb / 2; k++) {
        const double swap = (*out)[k];
        (*out)[k] = (*out)[norb - 1 - k];
        (*out)[norb - 1 - k] = swap;
    }
out:
    return st;
}

static kl_status density_of(const kl_ciorbitals *l, const kl_detspace *space, int nthread, const double *c,
                            kl_ci_state *state, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = l->f->norb, na = l->nactive;
    double *gamma[2] = {NULL, NULL}, *sum = NULL;
    for (int spin = 0; spin < 2; spin++) {
        KL_TRY(kl_alloc(&gamma[spin], (int64_t)na * na, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&state->density[spin], (int64_t)n * n, KL_MEM_MISC, err));
    }
    KL_TRY(kl_detstate_density(space, nthread, c, gamma[0], gamma[1], err));
    for (int spin = 0; spin < 2; spin++) {
        for (int k = 0; k < l->ncore; k++) state->density[spin][l->core[k] * (n + 1)] = 1.0;
        for (int p = 0; p < na; p++)
            for (int q = 0; q < na; q++)
                state->density[spin][l->active[p] * n + l->active[q]] = gamma[spin][p * na + q];
    }
    KL_TRY(kl_alloc(&sum, (int64_t)n * n, KL_MEM_WORK, err));
    for (int spin = 0; spin < 2 && l->f->unrestricted; spin++) {
        memcpy(sum, state->density[spin], (size_t)(n * n) * sizeof(double));
        KL_TRY(occupations(n, sum, &state->natural_spin[spin], err));
    }
    for (int k = 0; k < n * n; k++) sum[k] = state->density[0][k] + state->density[1][k];
    if (!l->f->unrestricted) KL_TRY(occupations(n, sum, &state->natural, err));
out:
    kl_free(&gamma[0]);
    kl_free(&gamma[1]);
    kl_free(&sum);
    return st;
}

/* A string of the active orbitals as one of all orbitals of the file. */
static uint64_t of_all(const kl_ciorbitals *l, uint64_t active)
{
    uint64_t all = 0;
    for (int k = 0; k < l->ncore; k++) all |= UINT64_C(1) << l->core[k];
    for (int p = 0; p < l->nactive; p++) all |= (active >> p & 1) << l->active[p];
    return all;
}

static kl_status keep_vector(const kl_ciorbitals *l, const kl_detspace *space, const double *c,
                             kl_ci_state *state, kl_err *err)
{
    kl_status st = KL_OK;
    if (l->f->norb > 64)
        return kl_fail(err, KL_EINPUT, "states of %d orbitals are not kept; allowed: 64", l->f->norb);
    for (int spin = 0; spin < 2; spin++) KL_TRY(kl_alloc(&state->det[spin], space->n, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&state->coef, space->n, KL_MEM_VECTOR, err));
    state->ndet = space->n;
    for (int64_t i = 0; i < space->n; i++) {
        int64_t ia, ib;
        kl_detspace_at(space, i, &ia, &ib);
        const uint64_t alpha = space->a->bits[ia], beta = space->b->bits[ib];
        state->det[0][i] = of_all(l, alpha);
        state->det[1][i] = of_all(l, beta);
        state->coef[i] = kl_ciorbitals_sign(l, alpha, beta) * c[i];
    }
out:
    return st;
}

kl_status kl_cistate_describe(const kl_ciorbitals *l, kl_exec *ex, const kl_ci_opts *o, const kl_cisector *s,
                              int root, kl_ci_state *state, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->space->n;
    double *c = NULL;
    int64_t at[KL_CI_LEADING];
    state->energy = s->energy[root];
    state->residual = s->residual[root];
    state->irrep = s->irrep;
    state->s2 = NAN;
    KL_TRY(kl_alloc(&c, n, KL_MEM_VECTOR, err));
    KL_TRY(ex->vt.download(ex, c, kl_dptr_at(s->x, root * n), n, err));
    state->nleading = kl_detstate_leading(s->space, c, KL_CI_LEADING, at);
    for (int k = 0; k < state->nleading; k++) {
        int64_t ia, ib;
        kl_detspace_at(s->space, at[k], &ia, &ib);
        const uint64_t alpha = s->space->a->bits[ia], beta = s->space->b->bits[ib];
        state->leading[k] = kl_ciorbitals_sign(l, alpha, beta) * c[at[k]];
        KL_TRY(kl_ciorbitals_text(l, alpha, beta, &state->leading_text[k], err));
    }
    if (state->leading[0] < 0) /* the sign of a state is free: the first is positive */
        for (int k = 0; k < state->nleading; k++) state->leading[k] = -state->leading[k];
    if (!l->f->unrestricted) KL_TRY(kl_detstate_spin(s->space, o->nthread, c, &state->s2, err));
    if (o->density) KL_TRY(density_of(l, s->space, o->nthread, c, state, err));
    if (o->keep_vectors) KL_TRY(keep_vector(l, s->space, c, state, err));
    if (!s->space->full) {
        KL_TRY(kl_alloc(&state->level_weight, 2 * KL_DET_MAX_ORB + 1, KL_MEM_MISC, err));
        int64_t i = 0;
        for (int k = 0; k < s->space->nlevel; k++)
            for (const int64_t to = i + s->space->level_count[k]; i < to; i++)
                state->level_weight[k] += c[i] * c[i];
    }
out:
    kl_free(&c);
    return st;
}

void kl_ci_result_clear(kl_ci_result *r)
{
    for (int i = 0; i < r->nstate && r->state != NULL; i++) {
        kl_ci_state *const s = &r->state[i];
        for (int k = 0; k < KL_CI_LEADING; k++) kl_free(&s->leading_text[k]);
        kl_free(&s->density[0]);
        kl_free(&s->density[1]);
        kl_free(&s->natural);
        kl_free(&s->natural_spin[0]);
        kl_free(&s->natural_spin[1]);
        kl_free(&s->level_weight);
        kl_free(&s->det[0]);
        kl_free(&s->det[1]);
        kl_free(&s->coef);
    }
    kl_free(&r->state);
    kl_free(&r->reference);
    *r = (kl_ci_result){0};
}
