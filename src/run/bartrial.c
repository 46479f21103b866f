/* Sweeps with more states or in a better order of the sites: see bartrial.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/bartrial.h"
#include "comm/ranks.h"
#include "dmrg/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* of how far couplings reach, squared: an order is better than another where it is so much shorter */
#define SHORTER 1.5
/* the same of molecules, where everything is joined with everything */
#define SHORTER_MOLECULE 1.05
#define ROUNDING 1e-13 /* of an energy */
#define OF_TERMS "of the terms"

enum {
    LARGEST = 1000, /* sites whose order a dense eigenproblem may tell: some seconds */
    SWEEPS = 4,
    PRODUCTS = 8 /* with H at every bond, for each state */
};

double kl_bartrial_reach(const kl_terms *t)
{
    double sum = 0, all = 0, most = 0;
    for (int64_t i = 0; i < t->nterm; i++)
        if (t->term[i].nop > 1) most = fmax(most, fabs(t->term[i].coef));
    for (int64_t i = 0; i < t->nterm && most > 0; i++) {
        const kl_term *const term = &t->term[i];
        if (term->nop < 2) continue;
        const double c = term->coef / most;
        const double reach = t->op[term->first + term->nop - 1].pos - t->op[term->first].pos;
        sum += c * c * reach * reach;
        all += c * c;
    }
    return all > 0 ? sum / all : 0;
}

/* A run converged with few states because it may keep no more: those that it kept may know nothing of the
   others (a chain of 8 in a random order, two states: a product, and nothing is discarded; the last sweeps
   may even need fewer). So do those of a discarded weight. */
static int is_tight(const kl_task *t, const kl_dmrg_result *found)
{
    int most = 0;
    for (int k = 0; k < found->nrow; k++)
        if (found->row[k].m_reached > most) most = found->row[k].m_reached;
    if (found->stop != KL_STOP_CONVERGED) return 0;
    const kl_dmrg_row *const last = &found->row[found->nrow - 1];
    if (t->dmrg.discard > 0 && last->m_reached < last->m && last->m_reached < KL_TRIED_BELOW) return 1;
    return t->dmrg.m_max > 0 && t->dmrg.m_max < KL_TRIED_BELOW && most >= t->dmrg.m_max;
}

/* One that kept few states because no more have weight: where the order leaves couplings far apart, it may be
   that two sites never led to them (a chain of 24 electrons in a random order: 3.5e-8 too high at 2e-11). */
static int is_small(const kl_dmrg_result *found)
{
    return found->stop == KL_STOP_CONVERGED && found->nrow > 0 &&
           found->row[found->nrow - 1].m_reached < KL_TRIED_BELOW;
}

static int is_wanted(const kl_task *t, const kl_dmrg_result *found)
{
    const int ended = found->stop == KL_STOP_M_MAX || found->stop == KL_STOP_DISCARD ||
                      found->stop == KL_STOP_MAX_SWEEP || found->stop == KL_STOP_SCHEDULE;
    if (!(ended || is_tight(t, found) || is_small(found)) || found->nrow == 0) return 0;
    return isfinite(found->error_estimate);
}

/* The task of x in an order by name; NULL where that order is none. */
static kl_status task_in_order(const kl_dmrgrun *x, kl_options *o, char *order, kl_task **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_task *const t = x->t;
    *o = *t->o;
    o->order = order;
    o->start = NULL;
    o->resume = NULL;
    KL_TRY(kl_task_create_given(o, &t->given, out, err));
    if (x->at != NULL) {
        char name[128];
        const size_t length = kl_split_name(x->at->sweep);
        snprintf(name, sizeof name, "%.*s", (int)length, x->at->sweep);
        KL_TRY(kl_task_set(*out, name, x->at->value, err));
    }
out:
    if (st != KL_OK) kl_task_destroy(out);
    return st;
}

/* `fiedler' of the graph of the terms, which need not stand on the lattice's bonds (sites that a model names,
   say): a list as --order takes it. */
static kl_status order_of_terms(const kl_task *t, char **list, kl_err *err)
{
    kl_status st = KL_OK;
    static const char *const class = "joined";
    const int n = t->terms->nsite;
    const size_t room = (size_t)n * 12 + 1;
    kl_lattice *graph = NULL;
    char *seen = NULL;
    KL_TRY(kl_alloc(list, (int64_t)room, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&seen, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_lattice_create_empty("of the terms", n, &graph, err));
    for (int64_t i = 0; i < t->terms->nterm; i++) {
        const kl_op_at *const op = &t->terms->op[t->terms->term[i].first];
        for (int k = 1; k < t->terms->term[i].nop; k++) {
            const int a = t->lat->order[op[k - 1].pos], b = t->lat->order[op[k].pos];
            char *const known = &seen[(int64_t)(a < b ? a : b) * n + (a < b ? b : a)];
            if (!*known) KL_TRY(kl_lattice_add_bond(graph, a, b, 1, &class, 1, err));
            *known = 1;
        }
    }
    KL_TRY(kl_lattice_finish(graph, err));
    KL_TRY(kl_lattice_reorder(graph, "fiedler", err));
    for (int k = 0, used = 0; k < n; k++)
        used += snprintf(*list + used, room - (size_t)used, "%s%d", k > 0 ? "," : "", graph->order[k]);
out:
    kl_lattice_destroy(&graph);
    kl_free(&seen);
    return st;
}

/* The task in the best of the orders that are tried, of which *o says the options; *list is the caller's to
   free. Where none is better than that of the run, name is empty; *out is NULL then, or where `always' in the
   run's own order. */
static kl_status better_order(const kl_dmrgrun *x, int always, kl_options *o, char *name, size_t room,
                              char **list, kl_task **out, kl_err *err)
{
    kl_status st = KL_OK;
    static const char *const of_lattices[] = {"fiedler", "column", OF_TERMS};
    static const char *const of_molecules[] = {KL_MOLECULE_ORDER};
    const int molecule = x->t->molecule != NULL, large = x->t->terms->nsite > LARGEST;
    kl_task *other = NULL;
    double least = kl_bartrial_reach(x->t->terms) / (molecule ? SHORTER_MOLECULE : SHORTER);
    *out = NULL;
    /* no coupling reaches less than a site */
    for (int k = 0; k < (molecule ? 1 : 3) && least >= 1; k++) {
        const char *const word = molecule ? of_molecules[k] : of_lattices[k];
        char text[16], *order = text;
        if (large && strcmp(word, "column") != 0) continue;
        snprintf(text, sizeof text, "%s", word);
        if (strcmp(word, OF_TERMS) == 0) {
            KL_TRY(order_of_terms(x->t, list, err));
            order = *list;
        }
        KL_TRY(task_in_order(x, o, order, &other, err));
        const double spread = kl_bartrial_reach(other->terms);
        kl_task_destroy(&other);
        if (!kl_ranks_any(x->t->ex, spread < least)) continue;
        least = spread;
        snprintf(name, room, "%s", word);
    }
    if (name[0] == '\0' && !always) goto out;
    char *const best = strcmp(name, OF_TERMS) == 0 ? *list : name;
    KL_TRY(task_in_order(x, o, name[0] != '\0' ? best : x->t->o->order, out, err));
    KL_TRY(kl_task_charges(*out, err));
    KL_TRY(kl_task_aim(*out, x->t->dmrg.target, err));
out:
    if (st != KL_OK) kl_task_destroy(out);
    return st;
}

/* What the lower energies of another run, known to its own bar, tell of the states found. */
static void widen(const kl_dmrg_result *other, kl_dmrg_result *found)
{
    double lower = 0;
    for (int i = 0; i < found->nstate; i++) lower = fmax(lower, found->energy[i] - other->energy[i]);
    /* a trial of few sweeps is itself not at the bottom: what it ended lower by may be missing once more */
    const double own = isfinite(other->error_estimate) ? fmax(other->error_estimate, lower) : lower;
    const double before = found->error_estimate, bar = lower + own;
    if (!(lower > ROUNDING * fabs(found->energy[0])) || !(bar > before)) return;
    found->error_estimate = bar;
    /* of an energy that was exact for its few states the distance is that of rounding, as the bar was */
    const double apart = found->gap > 0 && isfinite(found->gap) ? sqrt(bar / found->gap) : 0;
    found->distance = before > 0 ? fmax(found->distance * sqrt(bar / before), apart) : 1;
    found->distance = fmin(1, found->distance);
    if (!(found->gap <= bar)) return;
    found->unresolved = fmax(found->unresolved, fmax(found->gap, ROUNDING * bar));
    found->distance = 1;
}

/* As many sweeps as tell a bar: noise where they are cheap, two without. */
static kl_dmrg_opts trial_options(const kl_task *own, const kl_task *other, int m, kl_dmrg_sweep *sweep)
{
    kl_dmrg_opts o = own->dmrg;
    /* few states are cheap, and need more noise to come to places that the run did not */
    const int few = m <= KL_TRIED_BELOW, half = few ? 1 : 2;
    const double noise = few ? 1e-3 : 1e-4;
    for (int k = 0; k < SWEEPS; k++) sweep[k] = (kl_dmrg_sweep){.m = k < half ? (m + 1) / 2 : m};
    sweep[0].noise = noise;
    sweep[1].noise = noise / 10;
    o.start = other->dmrg.start;
    o.nstart = other->dmrg.nstart;
    o.nsweep = SWEEPS;
    o.sweep = sweep;
    o.max_apply = o.nstate > 1 ? 2 * o.nstate * PRODUCTS : PRODUCTS;
    o.discard = 0;
    o.m_min = 0;
    o.measured = 0;
    o.alone = 1;
    o.records = NULL;
    o.ndone = 0;
    o.done = NULL;
    o.direction = 0;
    o.entropy = NULL;
    return o;
}

kl_status kl_bartrial(kl_dmrgrun *x, const kl_dmrg_monitor *monitor, kl_dmrg_result *found, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options options;
    char name[16] = "", text[240], *list = NULL;
    kl_task *other = NULL;
    kl_state *state = NULL;
    kl_dmrg_result trial = {0};
    kl_dmrg_sweep sweep[SWEEPS];
    /* a run that all ranks make, or none: whatever rounding makes of it on other processors */
    if (!kl_ranks_any(x->t->ex, is_wanted(x->t, found))) return KL_OK;
    const kl_dmrg_row *const last = &found->row[found->nrow - 1];
    const int fewer = x->t->dmrg.discard > 0 || is_small(found);
    const int kept = fewer && last->m_reached < last->m ? last->m_reached : last->m;
    const int m = kl_dmrg_trial_m(kept);
    const int always = m > kept && (found->stop != KL_STOP_CONVERGED || is_tight(x->t, found));
    KL_TRY(better_order(x, kl_ranks_any(x->t->ex, always), &options, name, sizeof name, &list, &other, err));
    if (other == NULL) goto out;
    const kl_dmrg_opts o = trial_options(x->t, other, m, sweep);
    const kl_dmrg_monitor only = {.self = monitor->self, .interrupted = monitor->interrupted};
    KL_TRY(kl_dmrg_run(other->terms, x->t->ex, &o, &only, &state, &trial, err));
    if (trial.stop == KL_STOP_INTERRUPTED) {
        found->error_estimate = INFINITY;
        found->distance = 1;
        found->wait = KL_WAIT_TRIAL;
        kl_watch_note(x->watch, "interrupted while other sweeps were to tell the error bar: there is none");
        goto out;
    }
    if (!(trial.energy[0] < found->energy[0])) goto out;
    const double before = found->error_estimate;
    if (found->stop == KL_STOP_CONVERGED && found->energy[0] - trial.energy[0] <= before) goto out;
    widen(&trial, found);
    if (!(found->error_estimate > before)) goto out;
    const kl_schedule plan = {
        .opts = &x->t->dmrg, .unit = kl_terms_units(x->t->terms), .nsite = x->t->terms->nsite};
    if (found->stop == KL_STOP_CONVERGED &&
        found->error_estimate > kl_schedule_wanted(&plan, found->energy[0])) {
        found->stop = KL_STOP_M_MAX;
        found->wait = KL_WAIT_TRUNCATION;
    }
    snprintf(text, sizeof text,
             "%d sweeps of m = %d%s%s end %.2g lower, so that the error bar is %.2g and not %.2g", SWEEPS, m,
             name[0] != '\0' ? " in the order " : "", name, found->energy[0] - trial.energy[0],
             found->error_estimate, before);
    kl_watch_note(x->watch, text);
    if (strcmp(name, OF_TERMS) == 0 && snprintf(text, sizeof text, "--order %s", list) < (int)sizeof text)
        kl_watch_note(x->watch, text);
out:
    kl_dmrg_result_clear(&trial);
    kl_state_destroy(&state);
    kl_task_destroy(&other);
    kl_free(&list);
    return st;
}
