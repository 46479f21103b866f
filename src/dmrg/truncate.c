/* Truncation, in steps: weights, which of them stay, the isometry of their states. See truncate.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/truncate.h"
#include "base/mem.h"
#include "dmrg/select.h"
#include "dmrg/spectra.h"
#include <math.h>
#include <stdlib.h>

/* Weights below are rounding noise: of singular values, squared, and of density matrices. */
static double noise_floor(const kl_trunc_opts *o, int singular)
{
    if (o->fill) return 0;
    return singular ? 1e-32 : 1e-17;
}

/* Marks the states that stay among the weights w[n] of nsec sectors. dim[nsec]: how many of each sector. */
static kl_status mark(const kl_selection *s, kl_weight *w, int64_t n, int nsec, int *dim, kl_trunc_info *info,
                      kl_err *err)
{
    kl_status st = KL_OK;
    kl_weight **sorted = NULL;
    int *room = NULL;
    KL_TRY(kl_alloc(&room, 3 * (int64_t)nsec, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&sorted, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) sorted[i] = &w[i];
    qsort(sorted, (size_t)n, sizeof *sorted, kl_weight_order);
    info->m = (int)kl_select(s, sorted, n, nsec, room);
    for (int64_t i = n - 1; i >= 0; i--) {
        const kl_weight *const x = sorted[i];
        if (!x->keep) info->discarded += x->w;
        if (x->w > 0) info->entropy -= x->w * log(x->w);
        if (x->keep) dim[x->sec]++;
    }
out:
    kl_free(&sorted);
    kl_free(&room);
    return st;
}

/* With the total spin a weight is that of a multiplet, of whose states each has its part. */
static void add_multiplets(const kl_model *m, const kl_basis *b, const kl_weight *w, int64_t n,
                           kl_trunc_info *info)
{
    const int spin = kl_model_spin(m);
    info->states = spin < 0 ? info->m : 0;
    for (int64_t i = 0; i < n && spin >= 0; i++) {
        const int states = b->q[w[i].sec].v[spin] + 1;
        if (w[i].w > 0) info->entropy += w[i].w * log(states);
        if (w[i].keep) info->states += states;
    }
}

/* An isometry over a copy of e that keeps dim[c] states of its sector c; dim is overwritten. */
static kl_status shape(const kl_enlarged *e, int *dim, kl_isometry **iso, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *own = NULL;
    int *sec = NULL, nsec = 0;
    KL_TRY(kl_alloc(&sec, e->basis.nsec, KL_MEM_WORK, err));
    for (int c = 0; c < e->basis.nsec; c++) {
        if (!dim[c]) continue;
        sec[nsec] = c;
        dim[nsec++] = dim[c];
    }
    KL_TRY(kl_enlarged_copy(e, &own, err));
    KL_TRY(kl_isometry_shape_take(&own, nsec, sec, dim, iso, err));
out:
    kl_free(&sec);
    kl_enlarged_destroy(&own);
    return st;
}

kl_status kl_truncate(kl_exec *ex, kl_side side, const kl_wave *wave, const kl_bigop *grown,
                      const kl_trunc_opts *o, kl_isometry **out, kl_dptr *data, kl_trunc_info *info,
                      kl_err *err)
{
    kl_status st = KL_OK;
    const kl_density d = {.side = side, .wave = *wave, .nstate = o->nstate, .grown = grown};
    const int nsec = kl_density_mine(&d)->nsec, singular = o->precise && o->noise == 0;
    const kl_selection wanted = {.m = o->m,
                                 .m_min = o->m_min,
                                 .nstate = o->nstate,
                                 .discard = o->discard,
                                 .floor = noise_floor(o, singular),
                                 .reopen = o->noise > 0,
                                 .even = o->full || ex->space == KL_SPACE_DEVICE,
                                 .full = !o->fill && o->discard == 0};
    kl_spectra *spectra = NULL;
    kl_weight *w = NULL; /* sector by sector, as their columns come */
    kl_isometry *iso = NULL;
    int64_t n = 0;
    int *dim = NULL;
    *info = (kl_trunc_info){0};
    data->addr = 0;
    KL_TRY(kl_alloc(&dim, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_spectra_create(ex, &d, singular, o->noise, &spectra, err));
    KL_TRY(kl_spectra_weights(spectra, &w, &n, err));
    KL_TRY(mark(&wanted, w, n, nsec, dim, info, err));
    add_multiplets(grown->block->mpo->model, kl_density_mine(&d), w, n, info);
    KL_TRY(shape(side == KL_LEFT ? wave->row : wave->col, dim, &iso, err));
    KL_TRY(ex->vt.alloc(ex, iso->ndata, data, err));
    KL_TRY(kl_spectra_states(spectra, w, n, iso, *data, err));
    info->nsec = iso->basis.nsec;
    info->matrix_max = kl_spectra_largest(spectra);
out:
    kl_spectra_destroy(&spectra);
    kl_free(&dim);
    kl_free(&w);
    if (st != KL_OK) {
        kl_isometry_destroy(&iso);
        ex->vt.release(ex, data);
    }
    *out = iso;
    return st;
}
