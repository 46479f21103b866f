/* Finite-lattice sweeps: schedule, noise, tolerances, stopping. See dmrg.h and ownunit.h. Outline of a run:
   1. start: random or product state, or a saved one; where the first sweep ends above products of site states
      that a search finds, these;
   2. a sweep goes there and back, optimizing each bond once in each half-sweep; schedule.h says with how many
      states, and when to end;
   3. where no sweep has carried guards, a probe at the end looks for states that the run may have missed;
      trials with a part of H weakened look for another valley;
   4. the state is told to the caller after every sweep and when a checkpoint is due.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dmrgbase.h"
#include "dmrg/canonical.h"
#include "dmrg/engine.h"
#include "dmrg/engineroom.h"
#include "dmrg/lopsided.h"
#include "dmrg/products.h"
#include "base/mem.h"
#include "base/prof.h"
#include "record/reclist.h"
#include "dmrg/schedule.h"
#include "dmrg/settle.h"
#include "dmrg/signstrings.h"
#include "dmrg/onesite.h"
#include "dmrg/ownunit.h"
#include "dmrg/straycharges.h"
#include "dmrg/stringtrials.h"
#include "dmrg/valleys.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const kl_part_name[KL_NPART] = {
    "operators and records", "eigensolver", "of it products with H", "truncation", "growth of blocks",
    "wave transform",        "other"};

/* ORDER KL_SITES */
const char *const kl_sites_name[KL_NSITES] = {"2", "1", "auto"};

enum {
    VALLEY_SWEEPS = 50, /* after which another valley is no longer looked for */
    MOST_LEFT = 4, /* valleys that a run which has not converged goes on from */
    START_M = 24 /* states of a start that is made up */
};
/* of what a bond loses to truncation, has gained or leaves uncertain: what one more product has to gain. With
   0.05 an 8x4 Hubbard cylinder, U = 8, m = 200, ends 2e-4 to 1.6e-3 higher, with 0.03 as often lower. */
#define WORTH 0.03
#define WORTH_ERROR 0.2 /* of the energy's error, divided by the sites: what a bond has to do with */
#define WHOLE 65536.0 /* states of such a sector at most, */
#define WHOLE_BLOCK 256.0 /* and of a block for it */
/* and multiplications of a product with H there: a few CPU seconds in all. Sixteen sites without a charge,
   each coupled to each, took 18 s by 1.7e8, and 0.25 s when not solved as a whole. */
#define WHOLE_WORK 6e7
#define WHOLE_ACCURACY 1e-9 /* relative, of its energy, at least */
#define LOWER 1e-6 /* of the unit: by which a product has to lie lower for sweeps to begin with it */
/* of the unit: by which it may lie higher than a guard. A state as close to a product as that is one but for
   a few sites, a wide domain wall, and guards met by chance are not its mirror image. */
#define CLOSE 0.6

typedef kl_dmrg_course run;

static kl_status report_state(run *r, int direction, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *s = NULL;
    if (!r->mon || !r->mon->checkpoint) return KL_OK;
    if (r->mon->due && !r->mon->due(r->mon->self, direction == 0)) return KL_OK;
    KL_TRY(kl_engine_state_first(r->e, r->energy, &s, err));
    if (r->o->entropy)
        KL_TRY(kl_entropies_read(r->entropies, r->e->ex, r->e->ex->nthread, r->o->entropy, err));
    KL_TRY(
        r->mon->checkpoint(r->mon->self, &s, r->res->row, r->res->nrow + (direction != 0), direction, err));
out:
    kl_state_destroy(&s);
    return st;
}

/* What |H x - E x| falls to in sweep k where the superblock is the sector: it bounds the error, whatever the
   gap. */
static double whole_tol(const run *r, int k)
{
    const double accuracy = r->o->accuracy > 0 ? fmin(r->o->accuracy, WHOLE_ACCURACY) : WHOLE_ACCURACY;
    const double e = k > 0 ? fabs(r->res->row[k - 1].energy[0]) : 0, unit = r->plan.unit.joint;
    return fmax(0.1 * accuracy * fmax(e, 1e-3 * unit),
                64 * 2.220446049250313e-16 * r->plan.unit.all * r->e->nsite);
}

/* What one optimized bond adds to the row of its sweep. */
static void note_bond(const run *r, int direction, int whole, const kl_eig_stats *stats, kl_dmrg_row *row)
{
    const kl_engine *const e = r->e;
    const int back = direction < 0 || e->nsite == 2, wanted = r->o->nstate;
    for (int i = 0; i < e->nstate; i++)
        if (r->energy[i] < row->energy[i]) row->energy[i] = r->energy[i];
    row->napply += stats->napply;
    /* the bonds that hold the whole sector say how good the energy is */
    if (whole && !((double)row->dim_max == r->plan.sector)) row->residual = 0;
    if (e->layout.n > row->dim_max) row->dim_max = e->layout.n;
    if (back && (whole || !(r->plan.whole && (double)row->dim_max == r->plan.sector)))
        for (int i = 0; i < wanted; i++) row->residual = fmax(row->residual, e->residual[i]);
    if (back && e->centre == e->nsite / 2 - 1)
        for (int i = 0; i < KL_NGUARD; i++)
            row->gap[i] = wanted + i < e->nstate ? r->energy[wanted + i] - r->energy[wanted - 1] : NAN;
}

/* One site at the centre instead of two. What H psi has beyond the basis ahead is the two-site variance of
   the state, bond by bond: in the backward half-sweep, when the forward one has made the state one of this
   m, or in the forward one, where it has been of this m before. */
static kl_status absorb(run *r, const kl_stage *g, int direction, kl_dmrg_row *row, kl_err *err)
{
    kl_expand_info info;
    if (g->settling && direction < 0) return kl_onesite_absorb_known(r->e, direction, err);
    const uint64_t place = 2 * ((uint64_t)r->sweep * (uint64_t)r->e->nsite + (uint64_t)r->e->centre);
    const int measure = (direction < 0) != g->settling;
    const kl_status st =
        kl_onesite_absorb(r->e, direction, g->m, measure, r->o->seed + place + (direction > 0), &info, err);
    if (st == KL_OK && measure) row->variance += kl_dmrg_counts(r) * info.residual;
    return st;
}

/* 1: st says that the device has no memory, and the host is there to go on. */
static int can_leave(run *r, const kl_exec *ex, kl_status st)
{
    kl_err ignored;
    if (st != KL_ENOMEM || ex->space != KL_SPACE_DEVICE || kl_ranks_size(ex) > 1) return 0;
    return r->cpu || kl_exec_open_host(ex->nthread, &r->cpu, &ignored) == KL_OK;
}

static void has_left(run *r, const char *when, const kl_err *err)
{
    char why[sizeof err->text + 66]; /* `when` has room for 64 */
    snprintf(why, sizeof why, "%s: %s", when, err->text);
    if (r->mon && r->mon->left_device && !r->left) r->mon->left_device(r->mon->self, why);
    r->left = 1;
}

int kl_dmrg_leaves_device(run *r, kl_status st, const kl_err *err)
{
    kl_err ignored;
    char when[64];
    if (!can_leave(r, r->e->ex, st)) return 0;
    kl_engine_drop_operators(r->e);
    if (kl_engine_go_to(&r->e, r->cpu, r->energy, &ignored) != KL_OK) return 0;
    snprintf(when, sizeof when, "sweep %d, bond %d", r->sweep + 1, r->e->centre);
    has_left(r, when, err);
    return 1;
}

/* Which products are worth it in the last sweeps of a schedule whose products are bounded in any case: these
   lose to truncation what a bond solved exactly gains. Where nothing bounds them, residuals are asked for. */
static kl_worth worth_of(const run *r, const kl_stage *g)
{
    const int bounded = r->o->nsweep > 0 && r->o->max_apply > 0;
    if (!bounded || r->probing || g->noise > 0 || r->res->nrow == 0) return (kl_worth){0};
    const kl_outlook known = kl_schedule_outlook(&r->plan, r->res);
    return (kl_worth){.share = WORTH,
                      .before = r->energy[0] - r->constant,
                      .error = WORTH_ERROR * known.truncation / r->e->nsite};
}

/* Optimizes the bond at the centre. */
static kl_status optimize(run *r, const kl_stage *g, int direction, int nstep, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats stats;
    kl_engine *e = r->e;
    char title[80];
    snprintf(title, sizeof title, "sweep %d, bond %d, m = %d", r->sweep + 1, e->centre, g->m);
    const int middle = direction > 0 && e->centre == e->nsite / 2 - 1 && !r->probing;
    const int fresh = r->res->nrow == 0, whole = r->plan.whole && (double)e->layout.n == r->plan.sector;
    kl_solve_opts so = {.tol = g->tol,
                        .tol_rel = g->tol_rel,
                        .max_apply = g->max_apply,
                        .trust_start = !fresh,
                        .records = middle ? r->o->records : NULL,
                        .title = title};
    if (!whole) so.worth = worth_of(r, g);
    if (whole) {
        const int last = e->centre == e->nsite / 2 - 1 && (direction < 0 || e->nsite == 2);
        so.scope = fresh && last ? KL_SOLVE_SECTOR_AFRESH : KL_SOLVE_SECTOR;
        so.max_apply = KL_WHOLE_APPLY * e->nstate;
        so.tol = whole_tol(r, r->res->nrow);
        so.tol_rel = 0;
    }
    kl_dmrg_solve_turned(r, &so);
    kl_solve_opts all = so;
    all.worth.share = 0; /* the energy that is told is worth every product */
    /* a bond near an end may have no room for all guards */
    if (e->layout.n < e->nstate && e->nstate > r->o->nstate)
        KL_TRY(kl_engine_hold(e, e->layout.n > r->o->nstate ? (int)e->layout.n : r->o->nstate, err));
    /* A probe's are what it is for. Molecules have few states of each sector at first: what guards bring into
       their blocks decides where the first sweep ends (by seed 1.5e-4 apart, 1e-6 with exact ones). */
    so.nguard = r->probing || r->o->many_sectors ? 0 : e->nstate - r->o->nstate;
    /* the energy told of a schedule is one of two sites, whichever way its sweeps end */
    if (g->sites == 1 && !whole && !r->probing && direction < 0 && r->res->nrow + 1 >= r->o->nsweep &&
        e->centre == r->look)
        KL_TRY(kl_onesite_look(e, &all, r->constant, row->energy, &row->napply, err));
    do st = g->sites == 1 && !whole ? absorb(r, g, direction, row, err) : KL_OK;
    while (kl_dmrg_leaves_device(r, st, err));
    KL_TRY(st);
    do st = kl_engine_solve(r->e, &so, r->energy, &stats, err);
    while (kl_dmrg_leaves_device(r, st, err));
    KL_TRY(st);
    e = r->e;
    for (int i = 0; i < e->nstate; i++) r->energy[i] += r->constant;
    kl_dmrg_judge_turn(r, row);
    note_bond(r, direction, whole, &stats, row);
    row->held = e->nstate;
    if (r->probing) goto out;
    if (whole && e->centre == e->nsite / 2 - 1 && (direction < 0 || e->nsite == 2))
        KL_TRY(kl_dmrg_look_beyond(r, row, err));
    r->istep++;
    if (r->mon && r->mon->step) {
        const kl_dmrg_step s = {.sweep = r->sweep,
                                .direction = direction,
                                .bond = e->centre,
                                .m = g->m,
                                .nstep = nstep,
                                .istep = r->istep,
                                .dim = e->layout.n,
                                .napply = stats.napply,
                                .energy = r->energy[0],
                                .discarded = r->discarded,
                                .entropy = r->entropy,
                                .residual = e->residual[0]};
        r->mon->step(r->mon->self, &s);
    }
    row->seconds = r->seconds_before + kl_prof_seconds() - r->sweep_start;
    row->flop = r->flop_before + e->flop;
    if (r->mon && r->mon->due) KL_TRY(report_state(r, direction, err));
out:
    if (st == KL_OK && r->mon && r->mon->interrupted && r->mon->interrupted(r->mon->self))
        r->interrupted = direction;
    return st;
}

static kl_status step(run *r, const kl_stage *g, int direction, int nstep, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_trunc_info info;
    const kl_dmrg_row *const before = r->res->nrow > 0 ? &r->res->row[r->res->nrow - 1] : NULL;
    const int told = kl_dmrg_told(r, direction);
    kl_unread *const unread = r->probing ? NULL : kl_entropies_open(r->entropies, r->e->centre);
    /* all states of both blocks have to be there where the sector is solved, whatever its start lacks */
    const int fill = r->plan.whole && r->res->nrow == 0 && g->m >= r->plan.block;
    const kl_trunc_opts t = {.m = g->m,
                             .m_min = g->m_min,
                             .discard = fill ? 0 : g->discard,
                             .noise = g->noise,
                             .nstate = r->e->nstate,
                             .full = r->o->full,
                             .precise = g->precise,
                             .way = r->o->truncation,
                             .settled = before && before->noise == 0,
                             .settle = direction < 0 && g->settling,
                             .spectrum = told,
                             .unread = told ? unread : NULL,
                             .fill = fill,
                             .all = fill,
                             .watch = r->mon && !r->probing ? r->mon->truncations : NULL};
    const int c = r->e->centre;
    if (!r->probing) kl_engine_weigh(r->e, r->o->nstate);
    do st = kl_engine_move(r->e, direction, &t, &info, err);
    while (kl_dmrg_leaves_device(r, st, err));
    KL_TRY(st);
    if (!r->probing) {
        r->discarded = info.discarded;
        r->entropy = info.entropy;
        kl_entropies_put(r->entropies, c, info.entropy);
    }
    if (info.discarded > row->discarded) row->discarded = info.discarded;
    if (info.m > row->m_reached) row->m_reached = info.m;
    if (info.states > row->states) row->states = info.states;
    if (direction > 0) KL_TRY(kl_dmrg_turn_round(r, g, row, err));
    KL_TRY(optimize(r, g, r->turned ? -1 : direction, nstep, row, err));
out:
    return st;
}

kl_status kl_dmrg_go_right(run *r, const kl_stage *g, int nstep, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    while (r->e->centre < r->e->nsite - 2 && !r->interrupted && !r->turned)
        KL_TRY(step(r, g, 1, nstep, row, err));
out:
    return st;
}

/* There and back again over all bonds, from wherever the centre is. */
kl_status kl_dmrg_go_over(run *r, const kl_stage *g, int to_right, int nstep, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    if (to_right) KL_TRY(kl_dmrg_go_right(r, g, nstep, row, err));
    while (r->e->centre > 0 && !r->interrupted) KL_TRY(step(r, g, -1, nstep, row, err));
out:
    return st;
}

kl_dmrg_row kl_dmrg_new_row(const run *r, const kl_stage *g)
{
    kl_dmrg_row row = {.m = g->m,
                       .sites = g->sites,
                       .noise = g->noise,
                       .variance = g->sites == 1 ? 0 : NAN,
                       .unit = 1,
                       .held = r->e->nstate,
                       .m_start = r->plan.m_start,
                       .kept = NAN};
    for (int i = 0; i < KL_MAX_STATE; i++) row.energy[i] = INFINITY;
    for (int i = 0; i < KL_NGUARD; i++) row.gap[i] = NAN;
    return row;
}

/* 2. One sweep. */
static kl_status sweep(run *r, const kl_stage *g, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const e = r->e;
    kl_dmrg_result *const res = r->res;
    const int n = e->nsite, fresh = res->nrow == 0,
              under_way = r->o->direction != 0 && res->nrow == r->o->ndone, nstep = 2 * (n - 2) + 1;
    KL_TRY(kl_realloc(&res->row, res->nrow + 1, KL_MEM_MISC, err));
    kl_dmrg_row *const row = &res->row[res->nrow];
    *row = under_way ? r->o->done[res->nrow] : kl_dmrg_new_row(r, g);
    r->sweep_start = kl_prof_seconds();
    r->turned = kl_is_folded(row->folded);
    r->seconds_before = row->seconds;
    r->flop_before = row->flop - e->flop;
    r->istep = !under_way ? 0 : r->o->direction > 0 ? e->centre : 2 * (n - 2) - e->centre;
    if (!under_way && (fresh || n == 2)) KL_TRY(optimize(r, g, 1, nstep, row, err));
    KL_TRY(kl_dmrg_go_over(r, g, !(under_way && r->o->direction < 0), nstep, row, err));
    kl_dmrg_end_turned(r, g, row);
    for (int i = 0; i < r->e->nstate; i++)
        if (!(row->energy[i] < INFINITY)) row->energy[i] = r->energy[i];
    for (int i = 0; i < r->o->nstate; i++) row->kept = fmax(row->kept, r->energy[i] - row->energy[i]);
    if (n == 2 || row->m_reached == 0) row->m_reached = 1;
    if (row->states < row->m_reached) row->states = row->m_reached;
    row->change = res->nrow ? row->energy[0] - res->row[res->nrow - 1].energy[0] : NAN;
    res->nrow++;
    r->sweep++;
    row->wait = (int)kl_schedule_outlook(&r->plan, res).wait;
    if (r->mon && r->mon->sweep) r->mon->sweep(r->mon->self, res->row, res->nrow);
out:
    return st;
}

/* A sector that is small enough is solved as a whole at the middle bond in the first sweep, in its backward
   half, when all states of both blocks are there; and wherever blocks hold all. Sweeps alone may end in an
   eigenstate that is not the lowest: two sites and what they are coupled to cannot tell. */
static void set_whole(run *r)
{
    double sector, block, work;
    kl_engine_size(r->e, &sector, &block, &work);
    r->plan.sector = sector;
    r->plan.block = (int)fmin(block, 1e9);
    if (sector > WHOLE || block > WHOLE_BLOCK || work > WHOLE_WORK || r->o->max_apply > 0) return;
    if (!r->o->nsweep && r->o->m_max > 0 && block > r->o->m_max) return;
    r->plan.whole = 1;
}

/* The engine made anew from a state, which is taken over. */
static kl_status begin_again(run *r, kl_state **s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const from = r->e, *e = NULL;
    kl_engine_opts same = kl_engine_options(from);
    same.nstate = (*s)->nstate;
    KL_TRY(kl_engine_create(from->terms, r->where, &same, &e, err));
    kl_engine_count_on(e, from);
    kl_engine_destroy(&r->e);
    r->e = e;
    e = NULL;
    KL_TRY(kl_engine_resume_take(r->e, s, err));
out:
    kl_engine_destroy(&e);
    return st;
}

static int start_m(const run *r, const kl_stage *g)
{
    return r->o->nsweep && g->m < START_M ? g->m : START_M;
}

/* Products of site states with a lower energy than the first sweep found, for the wanted states or for
   guards: what sweeps began with has led into a valley of its own, such as a ferromagnet with more domain
   walls than it need have, or its mirror image was never met. They begin again with these products. A start
   that the caller chose is kept among them if it was the guards alone that lay too high; else it is given up,
   for it is no reason to end above a state that is known. A saved state carries no guards; once given up, it
   no longer counts as what the run began from, and the schedule is that of a fresh run. */
static kl_status begin_lower(run *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const from = r->e, *e = NULL;
    kl_dmrg_row *const row = &r->res->row[0];
    kl_products low = {0};
    kl_engine_opts same = kl_engine_options(from);
    int lower = 0, wanted = 0;
    if (r->res->nrow != 1 || r->plan.whole) return KL_OK;
    const int saved = r->plan.m_start > 0, most = saved ? r->o->nstate + KL_NGUARD : from->nstate;
    KL_TRY(kl_products_find(from, most < KL_MAX_STATE ? most : KL_MAX_STATE, &low, err));
    for (int k = 0; k < low.n && k < from->nstate; k++) {
        const double above = (row->energy[k] - low.energy[k] - r->constant) / r->plan.unit.gap;
        lower |= above > (k < r->o->nstate ? LOWER : -CLOSE);
        wanted |= k < r->o->nstate && above > LOWER;
    }
    if (!lower) goto out;
    if (r->o->start && !wanted)
        kl_products_put_first(&low, r->o->start, from->nsite, row->energy[0] - r->constant);
    r->plan.m_start = 0;
    row->m_start = 0;
    row->held = most;
    const kl_stage g = kl_schedule_stage(&r->plan, r->res);
    if (saved) same.nstate = g.held;
    row->held = same.nstate;
    row->again = 1;
    KL_TRY(kl_engine_create(from->terms, from->ex, &same, &e, err));
    KL_TRY(kl_engine_start(e, start_m(r, &g), low.n, low.state, err));
    for (int k = 0; k < low.n; k++) r->energy[k] = low.energy[k] + r->constant;
    kl_engine_count_on(e, from);
    kl_engine_destroy(&r->e);
    r->e = e;
    e = NULL;
    if (wanted && r->mon && r->mon->given_up) r->mon->given_up(r->mon->self);
out:
    kl_engine_destroy(&e);
    kl_products_clear(&low);
    return st;
}

/* 1: some sweep solved the whole sector. */
static int knows_all(const run *r)
{
    int yes = 0;
    for (int k = 0; k < r->res->nrow; k++) yes |= (double)r->res->row[k].dim_max == r->plan.sector;
    return r->plan.whole && yes;
}

/* 1: a run that has not converged is to look for the charges of parts of H that nothing joins, or hardly, or
   that disorder has caught: its error bar knows nothing of these. */
static int has_loose(const run *r, double bar)
{
    const kl_dmrg_result *const res = r->res;
    int left = 0, loose, disorder;
    for (int k = 1; k < res->nrow; k++) left += res->row[k].again;
    if (res->stop == KL_STOP_MAX_SWEEP || res->nrow < 2 || !isfinite(bar) || left >= MOST_LEFT) return 0;
    if (kl_stringtrials_loose(r->e->terms, &loose, NULL) == KL_OK && loose) return 1;
    return kl_straycharges_worth(r->e->terms, &disorder, NULL) == KL_OK && disorder;
}

/* Where a converged run that began afresh may lie in a valley that is not the lowest, it goes on from the one
   that is; what was seen beyond its state says nothing of that one. *ends: 0 then. So does a run that ended
   by its number of states or its schedule where H has loose parts. */
static kl_status leave_valley(run *r, const kl_state *state, int *ends, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_result *const res = r->res;
    kl_valley lower = {0};
    r->other.rival = 0;
    res->searched = knows_all(r);
    if (!kl_valleys_wanted(r->o) || res->nrow > VALLEY_SWEEPS || res->searched || r->plan.m_start > 0 ||
        kl_ranks_size(r->where) > 1)
        return KL_OK;
    const kl_outlook now = kl_schedule_outlook(&r->plan, res);
    const int ended = res->stop != KL_STOP_CONVERGED;
    if (ended && !has_loose(r, now.bar)) return KL_OK;
    kl_valley_here here = {.state = state, .energy = res->row[res->nrow - 1].energy[0], .bar = now.bar};
    here.ended = ended;
    here.mixed = r->lopsided || now.mixed > 0;
    here.kept = res->row[res->nrow - 1].m_reached;
    for (int k = 0; k < res->nrow; k++) here.flop += res->row[k].flop;
    kl_engine_opts same = kl_engine_options(r->e);
    same.nstate = 1;
    st = kl_valleys_compare(r->e->terms, kl_dmrg_fast_for_few(r, START_M), &same, r->o, r->mon, &here, &lower,
                            &r->other, err);
    res->searched = st == KL_OK && !r->other.cut;
    if (st == KL_ENOMEM) st = KL_OK; /* what was found stands */
    if (now.mixed > 0) r->other.rival = 0; /* guards know such a state better */
    if (st != KL_OK || !lower.state) goto out;
    *ends = 0;
    for (int k = 0; k < res->nrow; k++)
        for (int i = 0; i < KL_NGUARD; i++) res->row[k].gap[i] = NAN;
    r->energy[0] = lower.energy;
    res->row[res->nrow - 1].again = ended;
    KL_TRY(begin_again(r, &lower.state, err));
out:
    kl_state_destroy(&lower.state);
    return st;
}

/* Where H is its own image and the state is not, sweeps may go on from both; *ends: 0 then. */
static kl_status part_from_image(run *r, const kl_state *state, int may_go_on, int *ends, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *both = NULL;
    KL_TRY(kl_dmrg_find_twins(r, state, may_go_on, &both, err));
    if (!both) return KL_OK;
    KL_TRY(begin_again(r, &both, err));
    r->energy[1] = r->energy[0];
    *ends = 0;
out:
    kl_state_destroy(&both);
    return st;
}

/* 3. The state at the end of the sweeps, when nothing asks for another; *ends: 0 where what a probe saw asks
   for more. */
static kl_status finish(run *r, kl_state **state, int *ends, kl_err *err)
{
    kl_status st = KL_OK;
    r->where = r->e->ex;
    KL_TRY(kl_engine_state(r->e, r->energy, state, err));
    r->lopsided = 0;
    if (r->o->nstate == 1) KL_TRY(kl_state_lopsided(r->e->terms, r->o->target, *state, &r->lopsided, err));
    if (r->o->nstate == 1 && !r->lopsided && !r->o->many_sectors && kl_ranks_size(r->where) == 1)
        KL_TRY(kl_signstrings_lost(r->e->terms, *state, &r->lopsided, err));
    if (r->res->stop == KL_STOP_INTERRUPTED) goto out;
    if (kl_schedule_unguarded(&r->plan, r->res)) {
        st = kl_dmrg_probe(r, *state, err);
        /* it carries more states than the run did; what was found stands, its gap unknown */
        if (st == KL_ENOMEM && kl_ranks_size(r->where) == 1) {
            st = KL_OK;
            goto out;
        }
        if (st != KL_OK) goto out;
        if (r->interrupted) { /* a run that goes on from there does this alone */
            r->res->stop = KL_STOP_INTERRUPTED;
            goto out;
        }
        if (!kl_schedule_ends(&r->plan, r->res, &r->res->stop)) {
            *ends = 0;
            KL_TRY(begin_again(r, state, err));
            goto out;
        }
    }
    KL_TRY(leave_valley(r, *state, ends, err));
    if (*ends) KL_TRY(part_from_image(r, *state, r->res->stop == KL_STOP_CONVERGED, ends, err));
    if (!*ends) kl_state_destroy(state);
out:
    return st;
}

/* A run that goes on and on in one of two wells. */
static kl_status look_at_image(run *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *state = NULL;
    int ends;
    r->where = r->e->ex;
    KL_TRY(kl_engine_state(r->e, r->energy, &state, err));
    KL_TRY(part_from_image(r, state, 1, &ends, err));
out:
    kl_state_destroy(&state);
    return st;
}

/* 2. Sweeps until the schedule ends or somebody asks to stop; then *state holds what was found. */
static kl_status sweeps(run *r, kl_stage g, kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_result *const res = r->res;
    int ends = r->o->ndone > 0 && r->o->direction == 0 && kl_schedule_ends(&r->plan, res, &res->stop);
    if (ends) KL_TRY(finish(r, state, &ends, err)); /* which was interrupted */
    while (!ends) {
        if (r->o->direction == 0 || res->nrow > r->o->ndone) {
            g = kl_schedule_stage(&r->plan, res);
            if (r->o->place && !r->left && res->nrow > r->o->ndone)
                KL_TRY(kl_engine_go_to(&r->e, r->o->place(r->o->placer, g.m), r->energy, err));
            KL_TRY(kl_engine_hold(r->e, g.held, err));
        }
        g.settling = kl_settle_wanted(&r->plan, &g, res);
        KL_TRY(sweep(r, &g, err));
        /* asked to stop at a sweep's end: that may be all there is to do */
        const int complete =
            !r->interrupted || (r->e->centre == 0 && (r->interrupted < 0 || r->e->nsite == 2));
        ends = complete && kl_schedule_ends(&r->plan, res, &res->stop);
        if (complete && !ends) KL_TRY(begin_lower(r, err));
        if (complete && !ends && kl_dmrg_asks_image(r)) KL_TRY(look_at_image(r, err));
        if (!ends && r->interrupted) {
            res->stop = KL_STOP_INTERRUPTED;
            res->direction = r->interrupted;
            ends = 1;
        }
        if (ends) KL_TRY(finish(r, state, &ends, err));
        /* not behind the last sweep: a run that went on from there would make one more */
        if (!ends) KL_TRY(report_state(r, 0, err));
    }
out:
    return st;
}

/* Everything that the result says besides the rows. */
static void sum_up(run *r)
{
    kl_dmrg_result *const res = r->res;
    const kl_dmrg_row *const last = &res->row[res->nrow - 1];
    const kl_outlook now = kl_schedule_outlook(&r->plan, res);
    res->error_estimate = fmax(now.bar, r->other.rival);
    res->energy_extrapolated = now.limit;
    res->gap = now.next;
    res->unresolved = r->lopsided && !(now.mixed > 0) ? now.bar : fmax(now.mixed, r->other.rival);
    res->distance = r->lopsided || r->other.rival > 0 ? 1 : now.distance;
    res->wait = now.wait;
    for (int i = 0; i < r->o->nstate; i++) res->energy[i] = last->energy[i];
    memcpy(res->energy_kept, r->energy, sizeof *res->energy_kept * (size_t)r->o->nstate);
    res->discarded = last->discarded;
    res->napply = r->e->napply;
    res->flop = r->e->flop;
    res->dim_max = r->e->dim_max;
    res->sector_max = r->e->sector_max;
    res->matrix_max = r->e->matrix_max;
    res->sector_mean = r->e->nsector_count ? (double)r->e->nsector_sum / (double)r->e->nsector_count : 0;
    memcpy(res->seconds_part, r->e->seconds, sizeof res->seconds_part);
}

/* The first blocks: those of a state that is given, or new ones, on the host where the device has no memory
   for them. *g: the first stage, which may depend on what the sector is. */
static kl_status begin(run *r, const kl_terms *terms, kl_exec *ex, const kl_engine_opts *eo, kl_stage *g,
                       kl_state **state, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_dmrg_opts *const o = r->o;
    const int given = *state != NULL;
    for (;; ex = r->cpu) {
        st = kl_engine_create(terms, ex, eo, &r->e, err);
        if (st == KL_OK) {
            set_whole(r);
            *g = kl_schedule_stage(&r->plan, r->res);
            r->e->nstate = o->direction && o->done[o->ndone].held ? o->done[o->ndone].held : g->held;
            st = given ? kl_engine_resume_take(r->e, state, err)
                       : kl_engine_start(r->e, start_m(r, g), kl_dmrg_starts(o), o->start, err);
        }
        if (given || !can_leave(r, ex, st)) return st;
        has_left(r, "before the first sweep", err);
        kl_engine_destroy(&r->e);
    }
}

kl_status kl_dmrg_run_scaled(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *o,
                             const kl_dmrg_monitor *mon, kl_state **state, kl_dmrg_result *res, kl_err *err)
{
    kl_status st = KL_OK;
    const double t0 = kl_prof_seconds();
    kl_canonical *can = NULL;
    run r = {.o = o,
             .mon = mon,
             .res = res,
             .constant = terms->constant,
             .before = kl_prof_since((kl_prof_times){{0}}),
             .plan = {.opts = o,
                      .unit = kl_terms_units(terms),
                      .nsite = terms->nsite,
                      .site_most = kl_terms_most_states(terms)}};
    *res = (kl_dmrg_result){.nstate = 0};
    KL_TRY(kl_dmrg_result_levels(res, o->nstate, err));
    if (o->ndone > 0 || o->direction) {
        const int rows = o->ndone + (o->direction != 0);
        KL_TRY(kl_alloc(&res->row, rows, KL_MEM_MISC, err));
        memcpy(res->row, o->done, sizeof *res->row * (size_t)rows);
        res->nrow = r.sweep = o->ndone;
        r.plan.m_start = res->row[0].m_start;
    } else if (*state) r.plan.m_start = kl_state_widest(*state);
    if (*state && (o->direction || o->ndone)) memcpy(r.energy, (*state)->energy, sizeof r.energy);
    if (o->records) KL_TRY(kl_reclist_create(o->records, err));
    KL_TRY(kl_entropies_create(terms->nsite - 1, o->direction ? o->entropy : NULL, &r.entropies, err));
    kl_stage g = kl_schedule_stage(&r.plan, res);
    if (o->place) ex = o->place(o->placer, g.m);
    const kl_engine_opts eo = {.target = o->target,
                               .nstate = o->nstate,
                               .strategy = o->strategy,
                               .solver = o->solver,
                               .max_basis = o->max_basis,
                               .seed = o->seed,
                               .full = o->full,
                               .host_bytes = o->host_bytes,
                               .lr_bytes = o->lr_bytes,
                               .scratch = o->scratch};
    KL_TRY(begin(&r, terms, ex, &eo, &g, state, err));
    KL_TRY(kl_dmrg_find_turn(&r, err));
    KL_TRY(sweeps(&r, g, state, err));
    sum_up(&r);
    KL_TRY(kl_alloc(&res->entropy, terms->nsite, KL_MEM_MISC, err));
    KL_TRY(kl_entropies_read(r.entropies, ex, ex->nthread, res->entropy, err));
    kl_dmrg_image_entropies(&r, res->entropy);
    const int seen = terms->nsite > 2 && res->row[res->nrow - 1].held <= 1 && (!o->direction || o->entropy);
    if (!seen && res->stop != KL_STOP_INTERRUPTED) {
        /* truncations see the average of the states, two sites see none, half a sweep sees half */
        kl_engine_destroy(&r.e);
        KL_TRY(kl_canonical_create(r.where, *state, 0, &can, err));
        KL_TRY(kl_canonical_schmidt(can, r.where->nthread, err));
        for (int cut = 1; cut < terms->nsite; cut++) res->entropy[cut - 1] = kl_canonical_entropy(can, cut);
    }
    if (res->stop != KL_STOP_INTERRUPTED) (*state)->nstate = o->nstate; /* guards have served */
    res->seconds = kl_prof_seconds() - t0 - r.apart;
    res->inside = kl_prof_since(r.before);
out:
    kl_canonical_destroy(&can);
    kl_entropies_destroy(&r.entropies);
    kl_engine_destroy(&r.e);
    kl_exec_close(&r.cpu);
    if (st != KL_OK) kl_dmrg_result_clear(res);
    return st;
}
