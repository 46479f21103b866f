/* Infinite-lattice algorithm on its own, as in nemes2014: both blocks grow by one site each step, random
   start vectors.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"
#include "base/mem.h"
#include "base/prof.h"
#include "record/reclist.h"
#include <stdio.h>
#include <string.h>

static kl_status copy_take(kl_engine *from, kl_side side, int pos, kl_engine *to, int pos_to, kl_err *err)
{
    kl_isometry **const slot = side == KL_LEFT ? &from->left[pos] : &from->right[pos];
    kl_dptr *const data = side == KL_LEFT ? &from->left_data[pos] : &from->right_data[pos];
    return kl_engine_set_isometry_take(to, side, pos_to, slot, data, err);
}

/* 1: both lists have the same operators, grown alike, on the nsite sites of one side, so that a block of one
   serves the other. */
static int same_side(const kl_mpo *a, const kl_mpo *b, kl_side side, int nsite)
{
    for (int i = 0; i < nsite; i++) {
        const int pa = side == KL_LEFT ? i : a->nsite - 1 - i, pb = side == KL_LEFT ? i : b->nsite - 1 - i;
        const int ca = side == KL_LEFT ? pa + 1 : pa, cb = side == KL_LEFT ? pb + 1 : pb;
        if (a->type[pa] != b->type[pb] || a->nop[ca] != b->nop[cb]) return 0;
        for (int k = 0; k < a->nop[ca]; k++) {
            const kl_cut_op *const x = &a->op[ca][k], *const y = &b->op[cb][k];
            if (kl_qn_cmp(x->shift, y->shift) || x->odd != y->odd || x->self != y->self ||
                x->left_identity != y->left_identity || x->right_identity != y->right_identity)
                return 0;
            const kl_grow_list la = side == KL_LEFT ? a->left[pa][k] : a->right[pa][k],
                               lb = side == KL_LEFT ? b->left[pb][k] : b->right[pb][k];
            if (la.n != lb.n) return 0;
            for (int r = 0; r < la.n; r++) {
                const kl_grow *const g = &a->grow[la.first + r], *const h = &b->grow[lb.first + r];
                if (g->in != h->in || g->dag != h->dag || g->op != h->op || g->coef != h->coef) return 0;
            }
        }
    }
    return 1;
}

/* Blocks of l sites on both sides of `to` from those of `from`; rebuilt from the isometries where the
   operators at the cut differ. */
static kl_status hand_over(kl_engine *from, kl_engine *to, int l, kl_err *err)
{
    kl_status st = KL_OK;
    for (int s = 0; s < 2; s++) {
        const kl_side side = s ? KL_RIGHT : KL_LEFT;
        for (int i = 0; i < l; i++) {
            const int pf = s ? from->nsite - 1 - i : i, pt = s ? to->nsite - 1 - i : i;
            KL_TRY(copy_take(from, side, pf, to, pt, err));
        }
        kl_block **const a = s ? &from->right_block[from->nsite - l] : &from->left_block[l];
        kl_block **const b = s ? &to->right_block[to->nsite - l] : &to->left_block[l];
        if (*a && same_side(from->mpo, to->mpo, side, l)) {
            *b = *a;
            *a = NULL;
            (*b)->mpo = to->mpo;
            (*b)->cut = s ? to->nsite - l : l;
        } else
            for (int i = 0; i < l; i++) KL_TRY(kl_engine_rebuild(to, side, s ? to->nsite - 1 - i : i, err));
    }
out:
    return st;
}

/* All states of the outermost site. */
static kl_status first_site(kl_engine *e, kl_side side, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    kl_isometry *iso = NULL;
    int *sec = NULL;
    const int pos = side == KL_LEFT ? 0 : e->nsite - 1;
    const kl_block *const edge = side == KL_LEFT ? e->left_block[0] : e->right_block[e->nsite];
    KL_TRY(kl_enlarged_create(e->terms->model, &edge->basis, e->terms->type[pos], NULL, NULL, &en, err));
    const int n = en->basis.nsec;
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    for (int i = 0; i < n; i++) sec[i] = i;
    KL_TRY(kl_isometry_create_take(&en, n, sec, NULL, &iso, err));
    for (int k = 0; k < n; k++)
        for (int i = 0; i < iso->basis.dim[k]; i++)
            iso->data[iso->off[k] + (int64_t)i * (iso->basis.dim[k] + 1)] = 1;
    KL_TRY(kl_engine_set_isometry_take(e, side, pos, &iso, &(kl_dptr){0}, err));
    KL_TRY(kl_engine_rebuild(e, side, pos, err));
out:
    kl_enlarged_destroy(&en);
    kl_isometry_destroy(&iso);
    kl_free(&sec);
    return st;
}

/* The terms for n sites, in their own unit. */
static kl_status make_scaled(const kl_infinite_opts *o, int n, kl_terms **terms, kl_qn *target, double *unit,
                             kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms own;
    KL_TRY(o->make_terms(o->self, n, terms, target, err));
    KL_TRY(kl_terms_in_own_unit(*terms, &own, unit, err));
    kl_free(&(*terms)->term);
    **terms = own;
out:
    return st;
}

kl_status kl_dmrg_infinite(const kl_infinite_opts *o, kl_exec *ex, kl_infinite_row *rows, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL, *old = NULL;
    kl_terms *terms = NULL, *old_terms = NULL;
    kl_isometry *iso[2] = {NULL, NULL};
    kl_dptr data[2] = {{0}, {0}};
    if (o->nsite < 4 || o->nsite % 2)
        return kl_fail(err, KL_EINPUT,
                       "infinite-lattice growth goes from 4 sites to an even number; asked for %d", o->nsite);
    if (o->records) KL_TRY(kl_reclist_create(o->records, err));
    for (int n = 4, it = 0; n <= o->nsite; n += 2, it++) {
        const double t0 = kl_prof_seconds();
        const int l = n / 2 - 1;
        kl_qn target = kl_qn_zero();
        double unit;
        KL_TRY(make_scaled(o, n, &terms, &target, &unit, err));
        const kl_engine_opts eo = {.target = target,
                                   .nstate = 1,
                                   .strategy = o->strategy,
                                   .solver = KL_SOLVER_DAVIDSON,
                                   .max_basis = o->max_basis,
                                   .seed = o->seed + (uint64_t)n};
        KL_TRY(kl_engine_create(terms, ex, &eo, &e, err));
        if (old) KL_TRY(hand_over(old, e, l, err));
        else {
            KL_TRY(first_site(e, KL_LEFT, err));
            KL_TRY(first_site(e, KL_RIGHT, err));
        }
        kl_engine_destroy(&old);
        kl_terms_destroy(&old_terms);
        KL_TRY(kl_engine_open(e, l, err));
        if (e->layout.n < 1) {
            char q[128];
            st = kl_fail(err, KL_EINPUT, "at %d sites the kept states cannot make %s", n,
                         kl_qn_print(terms->model, target, q, sizeof q));
            goto out;
        }
        kl_eig_stats stats;
        double energy;
        kl_infinite_row *const row = &rows[it];
        char title[80];
        snprintf(title, sizeof title, "iteration %d, %d sites", it + 1, n);
        const kl_solve_opts so = {.tol = o->tol * kl_terms_units(terms).gap,
                                  .max_apply = 10000,
                                  .records = o->records,
                                  .title = title,
                                  .lines = 1};
        KL_TRY(kl_engine_solve(e, &so, &energy, &stats, err));
        *row = (kl_infinite_row){.nsite = n,
                                 .tol = so.tol * unit,
                                 .residual = e->residual[0] * unit,
                                 .dim = e->layout.n,
                                 .sector_max = e->sector_max,
                                 .matrix_max = e->matrix_max,
                                 .nsector = e->layout.npair,
                                 .napply = stats.napply,
                                 .energy = (energy + terms->constant) * unit,
                                 .flop = e->flop,
                                 .list = e->list};
        row->dim_all = (double)(e->left_block[l]->basis.total * terms->type[l]->dim) *
                       (double)(e->right_block[l + 2]->basis.total * terms->type[l + 1]->dim);
        /* both bases from the one wavefunction */
        double t1 = kl_prof_seconds();
        kl_trunc_info info;
        const kl_trunc_opts t = {.m = o->m, .nstate = 1, .fill = 1};
        const kl_wave wave = kl_engine_wave(e);
        for (int s = 0; s < 2; s++)
            KL_TRY(kl_truncate(ex, s ? KL_RIGHT : KL_LEFT, &wave, NULL, &t, &iso[s], &data[s], &info, err));
        double t2 = kl_prof_seconds();
        e->seconds[KL_PART_TRUNCATE] += t2 - t1;
        row->m = info.m;
        row->discarded = info.discarded;
        for (int s = 0; s < 2; s++) {
            KL_TRY(kl_engine_set_isometry_take(e, s ? KL_RIGHT : KL_LEFT, s ? l + 1 : l, &iso[s], &data[s],
                                               err));
            if (n < o->nsite) KL_TRY(kl_engine_rebuild(e, s ? KL_RIGHT : KL_LEFT, s ? l + 1 : l, err));
        }
        t1 = kl_prof_seconds();
        e->seconds[KL_PART_GROW] += t1 - t2;
        row->seconds = t1 - t0;
        memcpy(row->seconds_part, e->seconds, sizeof row->seconds_part);
        memcpy(row->seconds_line, e->seconds_line, sizeof row->seconds_line);
        row->lr_too_large = (int)e->nlr_too_large;
        row->memory_bytes = kl_mem_total_peak_bytes();
        row->device_bytes = kl_mem_device_peak_bytes();
        old = e, e = NULL;
        old_terms = terms, terms = NULL;
        if (o->each) o->each(o->self, row);
    }
out:
    kl_isometry_destroy(&iso[0]);
    kl_isometry_destroy(&iso[1]);
    for (int s = 0; s < 2; s++) ex->vt.release(ex, &data[s]);
    kl_engine_destroy(&e);
    kl_engine_destroy(&old);
    kl_terms_destroy(&terms);
    kl_terms_destroy(&old_terms);
    return st;
}
