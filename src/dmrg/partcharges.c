/* See partcharges.h. 1. parts; 2. the energy of one with charges of its own; 3. descents; 4. a product.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/partcharges.h"
#include "base/dense.h"
#include "base/mem.h"
#include "dmrg/ownunit.h"
#include "dmrg/products.h"
#include "dmrg/stringtrials.h"
#include <math.h>
#include <string.h>

enum {
    FIRST = 3, /* products from which descents begin */
    STEPS = 32, /* exchanges that are tried at most: differences of two states of a site */
    ASKED = 600, /* energies asked for at most */
    KEPT = 48 /* states of a part that has more */
};
#define ERROR 1e-6 /* of the unit: of a part's energy; */
#define FALLS 1e-5 /* what an exchange has to win */

typedef struct asked { /* the energy of a part with charges */
    int part;
    kl_qn q;
    double energy; /* INFINITY: it cannot have these */
} asked;

typedef struct search {
    const kl_terms *t;
    kl_exec *ex;
    const kl_engine_opts *e;
    const kl_dmrg_opts *o;
    const kl_dmrg_monitor *mon;
    double unit, most, flop;
    int interrupted;
    int npart;
    kl_terms *part; /* [npart] H of each alone: pointers into lists of their own */
    int *of; /* [nsite] the part of a position */
    kl_qn step[STEPS]; /* exchanges */
    int nstep;
    int n, room;
    asked *known;
} search;

/* ---- 1. parts ---- */

/* H of a part alone: all of its terms, those that join its sites weakly too. */
static kl_status cut_out(const search *s, int part, kl_terms *to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const t = s->t;
    int *at = NULL;
    *to = (kl_terms){.model = t->model};
    KL_TRY(kl_alloc(&at, t->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&to->type, t->nsite, KL_MEM_MISC, err));
    KL_TRY(kl_terms_room(to, t, err));
    for (int p = 0; p < t->nsite; p++) {
        at[p] = to->nsite;
        if (s->of[p] == part) to->type[to->nsite++] = t->type[p];
    }
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_term *const from = &t->term[i];
        int inside = 1;
        for (int k = 0; k < from->nop; k++) inside &= s->of[t->op[from->first + k].pos] == part;
        if (!inside) continue;
        kl_terms_pick(to, t, i);
        for (int64_t k = to->nop - from->nop; k < to->nop; k++) to->op[k].pos = at[to->op[k].pos];
    }
out:
    kl_free(&at);
    return st;
}

static void add_step(search *s, kl_qn d)
{
    const kl_qn none = kl_qn_zero();
    if (kl_qn_cmp(d, none) == 0 || s->nstep == STEPS) return;
    for (int k = 0; k < s->nstep; k++)
        if (kl_qn_cmp(s->step[k], d) == 0) return;
    s->step[s->nstep++] = d;
}

static kl_status find_parts(search *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const t = s->t;
    KL_TRY(kl_alloc(&s->of, t->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_stringtrials_parts(t, s->of, &s->npart, err));
    if (s->npart < 2) goto out;
    KL_TRY(kl_alloc(&s->part, s->npart, KL_MEM_WORK, err));
    for (int k = 0; k < s->npart; k++) KL_TRY(cut_out(s, k, &s->part[k], err));
    for (int p = 0; p < t->nsite; p++)
        for (int a = 0; a < t->type[p]->dim; a++)
            for (int b = 0; b < t->type[p]->dim; b++)
                add_step(s, kl_qn_sub(t->model, kl_qn_of(t->model, t->type[p]->state_charge[a]),
                                      kl_qn_of(t->model, t->type[p]->state_charge[b])));
out:
    return st;
}

static void clear(search *s)
{
    for (int k = 0; k < s->npart && s->part; k++) {
        kl_terms_clear(&s->part[k]);
        kl_free(&s->part[k].type);
    }
    kl_free(&s->part);
    kl_free(&s->of);
    kl_free(&s->known);
}

/* ---- 2. energies ---- */

/* Of a single site: the lowest eigenvalue among its states of these charges. */
static kl_status site_energy(const search *s, const kl_terms *x, kl_qn q, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const site = x->type[0];
    const int d = site->dim;
    double *a = NULL, *w = NULL;
    int *number = NULL, n = 0;
    KL_TRY(kl_alloc(&number, d, KL_MEM_WORK, err));
    for (int i = 0; i < d; i++)
        number[i] = kl_qn_cmp(kl_qn_of(s->t->model, site->state_charge[i]), q) == 0 ? n++ : -1;
    if (n == 0) goto out;
    KL_TRY(kl_alloc(&a, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < x->nterm; i++) {
        const kl_site_op *const op = &site->op[x->op[x->term[i].first].op];
        for (int k = 0; k < op->nelem; k++) {
            const int row = number[op->elem[k].row], col = number[op->elem[k].col];
            if (row >= 0 && col >= 0) a[row + col * n] += x->term[i].coef * op->elem[k].value;
        }
    }
    KL_TRY(kl_dense_eig(n, a, n, w, err));
    *energy = w[0];
out:
    kl_free(&a);
    kl_free(&w);
    kl_free(&number);
    return st;
}

/* Of several sites: by a short run. */
static kl_status run_energy(search *s, const kl_terms *x, kl_qn q, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_dmrg_monitor quiet = {.self = s->mon ? s->mon->self : NULL,
                                   .interrupted = s->mon ? s->mon->interrupted : NULL};
    kl_reaches *reaches = NULL;
    kl_state *end = NULL;
    kl_dmrg_result res = {.nstate = 0};
    kl_dmrg_opts opts = kl_valleys_alone(s->o);
    st = kl_reaches_take(x, q, NULL, &reaches, err);
    if (st == KL_EINPUT) return KL_OK; /* no state has these charges */
    KL_TRY(st);
    opts.target = q;
    opts.nsweep = 0;
    opts.sweep = NULL;
    opts.accuracy = 0;
    opts.error = ERROR * s->unit;
    opts.discard = 0;
    opts.m_max = KEPT;
    opts.place = NULL;
    KL_TRY(kl_dmrg_run_scaled(x, s->ex, &opts, &quiet, &end, &res, err));
    *energy = res.energy[0];
    s->flop += res.flop;
    s->interrupted |= res.stop == KL_STOP_INTERRUPTED;
out:
    kl_reaches_leave(&reaches);
    kl_dmrg_result_clear(&res);
    kl_state_destroy(&end);
    return st;
}

static kl_status ask(search *s, int part, kl_qn q, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const x = &s->part[part];
    *energy = INFINITY;
    for (int k = 0; k < s->n; k++)
        if (s->known[k].part == part && kl_qn_cmp(s->known[k].q, q) == 0) {
            *energy = s->known[k].energy;
            return KL_OK;
        }
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        KL_TRY(kl_realloc(&s->known, s->room, KL_MEM_WORK, err));
    }
    KL_TRY(x->nsite > 1 ? run_energy(s, x, q, energy, err) : site_energy(s, x, q, energy, err));
    s->known[s->n++] = (asked){.part = part, .q = q, .energy = *energy};
out:
    return st;
}

/* ---- 3. descents ---- */

static int is_spent(const search *s) { return s->interrupted || s->flop > s->most || s->n >= ASKED; }

/* From part a to part b, where that lowers the sum. */
static kl_status exchange(search *s, kl_qn *q, int a, int b, kl_qn d, int *moved, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = s->t->model;
    const kl_qn to[2] = {kl_qn_sub(m, q[a], d), kl_qn_add(m, q[b], d)};
    double before[2], after[2];
    KL_TRY(ask(s, a, q[a], &before[0], err));
    KL_TRY(ask(s, b, q[b], &before[1], err));
    KL_TRY(ask(s, a, to[0], &after[0], err));
    if (!(after[0] < INFINITY)) goto out;
    KL_TRY(ask(s, b, to[1], &after[1], err));
    if (!(after[0] + after[1] < before[0] + before[1] - FALLS * s->unit)) goto out;
    q[a] = to[0];
    q[b] = to[1];
    *moved = 1;
out:
    return st;
}

/* q[npart]: where it begins, then where it ends; *energy: the sum. */
static kl_status descend(search *s, kl_qn *q, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    for (int moved = 1; moved && !is_spent(s);) {
        moved = 0;
        for (int a = 0; a < s->npart; a++)
            for (int b = 0; b < s->npart; b++)
                for (int k = 0; k < s->nstep && a != b && !is_spent(s); k++)
                    KL_TRY(exchange(s, q, a, b, s->step[k], &moved, err));
    }
    *energy = 0;
    for (int a = 0; a < s->npart; a++) {
        double own;
        KL_TRY(ask(s, a, q[a], &own, err));
        *energy += own;
    }
out:
    return st;
}

static void charges_of(const search *s, const int *state, kl_qn *q)
{
    const kl_model *const m = s->t->model;
    for (int k = 0; k < s->npart; k++) q[k] = kl_qn_zero();
    for (int p = 0; p < s->t->nsite; p++)
        q[s->of[p]] = kl_qn_add(m, q[s->of[p]], kl_qn_of(m, s->t->type[p]->state_charge[state[p]]));
}

static kl_status descend_from_all(search *s, kl_qn *best, int *found, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    kl_products low = {0};
    kl_qn *q = NULL;
    double lowest = INFINITY;
    KL_TRY(kl_alloc(&q, s->npart, KL_MEM_WORK, err));
    KL_TRY(kl_engine_create(s->t, s->ex, s->e, &e, err));
    KL_TRY(kl_products_find(e, FIRST, &low, err));
    for (int k = 0; k < low.n && !is_spent(s); k++) {
        double energy;
        charges_of(s, low.state + (int64_t)k * s->t->nsite, q);
        KL_TRY(descend(s, q, &energy, err));
        if (!(energy < lowest)) continue;
        lowest = energy;
        memcpy(best, q, sizeof *q * (size_t)s->npart);
    }
    *found = lowest < INFINITY;
out:
    kl_products_clear(&low);
    kl_engine_destroy(&e);
    kl_free(&q);
    return st;
}

/* ---- 4. a product ---- */

/* Of a single site: its first state with these charges. */
static int state_with(const search *s, const kl_site_type *site, kl_qn q)
{
    int a = 0;
    while (a < site->dim && kl_qn_cmp(kl_qn_of(s->t->model, site->state_charge[a]), q) != 0) a++;
    return a;
}

/* Of one part: the states of its sites, one after the other. */
static kl_status product_of(const search *s, int part, kl_qn q, int *state, int *found, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const x = &s->part[part];
    kl_engine *e = NULL;
    kl_products low = {0};
    kl_engine_opts opts = *s->e;
    if (x->nsite == 1) {
        *state = state_with(s, x->type[0], q);
        *found = *state < x->type[0]->dim;
        return KL_OK;
    }
    opts.target = q;
    opts.reaches = NULL;
    KL_TRY(kl_engine_create(x, s->ex, &opts, &e, err));
    KL_TRY(kl_products_find(e, 1, &low, err));
    *found = low.n > 0;
    if (low.n > 0) memcpy(state, low.state, sizeof *state * (size_t)x->nsite);
out:
    kl_products_clear(&low);
    kl_engine_destroy(&e);
    return st;
}

static kl_status make_product(const search *s, const kl_qn *q, int **product, kl_err *err)
{
    kl_status st = KL_OK;
    int *state = NULL, *own = NULL, found = 1;
    KL_TRY(kl_alloc(&state, s->t->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&own, s->t->nsite, KL_MEM_WORK, err));
    for (int k = 0; k < s->npart && found; k++) {
        KL_TRY(product_of(s, k, q[k], own, &found, err));
        for (int p = 0, i = 0; p < s->t->nsite && found; p++)
            if (s->of[p] == k) state[p] = own[i++];
    }
    if (!found) goto out;
    *product = state;
    state = NULL;
out:
    kl_free(&state);
    kl_free(&own);
    return st;
}

kl_status kl_partcharges_find(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e, const kl_dmrg_opts *o,
                              const kl_dmrg_monitor *mon, double most, int **product, double *flop,
                              kl_err *err)
{
    kl_status st = KL_OK;
    search s = {.t = t, .ex = ex, .e = e, .o = o, .mon = mon, .most = most};
    kl_qn *best = NULL;
    int found = 0;
    *product = NULL;
    if (kl_model_spin(t->model) >= 0 || t->model->ncharge == 0) return KL_OK;
    s.unit = kl_terms_units(t).gap;
    KL_TRY(find_parts(&s, err));
    if (s.npart < 2) goto out;
    KL_TRY(kl_alloc(&best, s.npart, KL_MEM_WORK, err));
    KL_TRY(descend_from_all(&s, best, &found, err));
    if (found && !s.interrupted) KL_TRY(make_product(&s, best, product, err));
out:
    *flop += s.flop;
    kl_free(&best);
    clear(&s);
    return st;
}
