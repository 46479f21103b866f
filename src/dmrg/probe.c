/* The look beyond the state at the end of a run: see dmrgbase.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "comm/ranks.h"
#include "dmrg/dmrgbase.h"
#include "dmrg/engineroom.h"

#include <math.h>
#include <string.h>

enum {
    PROBE_WIDE = 128, /* states of the blocks that it begins in, */
    PROBE_FROM = 512, /* where a run kept more than these */
    PROBE_MORE = 2 /* sweeps more with noise then, a tenth of what one in such blocks takes */
};

#define WHOLE_GAP 1e-7 /* of the unit: residual of the guard, whose energy is good to the square */

kl_exec *kl_dmrg_fast_for_few(kl_dmrg_course *r, int m)
{
    kl_err ignored;
    if (r->o->place && !r->left) return r->o->place(r->o->placer, m);
    if (r->e->ex->space != KL_SPACE_DEVICE) return r->e->ex;
    if (!r->cpu && kl_exec_open_host(r->e->ex->nthread, &r->cpu, &ignored) != KL_OK) return r->e->ex;
    return r->cpu;
}

/* first: of its sweeps. *row: the last one. */
static kl_status sweeps_from(kl_dmrg_course *r, int first, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = first; k < KL_PROBE_SWEEPS && !r->interrupted; k++) {
        const kl_stage g = kl_schedule_probe(&r->plan, k);
        *row = kl_dmrg_new_row(r, &g);
        if (k > first || first < 0) KL_TRY(kl_engine_hold(r->e, g.held, err)); /* else it is under way */
        KL_TRY(kl_dmrg_go_over(r, &g, 1, 0, row, err));
    }
out:
    return st;
}

/* What one rank has found by itself. */
typedef struct findings {
    kl_status st;
    kl_err why;
    int complete;
    double gap[KL_NGUARD];
    int64_t napply;
    double flop, seconds, part[KL_NPART];
} findings;

/* The last rank looks, and no other waits for it: the first does meanwhile what the caller does with a state
   that stays as it is. */
static kl_status sweep_apart(kl_dmrg_course *r, const kl_state *state, int first, kl_err *err)
{
    const kl_comm *const ranks = r->where->ranks->comm;
    kl_dmrg_row row = {0};
    const kl_dmrg_monitor *const told = r->mon;
    const double start = kl_prof_seconds();
    const kl_prof_times inside = kl_prof_since((kl_prof_times){{0}});
    findings f = {0};
    kl_engine *const e = r->e;
    if (ranks->rank == ranks->size - 1) {
        f.napply = -e->napply;
        f.flop = -e->flop;
        for (int i = 0; i < KL_NPART; i++) f.part[i] = -e->seconds[i];
        r->mon = NULL; /* whether to stop, all ranks are asked together */
        f.st = sweeps_from(r, first, &row, &f.why);
        r->mon = told;
        f.napply += e->napply;
        f.flop += e->flop;
        for (int i = 0; i < KL_NPART; i++) f.part[i] += e->seconds[i];
        if (f.st == KL_OK) memcpy(f.gap, row.gap, sizeof f.gap);
        f.seconds = kl_prof_seconds() - start;
    } else if (ranks->rank == 0) told->meanwhile(told->self, state);
    kl_comm_broadcast(r->where->ranks->comm, ranks->size - 1, &f, sizeof f);
    if (ranks->rank < ranks->size - 1) {
        e->napply += f.napply;
        e->flop += f.flop;
        for (int i = 0; i < KL_NPART; i++) e->seconds[i] += f.part[i];
    }
    r->apart += kl_prof_seconds() - start - f.seconds;
    const kl_prof_times now = kl_prof_since(inside);
    for (int i = 0; i < KL_NPROF; i++) r->before.seconds[i] += now.seconds[i];
    if (f.st != KL_OK) return kl_fail(err, f.st, "%s", f.why.text);
    kl_dmrg_row *const last = &r->res->row[r->res->nrow - 1];
    memcpy(last->gap, f.gap, sizeof last->gap);
    last->probed = 1;
    return KL_OK;
}

/* 1: ranks that have left their devices would all make the same sweeps, behind which a schedule ends, and
   somebody has something to do meanwhile. */
static int is_done_apart(const kl_dmrg_course *r, const kl_state *state)
{
    return kl_ranks_size(r->where) > 1 && kl_ranks_size(r->e->ex) == 1 && r->mon && r->mon->meanwhile &&
           r->o->nsweep > 0 && state->nstate == 1;
}

kl_status kl_dmrg_probe(kl_dmrg_course *r, const kl_state *state, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_row *const last = &r->res->row[r->res->nrow - 1];
    double energy[KL_MAX_STATE];
    memcpy(energy, r->energy, sizeof energy);
    r->probing = 1;
    const int wide = last->m_reached > PROBE_FROM, first = wide ? -PROBE_MORE : 0;
    const kl_trunc_opts few = {
        .m = PROBE_WIDE, .nstate = r->e->nstate, .full = r->o->full, .way = r->o->truncation};
    if (wide) { /* no bond is optimized in blocks as wide as the run's */
        KL_TRY(kl_engine_carry(r->e, r->e->nsite - 2, &few, err));
        KL_TRY(kl_engine_go_to(&r->e, kl_dmrg_fast_for_few(r, few.m), r->energy, err));
    } else { /* until then blocks have as many states as the run had */
        const kl_stage g = kl_schedule_probe(&r->plan, 0);
        kl_dmrg_row row = kl_dmrg_new_row(r, &g);
        KL_TRY(kl_engine_hold(r->e, g.held, err));
        KL_TRY(kl_dmrg_go_right(r, &g, 0, &row, err));
        KL_TRY(kl_engine_go_to(&r->e, kl_dmrg_fast_for_few(r, g.m), r->energy, err));
    }
    if (!r->interrupted && is_done_apart(r, state)) KL_TRY(sweep_apart(r, state, first, err));
    else {
        kl_dmrg_row row = {0};
        KL_TRY(sweeps_from(r, first, &row, err));
        if (!r->interrupted) {
            memcpy(last->gap, row.gap, sizeof last->gap);
            last->probed = 1;
        }
    }
    memcpy(r->energy, energy, sizeof energy); /* what the run found stands */
out:
    r->probing = 0;
    return st;
}

kl_status kl_dmrg_look_beyond(kl_dmrg_course *r, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const e = r->e;
    kl_exec *const ex = e->ex;
    const int64_t n = e->layout.n;
    const int held = e->nstate, most = held + 1;
    kl_dptr states = {0};
    double energy[KL_MAX_STATE], residual[KL_MAX_STATE];
    kl_eig_stats stats;
    if (held != r->o->nstate || most > n || most > KL_MAX_STATE || isfinite(row->gap[0])) return KL_OK;
    for (int k = 0; k < r->res->nrow; k++)
        if (isfinite(r->res->row[k].gap[0])) return KL_OK;
    const kl_solve_opts so = {.scope = KL_SOLVE_SECTOR,
                              .tol = WHOLE_GAP * r->plan.unit.gap,
                              .max_apply = KL_WHOLE_APPLY * most,
                              .trust_start = 1};
    KL_TRY(ex->vt.alloc(ex, n * held, &states, err));
    ex->vt.copy(ex, n * held, e->psi, states);
    memcpy(residual, e->residual, sizeof residual);
    KL_TRY(kl_engine_hold(e, most, err));
    KL_TRY(kl_engine_solve(e, &so, energy, &stats, err));
    row->napply += stats.napply;
    row->gap[0] = energy[held] - energy[held - 1];
    KL_TRY(kl_engine_hold(e, held, err));
    ex->vt.copy(ex, n * held, states, e->psi);
    memcpy(e->residual, residual, sizeof residual);
out:
    ex->vt.release(ex, &states);
    return st;
}
