/* The Hamiltonian of a model on a lattice as one sorted list of operator strings.
   1. walk the term definitions over the sites, bonds, pairs or runs they name; 2. order each product by DMRG
      position, by the symbolic records of
   its term, and multiply what falls on one site; 3. sort, merge and drop; 4. check charges, parity and
   Hermiticity of what is left.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/strings.h"
#include "base/mem.h"
#include "model/wigner.h"
#include "phase.h"
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISTANCE_TOL 1e-9
#define SCALAR_TOL 1e-12

int kl_site_op_find(const kl_site_type *type, const char *name)
{
    for (int a = 0; a < type->nop; a++)
        if (strcmp(type->op[a].name, name) == 0) return a;
    return KL_OP_NONE;
}

/* 1 where the largest element lies between 1/2 and 20, as those of spins, electrons and some bosons do:
   couplings are told for these. */
static double size_of(const kl_site_op *o)
{
    double most = 0;
    for (int i = 0; i < o->nelem; i++) most = fmax(most, fabs(o->elem[i].value));
    return most < 0.5 ? most / 0.5 : most > 20 ? most / 20 : 1;
}

static int is_diagonal(const kl_site_op *o)
{
    for (int i = 0; i < o->nelem; i++)
        if (o->elem[i].row != o->elem[i].col) return 0;
    return 1;
}

kl_units kl_terms_units(const kl_terms *t)
{
    double joint = 0, moving = 0, all = 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_term *const term = &t->term[i];
        double c = fabs(term->coef);
        int moves = 0;
        for (int64_t k = term->first; k < term->first + term->nop; k++) {
            const kl_site_op *const o = &t->type[t->op[k].pos]->op[t->op[k].op];
            c *= size_of(o);
            moves |= !is_diagonal(o);
        }
        all = fmax(all, c);
        if (term->nop > 1) joint = fmax(joint, c);
        if (moves) moving = fmax(moving, c);
    }
    if (!(all > 0)) all = 1;
    if (!(joint > 0)) joint = all;
    return (kl_units){joint, moving > 0 ? fmin(joint, 2 * moving) : joint, all};
}

kl_status kl_terms_in_own_unit(const kl_terms *t, kl_terms *own, double *unit, kl_err *err)
{
    kl_status st = KL_OK;
    double most = 0;
    for (int64_t i = 0; i < t->nterm; i++) most = fmax(most, fabs(t->term[i].coef));
    *unit = kl_unit_of(most, KL_USUAL);
    *own = *t;
    own->term = NULL;
    own->constant = t->constant / *unit;
    if (!isfinite(own->constant))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "the constant %g is beyond all measure next to the largest coupling %g; leave it out",
                       t->constant, most));
    KL_TRY(kl_alloc(&own->term, t->nterm, KL_MEM_MISC, err));
    for (int64_t i = 0; i < t->nterm; i++) {
        own->term[i] = t->term[i];
        own->term[i].coef /= *unit;
    }
out:
    return st;
}

void kl_terms_clear_own(kl_terms *own) { kl_free(&own->term); }

/* 1 when lattice site i belongs to a site class: "first", "last", "ends" (of a grid: its first and last
   column), "even", "odd" (site 0 is even), or a class that a lattice file names; NULL is every site. */
static int site_is(const kl_lattice *lat, int i, const char *where)
{
    if (where == NULL) return 1;
    if (strcmp(where, "first") == 0) return i == 0;
    if (strcmp(where, "last") == 0) return i == lat->nsite - 1;
    if (strcmp(where, "ends") == 0) return i < lat->ly || i >= lat->nsite - lat->ly;
    if (strcmp(where, "even") == 0) return i % 2 == 0;
    if (strcmp(where, "odd") == 0) return i % 2 == 1;
    return lat->site_class[i] != NULL && strcmp(lat->site_class[i], where) == 0;
}

const kl_site_type *kl_model_type_at(const kl_model *m, const kl_lattice *lat, int i)
{
    const kl_site_type *rest = NULL;
    for (int t = 0; t < m->ntype; t++) {
        if (m->type[t].where == NULL) rest = rest == NULL ? &m->type[t] : rest;
        else if (site_is(lat, i, m->type[t].where)) return &m->type[t];
    }
    return rest;
}

/* Multiplies what falls on one site and drops identities. coef is 0 where the product vanishes; *joined says
   that operators were multiplied, so that what is kept of them is another. */
static kl_status join_sites(const kl_terms *t, kl_string *s, int *joined, const char *what, kl_err *err)
{
    const int total = s->n;
    s->n = 0;
    for (int k = 0; k < total;) {
        const int pos = s->op[k].pos, rest = s->rest[k];
        const kl_site_type *type = t->type[pos];
        int list[KL_MAX_FACTOR], n = 0;
        do {
            list[n++] = s->op[k++].op;
        } while (k < total && s->op[k].pos == pos);
        if (n > 1) *joined = 1;
        /* The tables hold what the model's terms need, so that (a b) c may be there where a (b c) is not: any
           neighbours that can be joined are. */
        while (n > 1) {
            int at = 0;
            while (at + 1 < n && type->product[list[at] * type->nop + list[at + 1]].op == KL_OP_NONE) at++;
            if (at + 1 == n)
                return kl_fail(err, KL_EINPUT,
                               "%s: the product %s * %s on one site (%s) is not in the model's tables; write "
                               "it as a term of the model",
                               what, type->op[list[0]].name, type->op[list[1]].name, type->name);
            const kl_site_product *ab = &type->product[list[at] * type->nop + list[at + 1]];
            if (ab->op == KL_OP_ZERO) {
                s->coef = 0.0;
                s->n = 0;
                return KL_OK;
            }
            s->coef *= ab->factor;
            list[at] = ab->op;
            n--;
            for (int m = at + 1; m < n; m++) list[m] = list[m + 1];
        }
        if (list[0] == KL_OP_IDENTITY) continue;
        s->op[s->n] = (kl_op_at){.pos = pos, .op = list[0]};
        s->rest[s->n++] = rest;
    }
    return KL_OK;
}

/* What is kept of a string that no table knows: every rest, and its adjoint. */
static kl_status cut_string(kl_terms *t, kl_string *s, kl_err *err)
{
    kl_status st = KL_OK;
    if (t->nkept + 2 * s->n > t->kept_room) {
        const int room = 2 * t->kept_room + 2 * KL_MAX_FACTOR;
        KL_TRY(kl_realloc(&t->kept, room, KL_MEM_MISC, err));
        t->kept_room = room;
    }
    for (int k = s->n - 1, rest = 0; k >= 0; k--) {
        const kl_site_type *type = t->type[s->op[k].pos];
        const kl_site_op *o = &type->op[s->op[k].op];
        const kl_kept *r = kl_terms_kept(t, rest);
        kl_kept own = kl_kept_join(t->model, o, r),
                adjoint = kl_kept_join(t->model, &type->op[o->adjoint], kl_terms_kept(t, r->adjoint));
        own.rank = adjoint.rank = k > 0 ? s->op[k - 1].rank : 0;
        rest = t->model->nkept + t->nkept;
        own.adjoint = rest + 1;
        adjoint.adjoint = rest;
        t->kept[t->nkept++] = own;
        t->kept[t->nkept++] = adjoint;
        s->rest[k] = rest;
    }
out:
    return st;
}

/* The factors of a term on their positions, put together as a superblock is: a left block grows by one half
   of them from the left, a right block by the others from the right, and the two are joined. */
static void arrange(const kl_term_def *d, const kl_op_at *factor, kl_string *s)
{
    int at[KL_MAX_FACTOR], left = 0, right = 0;
    unsigned minus = 0;
    s->n = d->nfactor;
    for (int f = 0; f < s->n; f++) {
        int k = f;
        for (; k > 0 && factor[at[k - 1]].pos > factor[f].pos; k--) at[k] = at[k - 1];
        at[k] = f;
    }
    const int half = s->n / 2;
    for (int k = 0; k < half; k++) {
        minus ^= d->split[left].left_minus >> at[k];
        left |= 1 << at[k];
    }
    for (int k = s->n - 1; k >= half; k--) {
        minus ^= d->split[right].right_minus >> at[k];
        right |= 1 << at[k];
    }
    s->coef *= minus & 1 ? -d->split[left].sign : d->split[left].sign;
    for (int k = s->n - 1, rest = 0; k >= 0; k--) {
        rest |= 1 << at[k];
        s->op[k] = factor[at[k]];
        s->rest[k] = d->split[rest].kept;
    }
}

kl_status kl_string_push(kl_terms *t, const kl_string *s, int def, kl_err *err)
{
    kl_status st = KL_OK;
    if (s->coef == 0.0) return KL_OK;
    if (s->n == 0) {
        t->constant += s->coef;
        return KL_OK;
    }
    if (t->nterm == t->term_room) {
        const int64_t room = t->term_room < 64 ? 64 : 2 * t->term_room;
        KL_TRY(kl_realloc(&t->term, room, KL_MEM_MISC, err));
        KL_TRY(kl_realloc(&t->def, room, KL_MEM_MISC, err));
        t->term_room = room;
    }
    if (t->nop + s->n > t->op_room) {
        const int64_t room = t->op_room < 128 ? 128 : 2 * t->op_room;
        KL_TRY(kl_realloc(&t->op, room, KL_MEM_MISC, err));
        KL_TRY(kl_realloc(&t->rest, room, KL_MEM_MISC, err));
        t->op_room = room;
    }
    t->term[t->nterm] = (kl_term){s->coef, s->n, t->nop};
    t->def[t->nterm++] = def;
    memcpy(t->op + t->nop, s->op, (size_t)s->n * sizeof *s->op);
    memcpy(t->rest + t->nop, s->rest, (size_t)s->n * sizeof *s->rest);
    t->nop += s->n;
out:
    return st;
}

/* A string sorted by position; known: its rests are those of a table. */
static kl_status push_with_adjoint(kl_terms *t, kl_string *s, int known, int plus_hc, int def,
                                   const char *what, kl_err *err)
{
    kl_status st = KL_OK;
    int joined = !known;
    KL_TRY(join_sites(t, s, &joined, what, err));
    if (joined) KL_TRY(cut_string(t, s, err));
    KL_TRY(kl_string_push(t, s, def, err));
    if (!plus_hc) return KL_OK;
    kl_string_adjoint(t, s);
    KL_TRY(kl_string_push(t, s, def, err));
out:
    return st;
}

kl_status kl_terms_add(kl_terms *t, double coef, int nop, const kl_op_at *ops, int plus_hc, kl_err *err)
{
    kl_string s = {.coef = coef, .n = nop};
    int key[KL_MAX_FACTOR], odd[KL_MAX_FACTOR], perm[KL_MAX_FACTOR];
    if (!isfinite(coef))
        return kl_fail(err, KL_EINPUT, "an added term has the coefficient %s; it must be finite",
                       kl_said(coef).text);
    if (nop < 1 || nop > KL_MAX_FACTOR)
        return kl_fail(err, KL_EINPUT, "an added term has %d operators; allowed are 1 to %d", nop,
                       KL_MAX_FACTOR);
    for (int k = 0; k < nop; k++) {
        if (ops[k].pos < 0 || ops[k].pos >= t->nsite)
            return kl_fail(err, KL_EINPUT,
                           "an added term has an operator at position %d; allowed are 0 to %d", ops[k].pos,
                           t->nsite - 1);
        if (ops[k].op < 0 || ops[k].op >= t->type[ops[k].pos]->nop)
            return kl_fail(err, KL_EINPUT,
                           "an added term has operator %d at position %d; the site type %s has 0 to %d",
                           ops[k].op, ops[k].pos, t->type[ops[k].pos]->name, t->type[ops[k].pos]->nop - 1);
        key[k] = ops[k].pos;
        odd[k] = t->type[ops[k].pos]->op[ops[k].op].odd;
    }
    s.coef *= kl_phase_sort(nop, key, odd, perm);
    for (int k = 0; k < nop; k++) s.op[k] = ops[perm[k]];
    return push_with_adjoint(t, &s, 0, plus_hc, -1, "an added term", err);
}

/* ---- strings of irreducible operators ---- */

/* Two neighbours of a string, coupled one by one, are swapped: one string becomes several. */
static kl_status exchange(kl_terms *t, const kl_string *s, int k, int def, kl_err *err);

/* A string in any order of its sites, which differ: sorted by exchanges of neighbours, then added. */
static kl_status push_coupled(kl_terms *t, kl_string *s, int def, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k + 1 < s->n; k++)
        if (s->op[k].pos > s->op[k + 1].pos) return exchange(t, s, k, def, err);
    if (s->coef == 0.0) return KL_OK;
    KL_TRY(cut_string(t, s, err));
    KL_TRY(kl_string_push(t, s, def, err));
out:
    return st;
}

static kl_status exchange(kl_terms *t, const kl_string *s, int k, int def, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_op_at p = s->op[k], q = s->op[k + 1];
    const kl_site_op *const a = &t->type[p.pos]->op[p.op], *const b = &t->type[q.pos]->op[q.op];
    const int x = k > 0 ? s->op[k - 1].rank : 0, c = q.rank, low = x > b->rank ? x - b->rank : b->rank - x;
    for (int rank = low; rank <= x + b->rank; rank += 2) {
        if (!kl_triangle(rank, a->rank, c)) continue;
        kl_string other = *s;
        other.coef *= kl_swap(x, a->rank, b->rank, c, p.rank, rank) * kl_phase_exchange(a->odd, b->odd);
        other.op[k] = (kl_op_at){q.pos, q.op, rank};
        other.op[k + 1] = (kl_op_at){p.pos, p.op, c};
        KL_TRY(push_coupled(t, &other, def, err)); /* depth: exchanges of at most KL_MAX_FACTOR operators */
    }
out:
    return st;
}

/* ---- 1. and 2.: walk the definitions ---- */

typedef struct walk {
    kl_terms *t;
    const kl_lattice *lat;
    const kl_params *p;
    int def;
} walk;

static void append(char *text, size_t size, const char *fmt, ...) KL_PRINTF(3, 4);

static void append(char *text, size_t size, const char *fmt, ...)
{
    const size_t used = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + used, size - used, fmt, ap);
    va_end(ap);
}

static kl_status refuse_coef(const walk *w, const kl_coef_args *a, double c, kl_err *err)
{
    const kl_model *m = w->t->model;
    const kl_term_def *d = &m->term[w->def];
    char values[640] = "";
    for (int s = 0; s < d->nslot; s++) append(values, sizeof values, s == 0 ? "site %d" : ", %d", a->site[s]);
    if (d->nslot > 1) append(values, sizeof values, ", distance %g", a->r);
    for (int k = 0; k < m->nparam; k++) {
        const kl_param_def *q = &m->param[k];
        if (q->kind == KL_PARAM_SCALAR) append(values, sizeof values, ", %s=%.15g", q->name, w->p->scalar[k]);
        else if (q->kind == KL_PARAM_BOND && a->bond >= 0)
            append(values, sizeof values, ", %s=%.15g", q->name, w->p->array[k][a->bond]);
        else if (q->kind == KL_PARAM_SITE)
            for (int s = 0; s < d->nslot; s++)
                append(values, sizeof values, ", %s[%d]=%.15g", q->name, a->site[s],
                       w->p->array[k][a->site[s]]);
    }
    return kl_fail(err, KL_EINPUT, "%s:%d: the coefficient of \"%.200s\" is %s at %s; it must be finite%s",
                   m->source, d->line, d->text, kl_said(c).text, values,
                   w->lat->has_xy ? "" : " (the lattice file gives its sites no x and y)");
}

/* A coefficient that the total spin needs to be 0. */
static kl_status check_scalar(const walk *w, double c, kl_err *err)
{
    const kl_model *const m = w->t->model;
    const kl_term_def *const d = &m->term[w->def];
    double largest = 1;
    for (int k = 0; k < m->nparam; k++)
        if (m->param[k].kind == KL_PARAM_SCALAR) largest = fmax(largest, fabs(w->p->scalar[k]));
    if (fabs(c) <= SCALAR_TOL * largest) return KL_OK;
    return kl_fail(err, KL_EINPUT, "%s:%d: %.400s (here it is %.10g)", m->source, d->line, d->text, c);
}

/* 1: the sites have the types that a string of irreducible operators is for. */
static int is_for(const walk *w, const int *site)
{
    const kl_model *const m = w->t->model;
    const kl_term_def *const d = &m->term[w->def];
    for (int f = 0; f < d->nfactor; f++) {
        const kl_site_type *const type = w->t->type[w->lat->position[site[d->factor[f].slot]]];
        if (d->factor[f].op[type - m->type] == KL_OP_NONE) return 0;
    }
    return 1;
}

/* A string of irreducible operators; its identities only say which sites it is for. */
static kl_status place_coupled(const walk *w, double coef, const int *site, kl_err *err)
{
    const kl_term_def *const d = &w->t->model->term[w->def];
    kl_string s = {.coef = coef};
    for (int f = 0; f < d->nfactor; f++) {
        const int pos = w->lat->position[site[d->factor[f].slot]];
        const int op = d->factor[f].op[w->t->type[pos] - w->t->model->type];
        if (op != KL_OP_IDENTITY) s.op[s.n++] = (kl_op_at){pos, op, d->rank[f]};
    }
    return push_coupled(w->t, &s, w->def, err);
}

static kl_status place_term(const walk *w, const int *site, int bond, double r, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *m = w->t->model;
    const kl_term_def *d = &m->term[w->def];
    kl_op_at factor[KL_MAX_FACTOR];
    kl_coef_args a = {.scalar = w->p->scalar,
                      .array = (const double *const *)w->p->array,
                      .bond = bond,
                      .nsite = w->lat->nsite,
                      .r = r};
    for (int s = 0; s < d->nslot; s++) a.site[s] = site[s];
    a.x = w->lat->has_xy ? w->lat->xy[site[0]][0] : (double)NAN;
    a.y = w->lat->has_xy ? w->lat->xy[site[0]][1] : (double)NAN;
    kl_string s = {.coef = kl_coef_eval(&d->coef, &a)};
    if (d->rank != NULL && !is_for(w, site)) return KL_OK;
    if (!isfinite(s.coef)) return refuse_coef(w, &a, s.coef, err);
    if (d->check) return check_scalar(w, s.coef, err);
    if (s.coef == 0.0) return KL_OK;
    if (d->rank != NULL) return place_coupled(w, s.coef, site, err);
    for (int f = 0; f < d->nfactor; f++) {
        const int i = site[d->factor[f].slot], pos = w->lat->position[i];
        const kl_site_type *type = w->t->type[pos];
        const int op = d->factor[f].op[type - m->type];
        if (op == KL_OP_NONE) {
            const char *name = "an operator";
            for (int t = 0; t < m->ntype; t++)
                if (d->factor[f].op[t] >= 0) name = m->type[t].op[d->factor[f].op[t]].name;
            return kl_fail(err, KL_EINPUT,
                           "%s:%d: \"%.200s\" needs %s on site %d, whose type %s has no such operator",
                           m->source, d->line, d->text, name, i, type->name);
        }
        factor[f] = (kl_op_at){.pos = pos, .op = op};
    }
    arrange(d, factor, &s);
    char what[320];
    kl_string_origin(w->t, w->def, what, sizeof what);
    KL_TRY(push_with_adjoint(w->t, &s, 1, d->plus_hc, w->def, what, err));
out:
    return st;
}

/* "first, last, ends, even, odd, imp" */
static void list_classes(const kl_lattice *lat, char *have, size_t size)
{
    for (int k = 0; kl_position_class[k] != NULL; k++)
        append(have, size, "%s%s", k > 0 ? ", " : "", kl_position_class[k]);
    for (int i = 0; i < lat->nsite; i++) {
        int seen = lat->site_class[i] == NULL;
        for (int k = 0; !seen && k < i; k++)
            seen = lat->site_class[k] != NULL && strcmp(lat->site_class[k], lat->site_class[i]) == 0;
        if (!seen) append(have, size, ", %s", lat->site_class[i]);
    }
}

/* A site type that no site gets, for no site is of its class or all of them have a type that stands before
   it, is a slip. A lattice so short that it has no such bond, or only one for the first and the last, is
   none. */
static kl_status check_types(const kl_terms *t, const kl_lattice *lat, kl_err *err)
{
    const kl_model *const m = t->model;
    for (int k = 0; k < m->ntype; k++) {
        const char *const where = m->type[k].where;
        int used = 0, meant = 0;
        if (where == NULL) continue;
        for (int i = 0; i < lat->nsite; i++)
            used |= t->type[lat->position[i]] == &m->type[k], meant |= site_is(lat, i, where);
        if (used || (kl_is_position_class(where) && (!meant || lat->nsite <= 2))) continue;
        char have[300] = "";
        list_classes(lat, have, sizeof have);
        if (meant)
            return kl_fail(err, KL_EINPUT,
                           "%s: every site of class \"%s\" on lattice %.100s has a type that stands before "
                           "this one; put the narrower class first",
                           m->source, where, lat->spec);
        return kl_fail(err, KL_EINPUT,
                       "%s: a site type is for sites of class \"%s\", which lattice %.100s lacks; it has %s",
                       m->source, where, lat->spec, have);
    }
    return KL_OK;
}

static kl_status place_on_sites(const walk *w, kl_err *err)
{
    const kl_term_def *d = &w->t->model->term[w->def];
    const kl_lattice *lat = w->lat;
    kl_status st = KL_OK;
    int known = d->where == NULL || kl_is_position_class(d->where);
    for (int i = 0; i < lat->nsite; i++) {
        if (!site_is(lat, i, d->where)) continue;
        known = 1;
        KL_TRY(place_term(w, &i, -1, 0.0, err));
    }
    if (!known) {
        char have[300] = "";
        list_classes(lat, have, sizeof have);
        st = kl_fail(err, KL_EINPUT,
                     "%s:%d: \"%.200s\" is for sites of class \"%s\", which lattice %.100s lacks; it has %s",
                     w->t->model->source, d->line, d->text, d->where, lat->spec, have);
    }
out:
    return st;
}

static kl_status find_class(const walk *w, int *cls, kl_err *err)
{
    const kl_term_def *d = &w->t->model->term[w->def];
    const kl_lattice *lat = w->lat;
    *cls = kl_lattice_class(lat, d->where);
    if (*cls < 0) {
        char have[300] = "";
        for (int c = 0; c < lat->nbond_class; c++)
            append(have, sizeof have, "%s%s", c > 0 ? ", " : "", lat->bond_class[c]);
        return kl_fail(
            err, KL_EINPUT,
            "%s:%d: \"%.200s\" is for bonds of class \"%s\", which lattice %.100s lacks; it has %s",
            w->t->model->source, d->line, d->text, d->where, lat->spec, lat->nbond_class > 0 ? have : "none");
    }
    return KL_OK;
}

static kl_status place_on_bonds(const walk *w, kl_err *err)
{
    const kl_lattice *lat = w->lat;
    kl_status st = KL_OK;
    int cls;
    KL_TRY(find_class(w, &cls, err));
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *bond = &lat->bond[b];
        int member = 0;
        for (int c = 0; c < bond->nclass; c++) member |= bond->cls[c] == cls;
        const int from = bond->reversed ? bond->j : bond->i, to = bond->reversed ? bond->i : bond->j;
        if (member) KL_TRY(place_term(w, (const int[2]){from, to}, b, bond->r, err));
    }
out:
    return st;
}

static kl_status place_on_pairs(const walk *w, kl_err *err)
{
    const kl_term_def *d = &w->t->model->term[w->def];
    const kl_lattice *lat = w->lat;
    const double want = d->distance;
    kl_status st = KL_OK;
    double almost = 0;
    int any = 0;
    for (int i = 0; i < lat->nsite; i++) {
        /* On an open chain the distance bounds j, which keeps a long chain linear. */
        const int near = want > 0.0 && lat->kind == KL_LATTICE_CHAIN && want < lat->nsite;
        const int end = near && i + (int)want + 2 < lat->nsite ? i + (int)want + 2 : lat->nsite;
        for (int j = near ? i + (int)fmax(want, 1.0) : i + 1; j < end; j++) {
            const double r = kl_lattice_distance(lat, i, j);
            if (want > 0.0 && !(fabs(r - want) < DISTANCE_TOL)) {
                if (fabs(r - want) < 0.01 * want) almost = r;
                continue;
            }
            any = 1;
            KL_TRY(place_term(w, (const int[2]){i, j}, -1, r, err));
        }
    }
    /* 1.414 for the root of 2; a lattice that has no pair so far apart is just small */
    if (!any && almost > 0)
        st = kl_fail(
            err, KL_EINPUT,
            "%s:%d: \"%.200s\" is for pairs at distance %.10g; lattice %.100s has none, but some at %.10g",
            w->t->model->source, d->line, d->text, want, lat->spec, almost);
out:
    return st;
}

static kl_status place_on_runs(const walk *w, kl_err *err)
{
    const kl_term_def *d = &w->t->model->term[w->def];
    const kl_lattice *lat = w->lat;
    const int n = lat->nsite, ring = lat->kind == KL_LATTICE_RING;
    kl_status st = KL_OK;
    if (!ring && lat->kind != KL_LATTICE_CHAIN)
        return kl_fail(err, KL_EINPUT,
                       "%s:%d: \"%.200s\" is for runs of consecutive sites, which lattice %.100s lacks; use "
                       "a chain or a ring",
                       w->t->model->source, d->line, d->text, lat->spec);
    if (d->nslot > n) return KL_OK;
    /* Two sites in a ring of two are one run, as their bond is one bond. */
    const int nstart = !ring ? n - d->nslot + 1 : d->nslot == 1 || n > 2 ? n : 1;
    for (int i = 0; i < nstart; i++) {
        int site[KL_MAX_FACTOR];
        for (int s = 0; s < d->nslot; s++) site[s] = (i + s) % n;
        KL_TRY(place_term(w, site, -1, d->nslot > 1 ? kl_lattice_distance(lat, site[0], site[1]) : 0.0, err));
    }
out:
    return st;
}

static kl_status place_on_loops(const walk *w, kl_err *err)
{
    const int nslot = w->t->model->term[w->def].nslot;
    kl_status st = KL_OK;
    int cls, n, *site = NULL;
    KL_TRY(find_class(w, &cls, err));
    KL_TRY(kl_lattice_loops(w->lat, cls, nslot, &n, &site, err));
    for (int k = 0; k < n; k++) {
        const int *const at = site + (int64_t)k * nslot;
        KL_TRY(place_term(w, at, -1, kl_lattice_distance(w->lat, at[0], at[1]), err));
    }
out:
    kl_free(&site);
    return st;
}

static kl_status place_on_named(const walk *w, kl_err *err)
{
    const kl_term_def *d = &w->t->model->term[w->def];
    const kl_lattice *lat = w->lat;
    int site[KL_MAX_FACTOR];
    for (int s = 0; s < d->nslot; s++) {
        const char *name = d->sites[s];
        site[s] = kl_lattice_site(lat, name);
        if (site[s] < 0)
            return kl_fail(err, KL_EINPUT,
                           "%s:%d: \"%.200s\" names site \"%s\", which lattice %.100s lacks; it has 0 to %d, "
                           "or -1 to -%d from the end",
                           w->t->model->source, d->line, d->text, name, lat->spec, lat->nsite - 1,
                           lat->nsite);
        for (int k = 0; k < s; k++) /* the order of its factors was settled for sites that differ */
            if (site[k] == site[s])
                return kl_fail(err, KL_EINPUT,
                               "%s:%d: \"%.200s\": \"%s\" and \"%s\" are both site %d of lattice %.100s; "
                               "what acts on one site is written with one index",
                               w->t->model->source, d->line, d->text, d->sites[k], name, site[s], lat->spec);
    }
    return place_term(w, site, -1, d->nslot > 1 ? kl_lattice_distance(lat, site[0], site[1]) : 0.0, err);
}

kl_status kl_terms_create_sites(const kl_model *m, const kl_lattice *lat, kl_terms **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *t = NULL;
    KL_TRY(kl_alloc(&t, 1, KL_MEM_MISC, err));
    t->model = m;
    t->nsite = lat->nsite;
    KL_TRY(kl_alloc(&t->type, t->nsite, KL_MEM_MISC, err));
    for (int i = 0; i < t->nsite; i++) {
        const kl_site_type *type = kl_model_type_at(m, lat, i);
        if (type == NULL) {
            st = kl_fail(err, KL_EINPUT,
                         "%s: no site type of model %s claims site %d of lattice %.100s; add a site type "
                         "without \"where\"",
                         m->source, m->name, i, lat->spec);
            goto out;
        }
        t->type[lat->position[i]] = type;
    }
    KL_TRY(check_types(t, lat, err));
    KL_TRY(kl_terms_check_charges(t, err));
    *out = t;
    t = NULL;
out:
    kl_terms_destroy(&t);
    return st;
}

kl_status kl_terms_create(const kl_model *m, const kl_lattice *lat, const kl_params *p, kl_terms **out,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *t = NULL;
    assert(p->model == m && p->nsite == lat->nsite && p->nbond == lat->nbond);
    KL_TRY(kl_terms_create_sites(m, lat, &t, err));
    for (int k = 0; k < m->nterm; k++) {
        const walk w = {t, lat, p, k};
        switch (m->term[k].place) {
        case KL_PLACE_SITE: KL_TRY(place_on_sites(&w, err)); break;
        case KL_PLACE_BOND: KL_TRY(place_on_bonds(&w, err)); break;
        case KL_PLACE_PAIR: KL_TRY(place_on_pairs(&w, err)); break;
        case KL_PLACE_RUN: KL_TRY(place_on_runs(&w, err)); break;
        case KL_PLACE_NAMED: KL_TRY(place_on_named(&w, err)); break;
        case KL_PLACE_LOOP: KL_TRY(place_on_loops(&w, err)); break;
        }
    }
    KL_TRY(kl_terms_merge(t, err));
    *out = t;
    t = NULL;
out:
    kl_terms_destroy(&t);
    return st;
}

void kl_terms_destroy(kl_terms **terms)
{
    kl_terms *t = *terms;
    if (t == NULL) return;
    kl_terms_clear(t);
    kl_free(&t->type);
    kl_free(terms);
}

void kl_terms_clear(kl_terms *t)
{
    kl_free(&t->term);
    kl_free(&t->op);
    kl_free(&t->rest);
    kl_free(&t->kept);
    kl_free(&t->def);
}
