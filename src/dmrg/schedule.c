/* The automatic schedule of DMRG. See schedule.h. Outline of what the rows are asked:
   1. guards: which states beyond the wanted ones are still carried, and how far the next one lies (the gap);
   2. the outlook: what truncation, sweeps to come, residuals and states not told apart leave as error;
   3. the next sweep: more states where truncation is what is missing, else more products;
   4. the end.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/schedule.h"
#include "dmrg/forecast.h"
#include "dmrg/gaps.h"
#include <limits.h>
#include <math.h>

enum {
    M_FIRST = 24,
    M_MAX = 4096,
    MAX_SWEEP = 100,
    /* sweeps that carry all guards: fewer miss a partner that needs more states than the first sweeps keep */
    GUARD_SWEEPS = 4,
    REPEAT_MOST = 3, /* sweeps more at one m, where m is not what is missing */
    PROBE_M = 48,
    CLOSING_LEAST = 2, /* sweeps for what is measured: the first makes the bases of the second */
    CLOSING_MOST = 4,
    NOISE_ONE = 400 /* states from which sweeps of a schedule's noise have one site */
};
#define ACCURACY 1e-9
/* of the energy in the discarded weight, in units of the couplings, where no second m tells: 20 to 100 */
#define SLOPE 100.0
/* the same for each site of a long lattice, whose bonds leave out as much each: 5 in spin-1 chains */
#define SLOPE_PER_SITE 8.0
/* slopes that differ by no more than STEADY are one; the next may be so much steeper (SCATTER) */
#define STEADY 2.0
#define SCATTER 1.25
/* of the energy in the two-site variance, in units of the couplings: 0.03 to 0.5 as a rule */
#define LEAST_OF_VARIANCE 0.2
/* of the error that truncation leaves: what sweeps of one site at the largest m go on changing for ever */
#define SETTLED 1e-4
#define SETTLED_MANY 3e-3 /* the same of many small sectors, where next to nothing changes for long */
/* in units of the couplings, where nothing smaller is known: residual^2 / gap is the error of an energy */
#define GAP 0.05
/* of the wanted accuracy: states closer than that are not told apart, the error bar has their distance */
#define IGNORED 0.2
#define PARTED 0.3 /* of its gap: what the energy is uncertain by when a guard may go */
#define HOLDS 0.1 /* of its gap: what the kept state may lie too high by and not hold much of it */
#define FALLING 0.7 /* of the gap one sweep before: a gap that falls so fast is not known yet */
#define EXACT_KEPT 0.02 /* of the wanted accuracy: what the state may cost where the energy is exact */
/* The same as a relative number: the root of the weight that such a state may lack. Values of operators of
   norm 1 are off by a tenth of it as a rule, and by no more than ten times the energy's accuracy. */
#define EXACT_LACKS 20.0
#define CLOSING_DISCARD 0.1 /* of that weight: what sweeps for the state leave out; and of its root: */
#define CLOSING_RESIDUAL 0.1 /* their residual over the gap */
#define CLOSING_CHANGE 16.0 /* in roundings of the energy: what they may still change */
/* In a large sector, for the accuracy that asks for it, the weight may be so much more (values are good to
   1e-9 then), and the states that the sweeps are expected to keep no more than so many. */
#define LARGE_ACCURACY 1.001e-10
#define LARGE_LACKS 100.0
#define LARGE_STATES 1024.0
#define FALLS 8.0 /* power of m that discarded weights fall by, of chains 6 to 13 */
#define EXACT_RESIDUAL 1.0 /* of the wanted accuracy: its residual at bonds next to the middle */
/* in units of the couplings: sweeps of one state may settle in a mixture with one closer, unseen by probes */
#define NEAR 3e-3

/* ---- the options, with their defaults ---- */

static double accuracy_of(const kl_schedule *s)
{
    return s->opts->accuracy > 0 ? s->opts->accuracy : ACCURACY;
}
static int m_cap_of(const kl_schedule *s) { return s->opts->m_max > 0 ? s->opts->m_max : M_MAX; }
static double scale_of(const kl_schedule *s, double energy)
{
    return fmax(fabs(energy), 1e-3 * s->unit.joint);
}
/* How exactly an energy that vanishes is known. */
static double rounding_of(const kl_schedule *s) { return 2.220446049250313e-16 * s->unit.all * s->nsite; }
double kl_schedule_wanted(const kl_schedule *s, double energy)
{
    const double error = s->opts->error > 0 ? s->opts->error : accuracy_of(s) * scale_of(s, energy);
    return fmax(error, rounding_of(s));
}
static int held_of(const kl_schedule *s, const kl_dmrg_row *row)
{
    return row->held > 0 ? row->held : s->opts->nstate;
}
/* The last sweep whose energies are eigenvalues of the whole sector, whatever other bonds lost; or NULL. */
static const kl_dmrg_row *exact_row(const kl_schedule *s, const kl_dmrg_result *res)
{
    for (int k = res->nrow - 1; k >= 0 && s->whole; k--)
        if ((double)res->row[k].dim_max == s->sector) return &res->row[k];
    return NULL;
}

/* The largest number of wavefunctions that may be carried. */
static int held_most(const kl_schedule *s)
{
    const int most = s->opts->nstate + KL_NGUARD < KL_MAX_STATE ? s->opts->nstate + KL_NGUARD : KL_MAX_STATE;
    const int there = s->sector < most ? (int)s->sector : most;
    return there > s->opts->nstate ? there : s->opts->nstate;
}

/* ---- 1. guards ---- */

/* 1: a probe saw a state too close to tell how close, and no sweep has carried it since. */
static int suspicious(const kl_schedule *s, const kl_dmrg_row *row, int i)
{
    return row->probed && row->gap[i] < NEAR * s->unit.gap;
}

/* 1: the energy is not known well enough to tell a state that far off from the wanted ones. */
static int not_parted(double gap, double uncertain) { return uncertain > PARTED * gap; }

/* From the highest wanted state to the lowest one that is not among `held` and counts; *unresolved: to the
   farthest that is not told apart, energies being uncertain by so much. */
static double gap_beyond(const kl_schedule *s, const kl_dmrg_result *res, int held, double wanted,
                         double uncertain, double *unresolved)
{
    double gap = INFINITY;
    *unresolved = 0;
    for (int i = 0; i < KL_NGUARD; i++) {
        const kl_dmrg_row *const row = kl_gaps_row(res, i);
        if (!row) continue;
        const double g = kl_gaps_in(res, row, i);
        /* a guard that is held may be another state than the lowest seen */
        if (s->opts->nstate + i < held && !(g < FALLING * row->gap[i])) continue;
        /* two that agree in every digit are not told apart, either: 0 is for none */
        if (g < IGNORED * wanted || suspicious(s, row, i))
            *unresolved = fmax(*unresolved, fmax(g, rounding_of(s)));
        else {
            gap = fmin(gap, g);
            const int close = g < NEAR * s->unit.gap && uncertain < INFINITY;
            if (close && (not_parted(g, uncertain) || kl_gaps_falls(res, row, i, FALLING)))
                *unresolved = fmax(*unresolved, g);
        }
    }
    /* none was let go: the highest guard bounds those beyond it */
    const int last = held - s->opts->nstate - 1;
    if (!(gap < INFINITY) && last >= 0 && last < KL_NGUARD) {
        const kl_dmrg_row *const row = kl_gaps_row(res, last);
        if (row && kl_gaps_in(res, row, last) > IGNORED * wanted) gap = kl_gaps_in(res, row, last);
    }
    return gap;
}

/* The gap that the square of a residual is divided by. */
static double divisor(const kl_schedule *s, double gap) { return fmin(GAP * s->unit.gap, gap); }

static int guard_stays(const kl_dmrg_result *res, int i, double wanted, double uncertain)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    const double gap = b->gap[i], before = res->nrow > 1 ? b[-1].gap[i] : NAN;
    if (!(gap > IGNORED * wanted)) return 0;
    return not_parted(gap, fmax(fabs(b->change), uncertain)) || gap < FALLING * before;
}

/* 1: the last two sweeps kept all the states that they may, of which guards would go on taking some. */
static int capped(const kl_schedule *s, const kl_dmrg_result *res)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    if (res->nrow <= GUARD_SWEEPS) return 0;
    return (b->m >= m_cap_of(s) && b[-1].m >= m_cap_of(s)) ||
           (s->opts->discard > 0 && b->m_reached < b->m && b[-1].m_reached < b[-1].m);
}

/* Wavefunctions that the next sweep carries. */
static int held_next(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    const int nstate = s->opts->nstate, most = held_most(s);
    if (s->opts->nsweep > 0 || (s->whole && (res->nrow == 0 || exact_row(s, res)))) return nstate;
    if (res->nrow == 0) return s->m_start ? nstate : most;
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    if (s->m_start == 0 && res->nrow < GUARD_SWEEPS && held_of(s, b) > nstate) return most;
    for (int i = KL_NGUARD - 1; i >= 0; i--) {
        if (nstate + i >= most) continue;
        if (suspicious(s, b, i)) return nstate + i + 1;
        if (nstate + i < held_of(s, b) && !capped(s, res) &&
            guard_stays(res, i, now->wanted, now->truncation))
            return nstate + i + 1;
    }
    return nstate;
}

int kl_schedule_unguarded(const kl_schedule *s, const kl_dmrg_result *res)
{
    return !exact_row(s, res) && held_most(s) > s->opts->nstate && kl_gaps_row(res, 0) == NULL;
}

/* ---- 2. the outlook ---- */

/* What truncation took from the state of a sweep: the discarded weight; of one-site sweeps, whose truncations
   see few states beyond those kept, the two-site variance (Hubig, Haegeman, Schollwoeck, PRB 97, 045125
   (2018)), over the square of energies that makes the two alike. */
static double lost(const kl_schedule *s, const kl_dmrg_row *row)
{
    if (row->sites != 1) return row->discarded;
    return row->variance / (SLOPE * s->unit.joint * s->unit.joint);
}

/* The factor of that measure where no second m gives a slope; a variance counts all sites already. */
static double slope_of(const kl_schedule *s, const kl_dmrg_row *row)
{
    return row->sites == 1 ? SLOPE : fmax(SLOPE, SLOPE_PER_SITE * s->nsite);
}

/* 1: sweeps that can be compared: as many wavefunctions, and as many sites. */
static int same_kind(const kl_schedule *s, const kl_dmrg_row *a, const kl_dmrg_row *b)
{
    return held_of(s, a) == held_of(s, b) && (a->sites == 1) == (b->sites == 1);
}

/* 1 for two sweeps that differ in nothing but the order in time: of one m, or of one discarded weight, which
   then decided (--discard) and not m. */
static int alike(const kl_schedule *s, const kl_dmrg_row *a, const kl_dmrg_row *b)
{
    const double most = 1.2; /* m grows by a tenth at least, and what is left out falls as a power of it */
    if (held_of(s, a) != held_of(s, b)) return 0;
    if (a->m == b->m) return 1;
    return same_kind(s, a, b) && lost(s, a) < most * lost(s, b) && lost(s, b) < most * lost(s, a);
}

/* What alike sweeps will still change, when each changes so much less than the one before; the change itself,
   where it falls fast or nothing is known. */
static double to_come(const kl_schedule *s, const kl_dmrg_row *b, int nrow, int i)
{
    const double change = fabs(b->energy[i] - b[-1].energy[i]);
    const double before =
        nrow > 2 && alike(s, b - 1, b) && alike(s, b - 2, b) ? fabs(b[-1].energy[i] - b[-2].energy[i]) : 0;
    const double rate = before > 0 && change < before ? change / before : 0;
    return rate > 0.5 ? change * fmin(rate / (1 - rate), 20) : change;
}

/* Energy of state i for the discarded weight from sweep a to the next; 0: they tell none. */
static double slope_between(const kl_schedule *s, const kl_dmrg_row *a, int i)
{
    const kl_dmrg_row *const b = a + 1;
    const double fell = a->energy[i] - b->energy[i], w = lost(s, a) - lost(s, b);
    if (a->noise > 0 || b->noise > 0 || a->m >= b->m || !same_kind(s, a, b)) return 0;
    return fell > 0 && w > 0 ? fell / w : 0;
}

/* What the weight left out by the sweep before the last one can explain of the change since. A slope that the
   two steps before had alike is that of truncation: sweeps that had not settled would get steeper from step
   to step, for their change does not fall with the weight. */
static double explained(const kl_schedule *s, const kl_dmrg_result *res, int i)
{
    const kl_dmrg_row *const a = &res->row[res->nrow - 2];
    double slope = SLOPE * s->unit.joint;
    if (res->nrow >= 4) {
        const double x = slope_between(s, a - 2, i), y = slope_between(s, a - 1, i);
        if (x > 0 && y > 0 && fmax(x, y) <= STEADY * fmin(x, y)) slope = fmax(slope, SCATTER * fmin(x, y));
    }
    return slope * lost(s, a);
}

/* 1: row a is the only sweep at its m, so that it may not have settled, and no line before it is nearly as
   steep as the one from there to b. Where sweeps still lead the state into another valley, such a line tells
   of that and not of truncation. */
static int is_doubtful(const kl_schedule *s, const kl_dmrg_result *res, const kl_dmrg_row *a,
                       const kl_dmrg_row *b, int i)
{
    if (b->sites != 1 || a == b - 1) return 0;
    if (a > res->row && alike(s, a - 1, a) && !(a[-1].noise > 0)) return 0;
    const double before = a > res->row ? slope_between(s, a - 1, i) : 0;
    return a->energy[i] - b->energy[i] > STEADY * before * (lost(s, a) - lost(s, b));
}

/* 1: a state of many small sectors may lack some: from a product no sweep opens those that two sites do not
   lead to, and nothing that is kept tells (N2 of 28 orbitals: 0.2 hartree too high at a weight of 1e-6). */
static int may_lack_sectors(const kl_schedule *s, const kl_dmrg_result *res)
{
    if (!s->opts->many_sectors || s->m_start > 0) return 0;
    for (int k = 0; k < res->nrow; k++)
        if (res->row[k].noise > 0) return 0;
    return 1;
}

/* 1: the last sweep, of the most states that are allowed, had room for more and left next to nothing out, and
   none with noise had as many: of many small sectors that is a state that lacks some as often as it is one
   that holds all. */
static int left_room(const kl_schedule *s, const kl_dmrg_result *res)
{
    const double nothing = 1e-14;
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    if (!s->opts->many_sectors || s->m_start > 0 || s->whole) return 0;
    if (b->noise > 0 || b->m < m_cap_of(s) || b->m_reached >= b->m || lost(s, b) > nothing) return 0;
    for (const kl_dmrg_row *a = res->row; a < b; a++)
        if (a->noise > 0 && held_of(s, a) == held_of(s, b) && a->m_reached >= b->m_reached) return 0;
    return 1;
}

/* ---- the state, where values are measured ---- */

/* 1: a sector whose blocks may have more states than anybody wants to keep. */
static int is_large(const kl_schedule *s) { return s->sector > KL_CLOSED_MOST; }

/* Of a large sector the energy converges as the square of what the state lacks, and the values do not. */
static int may_close(const kl_schedule *s)
{
    const kl_dmrg_opts *const o = s->opts;
    if (is_large(s) && !(o->accuracy > 0 && o->accuracy <= LARGE_ACCURACY)) return 0;
    return o->measured && o->nsweep == 0 && o->discard == 0 && o->max_apply == 0 && !s->whole &&
           s->sector > 0;
}

/* States that a sweep needs to leave out no more than that, if what it leaves out goes on falling as it did;
   FALLS where that is not known. */
static double states_for(const kl_schedule *s, const kl_dmrg_result *res, double weight)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1], *a = b;
    while (a > res->row && (a->m >= b->m || a->noise > 0)) a--;
    const int known = a->m < b->m && same_kind(s, a, b) && lost(s, a) > lost(s, b) && lost(s, b) > 0;
    const double power = known ? log(lost(s, a) / lost(s, b)) / log((double)b->m / a->m) : FALLS;
    return b->m * pow(fmax(1, lost(s, b) / weight), 1 / power);
}

/* Sweeps at the end that were made for the state: the energy waited for nothing before them. */
static int closing_sweeps(const kl_schedule *s, const kl_dmrg_result *res)
{
    int n = 0;
    for (int k = res->nrow - 1; k > 0 && may_close(s) && res->row[k - 1].wait == KL_WAIT_NOTHING; k--) n++;
    return n;
}

/* Error of state i after the last sweep: what the line through the last sweeps that are not alike, E(w) = E0
   + slope * w, leaves to no discarded weight, doubled since the true curve bends down a little, and what
   sweeps still change (*still) where the one before was alike. Without such a line the weight itself counts,
   as behind a way to another valley. Where a sweep knew the exact energy, what lies above it. INFINITY:
   there is nothing to compare with. */
static double estimate_of(const kl_schedule *s, const kl_dmrg_result *res, double gap, int i, double *limit,
                          double *still)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1], *const exact = exact_row(s, res);
    int k = res->nrow - 2;
    *limit = b->energy[i];
    *still = INFINITY;
    while (k >= 0 && !res->row[k].again && alike(s, &res->row[k], b)) k--;
    if (res->nrow < 2 || b->noise > 0 || b[-1].noise > 0) return INFINITY;
    if (exact) {
        *limit = exact->energy[i];
        *still = 0;
        return fmax(b->energy[i] - exact->energy[i], 0);
    }
    if (may_lack_sectors(s, res) || left_room(s, res)) return INFINITY;
    const double change = to_come(s, b, res->nrow, i), w = lost(s, b);
    *still = change;
    if (closing_sweeps(s, res) > 0) return change + slope_of(s, b) * s->unit.joint * w;
    if (w < 1e-14) return change; /* nothing that counts is truncated */
    const kl_dmrg_row *const a = k >= 0 && !res->row[k].again ? &res->row[k] : NULL;
    if (!a || a->noise > 0 || !same_kind(s, a, b) || !(lost(s, a) > w) || !(a->energy[i] > b->energy[i]))
        return change + slope_of(s, b) * s->unit.joint * w;
    /* then all bonds leave that much out, not those in the middle alone */
    const int by_weight = b->m != b[-1].m && alike(s, b - 1, b);
    const double drop = (by_weight ? 2 : 1) * (a->energy[i] - b->energy[i]) * w / (lost(s, a) - w);
    /* What is beyond a bond lies some couplings above, and the nearer the less of it is left; what is left
       out lies at least the gap above: a flatter line joins two energies equal to rounding. */
    const double least = b->sites == 1 ? LEAST_OF_VARIANCE * b->variance / s->unit.joint : 0;
    const double none = 0.5 * slope_of(s, b) * s->unit.joint * w; /* what no line would tell */
    const double above = gap < INFINITY ? fmin(gap, s->unit.gap) : divisor(s, gap);
    double left = fmax(fmax(drop, above * w), least);
    if (is_doubtful(s, res, a, b, i)) left = fmin(left, none);
    /* C2, 100 states, 50 before: 15 millihartree too high, 1.6 by the line. N2's cores tell nothing of it. */
    const int lone = s->opts->many_sectors && s->opts->nsweep && kl_forecast_lone(res->row, res->nrow);
    const double weighed = lone ? fmax(left, slope_of(s, b) * fmin(s->unit.joint, 1) * w) : left;
    *limit = b->energy[i] - (left + weighed) / 2;
    left = weighed;
    if (b->sites == 1 && s->opts->nsweep) left = fmax(left, none); /* sweeps may end before that line bends */
    /* What changes by more than the weight that was left out before explains is not truncation: sweeps were
       not done at that m. */
    *still = a < b - 1 ? change : fmax(0, change - explained(s, res, i));
    return 2 * left + *still;
}

/* 1: the state is as good as its energy. Bonds of few states may be exact while sweeps still move it. */
static int is_close(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *o)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    return closing_sweeps(s, res) >= CLOSING_LEAST && b->discarded <= o->lacks_wanted &&
           b->residual <= 2 * o->residual_wanted && o->change <= CLOSING_CHANGE * rounding_of(s);
}

/* 1: the next sweep is for the state. */
static int closes(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *o)
{
    if (may_close(s) && is_large(s) && closing_sweeps(s, res) == 0 &&
        states_for(s, res, CLOSING_DISCARD * o->lacks_wanted) > LARGE_STATES)
        return 0;
    return may_close(s) && o->wait == KL_WAIT_NOTHING && !suspicious(s, &res->row[res->nrow - 1], 0) &&
           !is_close(s, res, o) && closing_sweeps(s, res) < CLOSING_MOST;
}

static kl_dmrg_wait waits_for(const kl_schedule *s, const kl_outlook *o)
{
    const double exact = fmax(o->wanted, 64 * rounding_of(s));
    /* what a state not told apart takes of the bar is wanting elsewhere */
    const double left = o->unresolved <= exact ? 1 - o->unresolved / exact : 1;
    if (!(o->truncation < INFINITY)) return KL_WAIT_SWEEPS;
    /* an energy of 0 ends some roundings away from what an early sweep knew */
    if (o->truncation > fmax(left * o->wanted, CLOSING_CHANGE * rounding_of(s)))
        return o->truncation - o->change <= 0.5 * o->wanted ? KL_WAIT_CHANGE : KL_WAIT_TRUNCATION;
    if (o->lower > left * exact) return KL_WAIT_TRUNCATION;
    if (o->solver > left * exact) return KL_WAIT_SOLVER;
    if (o->kept > fmax(o->kept_wanted, 64 * rounding_of(s)) || o->lacks > o->lacks_wanted)
        return KL_WAIT_KEPT;
    return o->unresolved > exact ? KL_WAIT_GUARD : KL_WAIT_NOTHING;
}

/* Norm of what the truncations of a sweep take from the state. */
static double lacking(const kl_schedule *s, const kl_dmrg_row *b) { return sqrt(s->nsite * b->discarded); }

/* What lies above the wanted states, guards that a run ends with included: one within the error bar may be
   part of what is kept, and so may one within the accuracy asked for where the kept state's own energy says
   that it may hold a tenth of it. The bar then spans both. */
static void look_at_next(const kl_schedule *s, const kl_dmrg_result *res, int held, kl_outlook *o)
{
    const double bar = o->bar;
    o->next = o->gap;
    o->mixed = o->unresolved;
    for (int i = 0; i < KL_NGUARD && i < held - s->opts->nstate; i++) {
        const kl_dmrg_row *const row = kl_gaps_row(res, i);
        const double g = row ? kl_gaps_in(res, row, i) : INFINITY;
        if (g <= bar || (g <= o->wanted && o->kept + bar > HOLDS * g)) {
            o->mixed = fmax(o->mixed, fmax(g, rounding_of(s)));
            o->bar = fmax(o->bar, g);
        } else o->next = fmin(o->next, g);
    }
}

kl_outlook kl_schedule_outlook(const kl_schedule *s, const kl_dmrg_result *res)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    const int held = held_of(s, b);
    kl_outlook o = {.wanted = kl_schedule_wanted(s, b->energy[0])};
    o.gap = gap_beyond(s, res, held, o.wanted, INFINITY, &o.unresolved);
    for (int i = 0; i < s->opts->nstate; i++) {
        double limit, change;
        const double error = estimate_of(s, res, o.gap, i, &limit, &change);
        if (i == 0) o.limit = limit;
        if (i == 0 || error > o.truncation) o.truncation = error, o.change = change;
    }
    /* the line is flatter where the states of several are truncated together */
    if (held > s->opts->nstate) o.truncation *= 2;
    o.gap = gap_beyond(s, res, held, o.wanted, o.truncation, &o.unresolved);
    const kl_dmrg_row *const exact = exact_row(s, res);
    const double residual = exact ? exact->residual : b->residual;
    o.solver = !(residual > 0) ? 0 : exact ? residual : residual * residual / divisor(s, o.gap);
    o.kept = b->kept > 0 ? b->kept : 0;
    o.kept_wanted = exact ? EXACT_KEPT * o.wanted : o.wanted;
    o.lacks = exact ? b->discarded : 0;
    o.lacks_wanted = pow(EXACT_LACKS * fmax(o.wanted / scale_of(s, b->energy[0]), 1e-12), 2);
    if (is_large(s)) o.lacks_wanted *= LARGE_LACKS;
    o.residual_wanted =
        fmax(CLOSING_RESIDUAL * sqrt(o.lacks_wanted) * divisor(s, o.gap), CLOSING_CHANGE * rounding_of(s));
    /* what truncations cost from the middle to the end is lacking at the middle, too; a state not told apart
       is known no better itself */
    o.lower = kl_gaps_lower(res, s->opts->nstate);
    o.bar = fmax(fmax(fmax(fmax(o.truncation, o.lower), exact ? 0 : o.kept), o.solver) + o.unresolved,
                 (closing_sweeps(s, res) > 0 ? 16 : 4) * rounding_of(s));
    look_at_next(s, res, held, &o);
    /* Of the state's energy above the lowest, no less than gap * distance^2 comes from other states, wanted
       ones too. Rounding hides some: where the last sweep was whole, no more than truncations took. */
    const double near = kl_gaps_within(b, s->opts->nstate, o.bar), divided = fmin(divisor(s, o.next), near);
    const double above = exact ? fmax(b->energy[0] - exact->energy[0], 0) : o.bar,
                 hidden = sqrt(rounding_of(s) / divided);
    o.distance = sqrt((o.kept + above) / divided) + (exact ? residual / divided : 0);
    o.distance = fmax(o.distance, b == exact ? fmin(lacking(s, b), hidden) : hidden);
    if (is_close(s, res, &o)) o.distance = lacking(s, b) + residual / divided;
    o.distance = o.mixed > 0 || near == 0 ? 1 : fmin(1, o.distance);
    o.wait = waits_for(s, &o);
    return o;
}

/* ---- 3. the next sweep ---- */

/* Products a bond: of several states each step takes one for each, and what lies close together takes longer
   to part. */
static int products(int held, int of_one) { return held > 1 ? 2 * held * of_one : of_one; }

int kl_dmrg_max_apply(const kl_dmrg_opts *o)
{
    const int few = products(o->nstate, 6);
    return o->max_apply > 0 ? o->max_apply : o->nsweep && few < 30 ? 30 : few;
}

/* Sweeps without noise at the last m, after the first one. */
static int repeats(const kl_schedule *s, const kl_dmrg_result *res)
{
    int n = 0;
    for (int k = res->nrow - 1; k > 0; k--, n++) {
        const kl_dmrg_row *const b = &res->row[k];
        if (b->m != b[-1].m || held_of(s, b) != held_of(s, b - 1) || b->noise > 0 || b[-1].noise > 0) break;
    }
    return n;
}

/* 1: the next sweep is one more at the same m, since truncation is not what the energy waits for. */
static int again(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    return (now->wait == KL_WAIT_SOLVER || now->wait == KL_WAIT_CHANGE) && repeats(s, res) < REPEAT_MOST;
}

/* Next m over the last one: no limit of its own, or as little as the error needs if it goes on falling with m
   as the discarded weight did. */
static double growth_of_m(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    /* most: the 1.6 of the schedule, and what rounding down to a multiple of 8 took */
    const double most = 1.75, least = 1.1;
    const kl_dmrg_row *const b = &res->row[res->nrow - 1], *a = b;
    while (a > res->row && a->m >= b->m) a--;
    const double error = fmax(
        now->truncation, now->wanted * fmax(now->kept / now->kept_wanted, now->lacks / now->lacks_wanted));
    if (res->nrow < 3 || !(error < INFINITY) || a->noise > 0 || a->m >= b->m || !same_kind(s, a, b))
        return most;
    if (!(lost(s, a) > lost(s, b)) || !(lost(s, b) > 0)) return most;
    const double power = log(lost(s, a) / lost(s, b)) / log((double)b->m / a->m);
    const double factor = pow(error / (0.7 * now->wanted), 1 / power);
    return factor < least ? least : factor < most ? factor : most;
}

static int next_m(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    const int k = res->nrow, m_cap = m_cap_of(s), warm = s->m_start > 0;
    const int fewest = s->opts->many_sectors ? KL_FIRST_MANY : M_FIRST,
              least = s->whole && s->block > fewest ? s->block : fewest;
    const int first = ((warm && s->m_start > least ? s->m_start : least) + 7) / 8 * 8;
    const int steps = warm || k == 0 ? k : k - 1;
    if (k > 0 && again(s, res, now)) return res->row[k - 1].m < m_cap ? res->row[k - 1].m : m_cap;
    double m = first * pow(1.6, steps);
    /* what is rounded down still grows */
    if (steps > 0) m = fmin(m, fmax(res->row[k - 1].m * growth_of_m(s, res, now), res->row[k - 1].m + 8));
    return m < m_cap ? (int)m / 8 * 8 : m_cap;
}

/* Sweeps at the end that carried as many wavefunctions as the next one will. */
static int alike_held(const kl_schedule *s, const kl_dmrg_result *res, int held)
{
    int n = 0;
    while (n < res->nrow && held_of(s, &res->row[res->nrow - 1 - n]) == held) n++;
    return n;
}

/* Of the next sweep; *last: the last of those at the start that have some. Of many small sectors the wanted
   state lacks some when guards are let go and m does not grow: noise opens them, two sites alone do not (H10
   of 24 states in an arbitrary order: 0.012 hartree higher). */
static double noise_of(const kl_schedule *s, const kl_dmrg_result *res, int held, int *last)
{
    static const double few[] = {1e-4, 1e-6}, many[] = {1e-4, 1e-4, 1e-5}, again[] = {1e-4, 1e-5};
    const int k = res->nrow, since = alike_held(s, res, held);
    *last = s->whole ? 0 : s->opts->many_sectors ? 2 : 1;
    if (s->m_start > 0) return 0; /* it would undo a saved state */
    if (k <= *last) return s->opts->many_sectors ? many[k] : few[k];
    const int most = (int)(sizeof again / sizeof *again),
              let_go = s->opts->many_sectors && !s->whole && since < k && since < most &&
                       held == s->opts->nstate && res->row[k - 1 - since].m >= m_cap_of(s);
    return let_go ? again[since] : left_room(s, res) ? again[most - 1] : 0;
}

/* One site takes over where noise ends: what opens sectors then is H, bond by bond. From the first sweep on,
   states that lie close to the lowest one would be lost. A sector solved as a whole needs all of two sites.
   Where sites have two states, half of the states stay, and matrices with noise are diagonalized as a whole:
   behind a schedule's first sweep it takes one site as soon as that saves time. */
static int sites_of(const kl_schedule *s, int k, int m, double noise)
{
    const int may = k > 0 && m >= NOISE_ONE && s->site_most == 2 && s->opts->nsweep > 0;
    const int two = noise > 0 ? !may : k == 0 && s->m_start == 0; /* k: sweeps that are done */
    return s->opts->sites == KL_SITES_TWO || s->whole || two ? 2 : 1;
}

static kl_stage automatic(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    const int k = res->nrow, warm = s->m_start > 0; /* a saved state: begin at its m */
    const double scale = k ? scale_of(s, res->row[k - 1].energy[0]) : s->unit.joint,
                 wanted = s->opts->error > 0 ? s->opts->error : accuracy_of(s) * scale;
    const int held = held_next(s, res, now); /* what is known exactly needs none */
    int last_noise;
    double ignored;
    const double g = k ? divisor(s, gap_beyond(s, res, held, wanted, INFINITY, &ignored)) : GAP * s->unit.gap;
    const double w = k ? fmax(lost(s, &res->row[k - 1]), 1e-16) : 1e-4;
    const double noise = noise_of(s, res, held, &last_noise);
    static const double loose[2][3] = {{0.3, 0.2, 0.1}, {0.1, 0.1, 0.02}}; /* molecules' seeds part */
    /* room for more states would be noise's alone */
    const int m = noise > 0 && k > last_noise ? res->row[k - 1].m : next_m(s, res, now);
    kl_stage next = {.m = m,
                     .held = held,
                     .m_min = s->opts->m_min,
                     .discard = s->opts->discard,
                     .noise = noise,
                     .sites = sites_of(s, k, m, noise),
                     .tol = fmax(0.1 * sqrt(g * wanted), 0.02 * sqrt(w * s->unit.joint * scale)),
                     .tol_rel = k > 2 || warm ? 0.02 : loose[s->whole || s->opts->many_sectors][k],
                     .precise = k > last_noise && (s->whole || lost(s, &res->row[k - 1]) < 1e-11)};
    double more = fmin(6, sqrt(GAP * s->unit.gap / g)); /* what lies close takes longer to part */
    /* the energy is exact already: the state is what these sweeps are for */
    if (k > last_noise && s->whole) {
        next.tol = fmin(0.01 * sqrt(g * wanted), EXACT_RESIDUAL * fmax(wanted, 1e-12 * scale));
        next.tol_rel = 0;
        more = 4;
    }
    if (k > 0 && again(s, res, now)) {
        more *= 2 << (repeats(s, res) < 2 ? repeats(s, res) : 2);
        next.tol_rel = 1e-3;
        /* what truncation leaves is no measure where the gap is small, or where residuals are waited for */
        if (next.sites == 1 || now->wait == KL_WAIT_SOLVER) next.tol = 0.1 * sqrt(g * wanted);
    }
    next.max_apply =
        s->opts->max_apply > 0 ? s->opts->max_apply : (int)(more * products(held, k >= 2 || warm ? 6 : 4));
    return next;
}

/* Two sites and next to all states that have weight. Guards that lie close stay, or a state settles in a
   mixture with them; those that cannot be told apart are no help. */
static kl_stage closing(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    const int whole = s->block < INT_MAX / 4 ? 4 * s->block : INT_MAX;
    int held = s->opts->nstate;
    for (int i = 0; i < KL_NGUARD && s->opts->nstate + i < held_most(s); i++) {
        const kl_dmrg_row *const row = kl_gaps_row(res, i);
        const double gap = row ? kl_gaps_in(res, row, i) : INFINITY;
        if (gap < NEAR * s->unit.gap && gap > now->bar) held = s->opts->nstate + i + 1;
    }
    return (kl_stage){.m = whole < m_cap_of(s) ? whole : m_cap_of(s), /* a cut between has a site more */
                      .held = held,
                      .sites = 2,
                      .tol = now->residual_wanted,
                      .max_apply = 8 * products(held, 6),
                      .m_min = s->opts->m_min,
                      .discard = CLOSING_DISCARD * now->lacks_wanted,
                      .precise = 1};
}

/* A row of the schedule that was given; behind its end the last one once more. What begins again from site
   states' products has noise: they have no sectors but their own, and H alone may not lead out of these. */
static kl_stage given(const kl_schedule *s, const kl_dmrg_result *res)
{
    const kl_dmrg_opts *const o = s->opts;
    const kl_dmrg_sweep *const sweep = &o->sweep[res->nrow < o->nsweep ? res->nrow : o->nsweep - 1];
    const double noise = fmax(sweep->noise, res->nrow == 1 && res->row->again ? 1e-4 : 0);
    return (kl_stage){.m = sweep->m,
                      .held = o->nstate,
                      .noise = noise,
                      .sites = sites_of(s, res->nrow, sweep->m, noise),
                      .tol = sweep->tol > 0 ? sweep->tol : 1e-8 * s->unit.gap,
                      .max_apply = kl_dmrg_max_apply(o),
                      .m_min = o->m_min,
                      .discard = o->discard,
                      .precise = noise == 0 && res->nrow && lost(s, &res->row[res->nrow - 1]) < 1e-11};
}

kl_stage kl_schedule_stage(const kl_schedule *s, const kl_dmrg_result *res)
{
    if (s->opts->nsweep) return given(s, res);
    const kl_outlook now = res->nrow ? kl_schedule_outlook(s, res) : (kl_outlook){.gap = INFINITY};
    if (res->nrow > 0 && closes(s, res, &now)) return closing(s, res, &now);
    return automatic(s, res, &now);
}

kl_stage kl_schedule_probe(const kl_schedule *s, int sweep)
{
    const int held = held_most(s), last = sweep == KL_PROBE_SWEEPS - 1;
    return (kl_stage){.m = PROBE_M,
                      .sites = 2,
                      .held = held,
                      .noise = last ? 0 : 1e-4,
                      .tol = 1e-5 * s->unit.gap,
                      .tol_rel = last ? 0.02 : 0.1,
                      .max_apply = products(held, last ? 6 : 4)};
}

/* ---- 4. the end ---- */

/* At the largest m, or where m does not decide: 1 when further sweeps would change less than the wanted
   accuracy, or next to nothing of what is truncated. */
static int settled(const kl_schedule *s, const kl_dmrg_result *res, const kl_outlook *now)
{
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    if (res->nrow < 2 || !alike(s, b - 1, b) || b->noise > 0 || b[-1].noise > 0) return 0;
    if (held_next(s, res, now) < held_of(s, b)) return 0; /* what the guards took is yet to be given back */
    if (now->wait == KL_WAIT_SOLVER && repeats(s, res) < REPEAT_MOST) return 0;
    const double settles = s->opts->many_sectors ? SETTLED_MANY : SETTLED;
    double left = 0;
    for (int i = 0; i < res->nstate; i++) left = fmax(left, to_come(s, b, res->nrow, i));
    return fabs(b->change) <= 0.1 * now->wanted || left <= settles * now->truncation;
}

int kl_schedule_ends(const kl_schedule *s, const kl_dmrg_result *res, kl_dmrg_stop *stop)
{
    const kl_dmrg_opts *const o = s->opts;
    const kl_dmrg_row *const b = &res->row[res->nrow - 1];
    if (o->nsweep) {
        *stop = KL_STOP_SCHEDULE;
        return res->nrow >= o->nsweep && !(res->nrow > 1 && (b->again || (res->nrow > 2 && b[-1].again)));
    }
    const kl_outlook now = kl_schedule_outlook(s, res);
    const int most = o->max_sweep > 0 ? o->max_sweep : MAX_SWEEP;
    if (res->nrow < most && closes(s, res, &now)) return 0;
    if (now.wait == KL_WAIT_NOTHING) *stop = KL_STOP_CONVERGED;
    else if (res->nrow >= most) *stop = KL_STOP_MAX_SWEEP;
    else if (suspicious(s, b, 0) || left_room(s, res)) return 0;
    else if (b->m >= m_cap_of(s) && settled(s, res, &now)) *stop = KL_STOP_M_MAX;
    else if (o->discard > 0 && b->m_reached < b->m && settled(s, res, &now)) *stop = KL_STOP_DISCARD;
    else return 0;
    return 1;
}
