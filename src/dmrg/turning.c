/* Sweeps that turn round in the middle: when they do, and what is told of bonds that they leave out.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dmrgbase.h"
#include "comm/ranks.h"
#include "dmrg/halves.h"
#include "dmrg/onesite.h"
#include "dmrg/twins.h"
#include "model/inversion.h"
#include <float.h>
#include <math.h>

/* Of the square of a wavefunction, what it may lose for half a sweep less. Sweeps win it back: sites that
   become images are as good as those that were just optimized. A state that is not its own image, such as one
   of two domains, has next to nothing in common with it. */
#define MOST_LOST 0.01
#define NO_IMAGE 0.1 /* and what one loses that is none, rather than not yet one */
#define NEARLY 0.99 /* <state|image> */
#define SAME 0.99999 /* but for what truncation leaves */
#define ROOM 0.7 /* of the states that a sweep may keep */
enum {
    MOST_JOINED = 2, /* times that sweeps begin again with a state and its image */
    FEW = 128 /* states of a block */
};

kl_status kl_dmrg_find_turn(kl_dmrg_course *r, kl_err *err)
{
    const kl_terms *const t = r->e->terms;
    const int n = t->nsite,
              may = !r->o->whole_sweeps && !r->plan.whole && kl_halves_possible(t, r->o->target);
    r->turn = may ? kl_halves_turn(n) : -1;
    return kl_onesite_look_at(t, may ? kl_halves_back(n) : n - 2, &r->look, err);
}

kl_status kl_dmrg_turn_round(kl_dmrg_course *r, const kl_stage *g, kl_dmrg_row *row, kl_err *err)
{
    kl_status st = KL_OK;
    kl_status failed;
    double lost = 0;
    /* the first sweep's state is no image of itself yet */
    if (r->e->centre != r->turn || r->probing || r->res->nrow == 0) return KL_OK;
    /* Guards are there where states lie close, or where that is not known: mixtures are no images of
       themselves. Two sites make no more states of a block than its neighbour has times those of a site. */
    if (r->e->nstate > r->o->nstate) return KL_OK;
    if (g->sites == 2 && g->m > r->plan.site_most * r->res->row[r->res->nrow - 1].m) return KL_OK;
    for (int k = 0; k < r->res->nrow; k++)
        if (r->res->row[k].folded == KL_FOLDED_HIGHER) return KL_OK;
    r->unfolded = r->energy[0];
    failed = kl_halves_fold(r->e, MOST_LOST, &r->turned, &lost, err);
    /* without memory for it the sweep goes on as it was, or, where it has turned round, on the host */
    const int alone = kl_ranks_size(r->e->ex) == 1;
    if (failed == KL_ENOMEM && alone && (!r->turned || kl_dmrg_leaves_device(r, failed, err))) failed = KL_OK;
    KL_TRY(failed);
    row->folded = r->turned ? KL_FOLDED : lost > NO_IMAGE ? KL_NO_IMAGE : KL_NOT_FOLDED;
    if (r->turned) r->istep = 2 * (r->e->nsite - 2) - r->e->centre - 1;
out:
    return st;
}

void kl_dmrg_solve_turned(const kl_dmrg_course *r, kl_solve_opts *so)
{
    enum { MORE = 3 }; /* products */
    if (!r->turned || r->e->centre != kl_halves_back(r->e->nsite) || r->o->max_apply > 0) return;
    so->tol_rel = 0;
    so->max_apply *= MORE;
}

void kl_dmrg_judge_turn(kl_dmrg_course *r, kl_dmrg_row *row)
{
    const double rounding = 64 * DBL_EPSILON * r->plan.unit.all * r->e->nsite;
    if (!r->turned || r->e->centre != kl_halves_back(r->e->nsite)) return;
    if (r->energy[0] > r->unfolded + rounding) row->folded = KL_FOLDED_HIGHER;
}

int kl_dmrg_counts(const kl_dmrg_course *r)
{
    return r->turned && 2 * (r->e->centre + 1) != r->e->nsite ? 2 : 1;
}

int kl_dmrg_told(const kl_dmrg_course *r, int direction)
{
    return direction < 0 && !r->probing && r->res->nrow + 1 >= r->o->nsweep;
}

void kl_dmrg_end_turned(kl_dmrg_course *r, const kl_stage *g, kl_dmrg_row *row)
{
    r->turned = 0;
    /* the way there does not know whether it will turn round */
    if (kl_is_folded(row->folded) && r->e->centre == 0 && g->settling)
        row->variance *= (double)(r->e->nsite - 3) / (r->turn - 1);
}

void kl_dmrg_image_entropies(const kl_dmrg_course *r, double *entropy)
{
    const int n = r->e->nsite;
    if (!kl_is_folded(r->res->row[r->res->nrow - 1].folded)) return;
    for (int c = 0; c < (n - 1) / 2; c++) entropy[n - 2 - c] = entropy[c];
}

/* 1: sweeps began again with the state and its image behind this one. */
static int is_joined(const kl_dmrg_row *row) { return row->probed && row->gap[0] == 0; }

/* *width: of the levels that both together make, twice what the lower one is below the state. */
static kl_status weigh_twins(kl_dmrg_course *r, const kl_state *both, double bar, double *width, kl_err *err)
{
    enum { PRODUCTS = 40 };
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    kl_state *copy = NULL;
    kl_engine_opts same = kl_engine_options(r->e);
    const kl_solve_opts so = {
        .tol = 0.01 * sqrt(bar * r->plan.unit.gap), .max_apply = PRODUCTS, .trust_start = 1};
    double energy[KL_MAX_STATE];
    kl_eig_stats stats;
    same.nstate = 2;
    KL_TRY(kl_state_copy(both, r->e->terms, &copy, err));
    KL_TRY(kl_engine_create(r->e->terms, r->where, &same, &e, err));
    KL_TRY(kl_engine_resume_take(e, &copy, err));
    KL_TRY(kl_engine_solve(e, &so, energy, &stats, err));
    *width = 2 * (r->energy[0] - energy[0] - r->constant);
out:
    kl_state_destroy(&copy);
    kl_engine_destroy(&e);
    return st;
}

static kl_status part_twins(kl_dmrg_course *r, const kl_state *state, int may_go_on, kl_state **both,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_row *const last = &r->res->row[r->res->nrow - 1];
    const kl_outlook now = kl_schedule_outlook(&r->plan, r->res);
    double width, overlap;
    int joined = 0;
    KL_TRY(kl_twins_find(r->where, r->e, state, last->states > FEW ? NEARLY : SAME, &overlap, both, err));
    if (!*both) return KL_OK;
    KL_TRY(weigh_twins(r, *both, now.bar, &width, err));
    for (int k = 0; k < r->res->nrow; k++) joined += is_joined(&r->res->row[k]);
    if (width > now.bar && may_go_on && joined < MOST_JOINED) {
        for (int i = 0; i < KL_NGUARD; i++) last->gap[i] = i == 0 ? 0 : NAN;
        last->probed = 1;
        return KL_OK;
    }
    kl_state_destroy(both);
    /* what is nearly even or odd is a good state, if it is no higher */
    if (width > now.bar || (!(now.mixed > 0) && fabs(overlap) < NEARLY))
        r->other.rival = fmax(r->other.rival, fmax(width, now.bar));
out:
    return st;
}

kl_status kl_dmrg_find_twins(kl_dmrg_course *r, const kl_state *state, int may_go_on, kl_state **both,
                             kl_err *err)
{
    const kl_terms *const t = r->e->terms;
    const int spin = kl_model_spin(t->model);
    const kl_dmrg_row *const last = &r->res->row[r->res->nrow - 1];
    *both = NULL;
    /* a state that could be folded is one that its sweeps have in bases of both sides; bases for both
       take four times the memory, which a state that has not converged is not worth */
    if (r->o->nstate > 1 || r->plan.whole || last->folded == KL_FOLDED ||
        (!may_go_on && last->states > FEW) || (spin >= 0 && r->o->target.v[spin] != 0) ||
        kl_ranks_size(r->where) > 1 || state->nsite < 4)
        return KL_OK;
    if (!kl_inversion_keeps(t)) return KL_OK;
    const kl_status st = part_twins(r, state, may_go_on, both, err);
    if (st != KL_OK) kl_state_destroy(both);
    return st == KL_ENOMEM ? KL_OK : st; /* what was found stands */
}

/* 1: sweeps that may keep more states find none, for the first time. */
static int keeps_no_more(const kl_dmrg_result *res)
{
    int n = 0;
    for (int k = 0; k < res->nrow; k++) n += res->row[k].m_reached < ROOM * res->row[k].m;
    const kl_dmrg_row *const last = &res->row[res->nrow - 1];
    return n == 1 && last->m_reached < ROOM * last->m;
}

/* 1: the third sweep, or sixth, since the state was no image of itself. Most runs with such a state have
   ended by then. */
static int stays_no_image(const kl_dmrg_result *res)
{
    enum { SWEEPS = 3 };
    int n = 0;
    for (int k = 0; k < res->nrow; k++) {
        const int how = res->row[k].folded;
        n = how == KL_NO_IMAGE || (n > 0 && how == KL_NOT_FOLDED) ? n + 1 : 0;
    }
    return n > 0 && n % SWEEPS == 0;
}

int kl_dmrg_asks_image(const kl_dmrg_course *r)
{
    return r->o->nsweep == 0 && (keeps_no_more(r->res) || stays_no_image(r->res));
}
