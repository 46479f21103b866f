/* Finite-lattice sweeps: schedule, noise, tolerances, stopping. See dmrg.h. Outline of a run:
   1. start: random or product state, or a saved one;
   2. a sweep goes there and back, optimizing each bond once on either way;
   3. after it the energy is extrapolated in the discarded weight; the automatic schedule ends when the estimate is within the wanted accuracy,
      else it raises m;
   4. the state is told to the caller after every sweep and when a checkpoint is due.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg.h"
#include "canonical.h"
#include "engine.h"
#include "mem.h"
#include "prof.h"
#include "reclist.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const kl_part_name[KL_NPART] = {"operators and records", "eigensolver", "of it products with H", "truncation", "growth of blocks",
                                            "turning the wavefunction", "other"};

enum { M_FIRST = 24, MAX_SWEEP = 100, M_MAX = 4096 };
#define SLOPE 100.0 /* of the energy in the discarded weight, in units of the couplings, where no second m tells: 20 to 100 as a rule */
#define WHOLE 65536.0 /* states of a sector that is solved as a whole at most, */
#define WHOLE_BLOCK 256.0 /* and of a block for it */
enum { WHOLE_APPLY = 2000 }; /* products for each state of it */
#define SETTLED 1e-5 /* of the error that truncation leaves: what sweeps at the largest m change less than is not waited for */
#define ACCURACY 1e-9
#define GAP 0.05 /* of the local problem, in units of the couplings: residual^2 / gap is the error of an energy */

typedef struct run {
    kl_engine *e;
    const kl_dmrg_opts *o;
    const kl_dmrg_monitor *mon;
    kl_dmrg_result *res;
    double energy[KL_MAX_ROOT];
    double constant;
    kl_units unit;               /* of the energies */
    double sweep_start, seconds_before, flop_before; /* of the sweep under way: its clock, and what stood in its row before this process */
    int sweep, istep, interrupted; /* interrupted: the direction it was in */
    double sector;               /* its states, where it is to be solved as a whole; else 0 */
    int block;                   /* states kept for that */
    int m_start;                 /* states kept in the saved state that a run began from; 0 without one */
    double discarded, entropy;   /* of the last truncation */
    double *entropies;
} run;

typedef struct stage { /* one sweep's orders */
    int m;
    double noise, tol, tol_rel;
    int max_apply, precise;
} stage;

static kl_status report_state(run *r, int direction, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *s = NULL;
    if (!r->mon || !r->mon->checkpoint) return KL_OK;
    KL_TRY(kl_engine_state(r->e, r->energy, &s, err));
    KL_TRY(r->mon->checkpoint(r->mon->self, s, r->res->row, r->res->nrow + (direction != 0), direction, err));
out:
    kl_state_destroy(&s);
    return st;
}

/* What an energy that vanishes is known to. */
static double rounding_of(const run *r) { return 2.220446049250313e-16 * r->unit.all * r->e->nsite; }

/* What |H x - E x| falls to in sweep k where the superblock is the sector: it bounds the error, whatever the gap. */
static double whole_tol(const run *r, int k)
{
    const double accuracy = r->o->accuracy > 0 ? fmin(r->o->accuracy, ACCURACY) : ACCURACY, e = k > 0 ? fabs(r->res->row[k - 1].energy[0]) : 0;
    return fmax(0.1 * accuracy * fmax(e, 1e-3 * r->unit.joint), 64 * rounding_of(r));
}

/* Optimizes the bond at the centre. */
static kl_status optimize(run *r, const stage *g, int direction, int nstep, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats stats;
    kl_engine *const e = r->e;
    char title[80];
    snprintf(title, sizeof title, "sweep %d, bond %d, m = %d", r->sweep + 1, e->centre, g->m);
    const int middle = direction > 0 && e->centre == e->nsite / 2 - 1;
    kl_solve_opts so = {.tol = g->tol, .tol_rel = g->tol_rel, .max_apply = g->max_apply, .trust_start = r->res->nrow > 0, .records = middle ? r->o->records : NULL, .title = title};
    if ((double)e->layout.n == r->sector) {
        so.whole = r->res->nrow == 0 && e->centre == e->nsite / 2 - 1 && (direction < 0 || e->nsite == 2) ? 2 : 1;
        so.max_apply = WHOLE_APPLY * e->nstate;
        so.tol = whole_tol(r, r->res->nrow);
        so.tol_rel = 0;
    }
    KL_TRY(kl_engine_solve(e, &so, r->energy, &stats, err));
    for (int i = 0; i < e->nstate; i++) {
        r->energy[i] += r->constant;
        if (r->energy[i] < row->energy[i]) row->energy[i] = r->energy[i];
    }
    row->napply += stats.napply;
    if (e->layout.n > row->dim_max) row->dim_max = e->layout.n;
    r->istep++;
    if (r->mon && r->mon->step) {
        const kl_dmrg_step s = {.sweep = r->sweep, .direction = direction, .bond = e->centre, .m = g->m, .nstep = nstep, .istep = r->istep,
                                .dim = e->layout.n, .napply = stats.napply, .energy = r->energy[0], .discarded = r->discarded,
                                .entropy = r->entropy, .residual = stats.residual[0]};
        r->mon->step(r->mon->self, &s);
    }
    row->seconds = r->seconds_before + kl_prof_seconds() - r->sweep_start;
    row->flop = r->flop_before + e->flop;
    if (r->mon && r->mon->due && r->mon->due(r->mon->self)) KL_TRY(report_state(r, direction, err));
    if (r->mon && r->mon->interrupted && r->mon->interrupted(r->mon->self)) r->interrupted = direction;
out:
    return st;
}

static kl_status step(run *r, const stage *g, int direction, int nstep, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_trunc_info info;
    const kl_trunc_opts t = {.m = g->m, .m_min = r->o->m_min, .discard = r->o->discard, .noise = g->noise, .nstate = r->e->nstate, .full = r->o->full, .precise = g->precise,
                             .fill = r->sector > 0 && r->res->nrow == 0 && g->m >= r->block};
    const int c = r->e->centre;
    KL_TRY(kl_engine_move(r->e, direction, &t, &info, err));
    r->discarded = info.discarded;
    r->entropy = info.entropy;
    r->entropies[c] = info.entropy;
    if (info.discarded > row->discarded) row->discarded = info.discarded;
    if (info.m > row->m_reached) row->m_reached = info.m;
    KL_TRY(optimize(r, g, direction, nstep, row, err));
out:
    return st;
}

/* 2. One sweep from wherever the centre is: to the right end, to the left end. */
static kl_status sweep(run *r, const stage *g, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const e = r->e;
    kl_dmrg_result *const res = r->res;
    const int n = e->nsite, fresh = res->nrow == 0, under_way = r->o->direction != 0 && res->nrow == r->o->ndone, nstep = 2 * (n - 2) + 1;
    KL_TRY(kl_realloc(&res->row, res->nrow + 1, KL_MEM_MISC, err));
    kl_dmrg_row *const row = &res->row[res->nrow];
    if (under_way) *row = r->o->done[res->nrow];
    else {
        *row = (kl_dmrg_row){.m = g->m, .noise = g->noise};
        for (int i = 0; i < KL_MAX_ROOT; i++) row->energy[i] = INFINITY;
    }
    r->sweep_start = kl_prof_seconds();
    r->seconds_before = row->seconds;
    r->flop_before = row->flop - e->flop;
    r->istep = !under_way ? 0 : r->o->direction > 0 ? e->centre : 2 * (n - 2) - e->centre;
    if (!under_way && (fresh || n == 2)) KL_TRY(optimize(r, g, 1, nstep, row, err));
    while (e->centre < n - 2 && !r->interrupted && !(under_way && r->o->direction < 0)) KL_TRY(step(r, g, 1, nstep, row, err));
    while (e->centre > 0 && !r->interrupted) KL_TRY(step(r, g, -1, nstep, row, err));
    for (int i = 0; i < e->nstate; i++)
        if (!(row->energy[i] < INFINITY)) row->energy[i] = r->energy[i];
    if (n == 2 || row->m_reached == 0) row->m_reached = 1;
    row->change = res->nrow ? row->energy[0] - res->row[res->nrow - 1].energy[0] : NAN;
    res->nrow++;
    r->sweep++;
    if (r->mon && r->mon->sweep) r->mon->sweep(r->mon->self, res->row, res->nrow);
out:
    return st;
}

/* 1 for two sweeps that differ in nothing but the order in time: of one m, or of one discarded weight, which then decided (--discard) and not m. */
static int alike(const kl_dmrg_row *a, const kl_dmrg_row *b)
{
    const double most = 1.2; /* m grows by a tenth at least, and what is left out falls as a power of it */
    return a->m == b->m || (a->discarded < most * b->discarded && b->discarded < most * a->discarded);
}

/* What alike sweeps will still change, when each changes so much less than the one before; the change itself, where it falls fast or nothing is known. */
static double to_come(const kl_dmrg_row *b, int nrow, int i)
{
    const double change = fabs(b->energy[i] - b[-1].energy[i]), before = nrow > 2 && alike(b - 1, b) && alike(b - 2, b) ? fabs(b[-1].energy[i] - b[-2].energy[i]) : 0;
    const double rate = before > 0 && change < before ? change / before : 0;
    return rate > 0.5 ? change * fmin(rate / (1 - rate), 20) : change;
}

/* At the largest m, or where m does not decide: 1 when further sweeps would change less than the wanted accuracy, or next to nothing of what is truncated. */
static int settled(const kl_dmrg_result *res, double accuracy)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    if (res->nrow < 2 || !alike(b - 1, b) || b->noise > 0 || b[-1].noise > 0) return 0;
    double left = 0;
    for (int i = 0; i < res->nstate; i++) left = fmax(left, to_come(b, res->nrow, i));
    return fabs(b->change) <= 0.1 * accuracy * fabs(b->energy[0]) || left <= SETTLED * res->error_estimate;
}

/* 3. Error of state i after the last sweep: what the line through the last sweeps that are not alike, E(w) = E0 + slope * w, still leaves to no
   discarded weight, doubled since the true curve bends down a little, and what sweeps still change where the one before was alike. Without such a line
   the discarded weight itself is taken.
   INFINITY when there is nothing to compare with. */
static double estimate_of(const kl_dmrg_result *res, double unit, int i, double *limit)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    *limit = b->energy[i];
    int k = res->nrow - 2;
    while (k >= 0 && alike(&res->row[k], b)) k--;
    if (res->nrow < 2 || b->noise > 0 || b[-1].noise > 0) return INFINITY;
    const double change = to_come(b, res->nrow, i);
    if (b->discarded < 1e-14) return change; /* nothing that counts is truncated */
    const kl_dmrg_row *const a = k >= 0 && !(res->row[k].noise > 0) ? &res->row[k] : NULL;
    if (!a || !(a->discarded > b->discarded) || !(a->energy[i] > b->energy[i])) return change + SLOPE * unit * b->discarded;
    const int by_weight = b->m != b[-1].m && alike(b - 1, b); /* then all bonds leave that much out, not those in the middle alone */
    const double left = (by_weight ? 2 : 1) * (a->energy[i] - b->energy[i]) * b->discarded / (a->discarded - b->discarded);
    *limit = b->energy[i] - left;
    /* What changes by more than the weight that was left out before explains is not truncation: sweeps were not done at that m. */
    return 2 * left + (a < b - 1 ? change : fmax(0, change - SLOPE * unit * a->discarded));
}

/* Of all states; limit: of the lowest. */
static double estimate(const kl_dmrg_result *res, double unit, double *limit)
{
    double other, error = estimate_of(res, unit, 0, limit);
    for (int i = 1; i < res->nstate; i++) error = fmax(error, estimate_of(res, unit, i, &other));
    return error;
}

/* Products a bond: of several states each step takes one for each, and what lies close together takes longer to part. */
static int products(const kl_dmrg_opts *o, int of_one) { return o->nstate > 1 ? 2 * o->nstate * of_one : of_one; }

int kl_dmrg_max_apply(const kl_dmrg_opts *o)
{
    const int few = products(o, 6);
    return o->max_apply > 0 ? o->max_apply : o->nsweep && few < 30 ? 30 : few;
}

/* The automatic schedule: m grows each sweep; noise in the first third; each sweep's eigensolver as exact as its m deserves. */
/* Next m over the last one: no limit of its own, or as little as the error needs if it goes on falling with m as the discarded weight did. */
static double growth_of_m(const kl_dmrg_result *res, double accuracy)
{
    const double most = 1.75, least = 1.1; /* most: the 1.6 of the schedule, and what rounding down to a multiple of 8 took */
    const kl_dmrg_row *const b = &res->row[res->nrow - 1], *const a = b - 1;
    const double wanted = 0.7 * accuracy * fabs(b->energy[0]);
    if (res->nrow < 3 || !(res->error_estimate < INFINITY) || a->noise > 0 || a->m >= b->m || !(a->discarded > b->discarded) || !(b->discarded > 0)) return most;
    const double power = log(a->discarded / b->discarded) / log((double)b->m / a->m);
    const double factor = pow(res->error_estimate / wanted, 1 / power);
    return factor < least ? least : factor < most ? factor : most;
}

static stage next_stage(const run *r, double accuracy, int m_cap)
{
    const kl_dmrg_result *const res = r->res;
    const int k = res->nrow;
    const double scale = k ? fmax(fabs(res->row[k - 1].energy[0]), 1e-3 * r->unit.joint) : r->unit.joint;
    const int warm = r->m_start > 0; /* a saved state: begin at its m, and no noise that would undo it */
    const int least = r->block > M_FIRST ? r->block : M_FIRST;
    const int first = warm && r->m_start > least ? (r->m_start + 7) / 8 * 8 : (least + 7) / 8 * 8, steps = warm || k == 0 ? k : k - 1;
    double m = first * pow(1.6, steps);
    if (steps > 0) m = fmin(m, res->row[k - 1].m * growth_of_m(res, accuracy));
    stage g = {.m = m < m_cap ? (int)m / 8 * 8 : m_cap, .max_apply = r->o->max_apply || k >= 2 || warm ? kl_dmrg_max_apply(r->o) : products(r->o, 4),
               .tol_rel = k < 2 && !warm ? 0.1 : 0.02};
    if (g.m > m_cap) g.m = m_cap;
    const double final = 0.1 * sqrt(GAP * r->unit.gap * accuracy * scale);
    const double w = k ? fmax(res->row[k - 1].discarded, 1e-16) : 1e-4;
    g.tol = fmax(final, 0.02 * sqrt(w * r->unit.joint * scale));
    g.noise = warm || k > 1 ? 0 : k == 0 ? 1e-4 : 1e-6;
    g.precise = k >= 2 && res->row[k - 1].discarded < 1e-11;
    return g;
}

static int widest(const kl_state *s)
{
    int64_t m = 1;
    for (int p = 0; p < s->nsite; p++) {
        if (s->left[p] && s->left[p]->basis.total > m) m = s->left[p]->basis.total;
        if (s->right[p] && s->right[p]->basis.total > m) m = s->right[p]->basis.total;
    }
    return (int)m;
}

static stage given_stage(const run *r, int i)
{
    const kl_dmrg_sweep *const s = &r->o->sweep[i < r->o->nsweep ? i : r->o->nsweep - 1]; /* behind a schedule that is done: its last once more */
    return (stage){.m = s->m, .noise = s->noise, .tol = s->tol > 0 ? s->tol : 1e-8 * r->unit.gap, .max_apply = kl_dmrg_max_apply(r->o),
                   .precise = s->noise == 0 && r->res->nrow && r->res->row[r->res->nrow - 1].discarded < 1e-11};
}

static stage stage_at(const run *r, int k, double accuracy, int m_cap) { return r->o->nsweep ? given_stage(r, k) : next_stage(r, accuracy, m_cap); }

/* A sector that is small enough is solved as a whole at the middle bond in the first sweep, on its way back, when all states of both blocks are there; and wherever blocks
   hold all. Sweeps alone may end in an eigenstate that is not the lowest: two sites and what they are coupled to cannot tell. */
static void set_whole(run *r, int m_cap)
{
    double sector, block;
    kl_engine_size(r->e, &sector, &block);
    if (sector > WHOLE || block > WHOLE_BLOCK || r->o->max_apply > 0 || (!r->o->nsweep && block > m_cap)) return;
    r->sector = sector;
    r->block = (int)block;
}

/* The state as it is, between two sweeps, on another executor; what was counted stays. */
static kl_status go_to(run *r, kl_exec *ex, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *const from = r->e, *e = NULL;
    kl_state *s = NULL;
    if (ex == from->ex) return KL_OK;
    KL_TRY(kl_engine_state(from, r->energy, &s, err));
    KL_TRY(kl_engine_create(from->terms, ex, from->target, from->nstate, from->strategy, from->solver, from->max_basis, from->seed, &e, err));
    e->full = from->full;
    KL_TRY(kl_engine_resume_take(e, &s, err));
    kl_engine_count_on(e, from);
    kl_engine_destroy(&r->e);
    r->e = e;
    e = NULL;
out:
    kl_state_destroy(&s);
    kl_engine_destroy(&e);
    return st;
}

kl_status kl_dmrg_run(const kl_terms *terms, kl_exec *ex, const kl_dmrg_opts *o, const kl_dmrg_monitor *mon, kl_state **state, kl_dmrg_result *res,
                      kl_err *err)
{
    kl_status st = KL_OK;
    const double accuracy = o->accuracy > 0 ? o->accuracy : ACCURACY;
    const int m_cap = o->m_max > 0 ? o->m_max : M_MAX, max_sweep = o->max_sweep > 0 ? o->max_sweep : MAX_SWEEP;
    const double t0 = kl_prof_seconds();
    kl_canonical *can = NULL;
    run r = {.o = o, .mon = mon, .res = res, .constant = terms->constant};
    *res = (kl_dmrg_result){.nstate = o->nstate};
    r.unit = kl_terms_units(terms);
    if (o->ndone > 0) {
        KL_TRY(kl_alloc(&res->row, o->ndone, KL_MEM_MISC, err));
        memcpy(res->row, o->done, sizeof *res->row * (size_t)o->ndone);
        res->nrow = r.sweep = o->ndone;
        res->error_estimate = estimate(res, r.unit.joint, &res->energy_extrapolated); /* the schedule asks for it */
    }
    if (*state && o->direction) memcpy(r.energy, (*state)->energy, sizeof r.energy);
    if (o->records) KL_TRY(kl_reclist_create(o->records, err));
    KL_TRY(kl_alloc(&r.entropies, terms->nsite, KL_MEM_MISC, err));
    if (*state && !o->ndone && !o->direction) r.m_start = widest(*state);
    stage g = stage_at(&r, o->ndone, accuracy, m_cap);
    if (o->place) ex = o->place(o->placer, g.m);
    KL_TRY(kl_engine_create(terms, ex, o->target, o->nstate, o->strategy, o->solver, o->max_basis, o->seed, &r.e, err));
    r.e->full = o->full;
    set_whole(&r, m_cap);
    g = stage_at(&r, o->ndone, accuracy, m_cap);
    KL_TRY(*state ? kl_engine_resume_take(r.e, state, err) : kl_engine_start(r.e, o->nsweep && o->sweep[0].m < M_FIRST ? o->sweep[0].m : M_FIRST, o->start, err));
    int last = 0;
    double left_by_solver = 0; /* of the last sweep: residual^2 / gap, or what bounds it without a gap */
    const double rounding = rounding_of(&r);
    for (int k = o->ndone;; k++) {
        if (k > o->ndone) {
            g = stage_at(&r, k, accuracy, m_cap);
            if (o->place) KL_TRY(go_to(&r, o->place(o->placer, g.m), err));
        }
        KL_TRY(sweep(&r, &g, err));
        res->error_estimate = estimate(res, r.unit.joint, &res->energy_extrapolated);
        const kl_dmrg_row *const row = &res->row[res->nrow - 1];
        left_by_solver = (double)row->dim_max == r.sector ? whole_tol(&r, res->nrow - 1) : g.tol * g.tol / (GAP * r.unit.gap);
        const int whole = !r.interrupted || (r.e->centre == 0 && (r.interrupted < 0 || terms->nsite == 2)); /* asked to stop at a sweep's end: that may be all there is to do */
        if (!whole) last = 0;
        else if (o->nsweep) last = k + 1 >= o->nsweep, res->stop = KL_STOP_SCHEDULE;
        else if (res->error_estimate <= fmax(accuracy * fabs(row->energy[0]), rounding) && left_by_solver <= fmax(accuracy * fmax(fabs(row->energy[0]), 1e-3 * r.unit.joint), 64 * rounding)) res->stop = KL_STOP_CONVERGED, last = 1;
        else if (k + 1 >= max_sweep) res->stop = KL_STOP_MAX_SWEEP, last = 1;
        else if (g.m >= m_cap && settled(res, accuracy)) res->stop = KL_STOP_M_MAX, last = 1;
        else if (o->discard > 0 && row->m_reached < g.m && settled(res, accuracy)) res->stop = KL_STOP_DISCARD, last = 1;
        if (!last && r.interrupted) res->stop = KL_STOP_INTERRUPTED, res->direction = r.interrupted, last = 1;
        if (last) break;
        KL_TRY(report_state(&r, 0, err)); /* not behind the last sweep: a run that went on from there would make one more */
    }
    /* however little the sweeps still change */
    res->error_estimate = fmax(res->error_estimate, fmax(left_by_solver, 4 * rounding));
    for (int i = 0; i < o->nstate; i++) res->energy[i] = res->row[res->nrow - 1].energy[i];
    memcpy(res->energy_kept, r.energy, sizeof res->energy_kept);
    res->discarded = res->row[res->nrow - 1].discarded;
    res->entropy = r.entropies;
    r.entropies = NULL;
    res->napply = r.e->napply;
    res->flop = r.e->flop;
    res->dim_max = r.e->dim_max;
    res->sector_max = r.e->sector_max;
    res->matrix_max = r.e->matrix_max;
    res->sector_mean = r.e->nsector_count ? (double)r.e->nsector_sum / (double)r.e->nsector_count : 0;
    memcpy(res->seconds_part, r.e->seconds, sizeof res->seconds_part);
    KL_TRY(kl_engine_state(r.e, r.energy, state, err));
    if (o->nstate > 1 || terms->nsite == 2 || o->direction) { /* truncations see the average of the states, two sites see none, half a sweep sees half */
        ex = r.e->ex;
        kl_engine_destroy(&r.e);
        KL_TRY(kl_canonical_create(ex, *state, 0, &can, err));
        KL_TRY(kl_canonical_schmidt(can, ex->nthread, err));
        for (int cut = 1; cut < terms->nsite; cut++) res->entropy[cut - 1] = kl_canonical_entropy(can, cut);
    }
    res->seconds = kl_prof_seconds() - t0;
out:
    kl_canonical_destroy(&can);
    kl_free(&r.entropies);
    kl_engine_destroy(&r.e);
    if (st != KL_OK) kl_dmrg_result_clear(res);
    return st;
}

void kl_dmrg_result_clear(kl_dmrg_result *r)
{
    kl_free(&r->row);
    kl_free(&r->entropy);
}

kl_status kl_dmrg_sectors(const kl_terms *terms, kl_qn **out, int64_t *n, kl_err *err)
{
    kl_reach r;
    const kl_status st = kl_reach_create(terms->model, terms->type, 0, terms->nsite, 0, &r, err);
    if (st != KL_OK) return st;
    kl_free(&r.log_ways);
    *out = r.q;
    *n = r.n;
    return KL_OK;
}
