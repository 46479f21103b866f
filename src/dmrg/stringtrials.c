/* See stringtrials.h. 1. H and a string; 2. H and moves; 3. trials.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/stringtrials.h"
#include "base/mem.h"
#include "dmrg/ownunit.h"
#include "dmrg/places.h"
#include <math.h>
#include <string.h>

enum {
    LEVELS = 3,
    FARTHEST = 64, /* moves between parts */
    FEW = 4 /* strings that are tried anyhow: mirrors of all sites, as a chain without charges has them */
};
#define HIGHER 1.0 /* of the unit: what the value found is put higher by, and the other lower */
#define HAS 0.9    /* size of a value that a state has */
#define FEWER 0.2
#define DIFFERENT 0.2 /* values of two states */
/* of the run's work: once trials have taken that, there are no more */
#define MOST_WORK 1.0
#define MIXED_WORK 0.1 /* the same of a state that is not told apart from another anyhow */
#define LEAST_WORK 1e9 /* and flops that are worth it anyhow */
/* of the largest coupling of sites: parts that are joined by less keep the charges that sweeps began with */
#define WEAK 0.02
/* wanted of one run after the other; the last one wants what the run wanted */
static const double accuracy[LEVELS - 1] = {1e-3, 1e-6};

/* ---- 1. H and a string ---- */

static const char *signs_at(const kl_terms *t, const kl_signstrings *s, int k, int p)
{
    return s->sign + ((int64_t)k * t->nsite + p) * s->d;
}

static int type_of(const kl_terms *t, int p) { return (int)(t->type[p] - t->model->type); }

static int is_identity(const kl_terms *t, const kl_signstrings *s, int k, int p)
{
    int same = !s->flip[(int64_t)k * t->nsite + p];
    for (int a = 0; a < t->type[p]->dim; a++) same &= !signs_at(t, s, k, p)[a];
    return same;
}

/* Whether the string acts on two sites of one type alike. */
static int alike(const kl_terms *t, const kl_signstrings *s, int k, int p, int q)
{
    return t->type[p] == t->type[q] &&
           s->flip[(int64_t)k * t->nsite + p] == s->flip[(int64_t)k * t->nsite + q] &&
           memcmp(signs_at(t, s, k, p), signs_at(t, s, k, q), (size_t)t->type[p]->dim) == 0;
}

/* The first of the sites that the string acts on as on site p. */
static int first_alike(const kl_terms *t, const kl_signstrings *s, int k, int p)
{
    int q = 0;
    while (!alike(t, s, k, q, p)) q++;
    return q;
}

/* The exchange of states, then signs: the order in which values are taken. *elem: room for dim of them, moved
   on. */
static kl_site_op operator_at(const kl_terms *t, const kl_signstrings *s, int k, int p, int self,
                              kl_elem **elem)
{
    const int d = t->type[p]->dim, flip = s->flip[(int64_t)k * t->nsite + p];
    const char *const sign = signs_at(t, s, k, p);
    kl_site_op op = {.name = "string", .adjoint = self, .adjoint_factor = 1, .nelem = d, .elem = *elem};
    for (int a = 0; a < d; a++)
        *(*elem)++ = (kl_elem){.row = flip ? 1 - a : a, .col = a, .value = sign[a] ? -1 : 1};
    if (flip && sign[0] != sign[1]) op.adjoint_factor = -1;
    return op;
}

/* Types with the string's operators behind their own; at[p]: that of a site. */
static kl_status add_operators(const kl_terms *t, const kl_signstrings *s, int k, kl_stringterms *out,
                               int *at, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t nop = 0, nelem = 0;
    for (int y = 0; y < t->model->ntype; y++) nop += t->model->type[y].nop;
    for (int p = 0; p < t->nsite; p++) nelem += t->type[p]->dim;
    KL_TRY(kl_alloc(&out->type, t->model->ntype, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->op, nop + t->nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->elem, nelem, KL_MEM_MISC, err));
    kl_elem *elem = out->elem;
    kl_site_op *op = out->op;
    for (int y = 0; y < t->model->ntype; y++) {
        kl_site_type *const type = &out->type[y];
        *type = t->model->type[y];
        memcpy(op, type->op, sizeof *op * (size_t)type->nop);
        type->op = op;
        type->product = NULL; /* of its own operators alone */
        for (int p = 0; p < t->nsite; p++) {
            if (type_of(t, p) != y || is_identity(t, s, k, p)) continue;
            const int q = first_alike(t, s, k, p);
            at[p] = q < p ? at[q] : type->nop;
            if (q < p) continue;
            op[type->nop] = operator_at(t, s, k, p, type->nop, &elem);
            type->nop++;
        }
        op += type->nop;
    }
    out->model = *t->model;
    out->model.type = out->type;
out:
    return st;
}

/* What right blocks keep of the string: every rest of it. */
static void cut(kl_terms *t, const kl_term *string)
{
    for (int i = string->nop - 1, rest = 0; i >= 0; i--) {
        const kl_op_at *const at = &t->op[string->first + i];
        kl_kept own = kl_kept_join(t->model, &t->type[at->pos]->op[at->op], kl_terms_kept(t, rest));
        rest = t->model->nkept + t->nkept;
        own.name = "string";
        own.adjoint = rest;
        t->kept[t->nkept++] = own;
        t->rest[string->first + i] = rest;
    }
}

static kl_status copy_of(void **to, const void *from, int64_t n, int64_t more, size_t size, kl_err *err)
{
    const kl_status st = kl_realloc_bytes(to, n + more, size, KL_MEM_MISC, err);
    if (st == KL_OK && n > 0) memcpy(*to, from, (size_t)n * size);
    return st;
}

kl_status kl_stringterms_create(const kl_terms *t, const kl_signstrings *s, int k, double coef,
                                kl_stringterms *out, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->nsite;
    kl_terms *const to = &out->terms;
    int *at = NULL;
    double adjoint = 1;
    *out = (kl_stringterms){.terms = {.nsite = n, .constant = t->constant, .nkept = t->nkept}};
    KL_TRY(kl_alloc(&at, n, KL_MEM_WORK, err));
    KL_TRY(add_operators(t, s, k, out, at, err));
    to->model = &out->model;
    KL_TRY(copy_of((void **)&to->type, t->type, n, 0, sizeof *to->type, err));
    for (int p = 0; p < n; p++) to->type[p] = &out->type[type_of(t, p)];
    KL_TRY(copy_of((void **)&to->term, t->term, t->nterm, 1, sizeof *to->term, err));
    KL_TRY(copy_of((void **)&to->def, t->def, t->nterm, 1, sizeof *to->def, err));
    KL_TRY(copy_of((void **)&to->op, t->op, t->nop, n, sizeof *to->op, err));
    KL_TRY(copy_of((void **)&to->rest, t->rest, t->nop, n, sizeof *to->rest, err));
    KL_TRY(copy_of((void **)&to->kept, t->kept, t->nkept, n, sizeof *to->kept, err));
    kl_term string = {.coef = coef, .first = t->nop};
    for (int p = 0; p < n; p++) {
        if (is_identity(t, s, k, p)) continue;
        to->op[t->nop + string.nop++] = (kl_op_at){.pos = p, .op = at[p]};
        adjoint *= to->type[p]->op[at[p]].adjoint_factor;
    }
    if (adjoint < 0) KL_TRY(kl_fail(err, KL_EINPUT, "the string is not Hermitian"));
    cut(to, &string);
    to->term[t->nterm] = string;
    to->def[t->nterm] = -1;
    to->nterm = to->term_room = t->nterm + 1;
    to->nop = t->nop + string.nop;
    to->op_room = t->nop + n;
    to->kept_room = t->nkept + n;
out:
    kl_free(&at);
    if (st != KL_OK) kl_stringterms_clear(out);
    return st;
}

void kl_stringterms_clear(kl_stringterms *s)
{
    kl_terms_clear(&s->terms);
    kl_free(&s->terms.type);
    kl_free(&s->type);
    kl_free(&s->op);
    kl_free(&s->elem);
}

/* ---- 2. moves ---- */

/* The terms but for those that join sites weakly; cleared by kl_terms_clear_own. */
static kl_status strong_of(const kl_terms *t, kl_terms *out, kl_err *err)
{
    const double least = WEAK * kl_terms_units(t).joint;
    *out = *t;
    out->term = NULL;
    out->nterm = 0;
    const kl_status st = kl_alloc(&out->term, t->nterm, KL_MEM_WORK, err);
    for (int64_t i = 0; i < t->nterm && st == KL_OK; i++)
        if (t->term[i].nop < 2 || fabs(t->term[i].coef) >= least) out->term[out->nterm++] = t->term[i];
    return st;
}

kl_status kl_stringtrials_weak(const kl_terms *t, int *count, kl_err *err)
{
    kl_terms strong = {0};
    kl_status st = strong_of(t, &strong, err);
    *count = 0;
    if (st == KL_OK && strong.nterm < t->nterm) st = kl_stringtrials_count(&strong, count, err);
    kl_terms_clear_own(&strong);
    return st;
}

kl_status kl_stringtrials_count(const kl_terms *t, int *count, kl_err *err)
{
    kl_status st = KL_OK;
    kl_signstrings list = {0};
    *count = 0;
    KL_TRY(kl_signstrings_find(t, 0, KL_MOST_STRINGS, &list, err));
    *count = list.n;
out:
    kl_signstrings_clear(&list);
    return st;
}

static int root_of(int *parent, int i)
{
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

/* Parts of the terms that nothing joins: each keeps charges of its own. parent[t->nsite]: found, trees of
   positions. */
static int find_parts(const kl_terms *t, int *parent)
{
    int count = t->nsite;
    for (int p = 0; p < t->nsite; p++) parent[p] = p;
    for (int64_t i = 0; i < t->nterm; i++)
        for (int k = 1; k < t->term[i].nop; k++) {
            const kl_op_at *const op = &t->op[t->term[i].first + k];
            const int a = root_of(parent, op[-1].pos), b = root_of(parent, op->pos);
            count -= a != b;
            parent[a] = b;
        }
    return count;
}

kl_status kl_stringtrials_parts(const kl_terms *t, int *part, int *n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms strong = {0};
    int *parent = NULL;
    *n = 0;
    KL_TRY(kl_alloc(&parent, t->nsite, KL_MEM_WORK, err));
    KL_TRY(strong_of(t, &strong, err));
    find_parts(&strong, parent);
    for (int p = 0; p < t->nsite; p++) part[p] = -1;
    for (int p = 0; p < t->nsite; p++) {
        const int root = root_of(parent, p);
        if (part[root] < 0) part[root] = (*n)++;
        part[p] = part[root];
    }
out:
    kl_terms_clear_own(&strong);
    kl_free(&parent);
    return st;
}

/* Sweeps leave each part the charges that they began with. */
kl_status kl_stringtrials_loose(const kl_terms *t, int *loose, kl_err *err)
{
    kl_status st = KL_OK;
    int *parent = NULL, parts = 1, weak = 0;
    *loose = 0;
    if (t->model->ncharge > 0) {
        KL_TRY(kl_alloc(&parent, t->nsite, KL_MEM_WORK, err));
        parts = find_parts(t, parent);
    }
    if (parts < 2) KL_TRY(kl_stringtrials_weak(t, &weak, err));
    *loose = parts > 1 || weak > 0;
out:
    kl_free(&parent);
    return st;
}

void kl_stringtrials_tell(const kl_terms *t, kl_dmrg_result *res)
{
    kl_labels l = {0};
    int loose;
    if (kl_stringtrials_count(t, &res->strings, NULL) != KL_OK) res->strings = 0;
    if (res->stop == KL_STOP_INTERRUPTED || res->searched) return;
    if (kl_stringtrials_loose(t, &loose, NULL) != KL_OK || loose) res->wait = KL_WAIT_SECTORS;
    if (res->strings < 2 || res->stop != KL_STOP_CONVERGED) return;
    const int placed = kl_labels_find(t, &l, NULL) == KL_OK && kl_places_worth(&l);
    if (placed || res->strings > FEW) res->wait = KL_WAIT_SECTORS;
    kl_labels_clear(&l);
}

kl_status kl_stringtrials_differ(const kl_terms *t, const kl_state *a, const kl_state *b, int *yes,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    kl_signstrings list = {0};
    double x, y;
    *yes = 0;
    if (a->centre != 0 || b->centre != 0 || t->nsite < 3) return KL_OK;
    KL_TRY(kl_signstrings_find(t, 0, KL_MOST_STRINGS, &list, err));
    for (int k = 0; k < list.n && !*yes; k++) {
        KL_TRY(kl_signstrings_value(&list, k, a, &x, err));
        KL_TRY(kl_signstrings_value(&list, k, b, &y, err));
        *yes = fabs(x - y) > DIFFERENT;
    }
out:
    kl_signstrings_clear(&list);
    return st;
}

/* Whether the string acts on site p by something that does not commute with the operator. */
static int changes(const kl_terms *t, const kl_signstrings *s, int k, int p, const kl_site_op *o)
{
    const char *const sign = signs_at(t, s, k, p);
    int changed = 0;
    for (int i = 0; i < o->nelem; i++) changed |= sign[o->elem[i].row] != sign[o->elem[i].col];
    return changed || (s->flip[(int64_t)k * t->nsite + p] && o->nelem < t->type[p]->dim);
}

/* Whether an operator of site p changes some string's value that charges do not say. */
static int moves(const kl_terms *t, const kl_signstrings *s, int p, const kl_site_op *o)
{
    int diagonal = 1, yes = 0;
    for (int i = 0; i < o->nelem; i++) diagonal &= o->elem[i].row == o->elem[i].col;
    for (int k = 0; k < s->n && !diagonal && !yes; k++) yes = changes(t, s, k, p, o);
    return yes;
}

static int is_scalar(const kl_model *m, const kl_site_op *o)
{
    int same = !o->odd;
    for (int c = 0; c < m->ncharge; c++) same &= o->shift[c] == 0;
    return same;
}

/* All moves between positions p and q > p, or at p alone where q is p. */
static kl_status add_moves(kl_terms *to, const kl_signstrings *s, int p, int q, double coef, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_site_type *const type = to->type[p];
    for (int a = 0; a < type->nop; a++) {
        const kl_site_op *const o = &type->op[a];
        const kl_op_at at[2] = {{.pos = p, .op = a}, {.pos = q, .op = o->adjoint}};
        if (!o->named || !moves(to, s, p, o)) continue;
        /* c_p c_q^+ and c_p^+ c_q with their adjoints are negatives of each other: once is enough */
        if (p != q && o->odd && o->adjoint < a) continue;
        if (p == q && is_scalar(to->model, o)) KL_TRY(kl_terms_add(to, -coef, 1, at, 1, err));
        if (p != q && type == to->type[q]) KL_TRY(kl_terms_add(to, -coef * o->adjoint_factor, 2, at, 1, err));
    }
out:
    return st;
}

/* A copy of all strings. */
static kl_status copy_terms(const kl_terms *t, kl_terms **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *to = NULL;
    KL_TRY(kl_alloc(&to, 1, KL_MEM_MISC, err));
    *to = (kl_terms){.model = t->model, .nsite = t->nsite, .constant = t->constant, .nkept = t->nkept};
    KL_TRY(copy_of((void **)&to->type, t->type, t->nsite, 0, sizeof *to->type, err));
    KL_TRY(copy_of((void **)&to->term, t->term, t->nterm, 1, sizeof *to->term, err));
    KL_TRY(copy_of((void **)&to->def, t->def, t->nterm, 1, sizeof *to->def, err));
    KL_TRY(copy_of((void **)&to->op, t->op, t->nop, 1, sizeof *to->op, err));
    KL_TRY(copy_of((void **)&to->rest, t->rest, t->nop, 1, sizeof *to->rest, err));
    KL_TRY(copy_of((void **)&to->kept, t->kept, t->nkept, 1, sizeof *to->kept, err));
    to->nterm = t->nterm;
    to->term_room = t->nterm + 1;
    to->nop = t->nop;
    to->op_room = t->nop + 1;
    to->kept_room = t->nkept + 1;
    *out = to;
    to = NULL;
out:
    kl_terms_destroy(&to);
    return st;
}

/* joined[n][n]: 1 of positions that a term joins, and of those near each other in parts that no strong term
   does. */
static kl_status find_joined(const kl_terms *t, const kl_terms *strong, char *joined, kl_err *err)
{
    const int n = t->nsite;
    int *parent = NULL;
    const kl_status st = kl_alloc(&parent, n, KL_MEM_WORK, err);
    if (st != KL_OK) return st;
    memset(joined, 0, (size_t)n * (size_t)n);
    find_parts(strong, parent);
    for (int p = 0; p < n; p++) joined[p * n + p] = 1;
    for (int64_t i = 0; i < t->nterm; i++)
        for (int k = 1; k < t->term[i].nop; k++)
            joined[t->op[t->term[i].first + k - 1].pos * n + t->op[t->term[i].first + k].pos] = 1;
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n && q <= p + FARTHEST; q++)
            joined[p * n + q] |= root_of(parent, p) != root_of(parent, q);
    kl_free(&parent);
    return KL_OK;
}

kl_status kl_stringtrials_moving(const kl_terms *t, double coef, kl_terms **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_signstrings list = {0};
    kl_terms *to = NULL, strong = {0};
    char *joined = NULL;
    const int n = t->nsite;
    KL_TRY(copy_terms(t, &to, err));
    KL_TRY(strong_of(t, &strong, err));
    KL_TRY(kl_alloc(&joined, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(find_joined(t, &strong, joined, err));
    KL_TRY(kl_signstrings_find(&strong, 0, KL_MOST_STRINGS, &list, err));
    for (int p = 0; p < n; p++)
        for (int q = p; q < n; q++)
            if (joined[p * n + q]) KL_TRY(add_moves(to, &list, p, q, coef, err));
    KL_TRY(kl_terms_merge(to, err));
    *out = to;
    to = NULL;
out:
    kl_free(&joined);
    kl_signstrings_clear(&list);
    kl_terms_clear_own(&strong);
    kl_terms_destroy(&to);
    return st;
}

kl_status kl_stringtrials_stages(const kl_terms *t, double part, kl_terms *out[KL_STRINGSTAGES], kl_err *err)
{
    kl_status st = KL_OK;
    double coef = part * kl_terms_units(t).joint;
    for (int k = 0; k < KL_STRINGSTAGES; k++, coef *= FEWER)
        KL_TRY(kl_stringtrials_moving(t, coef, &out[k], err));
out:
    return st;
}

/* ---- 3. trials ---- */

typedef struct trial {
    const kl_terms *t;
    kl_exec *ex;
    const kl_engine_opts *e;
    const kl_dmrg_opts *o;
    const kl_dmrg_monitor *mon;
    const kl_valley_here *here;
    const kl_signstrings *list;
    double flop; /* that trials took */
} trial;

/* One run of H and a string, from *end on, where there is something; *energy of H, and *bar. */
static kl_status run_level(trial *a, int k, const kl_terms *t, double wanted, kl_state **end,
                           kl_dmrg_result *res, kl_err *err)
{
    const kl_dmrg_monitor quiet = {.self = a->mon ? a->mon->self : NULL,
                                   .interrupted = a->mon ? a->mon->interrupted : NULL};
    kl_dmrg_opts opts = kl_valleys_alone(a->o);
    opts.seed += (uint64_t)k + 1;
    if (wanted > 0) {
        opts.accuracy = fmax(wanted, opts.accuracy);
        opts.error = 0;
    }
    kl_dmrg_result_clear(res);
    const kl_status st = kl_dmrg_run_scaled(t, a->ex, &opts, &quiet, end, res, err);
    if (st == KL_OK) a->flop += res->flop;
    return st;
}

/* A start: *end stays NULL where it lies far too high. Strings are longer than terms that are merged may be,
   so that they are added to moves, on the sites of `other`. */
static kl_status begin(trial *a, int k, double coef, const kl_stringterms *other, kl_state **end, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *moving[KL_STRINGSTAGES] = {NULL}, *list[KL_STRINGSTAGES];
    kl_stringterms both[KL_STRINGSTAGES] = {{.type = NULL}};
    kl_valley first = {0};
    const kl_terms *const t = &other->terms;
    kl_valley_here here = *a->here;
    kl_engine_opts opts = *a->e;
    here.energy -= fabs(coef);
    opts.seed += (uint64_t)k + 1;
    KL_TRY(kl_stringtrials_stages(a->t, k % 2 == 0 ? 0.5 : 1, moving, err));
    for (int i = 0; i < KL_STRINGSTAGES; i++) {
        KL_TRY(kl_stringterms_create(moving[i], a->list, k, coef, &both[i], err));
        both[i].terms.model = t->model;
        memcpy(both[i].terms.type, t->type, sizeof *t->type * (size_t)t->nsite);
        list[i] = &both[i].terms;
    }
    KL_TRY(kl_valleys_follow(t, KL_STRINGSTAGES, list, a->ex, &opts, &here, &first, &a->flop, err));
    *end = first.state;
out:
    for (int i = 0; i < KL_STRINGSTAGES; i++) {
        kl_stringterms_clear(&both[i]);
        kl_terms_destroy(&moving[i]);
    }
    return st;
}

/* The lowest state where string k has not the value that it has in the state found. */
static kl_status try_string(trial *a, int k, double value, kl_valley *lower, double *rival, kl_err *err)
{
    kl_status st = KL_OK;
    const double higher = HIGHER * kl_terms_units(a->t).joint, coef = value > 0 ? higher : -higher;
    kl_stringterms other = {.type = NULL};
    kl_state *end = NULL;
    kl_dmrg_result res = {.nstate = 0};
    double known = 0, above = 0;
    KL_TRY(kl_stringterms_create(a->t, a->list, k, coef, &other, err));
    KL_TRY(begin(a, k, coef, &other, &end, err));
    int close = end != NULL;
    for (int level = 0; level < LEVELS && close; level++) {
        double there;
        KL_TRY(run_level(a, k, &other.terms, level < LEVELS - 1 ? accuracy[level] : 0, &end, &res, err));
        KL_TRY(kl_signstrings_value(a->list, k, end, &there, err));
        above = res.energy[0] + higher - a->here->energy;
        known = a->here->bar + res.error_estimate;
        close = res.stop != KL_STOP_INTERRUPTED && there * value < 0 && fabs(there) > HAS && above <= known;
    }
    if (close && above >= -known) *rival = fmax(*rival, known);
    if (close && above < -known) {
        KL_TRY(kl_state_copy(end, a->t, &lower->state, err));
        lower->energy = a->here->energy + above;
    }
out:
    kl_dmrg_result_clear(&res);
    kl_state_destroy(&end);
    kl_stringterms_clear(&other);
    return st;
}

kl_status kl_stringtrials_compare(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e,
                                  const kl_dmrg_opts *o, const kl_dmrg_monitor *mon,
                                  const kl_valley_here *here, kl_valley *lower, kl_valley_settled *settled,
                                  kl_err *err)
{
    kl_status st = KL_OK;
    kl_signstrings list = {0};
    trial a = {.t = t, .ex = ex, .e = e, .o = o, .mon = mon, .here = here, .list = &list};
    double value;
    *lower = (kl_valley){0};
    if (here->state->centre != 0 || t->nsite < 3) return KL_OK;
    KL_TRY(kl_signstrings_find(t, 0, KL_MOST_STRINGS, &list, err));
    const double most = fmax((here->mixed ? MIXED_WORK : MOST_WORK) * here->flop, LEAST_WORK);
    settled->cut |= list.n == KL_MOST_STRINGS; /* there may be more */
    for (int k = 0, tried = 0; k < list.n && !lower->state; k++) {
        KL_TRY(kl_signstrings_value(&list, k, here->state, &value, err));
        if (!(fabs(value) > HAS)) continue; /* its image is a state as low */
        if ((here->mixed || tried >= FEW) && a.flop > most) {
            settled->cut = 1;
            break;
        }
        KL_TRY(try_string(&a, k, value, lower, &settled->rival, err));
        tried++;
    }
out:
    kl_signstrings_clear(&list);
    return st;
}
