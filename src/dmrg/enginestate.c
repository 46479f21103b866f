/* A copy of an engine as a state: see engine.h. Ranks have what is put away in parts, which are gathered.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/engine.h"
#include "base/mem.h"
#include "comm/ranks.h"
#include "comm/share.h"
#include "dmrg/onesite.h"
#include "dmrg/wave.h"
#include <string.h>

/* all: on every rank; 0: on the first one, *to being NULL on the others, which take part. */
static kl_status copy_isometry(const kl_engine *e, kl_isometry_on from, int all, kl_isometry **to,
                               kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = e->ex;
    kl_enlarged *en = NULL;
    const int64_t n = from.iso->ndata;
    if (to) {
        KL_TRY(kl_enlarged_copy(from.iso->enlarged, &en, err));
        KL_TRY(
            kl_isometry_blank_take(&en, from.iso->basis.nsec, from.iso->sec, from.iso->basis.dim, to, err));
    }
    double *const data = to ? (*to)->data : NULL;
    if (from.iso->away) KL_TRY(kl_share_download(ex, n, from.data, all, data, err));
    else if (to) KL_TRY(ex->vt.download(ex, data, from.data, n, err));
out:
    kl_enlarged_destroy(&en);
    return st;
}

static kl_status copy_isometries(const kl_engine *e, int all, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    for (int p = 0; p < e->centre; p++)
        KL_TRY(copy_isometry(e, (kl_isometry_on){e->left[p], e->left_data[p]}, all, s ? &s->left[p] : NULL,
                             err));
    for (int p = e->nsite - 1; p > e->centre + 1; p--)
        KL_TRY(copy_isometry(e, (kl_isometry_on){e->right[p], e->right_data[p]}, all, s ? &s->right[p] : NULL,
                             err));
    const kl_isometry_on opened =
        e->one ? (kl_isometry_on){e->one->iso, e->one->data} : (kl_isometry_on){e->warm, e->warm_data};
    if (opened.iso && e->centre > 0 && e->centre < e->nsite - 2) {
        kl_isometry **const to = !s                        ? NULL
                                 : e->warm_side == KL_LEFT ? &s->left[e->centre]
                                                           : &s->right[e->centre + 1];
        KL_TRY(copy_isometry(e, opened, all, to, err));
    }
out:
    return st;
}

static kl_status copy_psi(const kl_engine *e, const kl_wave *wave, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int nsec = wave->layout->nsec;
    KL_TRY(kl_enlarged_copy(wave->row, &s->row, err));
    KL_TRY(kl_enlarged_copy(wave->col, &s->col, err));
    s->npsi = wave->layout->n;
    KL_TRY(kl_alloc(&s->pair, nsec, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&s->psi_off, nsec, KL_MEM_STATE, err));
    memcpy(s->pair, wave->layout->pair, (size_t)nsec * sizeof *s->pair);
    memcpy(s->psi_off, wave->layout->off, (size_t)nsec * sizeof *s->psi_off);
    KL_TRY(kl_alloc(&s->psi, s->npsi * s->nstate, KL_MEM_STATE, err));
    KL_TRY(e->ex->vt.download(e->ex, s->psi, wave->psi, s->npsi * s->nstate, err));
    if (!e->one) goto out;
    s->nnarrow = e->layout.n;
    KL_TRY(kl_alloc(&s->narrow, s->nnarrow * s->nstate, KL_MEM_STATE, err));
    KL_TRY(e->ex->vt.download(e->ex, s->narrow, e->psi, s->nnarrow * s->nstate, err));
out:
    return st;
}

static kl_status copy_state(const kl_engine *e, const double *energy, int all, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *s = NULL;
    kl_wave wave = {0};
    if (all || kl_ranks_first(e->ex)) {
        KL_TRY(kl_state_create(e->terms, e->target, &s, err));
        s->centre = e->centre;
        s->nstate = e->nstate;
        for (int i = 0; i < e->nstate; i++) s->energy[i] = energy[i];
    }
    KL_TRY(copy_isometries(e, all, s, err));
    KL_TRY(kl_onesite_lift(e, &wave, err)); /* a product, which ranks share */
    if (s) KL_TRY(copy_psi(e, &wave, s, err));
out:
    if (e->one) e->ex->vt.release(e->ex, &wave.psi);
    if (st != KL_OK) kl_state_destroy(&s);
    *out = s;
    return st;
}

kl_status kl_engine_state(const kl_engine *e, const double *energy, kl_state **out, kl_err *err)
{
    return copy_state(e, energy, 1, out, err);
}

kl_status kl_engine_state_first(const kl_engine *e, const double *energy, kl_state **out, kl_err *err)
{
    return copy_state(e, energy, 0, out, err);
}
