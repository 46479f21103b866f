/* Truncation, in steps: weights, which of them stay, the isometry of their states. See truncate.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/truncate.h"
#include "base/mem.h"
#include "base/par.h"
#include "base/prof.h"
#include "dmrg/noisecolumns.h"
#include "dmrg/sectorfill.h"
#include "dmrg/select.h"
#include "dmrg/settle.h"
#include "dmrg/spectra.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights near the cut are known to that part of them where only leading states were looked for. */
#define NEARLY_EQUAL 1e-4
#define SIZEABLE 0.37 /* of the largest number of a state; half of it is what symmetric states are made of */

/* Weights below are rounding noise: of singular values, squared, and of density matrices. */
static double noise_floor(const kl_trunc_opts *o, int singular)
{
    if (o->fill) return o->all ? -1 : 0;
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
    KL_TRY(kl_realloc(&sorted, 2 * n, KL_MEM_WORK, err));
    kl_weights_sort(n, w, sorted, sorted + n);
    info->m = (int)kl_select(s, sorted, n, nsec, room);
    info->discarded = s->unseen;
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
    if (spin < 0) return;
    info->states = 0;
    for (int64_t i = 0; i < n; i++) {
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

/* What one attempt works with, and what it leaves behind. */
typedef struct attempt {
    kl_exec *ex;
    const kl_density *d;
    const kl_trunc_opts *o;
    kl_truncation way;
    double noise; /* that is to be added to density matrices: what is sampled is in the wavefunctions */
    int *least, *dim; /* [sectors] columns to try at least; states kept */
    kl_spectra *spectra;
    kl_weight *w; /* sector by sector, as their columns come */
    int64_t n;
} attempt;

/* Products hold three long arrays at a time, density matrices one. */
static int may_try_exactly(const attempt *a)
{
    return a->ex->space == KL_SPACE_DEVICE && a->way != KL_TRUNCATION_EXACT && a->noise == 0;
}

/* Weights, and which of them stay; *again: 1 where more columns have to be tried in some sectors. */
static kl_status try_once(attempt *a, kl_trunc_info *info, int *again, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_trunc_opts *const o = a->o;
    const int nsec = kl_density_mine(a->d)->nsec, singular = o->precise && o->noise == 0;
    const int even = o->full || a->ex->space == KL_SPACE_DEVICE, full = !o->fill && o->discard == 0;
    const kl_leading_opts lead = {.way = a->noise > 0 || o->fill ? KL_TRUNCATION_EXACT : a->way,
                                  .asked = o->fill ? KL_TRUNCATION_EXACT : a->way,
                                  .m = o->m,
                                  .full = even && full,
                                  .precise = singular,
                                  .there = a->ex->space == KL_SPACE_DEVICE,
                                  .narrow = o->narrow,
                                  .settled = o->settled,
                                  .spectrum = o->spectrum,
                                  .put_off = o->unread != NULL,
                                  .warm = o->warm,
                                  .least = a->least};
    kl_selection wanted = {.m = o->m,
                           .m_min = o->m_min,
                           .nstate = o->nstate,
                           .discard = o->discard,
                           .floor = noise_floor(o, singular),
                           .reopen = o->noise > 0,
                           .even = even,
                           .full = full};
    memset(a->dim, 0, (size_t)nsec * sizeof *a->dim);
    kl_spectra_destroy(&a->spectra);
    const double start = kl_prof_seconds();
    const kl_prof_times before = kl_prof_since((kl_prof_times){{0}});
    st = kl_spectra_create(a->ex, a->d, &lead, a->noise, &a->spectra, err);
    kl_prof_add(KL_PROF_EIGEN, start + kl_prof_since(before).seconds[KL_PROF_COLUMNS]);
    if (may_try_exactly(a) && kl_ranks_any(a->ex, st == KL_ENOMEM)) st = KL_ENOMEM; /* all of them do, then */
    if (st != KL_OK) goto out;
    KL_TRY(kl_spectra_weights(a->spectra, &a->w, &a->n, &wanted.unseen, err));
    info->ntried = kl_spectra_tried(a->spectra);
    if (info->ntried > 0) wanted.cluster = NEARLY_EQUAL;
    info->entropy = 0;
    KL_TRY(mark(&wanted, a->w, a->n, nsec, a->dim, info, err));
    info->nattempt++;
    KL_TRY(kl_spectra_narrow(a->spectra, a->dim, a->least, again, err));
out:
    return st;
}

typedef struct signs {
    const kl_isometry *iso;
    double *data;
} signs;

static void sign_sector(void *self, int64_t k, int thread)
{
    const signs *const t = self;
    const kl_isometry *const iso = t->iso;
    const int rows = iso->enlarged->basis.dim[iso->sec[k]];
    (void)thread;
    for (int j = 0; j < iso->basis.dim[k]; j++) {
        double *const v = t->data + iso->off[k] + (int64_t)j * rows;
        double most = 0;
        int first = 0;
        for (int i = 0; i < rows; i++) most = fmax(most, fabs(v[i]));
        while (first < rows && fabs(v[first]) < SIZEABLE * most) first++;
        const int turned = first < rows && v[first] < 0;
        for (int i = 0; turned && i < rows; i++) v[i] = -v[i];
    }
}

/* A state's first sizeable number is positive. Rounding decides which sign an eigenvector comes with, and so
   does the way by which it was found, which is another one on several ranks: what samples a block by random
   numbers for its states (expansions, noise) went other ways there, and few sweeps ended 1e-6 apart. */
static void choose_signs(kl_exec *ex, const kl_isometry *iso, kl_dptr data)
{
    enum { TOGETHER = 1 << 16 };
    signs t = {iso, (double *)data.addr};
    kl_par_for(iso->ndata > TOGETHER ? ex->nthread : 1, iso->basis.nsec, sign_sector, &t);
}

kl_status kl_truncate(kl_exec *ex, kl_side side, const kl_wave *wave, const kl_bigop *grown,
                      const kl_trunc_opts *o, kl_isometry **out, kl_dptr *data, kl_trunc_info *info,
                      kl_err *err)
{
    kl_status st = KL_OK;
    kl_density d = {.side = side, .wave = *wave, .nstate = o->nstate, .grown = grown};
    const int nsec = kl_density_mine(&d)->nsec;
    attempt a = {.ex = ex, .d = &d, .o = o, .way = o->way, .noise = o->noise};
    kl_noise_columns sampled = {.other = NULL};
    kl_isometry *iso = NULL;
    *info = (kl_trunc_info){0};
    data->addr = 0;
    if (o->unread) kl_unread_clear(o->unread);
    if (o->settle && o->narrow && o->nstate == 1) return kl_settle(ex, &d, o, out, data, info, err);
    if (o->noise > 0 && o->narrow) {
        KL_TRY(kl_noise_columns_create(ex, &d, o->target, o->noise, &sampled, err));
        d.wave = sampled.wave;
        a.noise = 0;
    }
    KL_TRY(kl_alloc(&a.dim, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a.least, nsec, KL_MEM_WORK, err));
    for (int again = 1; again;) {
        st = try_once(&a, info, &again, err);
        if (st == KL_ENOMEM && may_try_exactly(&a)) {
            a.way = KL_TRUNCATION_EXACT;
            st = KL_OK;
            again = 1;
        }
        if (st != KL_OK) goto out;
    }
    info->states = info->m;
    info->nleast = kl_spectra_least(a.spectra);
    if (o->unread) {
        const int spin = grown != NULL ? kl_model_spin(grown->block->mpo->model) : -1;
        KL_TRY(kl_spectra_unread_take(a.spectra, spin, a.w, a.n, o->unread, err));
    }
    if (info->nleast > 0 && (!o->spectrum || (o->unread && o->unread->open))) info->entropy = NAN;
    if (grown != NULL) add_multiplets(grown->block->mpo->model, kl_density_mine(&d), a.w, a.n, info);
    KL_TRY(shape(side == KL_LEFT ? wave->row : wave->col, a.dim, &iso, err));
    KL_TRY(ex->vt.alloc(ex, iso->ndata, data, err));
    const double start = kl_prof_seconds();
    KL_TRY(kl_spectra_states(a.spectra, a.w, a.n, iso, *data, err));
    if (ex->space == KL_SPACE_HOST) choose_signs(ex, iso, *data);
    kl_prof_add(KL_PROF_STATES, start);
    info->nsec = iso->basis.nsec;
    info->matrix_max = kl_spectra_largest(a.spectra);
    if (o->watch) o->watch->seen(o->watch->self, ex, &d, o, iso, *data, info);
out:
    kl_spectra_destroy(&a.spectra);
    kl_free(&a.dim);
    kl_free(&a.least);
    kl_free(&a.w);
    kl_noise_columns_clear(ex, &sampled);
    if (st != KL_OK) {
        kl_isometry_destroy(&iso);
        ex->vt.release(ex, data);
    }
    *out = iso;
    return st;
}
