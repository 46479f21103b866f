/* A run in the problem's own unit; see ownunit.h.
   1. terms, saved rows, tolerances and the energies of a saved state are divided by the unit; 2. the run;
   3. what it tells during the run and at its end is multiplied by it again. The unit is a power of two, so
   that nothing is rounded, and 1 for usual couplings.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/ownunit.h"
#include "dmrg/stringtrials.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static void scale_row(kl_dmrg_row *row, double by)
{
    for (int i = 0; i < KL_MAX_STATE; i++) row->energy[i] *= by;
    for (int i = 0; i < KL_NGUARD; i++) row->gap[i] *= by;
    row->change *= by;
    row->residual *= by;
    row->kept *= by;
    row->unit *= by;
}

static void scale_state(kl_state *s, double by)
{
    for (int i = 0; i < KL_MAX_STATE; i++) s->energy[i] *= by;
}

static void scale_result(kl_dmrg_result *r, double by)
{
    for (int i = 0; i < r->nstate; i++) {
        r->energy[i] *= by;
        r->energy_kept[i] *= by;
    }
    r->error_estimate = kl_bound_in(r->error_estimate, by);
    r->gap *= by;
    r->unresolved *= by;
    r->energy_extrapolated *= by;
    for (int i = 0; i < r->nrow; i++) scale_row(&r->row[i], by);
}

/* Stands between the run and who watches it. */
typedef struct teller {
    const kl_dmrg_monitor *to;
    double unit;
} teller;

static void tell_step(void *self, const kl_dmrg_step *s)
{
    const teller *const t = self;
    kl_dmrg_step told = *s;
    told.energy *= t->unit;
    told.residual *= t->unit;
    t->to->step(t->to->self, &told);
}

static kl_status copy_rows(const kl_dmrg_row *row, int n, double by, kl_dmrg_row **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, n, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    if (n > 0) memcpy(*out, row, (size_t)n * sizeof **out);
    for (int i = 0; i < n; i++) scale_row(&(*out)[i], by);
    return KL_OK;
}

static void tell_sweep(void *self, const kl_dmrg_row *row, int nrow)
{
    const teller *const t = self;
    kl_dmrg_row *told = NULL;
    /* a report that lacks a line for want of memory is better than a run that ends */
    if (copy_rows(row, nrow, t->unit, &told, NULL) == KL_OK) t->to->sweep(t->to->self, told, nrow);
    kl_free(&told);
}

static void tell_given_up(void *self)
{
    const teller *const t = self;
    t->to->given_up(t->to->self);
}

static void tell_left_device(void *self, const char *why)
{
    const teller *const t = self;
    t->to->left_device(t->to->self, why);
}

static int tell_interrupted(void *self)
{
    const teller *const t = self;
    return t->to->interrupted(t->to->self);
}

static kl_status tell_checkpoint(void *self, kl_state **state, const kl_dmrg_row *row, int nrow,
                                 int direction, kl_err *err)
{
    const teller *const t = self;
    kl_dmrg_row *told = NULL;
    kl_status st = copy_rows(row, nrow, t->unit, &told, err);
    scale_state(*state, t->unit); /* a copy of the engine's */
    if (st == KL_OK) st = t->to->checkpoint(t->to->self, state, told, nrow, direction, err);
    kl_free(&told);
    return st;
}

static int tell_due(void *self, int at_end)
{
    const teller *const t = self;
    return t->to->due(t->to->self, at_end);
}

kl_status kl_dmrg_run(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *o, const kl_dmrg_monitor *mon,
                      kl_state **state, kl_dmrg_result *res, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms own = {0};
    kl_dmrg_opts opts = *o;
    kl_dmrg_row *done = NULL;
    double unit;
    *res = (kl_dmrg_result){.nstate = o->nstate};
    opts.sweep = NULL;
    /* 1. */
    KL_TRY(kl_terms_in_own_unit(terms, &own, &unit, err));
    if (unit == 1.0) {
        kl_terms_clear_own(&own);
        st = kl_dmrg_run_scaled(terms, ex, o, mon, state, res, err);
        goto out;
    }
    KL_TRY(copy_rows(o->done, o->ndone + (o->direction != 0), 1 / unit, &done, err));
    opts.done = done;
    opts.error = o->error / unit;
    KL_TRY(kl_alloc(&opts.sweep, o->nsweep, KL_MEM_MISC, err));
    for (int k = 0; k < o->nsweep; k++) {
        opts.sweep[k] = o->sweep[k];
        opts.sweep[k].tol /= unit;
    }
    if (*state) scale_state(*state, 1 / unit);
    teller told = {mon, unit};
    const kl_dmrg_monitor between = {.self = &told,
                                     .step = mon && mon->step ? tell_step : NULL,
                                     .sweep = mon && mon->sweep ? tell_sweep : NULL,
                                     .given_up = mon && mon->given_up ? tell_given_up : NULL,
                                     .left_device = mon && mon->left_device ? tell_left_device : NULL,
                                     .interrupted = mon && mon->interrupted ? tell_interrupted : NULL,
                                     .checkpoint = mon && mon->checkpoint ? tell_checkpoint : NULL,
                                     .due = mon && mon->due ? tell_due : NULL,
                                     .truncations = mon ? mon->truncations : NULL};
    /* 2. */
    st = kl_dmrg_run_scaled(&own, ex, &opts, &between, state, res, err);
    /* 3. */
    if (*state) scale_state(*state, unit);
    if (st == KL_OK) scale_result(res, unit);
    for (int i = 0; st == KL_OK && i < res->nstate; i++)
        if (!isfinite(res->energy[i]))
            st = kl_fail(err, KL_EINPUT,
                         "the energy of state %d is beyond the largest number; energies must be finite: "
                         "count them in a larger unit",
                         i);
    if (st == KL_EINPUT) kl_dmrg_result_clear(res);
out:
    if (st == KL_OK) kl_stringtrials_tell(terms, res);
    kl_terms_clear_own(&own);
    kl_free(&done);
    kl_free(&opts.sweep);
    return st;
}
