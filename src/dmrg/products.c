/* See products.h. 1. diagonal: the terms whose factors all have diagonal elements, by the position of their
   last factor; 2. parts: the best few of each charge at every cut, made of those one cut before.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/products.h"
#include "base/mem.h"
#include <string.h>

enum { FEW = 8 };     /* parts of one charge that go on, at least */
#define MOST_WORK 2e7 /* factors that the search may look at */

/* Parts of sites 0..p-1: `few` places for each charge of reach_left[p], `count` of them taken, rising. */
typedef struct parts {
    int *count;     /* [charge] */
    double *energy; /* [charge][few] */
    int *state;     /* [charge][few][nsite] */
} parts;

typedef struct search {
    const kl_engine *e;
    int few;
    const kl_term **term; /* those that are diagonal, */
    int64_t *first;       /* [nsite + 1]: and where those that end at a position begin */
} search;

static double element(const kl_site_op *op, int s)
{
    for (int i = 0; i < op->nelem; i++)
        if (op->elem[i].row == s && op->elem[i].col == s) return op->elem[i].value;
    return 0;
}

static int is_diagonal(const kl_site_op *op)
{
    for (int i = 0; i < op->nelem; i++)
        if (op->elem[i].row == op->elem[i].col) return 1;
    return 0;
}

/* ---- 1. diagonal ---- */

static int last_of(const kl_terms *t, const kl_term *term)
{
    for (int k = 0; k < term->nop; k++) {
        const kl_op_at *const op = &t->op[term->first + k];
        if (!is_diagonal(&t->type[op->pos]->op[op->op])) return -1;
    }
    return term->nop > 0 ? t->op[term->first + term->nop - 1].pos : -1;
}

static kl_status find_diagonal(search *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const t = s->e->terms;
    int64_t *next = NULL;
    KL_TRY(kl_alloc(&s->term, t->nterm, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->first, t->nsite + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&next, t->nsite + 1, KL_MEM_WORK, err));
    memset(s->first, 0, sizeof *s->first * (size_t)(t->nsite + 1));
    for (int64_t i = 0; i < t->nterm; i++) {
        const int last = last_of(t, &t->term[i]);
        if (last >= 0) s->first[last + 1]++;
    }
    for (int p = 0; p < t->nsite; p++) s->first[p + 1] += s->first[p];
    memcpy(next, s->first, sizeof *next * (size_t)(t->nsite + 1));
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_term *const one = &t->term[i];
        const int last = last_of(t, one);
        if (last >= 0) s->term[next[last]++] = one;
    }
out:
    kl_free(&next);
    return st;
}

/* What the terms that end at position p add to the energy of a part. */
static double ending_at(const search *s, int p, const int *state)
{
    const kl_terms *const t = s->e->terms;
    double sum = 0;
    for (int64_t i = s->first[p]; i < s->first[p + 1]; i++) {
        double value = s->term[i]->coef;
        for (int k = 0; k < s->term[i]->nop && value != 0; k++) {
            const kl_op_at *const op = &t->op[s->term[i]->first + k];
            value *= element(&t->type[op->pos]->op[op->op], state[op->pos]);
        }
        sum += value;
    }
    return sum;
}

static double work(const search *s)
{
    double sum = 0;
    for (int p = 0; p < s->e->nsite; p++) {
        double factors = s->e->nsite; /* what a part is copied for */
        for (int64_t i = s->first[p]; i < s->first[p + 1]; i++) factors += s->term[i]->nop;
        sum += (double)s->e->reach_left[p].n * s->few * s->e->terms->type[p]->dim * factors;
    }
    return sum;
}

/* ---- 2. parts ---- */

static kl_status parts_create(const search *s, int cut, parts *out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->e->reach_left[cut].n, places = n * s->few;
    KL_TRY(kl_alloc(&out->count, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->energy, places, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->state, places * s->e->nsite, KL_MEM_WORK, err));
    memset(out->count, 0, sizeof *out->count * (size_t)n);
out:
    return st;
}

static void parts_clear(parts *p)
{
    kl_free(&p->count);
    kl_free(&p->energy);
    kl_free(&p->state);
}

/* A part of sites 0..cut-1 takes its place among those of its charge, behind equal ones; the last of too many
   goes. */
static void take(const search *s, parts *to, int64_t charge, int cut, double energy, const int *state)
{
    const int n = s->e->nsite;
    double *const e = to->energy + charge * s->few;
    int *const rows = to->state + charge * s->few * n;
    int k = to->count[charge];
    if (k == s->few && !(energy < e[--k])) return;
    for (; k > 0 && energy < e[k - 1]; k--) {
        e[k] = e[k - 1];
        memcpy(rows + (int64_t)k * n, rows + (int64_t)(k - 1) * n, sizeof *rows * (size_t)cut);
    }
    e[k] = energy;
    memcpy(rows + (int64_t)k * n, state, sizeof *rows * (size_t)cut);
    if (to->count[charge] < s->few) to->count[charge]++;
}

/* The parts at the cut behind site p; state: room for one. */
static void add_site(const search *s, int p, const parts *from, parts *to, int *state)
{
    const kl_engine *const e = s->e;
    const kl_model *const model = e->terms->model;
    const kl_site_type *const site = e->terms->type[p];
    for (int64_t a = 0; a < e->reach_left[p].n; a++)
        for (int i = 0; i < site->dim; i++) {
            const kl_qn q = kl_qn_add(model, e->reach_left[p].q[a], kl_qn_of(model, site->state_charge[i]));
            const int64_t b = kl_reach_find(&e->reach_left[p + 1], q);
            if (b < 0 || kl_reach_find(&e->reach_right[p + 1], kl_qn_sub(model, e->target, q)) < 0) continue;
            for (int k = 0; k < from->count[a]; k++) {
                const int64_t place = a * s->few + k;
                memcpy(state, from->state + place * e->nsite, sizeof *state * (size_t)p);
                state[p] = i;
                take(s, to, b, p + 1, from->energy[place] + ending_at(s, p, state), state);
            }
        }
}

static kl_status search_parts(const search *s, parts *last, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = s->e->nsite;
    parts from = {0};
    int *state = NULL;
    KL_TRY(kl_alloc(&state, n, KL_MEM_WORK, err));
    KL_TRY(parts_create(s, 0, last, err));
    const int64_t nothing = kl_reach_find(&s->e->reach_left[0], kl_qn_zero());
    last->energy[nothing * s->few] = 0;
    last->count[nothing] = 1;
    for (int p = 0; p < n; p++) {
        parts_clear(&from);
        from = *last;
        *last = (parts){0};
        KL_TRY(parts_create(s, p + 1, last, err));
        add_site(s, p, &from, last, state);
    }
out:
    parts_clear(&from);
    kl_free(&state);
    return st;
}

kl_status kl_products_find(const kl_engine *e, int most, kl_products *out, kl_err *err)
{
    kl_status st = KL_OK;
    search s = {.e = e, .few = most > FEW ? most : FEW};
    parts last = {0};
    *out = (kl_products){0};
    if (kl_model_spin(e->terms->model) >= 0) return KL_OK;
    KL_TRY(find_diagonal(&s, err));
    if (work(&s) > MOST_WORK) goto out;
    KL_TRY(search_parts(&s, &last, err));
    const int64_t all = kl_reach_find(&e->reach_left[e->nsite], e->target);
    if (all < 0) goto out;
    const int n = last.count[all] < most ? last.count[all] : most;
    KL_TRY(kl_alloc(&out->energy, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->state, (int64_t)n * e->nsite, KL_MEM_MISC, err));
    memcpy(out->energy, last.energy + all * s.few, sizeof *out->energy * (size_t)n);
    memcpy(out->state, last.state + all * s.few * e->nsite,
           sizeof *out->state * (size_t)n * (size_t)e->nsite);
    out->n = n;
out:
    parts_clear(&last);
    kl_free(&s.term);
    kl_free(&s.first);
    if (st != KL_OK) kl_products_clear(out);
    return st;
}

void kl_products_put_first(kl_products *p, const int *state, int nsite, double energy)
{
    const size_t size = (size_t)nsite * sizeof *state;
    int k = 0;
    while (k < p->n - 1 && memcmp(p->state + (int64_t)k * nsite, state, size) != 0) k++;
    for (; k > 0; k--) {
        memcpy(p->state + (int64_t)k * nsite, p->state + (int64_t)(k - 1) * nsite, size);
        p->energy[k] = p->energy[k - 1];
    }
    memcpy(p->state, state, size);
    p->energy[0] = energy;
}

void kl_products_clear(kl_products *p)
{
    kl_free(&p->energy);
    kl_free(&p->state);
    p->n = 0;
}
