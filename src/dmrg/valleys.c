/* See valleys.h. 1. the parts of H; 2. trials; 3. whether another state is the lower one.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/valleys.h"
#include "base/mem.h"
#include "dmrg/canonical.h"
#include "dmrg/ownunit.h"
#include "dmrg/partcharges.h"
#include "dmrg/places.h"
#include "dmrg/straycharges.h"
#include "dmrg/stringtrials.h"
#include <math.h>
#include <stdlib.h>

enum {
    KEPT = 16, /* states kept in trials */
    KEPT_MOVING = 48, /* the same of trials with moves, of a state that keeps many */
    KEPT_PART = 5,
    MOST_PARTS = 3,
    MOST_APPLY = 2, /* products with H a bond */
    MOVING = 4, /* trials with moves that H forbids */
    SHAKES = 4, /* half-sweeps from the state found, the first two with noise; */
    SHAKES_FEW = 3, /* in disorder, with half as many states more */
    MOST_SHAKEN = 3, /* times that sweeps go on from there */
    SHAKEN_MOST = 256 /* states of what is shaken, at most */
};
#define WEAKER 0.5
#define NOISE 1e-4
#define FAINT 1e-8 /* noise that leaves a state what it is */
/* of the parts' sizes: what is smaller is no part */
#define COUNTS 0.02
/* -ln |<a|b>|^2 of two states, one of which is a trial's, that are not one: for each site, and at least */
#define DIFFERS 0.1
#define DIFFERS_LEAST 7.0
#define TWICE 2.0 /* of what a trial ended lower by: what the bottom may lie lower by */
#define SAME 0.5 /* |<a|b>|^2 of good states that are one */
/* of the unit: by which another valley has to lie lower, */
#define LOWER 1e-6
/* and by which so few states may have it too high */
#define CLOSE 0.3
/* of the run's work: once trials have taken that, there are no more */
#define MORE 0.01
/* as long go trials with moves; and flops that are worth it anyhow */
#define MOVING_WORK 0.3
#define LEAST_WORK 1e9
#define PARTS_WORK 0.3 /* of the run's: what energies of parts may take, */
#define STRAYS_WORK 0.5 /* and what the search for charges far from where they belong */

/* ---- 1. parts ---- */

typedef struct part {
    int line; /* of the model file; -1: added at run time */
    double size; /* its largest coupling */
} part;

static int line_of(const kl_terms *t, int64_t i)
{
    return t->def[i] < 0 ? -1 : t->model->term[t->def[i]].line;
}

static int larger_first(const void *a, const void *b)
{
    const part *const x = a, *const y = b;
    return x->size != y->size ? (x->size < y->size) - (x->size > y->size) : x->line - y->line;
}

/* The parts of H, the one of the largest coupling first: two sites are what a sweep looks at, and what binds
   these most is what it may not get away from. 0: H has fewer than two parts, or more than MOST_PARTS. */
static int find_parts(const kl_terms *t, part list[MOST_PARTS])
{
    int n = 0, counted = 0;
    double all = 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        int k = 0;
        while (k < n && list[k].line != line_of(t, i)) k++;
        if (k == MOST_PARTS) return 0;
        if (k == n) list[n++] = (part){line_of(t, i), 0};
        list[k].size = fmax(list[k].size, fabs(t->term[i].coef));
        all = fmax(all, list[k].size);
    }
    for (int k = 0; k < n; k++)
        if (list[k].line >= 0 && list[k].size > COUNTS * all) list[counted++] = list[k];
    qsort(list, (size_t)counted, sizeof *list, larger_first);
    return counted > 1 ? counted : 0;
}

/* The terms with those of one part weaker; its coefficients are its own: kl_terms_clear_own. */
static kl_status weaken(const kl_terms *t, int line, kl_terms *out, kl_err *err)
{
    *out = *t;
    out->term = NULL;
    const kl_status st = kl_alloc(&out->term, t->nterm, KL_MEM_WORK, err);
    if (st != KL_OK) return st;
    for (int64_t i = 0; i < t->nterm; i++) {
        out->term[i] = t->term[i];
        if (line_of(t, i) == line) out->term[i].coef *= WEAKER;
    }
    return KL_OK;
}

/* ---- 2. trials ---- */

kl_status kl_valleys_pass(kl_engine *e, const kl_valley_pass *pass, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats stats;
    kl_trunc_info info;
    double now;
    const int direction = pass->direction;
    const kl_solve_opts so = {.tol = 1e-6 * kl_terms_units(e->terms).gap,
                              .tol_rel = 0.1,
                              .max_apply = pass->max_apply,
                              .trust_start = !pass->fresh};
    const kl_trunc_opts t = {.m = pass->m, .noise = pass->noise, .nstate = 1, .full = e->full};
    *energy = INFINITY;
    for (int step = 0; step < e->nsite - 1; step++) {
        if (step > 0) KL_TRY(kl_engine_move(e, direction, &t, &info, err));
        if (step > 0 || direction > 0) KL_TRY(kl_engine_solve(e, &so, &now, &stats, err));
        if ((step > 0 || direction > 0) && now < *energy) *energy = now;
    }
out:
    return st;
}

static kl_status go(kl_engine *e, const kl_valley_here *here, int direction, double noise, int fresh,
                    double *energy, kl_err *err)
{
    const kl_valley_pass pass = {.m = here->m > KEPT ? here->m : KEPT,
                                 .max_apply = MOST_APPLY,
                                 .direction = direction,
                                 .noise = noise,
                                 .fresh = fresh};
    return kl_valleys_pass(e, &pass, energy, err);
}

kl_status kl_valleys_follow(const kl_terms *t, int n, kl_terms *const *changed, kl_exec *ex,
                            const kl_engine_opts *o, const kl_valley_here *here, kl_valley *out, double *flop,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    for (int k = 0; k < n; k++) {
        KL_TRY(kl_engine_create(changed[k], ex, o, &e, err));
        KL_TRY(k == 0 ? kl_engine_start(e, KEPT, here->product != NULL, here->product, err)
                      : kl_engine_resume_take(e, &out->state, err));
        for (int direction = 1; direction >= -1; direction -= 2)
            KL_TRY(
                go(e, here, direction, NOISE, k == 0 && direction > 0 && !here->product, &out->energy, err));
        KL_TRY(kl_engine_state(e, &out->energy, &out->state, err));
        *flop += e->flop;
        kl_engine_destroy(&e);
    }
    KL_TRY(kl_engine_create(t, ex, o, &e, err));
    KL_TRY(kl_engine_resume_take(e, &out->state, err));
    KL_TRY(go(e, here, 1, 0, 0, &out->energy, err));
    if (out->energy + t->constant < here->energy + CLOSE * kl_terms_units(t).gap) {
        KL_TRY(go(e, here, -1, 0, 0, &out->energy, err));
        out->energy += t->constant;
        KL_TRY(kl_engine_state(e, &out->energy, &out->state, err));
    }
    *flop += e->flop;
out:
    kl_engine_destroy(&e);
    if (st != KL_OK) kl_state_destroy(&out->state);
    return st;
}

/* ---- 3. the lower one ---- */

int kl_valleys_wanted(const kl_dmrg_opts *o)
{
    return o->nstate == 1 && o->max_apply == 0 && !o->start && !o->many_sectors && !o->alone;
}

static kl_status overlap_of(kl_exec *ex, const kl_state *a, const kl_state *b, double *overlap, kl_err *err)
{
    kl_status st = KL_OK;
    kl_canonical *x = NULL, *y = NULL;
    KL_TRY(kl_canonical_create(ex, a, 0, &x, err));
    KL_TRY(kl_canonical_create(ex, b, 0, &y, err));
    KL_TRY(kl_canonical_overlap(x, y, overlap, err));
out:
    kl_canonical_destroy(&x);
    kl_canonical_destroy(&y);
    return st;
}

typedef struct search {
    const kl_terms *t;
    kl_exec *ex;
    const kl_valley_here *here;
    kl_valley *best; /* the lowest state that trials ended in, lower than `here`, or close and not the same */
    double flop;
    int n; /* trials */
} search;

/* 1: trials have ended below the state found, whatever runs of their own would tell. */
static int is_lower(const search *s)
{
    return s->best->state && s->best->energy < s->here->energy - LOWER * kl_terms_units(s->t).gap;
}

/* Keeps another state, which is taken over, if it is the lowest so far. */
static void take_lower(search *s, kl_valley *next)
{
    if (s->best->state && !(next->energy < s->best->energy)) return;
    kl_state_destroy(&s->best->state);
    *s->best = *next;
    *next = (kl_valley){0};
}

/* One trial. */
static kl_status look(search *s, int n, kl_terms *const *changed, const kl_engine_opts *e, kl_err *err)
{
    kl_status st = KL_OK;
    kl_valley next = {0};
    double overlap;
    s->n++;
    KL_TRY(kl_valleys_follow(s->t, n, changed, s->ex, e, s->here, &next, &s->flop, err));
    /* more states than a run may keep lie lower anyhow */
    const double lower = s->here->ended ? s->here->bar : LOWER * kl_terms_units(s->t).gap;
    int other = next.state && next.energy < s->here->energy - lower;
    if (next.state && !other) {
        KL_TRY(overlap_of(s->ex, s->here->state, next.state, &overlap, err));
        other = overlap * overlap < exp(-fmax(DIFFERS * s->t->nsite, DIFFERS_LEAST));
    }
    /* both of a pair may be mixed in it, one of which is the state found */
    if (next.state && !other) KL_TRY(kl_stringtrials_differ(s->t, s->here->state, next.state, &other, err));
    if (other) take_lower(s, &next);
out:
    kl_state_destroy(&next.state);
    return st;
}

/* With charges moved from where disorder has caught them. */
static kl_status look_for_strays(search *s, const kl_engine_opts *e, const kl_dmrg_monitor *mon, int loose,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    kl_valley next = {0};
    double overlap;
    int worth;
    KL_TRY(kl_straycharges_worth(s->t, &worth, err));
    if (!worth && !loose) return KL_OK;
    KL_TRY(kl_straycharges_find(s->t, s->ex, e, mon, s->here, fmax(STRAYS_WORK * s->here->flop, LEAST_WORK),
                                &next, &s->flop, err));
    if (!next.state) goto out;
    int other = next.energy < s->here->energy - LOWER * kl_terms_units(s->t).gap;
    if (!other) { /* few states may have it too high */
        KL_TRY(overlap_of(s->ex, s->here->state, next.state, &overlap, err));
        other = overlap * overlap < SAME;
    }
    if (other) take_lower(s, &next);
out:
    kl_state_destroy(&next.state);
    return st;
}

/* From the lowest charges of parts that nothing joins, or hardly. */
static kl_status look_at_parts(search *s, const kl_engine_opts *e, const kl_dmrg_opts *o,
                               const kl_dmrg_monitor *mon, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_valley_here *const own = s->here;
    kl_valley_here here = *own;
    kl_terms same = *s->t, *const changed = &same;
    int *product = NULL;
    KL_TRY(kl_partcharges_find(s->t, s->ex, e, o, mon, fmax(PARTS_WORK * own->flop, LEAST_WORK), &product,
                               &s->flop, err));
    if (!product) goto out;
    here.product = product;
    here.m = own->kept / KEPT_PART < KEPT_MOVING ? own->kept / KEPT_PART : KEPT_MOVING;
    s->here = &here;
    KL_TRY(look(s, 1, &changed, e, err));
out:
    s->here = own;
    kl_free(&product);
    return st;
}

/* 1: such sweeps are worth it. In disorder, too, a state may have lost what sites that are no neighbours lead
   to (a ring of 23 sites 8.6e-3 too high at a bar of 1.3e-6); but they cost what the run did: short ones. */
static kl_status is_shaken(const search *s, int loose, int *is, kl_err *err)
{
    const kl_terms *const t = s->t;
    int far = 0, worth = 0;
    for (int64_t i = 0; i < t->nterm && !far; i++)
        far = t->op[t->term[i].first + t->term[i].nop - 1].pos - t->op[t->term[i].first].pos > 1;
    const kl_status st = far && !loose ? kl_straycharges_worth(t, &worth, err) : KL_OK;
    *is = s->here->kept <= SHAKEN_MOST && (loose || (worth && s->here->flop < LEAST_WORK));
    return st;
}

/* From the state found: noise opens what two sites do not lead to, in bases with room for it. */
static kl_status shake(search *s, const kl_engine_opts *e, int loose, kl_valley_settled *settled, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *engine = NULL;
    kl_state *state = NULL;
    kl_valley next = {0};
    kl_valley_pass pass = {.m = (loose ? 4 : 3) * s->here->kept / 2, .max_apply = MOST_APPLY};
    KL_TRY(kl_engine_create(s->t, s->ex, e, &engine, err));
    KL_TRY(kl_state_copy(s->here->state, s->t, &state, err));
    KL_TRY(kl_engine_resume_take(engine, &state, err));
    for (int k = 0; k < (loose ? SHAKES : SHAKES_FEW); k++) {
        pass.direction = k % 2 == 0 ? 1 : -1;
        pass.noise = k < SHAKES / 2 ? FAINT : 0;
        KL_TRY(kl_valleys_pass(engine, &pass, &next.energy, err));
    }
    next.energy += s->t->constant;
    double below = s->here->energy - next.energy;
    s->flop += engine->flop;
    if (!(below > s->here->bar)) goto out;
    if (pass.direction > 0) { /* the centre of a state that a run goes on from is at the first bond */
        pass.direction = -1;
        KL_TRY(kl_valleys_pass(engine, &pass, &next.energy, err));
        next.energy += s->t->constant;
        below = s->here->energy - next.energy;
    }
    if (settled->nshaken++ < MOST_SHAKEN) {
        KL_TRY(kl_engine_state(engine, &next.energy, &next.state, err));
        *s->best = next;
        /* trials have looked around here */
        settled->known = 1;
        settled->energy = next.energy;
        settled->bar = TWICE * below;
        settled->beyond = settled->rival;
    } else settled->rival = fmax(settled->rival, TWICE * below);
out:
    kl_state_destroy(&state);
    kl_engine_destroy(&engine);
    return st;
}

/* Moves that H forbids, where charges allow them: with fewer and fewer of these the state comes to the best
   place that it finds. */
static kl_status look_further(search *s, const kl_engine_opts *e, int loose, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *moving[KL_STRINGSTAGES] = {NULL};
    kl_engine_opts opts = *e;
    const kl_valley_here *const own = s->here;
    kl_valley_here here = *own;
    here.m = own->kept / KEPT_PART < KEPT_MOVING ? own->kept / KEPT_PART : KEPT_MOVING;
    s->here = &here;
    for (int k = 0; k < MOVING && s->flop <= fmax(MOVING_WORK * s->here->flop, LEAST_WORK); k++) {
        const double less = loose > 0 && k >= 2 ? 0.1 : 1;
        KL_TRY(kl_stringtrials_stages(s->t, less * (k % 2 == 0 ? 0.5 : 0.2), moving, err));
        opts.seed = e->seed + (uint64_t)k + 1;
        KL_TRY(look(s, KL_STRINGSTAGES, moving, &opts, err));
        for (int i = 0; i < KL_STRINGSTAGES; i++) kl_terms_destroy(&moving[i]);
    }
out:
    s->here = own;
    for (int i = 0; i < KL_STRINGSTAGES; i++) kl_terms_destroy(&moving[i]);
    return st;
}

/* Trials with one part weakened, or where H forbids moves that charges allow with these moves. */
static kl_status find_other(search *s, const kl_engine_opts *e, int strings, int loose, kl_err *err)
{
    kl_status st = KL_OK;
    part list[MOST_PARTS];
    kl_terms weak = {0}, *const changed = &weak;
    const int n = s->t->nsite > 2 ? find_parts(s->t, list) : 0;
    for (int k = 0; k < n && s->flop <= MORE * s->here->flop; k++) {
        KL_TRY(weaken(s->t, list[k].line, &weak, err));
        KL_TRY(look(s, 1, &changed, e, err));
        kl_terms_clear_own(&weak);
    }
    if (s->t->nsite > 2 && strings + loose > 0) KL_TRY(look_further(s, e, loose, err));
out:
    kl_terms_clear_own(&weak);
    return st;
}

kl_dmrg_opts kl_valleys_alone(const kl_dmrg_opts *o)
{
    kl_dmrg_opts opts = *o;
    opts.alone = 1;
    opts.ndone = 0;
    opts.direction = 0;
    opts.done = NULL;
    opts.start = NULL;
    opts.records = NULL;
    opts.entropy = NULL;
    opts.measured = 0;
    return opts;
}

/* The other state by a run of its own, which ends in *end. */
static kl_status run_from(const kl_terms *t, kl_exec *ex, const kl_dmrg_opts *o, const kl_dmrg_monitor *mon,
                          const kl_state *there, kl_state **end, kl_dmrg_result *res, kl_err *err)
{
    const kl_dmrg_monitor quiet = {.self = mon ? mon->self : NULL,
                                   .interrupted = mon ? mon->interrupted : NULL};
    const kl_dmrg_opts opts = kl_valleys_alone(o);
    const kl_status st = kl_state_copy(there, t, end, err);
    return st == KL_OK ? kl_dmrg_run_scaled(t, ex, &opts, &quiet, end, res, err) : st;
}

/* Whether the end of a run of its own is a rival; the state that trials ended in stays in `lower' where that
   run lies below. */
static kl_status judge(const kl_terms *t, kl_exec *ex, const kl_valley_here *here, const kl_dmrg_result *res,
                       const kl_state *end, kl_valley *lower, double *rival, kl_err *err)
{
    kl_status st = KL_OK;
    const double above = res->energy[0] - here->energy, known = here->bar + res->error_estimate;
    const int found = res->stop != KL_STOP_INTERRUPTED;
    double overlap;
    if (found && fabs(above) <= known) {
        /* it may have come to the same state in the end */
        KL_TRY(overlap_of(ex, here->state, end, &overlap, err));
        int other = overlap * overlap < SAME;
        if (!other) KL_TRY(kl_stringtrials_differ(t, here->state, end, &other, err));
        if (other) *rival = fmax(*rival, known);
    }
    if (!(found && above < -known)) kl_state_destroy(&lower->state);
out:
    return st;
}

/* The same of a run that has not converged: `lower` becomes the end of the other run where that is below, by
   whatever. */
static kl_status judge_ended(const kl_terms *t, kl_exec *ex, const kl_valley_here *here,
                             const kl_dmrg_result *res, kl_state **end, kl_valley *lower, double *rival,
                             kl_err *err)
{
    kl_status st = KL_OK;
    const double above = res->energy[0] - here->energy, below = here->energy - lower->energy;
    const int found = res->stop != KL_STOP_INTERRUPTED;
    double overlap;
    kl_state_destroy(&lower->state);
    if (found && above < -LOWER * kl_terms_units(t).gap) {
        *lower = (kl_valley){*end, res->energy[0]};
        *end = NULL;
        return KL_OK;
    }
    /* the trial, of few states and products, is itself not at the bottom */
    if (below > here->bar) *rival = fmax(*rival, TWICE * below);
    if (!found || above > here->bar) return KL_OK;
    KL_TRY(overlap_of(ex, here->state, *end, &overlap, err));
    if (overlap * overlap < SAME) *rival = fmax(*rival, above);
out:
    return st;
}

/* The state that trials ended in, by a run of its own. */
static kl_status run_there(const kl_terms *t, kl_exec *ex, const kl_dmrg_opts *o, const kl_dmrg_monitor *mon,
                           const kl_valley_here *here, kl_valley *lower, double *rival, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_result res = {.nstate = 0};
    kl_state *end = NULL;
    KL_TRY(run_from(t, ex, o, mon, lower->state, &end, &res, err));
    st = here->ended ? judge_ended(t, ex, here, &res, &end, lower, rival, err)
                     : judge(t, ex, here, &res, end, lower, rival, err);
out:
    kl_dmrg_result_clear(&res);
    kl_state_destroy(&end);
    return st;
}

static kl_status compare_ended(search *s, const kl_engine_opts *e, const kl_dmrg_opts *o,
                               const kl_dmrg_monitor *mon, double *rival, kl_err *err)
{
    kl_status st = KL_OK;
    int loose;
    KL_TRY(kl_stringtrials_loose(s->t, &loose, err));
    if (loose) KL_TRY(look_at_parts(s, e, o, mon, err));
    if (loose && (!s->best->state || s->best->energy >= s->here->energy - s->here->bar))
        KL_TRY(look_further(s, e, 1, err));
    KL_TRY(look_for_strays(s, e, mon, loose, err));
    if (s->best->state) KL_TRY(run_there(s->t, s->ex, o, mon, s->here, s->best, rival, err));
out:
    if (st != KL_OK) kl_state_destroy(&s->best->state);
    return st;
}

kl_status kl_valleys_compare(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e, const kl_dmrg_opts *o,
                             const kl_dmrg_monitor *mon, const kl_valley_here *here, kl_valley *lower,
                             kl_valley_settled *settled, kl_err *err)
{
    kl_status st = KL_OK;
    search s = {.t = t, .ex = ex, .here = here, .best = lower};
    int weak = 0, loose = 0, strings = 0, shaken = 0;
    *lower = (kl_valley){0};
    settled->rival = 0;
    settled->ntrial = 0;
    if (here->ended) return compare_ended(&s, e, o, mon, &settled->rival, err);
    KL_TRY(kl_stringtrials_loose(t, &loose, err));
    if (settled->known && fabs(here->energy - settled->energy) <= here->bar + settled->bar) {
        settled->rival = settled->beyond;
        if (settled->nshaken > 0) KL_TRY(shake(&s, e, loose, settled, err));
        goto out;
    }
    KL_TRY(kl_places_compare(t, ex, e, o, mon, here, lower, settled, err));
    if (lower->state) goto out;
    /* that there may be strings is no reason for trials with moves, four of which take longer than all else
       behind the sweeps of a chain */
    if (settled->strings > 0) KL_TRY(kl_stringtrials_count(t, &strings, err));
    KL_TRY(kl_stringtrials_weak(t, &weak, err));
    if (loose) KL_TRY(look_at_parts(&s, e, o, mon, err));
    if (!is_lower(&s)) KL_TRY(look_for_strays(&s, e, mon, loose, err));
    if (!is_lower(&s)) KL_TRY(find_other(&s, e, strings, weak, err));
    settled->ntrial = s.n;
    if (lower->state && !is_lower(&s)) KL_TRY(run_there(t, ex, o, mon, here, lower, &settled->rival, err));
    if (!lower->state && settled->strings > 0)
        KL_TRY(kl_stringtrials_compare(t, ex, e, o, mon, here, lower, settled, err));
    KL_TRY(is_shaken(&s, loose, &shaken, err));
    if (!lower->state && shaken) KL_TRY(shake(&s, e, loose, settled, err));
out:
    if (st != KL_OK) kl_state_destroy(&lower->state);
    return st;
}
