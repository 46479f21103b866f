/* See straycharges.h. 1. whether H differs from place to place; 2. what charges cost at each bond; 3. moves
   that are worth a trial; 4. trials.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/straycharges.h"
#include "base/mem.h"
#include "base/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW = 4, /* values of a coupling: what a pattern of a few sites has */
    KEPT = 24, /* states of the copy; */
    KEPT_MOST = 48, /* where the state found has many, one for */
    KEPT_PART = 5, /* so many of these */
    STEPS = 16, /* charges that are moved: differences of two states of a site */
    PRODUCTS = 24, /* with H at a bond with other charges */
    MOST_APPLY = 2, /* the same on the way */
    SETTLES = 4, /* of the copy, at most */
    TRIALS = 6, /* of one state */
    APART = 2 /* bonds between places, which share no site then */
};
#define SHARE 0.25 /* of the sites: as many values are no pattern */
#define SPREAD 0.1 /* of the unit: couplings that differ by less are alike */
#define NOISE 1e-4
/* of the unit: residual of two sites with other charges; what a move may cost and be tried, and by what costs
   of one state differ; by which a trial has to end lower, and by which it may lie higher on the way; and what
   sweeps of a copy that is at its end change */
#define RESIDUAL 0.02
#define CLOSE 0.02
#define ALIKE 1e-3
#define FALLS 1e-5
#define HOPELESS 0.1
#define STEADY 0.05
#define RANDOM 0.05 /* norm of random numbers in what solves begin with */

/* ---- 1. couplings ---- */

/* Strings of the same operators on one site or on two as far apart come one after the other. */
typedef struct coupling {
    const void *type[2];
    int op[2], apart;
    double coef;
} coupling;

static int compare_kind(const coupling *x, const coupling *y)
{
    for (int k = 0; k < 2; k++) {
        if (x->type[k] != y->type[k]) return x->type[k] < y->type[k] ? -1 : 1;
        if (x->op[k] != y->op[k]) return x->op[k] < y->op[k] ? -1 : 1;
    }
    return (x->apart > y->apart) - (x->apart < y->apart);
}

static int compare(const void *a, const void *b)
{
    const coupling *const x = a, *const y = b;
    const int kind = compare_kind(x, y);
    return kind != 0 ? kind : (x->coef > y->coef) - (x->coef < y->coef);
}

static int64_t list_couplings(const kl_terms *t, coupling *list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_term *const from = &t->term[i];
        if (from->nop > 2 || from->nop < 1) continue;
        coupling c = {.coef = from->coef};
        for (int k = 0; k < from->nop; k++) {
            c.type[k] = t->type[t->op[from->first + k].pos];
            c.op[k] = t->op[from->first + k].op;
        }
        c.apart = t->op[from->first + from->nop - 1].pos - t->op[from->first].pos;
        list[n++] = c;
    }
    return n;
}

static int has_moves(const kl_terms *t)
{
    return kl_model_spin(t->model) < 0 && t->model->ncharge > 0 && t->nsite >= 2 * APART;
}

kl_status kl_straycharges_worth(const kl_terms *t, int *worth, kl_err *err)
{
    kl_status st = KL_OK;
    coupling *list = NULL;
    const double alike = SPREAD * kl_terms_units(t).gap / t->nsite;
    *worth = 0;
    if (!has_moves(t)) return KL_OK;
    KL_TRY(kl_alloc(&list, t->nterm, KL_MEM_WORK, err));
    const int64_t n = list_couplings(t, list);
    qsort(list, (size_t)n, sizeof *list, compare);
    for (int64_t i = 0, values = 1; i + 1 < n && !*worth; i++) {
        if (compare_kind(&list[i], &list[i + 1]) != 0) values = 1;
        else values += list[i + 1].coef - list[i].coef > alike;
        *worth = values > FEW && (double)values >= SHARE * t->nsite;
    }
out:
    kl_free(&list);
    return st;
}

/* ---- 2. costs ---- */

typedef struct search {
    const kl_terms *t;
    kl_exec *ex;
    const kl_engine_opts *e;
    const kl_dmrg_monitor *mon;
    const kl_valley_here *here;
    double unit, most, flop;
    int m;
    int nstep;
    kl_qn step[STEPS]; /* step[k ^ 1] is the other way */
    int nplace; /* every second bond: place i is bond_of(i) */
    double *cost; /* [nstep][nplace]: of the whole with other charges at a place, above the state's */
    /* [nstep][nplace]: the share that the place's own operators have in it; where others move the charge,
       which blocks know of, it costs the same */
    double *own;
    kl_state *state; /* the copy, centre at 0, and what trials made of it */
    double energy;
} search;

static int bond_of(const search *s, int place)
{
    return place < s->nplace - 1 ? APART * place : s->t->nsite - 2;
}

/* 1: in no charge further than two of the least differences of two states of its site. */
static int is_near(const kl_terms *t, const kl_site_type *site, kl_qn d)
{
    for (int c = 0; c < t->model->ncharge; c++) {
        int least = 0;
        for (int a = 0; a < site->dim; a++)
            for (int b = 0; b < a; b++) {
                const int apart = abs(site->state_charge[a][c] - site->state_charge[b][c]);
                if (apart > 0 && (least == 0 || apart < least)) least = apart;
            }
        if (abs(d.v[c]) > 2 * least) return 0;
    }
    return 1;
}

static void find_steps(search *s)
{
    const kl_terms *const t = s->t;
    const kl_qn none = kl_qn_zero();
    for (int p = 0; p < t->nsite; p++)
        for (int a = 0; a < t->type[p]->dim; a++)
            for (int b = 0; b < a; b++) {
                const kl_qn x = kl_qn_of(t->model, t->type[p]->state_charge[a]),
                            y = kl_qn_of(t->model, t->type[p]->state_charge[b]),
                            d = kl_qn_sub(t->model, x, y);
                int known = kl_qn_cmp(d, none) == 0 || s->nstep + 2 > STEPS || !is_near(t, t->type[p], d);
                for (int k = 0; k < s->nstep && !known; k++) known = kl_qn_cmp(s->step[k], d) == 0;
                if (known) continue;
                s->step[s->nstep++] = d;
                s->step[s->nstep++] = kl_qn_sub(t->model, y, x);
            }
}

static kl_trunc_opts truncation(const search *s, double noise)
{
    return (kl_trunc_opts){.m = s->m, .noise = noise, .nstate = 1, .full = s->e->full};
}

/* Onto bond c, products with H at each bond on the way; *energy: the lowest of these, if there are any. */
static kl_status go(search *s, kl_engine *e, int c, double noise, int products, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats stats;
    kl_trunc_info info;
    const kl_trunc_opts how = truncation(s, noise);
    const kl_solve_opts so = {.tol = 1e-6 * s->unit, .tol_rel = 0.1, .max_apply = products, .trust_start = 1};
    double now;
    while (e->centre != c) {
        KL_TRY(kl_engine_move(e, e->centre < c ? 1 : -1, &how, &info, err));
        if (products == 0) continue;
        KL_TRY(kl_engine_solve(e, &so, &now, &stats, err));
        *energy = fmin(*energy, now);
    }
out:
    return st;
}

/* A centre as it is before another one is opened between the same blocks. */
typedef struct centre {
    kl_enlarged *row, *col;
    kl_layout layout;
    kl_qn target;
    double *psi;
} centre;

static void forget(centre *x)
{
    kl_enlarged_destroy(&x->row);
    kl_enlarged_destroy(&x->col);
    kl_layout_clear(&x->layout);
    kl_free(&x->psi);
}

static kl_status remember(const kl_engine *e, centre *x, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_enlarged_copy(e->row, &x->row, err));
    KL_TRY(kl_enlarged_copy(e->col, &x->col, err));
    KL_TRY(kl_layout_create(e->terms->model, &x->row->basis, &x->col->basis, e->target, &x->layout, err));
    KL_TRY(kl_alloc(&x->psi, x->layout.n, KL_MEM_WORK, err));
    x->target = e->target;
    KL_TRY(e->ex->vt.download(e->ex, x->psi, e->psi, x->layout.n, err));
out:
    return st;
}

/* Rows and columns of a segment of one wavefunction become others of one of another. */
typedef struct patch {
    int row, col, rows, cols; /* where they are, how many */
    int row_to, col_to;
} patch;

static void add_patch(const centre *x, int i, const kl_engine *e, int to, const patch *p, double *psi)
{
    const int ld = x->row->basis.dim[i], ld_to = e->row->basis.dim[to];
    for (int c = 0; c < p->cols; c++)
        for (int r = 0; r < p->rows; r++)
            psi[e->layout.off[to] + p->row_to + r + (int64_t)(p->col_to + c) * ld_to] +=
                x->psi[x->layout.off[i] + p->row + r + (int64_t)(p->col + c) * ld];
}

/* 1: state b of a site has the charges of state a and step k. */
static int leads(const search *s, const kl_site_type *site, int k, int a, int b)
{
    const kl_model *const m = s->t->model;
    const kl_qn from = kl_qn_of(m, site->state_charge[a]), to = kl_qn_of(m, site->state_charge[b]);
    return kl_qn_cmp(kl_qn_add(m, from, s->step[k]), to) == 0;
}

/* Segment i of the wavefunction with another state of the left site, of the right one; signs that fermions
   would have do not matter to where a solve begins. */
static void add_moved(const search *s, const centre *x, int k, const kl_engine *e, int i, double *psi)
{
    const kl_enlarged *const row = x->row, *const col = x->col;
    const int j = x->layout.pair[i], rows = row->basis.dim[i], cols = j < 0 ? 0 : col->basis.dim[j];
    for (int a = 0; a < row->d && j >= 0; a++)
        for (int b = 0; b < row->d; b++) {
            const int l = row->part_sec[i * row->d + a];
            const int to = l < 0 || !leads(s, row->site, k, a, b) ? -1 : e->row->home[l * row->d + b];
            if (to < 0 || e->layout.pair[to] < 0) continue;
            add_patch(x, i, e, to,
                      &(patch){.row = row->part_off[i * row->d + a],
                               .row_to = e->row->part_off[to * row->d + b],
                               .rows = row->block.dim[l],
                               .cols = cols},
                      psi);
        }
    for (int a = 0; a < col->d && j >= 0; a++)
        for (int b = 0; b < col->d; b++) {
            const int r = col->part_sec[j * col->d + a];
            const int to = r < 0 || !leads(s, col->site, k, a, b) ? -1 : e->col->home[r * col->d + b];
            if (to < 0 || e->layout.back[to] < 0) continue;
            add_patch(x, i, e, e->layout.back[to],
                      &(patch){.col = col->part_off[j * col->d + a],
                               .col_to = e->col->part_off[to * col->d + b],
                               .rows = rows,
                               .cols = col->block.dim[r]},
                      psi);
        }
}

/* |<x|psi>|^2 / |x|^2, psi being the engine's wavefunction. */
static kl_status share_of(const kl_engine *e, const double *x, double *share, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr y = {0};
    double xy, xx;
    const int64_t n = e->layout.n;
    KL_TRY(e->ex->vt.alloc(e->ex, n, &y, err));
    KL_TRY(e->ex->vt.upload(e->ex, y, x, n, err));
    e->ex->vt.dots(e->ex, n, 1, y, n, e->psi, &xy);
    e->ex->vt.dots(e->ex, n, 1, y, n, y, &xx);
    *share = xx > 0 ? xy * xy / xx : 0;
out:
    e->ex->vt.release(e->ex, &y);
    return st;
}

/* The lowest energy at the bond of the engine, whose state is x, between the blocks that are there with the
   charges of step k more; INFINITY: there are no such states. *own: the share in it of what operators of the
   two sites make of x. The wavefunction of x is lost. */
static kl_status ask(search *s, kl_engine *e, const centre *x, int k, double *energy, double *own,
                     kl_err *err)
{
    kl_status st = KL_OK;
    kl_eig_stats stats;
    double *psi = NULL;
    const kl_qn q = kl_qn_add(s->t->model, x->target, s->step[k]);
    const kl_solve_opts so = {.tol = RESIDUAL * s->unit, .max_apply = PRODUCTS};
    *energy = INFINITY;
    *own = 0;
    if (kl_reach_find(&e->reach_left[e->nsite], kl_qn_sub(s->t->model, q, kl_qn_zero())) < 0) goto out;
    e->target = q;
    KL_TRY(kl_engine_open(e, e->centre, err));
    if (e->layout.n == 0) goto out;
    KL_TRY(kl_alloc(&psi, e->layout.n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < e->layout.n; i++)
        psi[i] = RANDOM / sqrt((double)e->layout.n) * kl_random_at(s->e->seed, i);
    for (int i = 0; i < x->row->basis.nsec; i++) add_moved(s, x, k, e, i, psi);
    KL_TRY(s->ex->vt.upload(s->ex, e->psi, psi, e->layout.n, err));
    KL_TRY(kl_engine_solve(e, &so, energy, &stats, err));
    KL_TRY(share_of(e, psi, own, err));
out:
    kl_free(&psi);
    return st;
}

/* From a state, which is taken over. */
static kl_status resume(search *s, kl_qn target, kl_state **state, kl_engine **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine_opts o = *s->e;
    o.target = target;
    o.nstate = 1;
    if (kl_qn_cmp(target, s->e->target) != 0) o.reaches = NULL;
    KL_TRY(kl_engine_create(s->t, s->ex, &o, out, err));
    KL_TRY(kl_engine_resume_take(*out, state, err));
out:
    return st;
}

/* The copy: the state found in few states, without H, whose operators in many states take long. */
static kl_status copy_state(search *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    kl_state *copy = NULL;
    kl_terms none = *s->t;
    none.nterm = none.nop = 0;
    s->energy = s->here->energy - s->t->constant;
    KL_TRY(kl_state_copy(s->here->state, &none, &copy, err));
    KL_TRY(kl_engine_create(&none, s->ex, s->e, &e, err));
    KL_TRY(kl_engine_resume_take(e, &copy, err));
    KL_TRY(go(s, e, s->t->nsite - 2, 0, 0, NULL, err));
    KL_TRY(go(s, e, 0, 0, 0, NULL, err));
    KL_TRY(kl_engine_state(e, &s->energy, &s->state, err));
out:
    kl_state_destroy(&copy);
    kl_engine_destroy(&e);
    return st;
}

/* Over all bonds and back to the first one with noise, and once more without; *energy: where it ends. */
static kl_status settle(search *s, kl_engine *e, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    const int last = s->t->nsite - 2;
    double ignored = INFINITY;
    KL_TRY(go(s, e, last, NOISE, MOST_APPLY, &ignored, err));
    KL_TRY(go(s, e, 0, NOISE, MOST_APPLY, &ignored, err));
    KL_TRY(go(s, e, last, 0, MOST_APPLY, &ignored, err));
    *energy = INFINITY;
    KL_TRY(go(s, e, 0, 0, MOST_APPLY, energy, err));
out:
    return st;
}

/* The copy by sweeps as of a trial, until they change little: noise may lead it below the state found. */
static kl_status settle_copy(search *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    KL_TRY(resume(s, s->e->target, &s->state, &e, err));
    for (int k = 0; k < SETTLES; k++) {
        const double before = s->energy;
        KL_TRY(settle(s, e, &s->energy, err));
        if (fabs(before - s->energy) < STEADY * s->unit) break;
    }
    KL_TRY(kl_engine_state(e, &s->energy, &s->state, err));
    s->flop += e->flop;
out:
    kl_engine_destroy(&e);
    return st;
}

/* All costs at the bond where the engine is, whose state, of energy `own' there, stays. */
static kl_status find_costs_here(search *s, kl_engine *e, int place, double own, kl_err *err)
{
    kl_status st = KL_OK;
    centre x = {0};
    KL_TRY(remember(e, &x, err));
    for (int k = 0; k < s->nstep; k++) {
        const int at = k * s->nplace + place;
        KL_TRY(ask(s, e, &x, k, &s->cost[at], &s->own[at], err));
        s->cost[at] -= own;
    }
    e->target = x.target;
    KL_TRY(kl_engine_open(e, e->centre, err));
    KL_TRY(s->ex->vt.upload(s->ex, e->psi, x.psi, x.layout.n, err));
out:
    forget(&x);
    return st;
}

/* *lowest: the copy's own energy on the way. */
static kl_status find_costs(search *s, double *lowest, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    kl_state *copy = NULL;
    KL_TRY(kl_state_copy(s->state, s->t, &copy, err));
    KL_TRY(resume(s, s->e->target, &copy, &e, err));
    *lowest = INFINITY;
    for (int i = 0; i < s->nplace; i++) {
        double own = s->energy;
        while (e->centre < bond_of(s, i)) {
            own = INFINITY;
            KL_TRY(go(s, e, e->centre + 1, 0, MOST_APPLY, &own, err));
        }
        if (i > 0) *lowest = fmin(*lowest, own);
        KL_TRY(find_costs_here(s, e, i, own, err));
    }
    s->flop += e->flop;
out:
    kl_state_destroy(&copy);
    kl_engine_destroy(&e);
    return st;
}

/* ---- 3. moves ---- */

typedef struct move {
    int step, from, to; /* charges change by it at the first bond, and back at the second, which is behind */
    int arrived; /* 1: a trial ended, and not lower */
    double cost;
} move;

static int cheaper(const void *a, const void *b)
{
    const move *const x = a, *const y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    if (x->step != y->step) return x->step - y->step;
    return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* 1: this is where such a charge is: of the places beside it that cost the same it is the one that moves it
   by its own operators, and those behind them cost more. */
static int is_its_place(const search *s, int k, int place)
{
    const double *const cost = s->cost + k * s->nplace, *const own = s->own + k * s->nplace;
    int is = cost[place] < INFINITY;
    for (int way = -1; way <= 1; way += 2) {
        int i = place + way;
        for (; i >= 0 && i < s->nplace && fabs(cost[i] - cost[place]) < ALIKE * s->unit; i += way)
            is &= own[i] < own[place] || (own[i] == own[place] && way > 0);
        is &= i < 0 || i == s->nplace || cost[i] > cost[place];
    }
    return is;
}

/* The cheapest; returns how many. */
static int find_moves(const search *s, move list[TRIALS])
{
    int count = 0;
    for (int k = 0; k < s->nstep; k++)
        for (int a = 0; a < s->nplace; a++)
            for (int b = a + 1; b < s->nplace && is_its_place(s, k, a); b++) {
                const double cost = s->cost[k * s->nplace + a] + s->cost[(k ^ 1) * s->nplace + b];
                const move now = {k, bond_of(s, a), bond_of(s, b), 0, cost};
                if (!is_its_place(s, k ^ 1, b) || now.to - now.from < APART || !(cost < CLOSE * s->unit))
                    continue;
                if (count == TRIALS && cheaper(&now, &list[count - 1]) >= 0) continue;
                list[count < TRIALS ? count++ : count - 1] = now;
                qsort(list, (size_t)count, sizeof *list, cheaper);
            }
    return count;
}

/* 1: one before it in the list has an end in common with it and costs the same: it has led to the same state,
   where what is moved is not at one place. */
static int is_like(const search *s, const move *list, int k)
{
    int like = 0;
    for (int i = 0; i < k; i++) {
        const int common = list[i].from == list[k].from || list[i].to == list[k].to;
        like |= list[i].arrived && common && list[i].step == list[k].step &&
                list[k].cost - list[i].cost < ALIKE * s->unit;
    }
    return like;
}

/* ---- 4. trials ---- */

/* The state with the charges of step k more, at the bond where the engine is. *energy INFINITY: there is
   none, and the engine is at its end. */
static kl_status change(search *s, kl_engine **e, int k, double *energy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *state = NULL;
    centre x = {0};
    double ignored;
    KL_TRY(remember(*e, &x, err));
    KL_TRY(ask(s, *e, &x, k, energy, &ignored, err));
    if (!(*energy < INFINITY)) goto out;
    KL_TRY(kl_engine_state(*e, energy, &state, err));
    s->flop += (*e)->flop;
    kl_engine_destroy(e);
    KL_TRY(resume(s, state->target, &state, e, err));
out:
    forget(&x);
    kl_state_destroy(&state);
    return st;
}

static int is_spent(const search *s)
{
    return s->flop > s->most || (s->mon && s->mon->interrupted && s->mon->interrupted(s->mon->self));
}

/* There, and two sweeps from there. *lower 1: it ended lower. */
static kl_status attempt(search *s, move *m, int *lower, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    kl_state *state = NULL;
    double energy, ignored = INFINITY;
    *lower = 0;
    KL_TRY(kl_state_copy(s->state, s->t, &state, err));
    KL_TRY(resume(s, s->e->target, &state, &e, err));
    KL_TRY(go(s, e, m->from, 0, 0, NULL, err));
    KL_TRY(change(s, &e, m->step, &energy, err));
    if (!(energy < INFINITY)) goto out;
    KL_TRY(go(s, e, m->to, NOISE, MOST_APPLY, &ignored, err));
    KL_TRY(change(s, &e, m->step ^ 1, &energy, err));
    if (!(energy < s->energy + HOPELESS * s->unit)) goto out;
    KL_TRY(settle(s, e, &energy, err));
    m->arrived = 1;
    if (!(energy < s->energy - FALLS * s->unit)) goto out;
    kl_state_destroy(&s->state);
    s->energy = energy;
    KL_TRY(kl_engine_state(e, &energy, &s->state, err));
    *lower = 1;
out:
    if (e) s->flop += e->flop;
    kl_state_destroy(&state);
    kl_engine_destroy(&e);
    return st;
}

kl_status kl_straycharges_find(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e,
                               const kl_dmrg_monitor *mon, const kl_valley_here *here, double most,
                               kl_valley *out, double *flop, kl_err *err)
{
    kl_status st = KL_OK;
    search s = {.t = t, .ex = ex, .e = e, .mon = mon, .here = here, .most = most};
    int moved = 0, settled = 0;
    if (!has_moves(t)) return KL_OK;
    s.m = here->kept / KEPT_PART < KEPT_MOST ? here->kept / KEPT_PART : KEPT_MOST;
    if (s.m < KEPT) s.m = KEPT;
    s.unit = kl_terms_units(t).gap;
    find_steps(&s);
    s.nplace = (t->nsite + 1) / APART;
    KL_TRY(kl_alloc(&s.cost, (int64_t)s.nstep * s.nplace, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.own, (int64_t)s.nstep * s.nplace, KL_MEM_WORK, err));
    KL_TRY(copy_state(&s, err));
    for (int more = 1; more && !is_spent(&s);) {
        move list[TRIALS];
        double lowest;
        KL_TRY(find_costs(&s, &lowest, err));
        const int n = find_moves(&s, list);
        more = !settled && (n > 0 || fabs(lowest - s.energy) > STEADY * s.unit);
        if (more) {
            settled = 1;
            KL_TRY(settle_copy(&s, err));
            moved = s.energy + t->constant < here->energy - FALLS * s.unit;
            continue;
        }
        for (int k = 0; k < n && !more && !is_spent(&s); k++)
            if (!is_like(&s, list, k)) KL_TRY(attempt(&s, &list[k], &more, err));
        moved |= more;
    }
    if (!moved) goto out;
    *out = (kl_valley){s.state, s.energy + t->constant};
    s.state = NULL;
out:
    *flop += s.flop;
    kl_state_destroy(&s.state);
    kl_free(&s.cost);
    kl_free(&s.own);
    return st;
}
