/* A run in the integrals' own unit, a power of two; see ciunit.h.
   1. a copy of the integrals and the tolerance are divided by the unit; 2. the run; 3. what it tells during
   the run and at its end is multiplied by it again.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/ciunit.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static double largest_of(int64_t n, const double *x, double most)
{
    for (int64_t i = 0; x != NULL && i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* Thresholds of the search for states are hartree: a narrow range is left to them. */
static double unit_of(const kl_fcidump *f)
{
    enum { USUAL = 16 };
    double most = 0;
    for (int k = 0; k < 2; k++) most = largest_of((int64_t)f->norb * f->norb, f->h[k], most);
    for (int k = 0; k < 3; k++) most = largest_of(f->npair * f->npair, f->eri[k], most);
    return kl_unit_of(most, USUAL);
}

/* Arrays that two spins share are one array in the copy, too. */
static kl_status divide(int narray, int64_t n, double unit, double *const *from, double **to, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < narray; k++) to[k] = NULL;
    for (int k = 0; k < narray; k++) {
        for (int same = 0; same < k; same++)
            if (from[same] == from[k]) to[k] = to[same];
        if (from[k] == NULL || to[k] != NULL) continue;
        KL_TRY(kl_alloc(&to[k], n, KL_MEM_MATRIX, err));
        for (int64_t i = 0; i < n; i++) to[k][i] = from[k][i] / unit;
    }
out:
    return st;
}

static kl_status copy_of(const kl_fcidump *f, double unit, kl_fcidump **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    kl_fcidump *const c = *out;
    *c = *f;
    c->irrep = NULL;
    for (int k = 0; k < 2; k++) c->h[k] = NULL;
    for (int k = 0; k < 3; k++) c->eri[k] = NULL;
    c->core /= unit;
    if (!isfinite(c->core))
        KL_TRY(kl_fail(err, KL_EINPUT, "the core energy %g is beyond all measure next to the integrals (%g)",
                       f->core, unit));
    KL_TRY(kl_alloc(&c->irrep, f->norb, KL_MEM_MISC, err));
    memcpy(c->irrep, f->irrep, (size_t)f->norb * sizeof *f->irrep);
    KL_TRY(divide(2, (int64_t)f->norb * f->norb, unit, f->h, c->h, err));
    KL_TRY(divide(3, f->npair * f->npair, unit, f->eri, c->eri, err));
out:
    return st;
}

kl_status kl_ci_in_own_unit(const kl_fcidump *f, kl_fcidump **out, double *unit, kl_err *err)
{
    *unit = unit_of(f);
    const kl_status st = copy_of(f, *unit, out, err);
    if (st != KL_OK) kl_fcidump_destroy(out);
    return st;
}

/* Stands between the run and who watches it. */
typedef struct teller {
    const kl_ci_monitor *to;
    double unit;
} teller;

static void tell_block(void *self, int irrep, const kl_ci_block *b, int done)
{
    const teller *const t = self;
    kl_ci_block told = *b;
    told.residual = kl_bound_in(told.residual, t->unit);
    t->to->block(t->to->self, irrep, &told, done);
}

/* Shows a view of the matrix in the unit of the file. */
static kl_status show_matrix(const teller *t, int irrep, const kl_spmat *m,
                             kl_status (*show)(void *self, int irrep, const kl_spmat *m, kl_err *err),
                             kl_err *err)
{
    kl_status st = KL_OK;
    double *value = NULL, *rest = NULL;
    KL_TRY(kl_alloc(&value, m->nplace, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&rest, m->nrest, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < m->nplace; i++) value[i] = m->value[i] * t->unit;
    for (int64_t i = 0; i < m->nrest; i++) rest[i] = m->rest_value[i] * t->unit;
    kl_spmat view = *m;
    view.value = value;
    view.rest_value = rest;
    st = show(t->to->self, irrep, &view, err);
out:
    kl_free(&value);
    kl_free(&rest);
    return st;
}

static kl_status tell_matrix(void *self, int irrep, const kl_spmat *m, kl_err *err)
{
    const teller *const t = self;
    return show_matrix(t, irrep, m, t->to->matrix, err);
}

static kl_status tell_stored(void *self, int irrep, const kl_spmat *m, kl_err *err)
{
    const teller *const t = self;
    return show_matrix(t, irrep, m, t->to->stored, err);
}

static int tell_step(void *self, int irrep, int napply, double energy, double residual)
{
    const teller *const t = self;
    return t->to->step(t->to->self, irrep, napply, energy * t->unit, residual * t->unit);
}

static kl_status tell_load(void *self, int irrep, int most, int64_t n, int *nvec, double *x, kl_err *err)
{
    const teller *const t = self;
    return t->to->load(t->to->self, irrep, most, n, nvec, x, err);
}

static void scale_result(kl_ci_result *r, double by)
{
    r->reference_energy *= by;
    for (int g = 0; g < 8; g++) r->block[g].residual = kl_bound_in(r->block[g].residual, by);
    for (int k = 0; k < r->nstate && r->state != NULL; k++) {
        r->state[k].energy *= by;
        r->state[k].residual = kl_bound_in(r->state[k].residual, by);
    }
}

kl_status kl_ci_run(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *o, const kl_ci_monitor *m,
                    kl_ci_result *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *own = NULL;
    kl_ci_opts opts = *o;
    teller told = {m, unit_of(f)};
    const kl_ci_monitor between = {.self = &told,
                                   .block = m && m->block ? tell_block : NULL,
                                   .matrix = m && m->matrix ? tell_matrix : NULL,
                                   .stored = m && m->stored ? tell_stored : NULL,
                                   .step = m && m->step ? tell_step : NULL,
                                   .keeper = m ? m->keeper : NULL,
                                   .load = m && m->load ? tell_load : NULL};
    if (told.unit == 1.0) return kl_ci_run_scaled(f, ex, o, m, out, err);
    /* 1. */
    *out = (kl_ci_result){0};
    KL_TRY(copy_of(f, told.unit, &own, err));
    opts.tol /= told.unit;
    /* 2. */
    KL_TRY(kl_ci_run_scaled(own, ex, &opts, &between, out, err));
    /* 3. */
    scale_result(out, told.unit);
    int beyond = !isfinite(out->reference_energy);
    for (int k = 0; k < out->nstate && out->state != NULL; k++) beyond |= !isfinite(out->state[k].energy);
    if (beyond) {
        kl_ci_result_clear(out);
        KL_TRY(
            kl_fail(err, KL_EINPUT,
                    "an energy is beyond the largest number; energies must be finite: count the integrals in "
                    "a larger unit"));
    }
out:
    kl_fcidump_destroy(&own);
    return st;
}
